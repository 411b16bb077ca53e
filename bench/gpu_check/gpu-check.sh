#!/bin/sh
# A pack's only command: checks and measures this machine's GPU with the programs beside it. `./ringscope gpu-check`
# has put it here; --out FILE-OR-FOLDER (.), --logs DIR and --seconds N (570) may be given.
here=$(dirname -- "$(readlink -f -- "$0")")
python3 -c 'import dataclasses' 2>/dev/null || { echo 'gpu-check: missing: python3, 3.7 or later' >&2; exit 2; }
exec python3 "$here/bin/gpu_check.py" --bin "$here/bin" --commit "$(cat -- "$here/commit")" "$@"
