#!/usr/bin/env bash
# The tests, as `./ringscope test` has built them, on a machine that has little time for them: beside eight processes
# that never rest, and on one core. None may notice. It belongs to a release; ctest does not run it.
#
#   tests/stress.sh [RUNS [CTEST ARGS...]]   each of the two RUNS times (1)
#
# Exit status: 1 when a run failed, whose output is then under build/.
set -uo pipefail

cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." || exit
runs=${1:-1}
[[ $runs =~ ^[1-9][0-9]*$ && -e build/release/CTestTestfile.cmake ]] ||
  { echo "stress.sh: RUNS is a number from 1, and ./ringscope test comes before it" >&2; exit 2; }

busy=() failed=0
rest() {
  ((${#busy[@]} == 0)) || kill "${busy[@]}"
  busy=()
}
trap rest EXIT

run() {  # run NAME CTEST ARGS...
  local log=build/stress-$1.log begin=$SECONDS
  if "${@:2}" --test-dir build/release --output-on-failure >"$log" 2>&1; then
    rm -- "$log"
    echo "$1: passed in $((SECONDS - begin)) s"
  else
    sed -n '/tests failed out of/p; /The following tests FAILED/,$p' "$log"
    echo "$1: failed, see $log"
    failed=1
  fi
}

one_core=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
for ((i = 1; i <= runs; ++i)); do
  for _ in {1..8}; do
    while :; do :; done &
    busy+=($!)
  done
  run "busy-$i" ctest -j "$(nproc)" "${@:2}"
  rest
  run "one-core-$i" taskset -c "$one_core" ctest -j 2 "${@:2}"
done
exit "$failed"
