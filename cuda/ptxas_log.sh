#!/bin/sh
# A launcher for the CUDA compiler: `ptxas_log.sh [CCACHE] NVCC ARGS... -o OBJECT` runs the compiler and keeps what it
# says in OBJECT.ptxas, where tests/cuda/ptxas_test.cpp looks for spills, registers and serialised wgmma. (ccache says
# again what the compiler said.) With success, what ptxas merely reports is not shown.
object=
previous=
for argument; do
  [ "$previous" != -o ] || object=$argument
  previous=$argument
done
case $object in
  *.o) ;;
  *) exec "$@" ;;
esac

log=$object.ptxas
rm -f -- "$log"
"$@" 2>"$log.tmp"
status=$?
if [ "$status" -ne 0 ]; then
  cat -- "$log.tmp" >&2
  rm -f -- "$log.tmp"
  exit "$status"
fi
mv -f -- "$log.tmp" "$log" || exit
grep -vE '^ptxas info +: [^(]|^ +[0-9]+ bytes stack frame' -- "$log" >&2
exit 0
