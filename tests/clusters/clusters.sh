#!/usr/bin/env bash
# Starts the program as clusters start it, on one machine: by Open MPI's mpirun, by Slurm's srun on four virtual nodes,
# and, with --mpich, by MPICH's mpiexec and srun in a build of its own. Each launcher runs a ring that is verified and
# one whose rank 2 is killed, which has to end the job with one line of ours. Every rank that lives ends with 3.
#
#   clusters.sh PROGRAM [--mpich BUILD_FOLDER]
#
# PROGRAM is built for Open MPI. It takes root, because munge and Slurm's daemons do. Everything that it starts ends with
# it, and everything that it writes is below one temporary folder. It exits with 1 when a check failed, with 2 when a
# package is missing. app/run/run.md says how to start each.
set -euo pipefail

die() { echo "clusters.sh: $2" >&2; exit "$1"; }

readonly program=$(readlink -f -- "${1:?PROGRAM}") nodes=4
mpich_folder=
if [[ ${2:-} == --mpich ]]; then mpich_folder=$(readlink -m -- "${3:?BUILD_FOLDER}"); fi
((EUID == 0)) || die 2 "must be root"
missing=()
for need in mpirun:openmpi-bin munged:munge slurmctld:slurmctld slurmd:slurmd srun:slurm-client ${mpich_folder:+mpicxx.mpich:libmpich-dev}; do
  type -P "${need%%:*}" >/dev/null || missing+=("${need#*:}")
done
((${#missing[@]} == 0)) || die 2 "missing packages: ${missing[*]}"

work=$(mktemp -d)
stop() {
  local pids=() pid
  if [[ -n ${started_munge:-} ]]; then cp /run/munge/munged.pid "$work/" || true; fi
  for pid in "$work"/*.pid; do [[ ! -e $pid ]] || pids+=("$(<"$pid")"); done
  ((${#pids[@]} == 0)) || kill "${pids[@]}" || true
  for _ in {1..100}; do  # Slurm's daemons write their state as they end
    kill -0 "${pids[@]}" 2>/dev/null || break
    sleep 0.1
  done
  rm -rf -- "$work"
}
trap stop EXIT

start_slurm() {
  local host node idle
  host=$(hostname -s)
  if ! munge -n >/dev/null 2>&1; then
    mkdir -p /run/munge
    chown munge: /run/munge
    setpriv --reuid=munge --regid=munge --clear-groups munged
    started_munge=yes
  fi
  export SLURM_CONF=$work/slurm.conf
  cat >"$SLURM_CONF" <<EOF
ClusterName=virtual
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=17000
SlurmUser=root
StateSaveLocation=$work/state
SlurmctldPidFile=$work/slurmctld.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdSpoolDir=$work/spool.%n
SlurmdPidFile=$work/%n.pid
SlurmdLogFile=$work/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
SelectType=select/linear
ReturnToService=2
NodeName=node[1-$nodes] NodeHostname=$host NodeAddr=127.0.0.1 Port=[17001-$((17000 + nodes))] CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
EOF
  mkdir "$work/state"
  slurmctld -f "$SLURM_CONF"
  # PMIx keeps a folder for each job, which nodes on one machine must not share.
  for ((node = 1; node <= nodes; ++node)); do
    mkdir "$work/spool.node$node" "$work/pmix$node" "$work/node$node"
    cp -- "$SLURM_CONF" "$work/node$node/"
    echo "PMIxCliTmpDirBase=$work/pmix$node" >"$work/node$node/mpi.conf"
    slurmd -N "node$node" -f "$work/node$node/slurm.conf"
  done
  for _ in {1..50}; do
    idle=$(sinfo -h -t idle -o %D | head -n 1) || idle=
    ((${idle:-0} == nodes)) && return
    sleep 0.2
  done
  die 1 "the nodes of Slurm did not come up: $(sinfo -h; tail -n 3 "$work"/*.log)"
}

failures=0
check() {  # check NAME STATUSES COMMAND...: the two runs, started by COMMAND
  local name=$1 statuses=$2 status said seconds
  shift 2
  local ring=(run --random --seqlen 500 --backend mpi --mask causal --partition zigzag)
  status=0
  said=$("$@" "${ring[@]}" --verify --json 2>"$work/err") || status=$?
  if ((status != 0)) || [[ $said != *'"world_size":4'* || $said != *'"pass":true'* ]]; then
    echo "$name: the verified run ended with $status"; tail -n 5 "$work/err"; ((++failures)); return
  fi
  status=0
  SECONDS=0
  "$@" "${ring[@]}" --inject killed-rank@2:1 >"$work/out" 2>"$work/err" || status=$?
  seconds=$SECONDS
  if [[ " $statuses " != *" $status "* ]] || (($(grep -c '^ringscope: rank 2, step 1: its process ended' "$work/err") != 1)); then
    echo "$name: the run with a killed rank ended with $status"; tail -n 5 "$work/err"; ((++failures)); return
  fi
  echo "$name: verified; a killed rank ended the job with $status after $seconds s"
}

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun --version | head -n 1
check "Open MPI, mpirun" 3 mpirun -np 4 --map-by :OVERSUBSCRIBE "$program"
start_slurm
srun --version
# Slurm's PMIx plugin kills a node's processes, the one that waits for the rank included, when it notices the death first.
check "Open MPI, srun --mpi=pmix" "3 137" srun -Q --mpi=pmix -N "$nodes" "$program"
if [[ -n $mpich_folder ]]; then
  cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../.."
  cmake --preset release -B "$mpich_folder" -DRINGSCOPE_CUDA=OFF -DRINGSCOPE_VIZ=OFF \
    -DMPI_CXX_COMPILER="$(type -P mpicxx.mpich)" >"$work/build.log" 2>&1 &&
    cmake --build "$mpich_folder" --target ringscope >>"$work/build.log" 2>&1 || die 1 "the build for MPICH failed: $(tail -n 20 "$work/build.log")"
  mpichversion | sed -n '1s/[[:space:]]\+/ /p'
  # By itself, Hydra kills all ranks when one ends with an error, so that none could say what it saw.
  check "MPICH, mpiexec -disable-auto-cleanup" 3 mpiexec.mpich -disable-auto-cleanup -n 4 "$mpich_folder/app/ringscope"
  check "MPICH, srun --mpi=pmi2" 3 srun -Q --mpi=pmi2 -N "$nodes" "$mpich_folder/app/ringscope"
fi
((failures == 0))
