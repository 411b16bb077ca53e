#!/bin/sh
# A launcher for the CUDA compiler: `ptxas_log.sh [CCACHE] NVCC ARGS... -o OBJECT` runs the compiler, and fails where ptxas
# says that a kernel spills registers, that its wgmma is made serial, or that its setmaxnreg is ignored. All that ptxas says
# is in OBJECT.ptxas then; what it merely reports is not shown. (ccache says again what the compiler said.)
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
"$@" 2>"$log"
status=$?
if [ "$status" -eq 0 ]; then
  grep -E 'C7508|C7513|serializ|[Rr]egisters are spilled|[1-9][0-9]* bytes spill|setmaxnreg.*ignored|ignored.*setmaxnreg' \
    -- "$log" >&2 && status=1
  grep -vE '^ptxas info +: [^(]|^ +[0-9]+ bytes stack frame' -- "$log" >&2
else
  cat -- "$log" >&2
fi
[ "$status" -eq 0 ] || rm -f -- "$object"
exit "$status"
