#!/bin/sh
# A pack's only command: unpacks its programs beside it, and checks and measures this machine's GPU with them. `./ringscope
# gpu-check` has put it here; --out FILE-OR-FOLDER (.), --logs DIR and --seconds N (570) may be given.
here=$(dirname -- "$(readlink -f -- "$0")")
python3 -c 'import dataclasses, lzma' 2>/dev/null || { echo 'gpu-check: missing: python3, 3.7 or later' >&2; exit 2; }
if [ ! -e "$here/bin" ]; then
  rm -rf -- "$here/new" "$here/lib"
  { python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' \
    "$here/programs.tar.xz" "$here/new" 2>/dev/null && mv -- "$here/new/lib" "$here/new/bin" "$here"; } ||
    { echo "gpu-check: can't unpack $here/programs.tar.xz" >&2; exit 3; }
  rm -rf -- "$here/new"
fi
exec python3 "$here/bin/gpu_check.py" --bin "$here/bin" --commit "$(cat -- "$here/commit")" "$@"
