#!/bin/sh
# A pack's only command: checks and measures this machine's GPU with the programs beside it. `./ringscope gpu-check`
# has put it here; --out FILE-OR-FOLDER (.), --logs DIR and --seconds N (570) may be given.
here=$(dirname -- "$(readlink -f -- "$0")")
exec "$here/bin/gpu_check" --bin "$here/bin" --commit "$(cat -- "$here/commit")" "$@"
