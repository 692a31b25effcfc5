#!/usr/bin/env bash
# usage: scripts/check-ranks.sh [LAUNCHER...]
# Starts `millrace doctor` by real launchers and compares what it says about its rank with what was asked for: openmpi,
# mpich, torchrun, slurm (a cluster of two nodes on this machine, with ports and keys of its own; as root).  Needs their
# packages, and build/release/millrace or the program that $MILLRACE names.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$PWD/${MILLRACE:-build/release/millrace}
dir=$(mktemp -d)
pids=() # of the daemons of Slurm
end() {
  local pid
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait
  rm -rf "$dir"
}
trap end EXIT
fail() { echo "ranks: $*" >&2; cat "$dir/out" "$dir/err" >&2; exit 1; }

# The rows of doctor's section that were named, a line a rank, in the order of ranks.
ranks() { # NAME...
  python3 - "$dir/ranks" "$@" <<'PY'
import json, pathlib, sys
rows = [json.loads(p.read_text())['ranks'] for p in pathlib.Path(sys.argv[1]).iterdir()]
for row in sorted(rows, key=lambda r: r.get('rank', -1)):
    print(*(row.get(name, '-') for name in sys.argv[2:]), sep='|')
PY
}

# Each rank writes a file of its own, as what several write to one is mixed (torchrun replaces $$ in its words).
doctor() { # COMMAND... that starts what follows it
  rm -rf "$dir/ranks"
  mkdir "$dir/ranks"
  # shellcheck disable=SC2016 # the rank's shell expands it
  "$@" sh -c 'exec "$0" doctor --json >"$(mktemp -p "$1")"' "$program" "$dir/ranks" >"$dir/out" 2>"$dir/err" || fail "$* fails"
}

want() { # WHAT EXPECTED NAME...
  local got
  got=$(ranks "${@:3}")
  [ "$got" = "$2" ] || fail "$1: got
$got
expected
$2"
}

check_openmpi() {
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  doctor mpirun.openmpi --oversubscribe -n 3
  want openmpi "Open MPI's mpirun|0|3|0|3|1
Open MPI's mpirun|1|3|1|3|1
Open MPI's mpirun|2|3|2|3|1" launcher rank ranks rank_of_this_host ranks_of_this_host hosts
  # The variable of one rank is another's: that is noticed, in the sentence of this rank alone.
  doctor mpirun.openmpi --oversubscribe -n 1 env OMPI_COMM_WORLD_RANK=7
  want "a wrong rank" "unknown|OMPI_COMM_WORLD_RANK=7: expected a rank below OMPI_COMM_WORLD_SIZE=1, in [0,0]" launcher missing
}

check_mpich() {
  doctor mpirun.mpich -n 3
  want mpich "MPICH's mpirun|0|3|0|3|1
MPICH's mpirun|1|3|1|3|1
MPICH's mpirun|2|3|2|3|1" launcher rank ranks rank_of_this_host ranks_of_this_host hosts
}

check_torchrun() { # Debian's does not know its own default of -r and -t under Python 3.11
  local port
  port=$(free_ports 1)
  doctor torchrun --no_python --nproc_per_node 2 --master_addr 127.0.0.1 --master_port "$port" -r 1 -t 1 --log_dir "$dir/torchrun"
  local derived=$((61440 + port % 4096))
  want torchrun "torchrun|0|2|0|2|0|1|127.0.0.1:$derived|127.0.0.1
torchrun|1|2|1|2|0|1|127.0.0.1:$derived|127.0.0.1" launcher rank ranks rank_of_this_host ranks_of_this_host host hosts rank0 rank0_address
}

free_ports() { # N
  python3 -c 'import socket, sys
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(s.getsockname()[1] for s in held))' "$1"
}

start_slurm() {
  local host control one two
  host=$(hostname -s)
  read -r control one two <<<"$(free_ports 3)"
  mkdir -p "$dir/munge" "$dir/state"
  chmod 755 "$dir"
  head -c 128 /dev/urandom >"$dir/munge/key"
  chmod 700 "$dir/munge/key"
  munged --foreground --force --socket="$dir/munge.sock" --key-file="$dir/munge/key" --log-file="$dir/munge/log" \
    --pid-file="$dir/munge/pid" --seed-file="$dir/munge/seed" >"$dir/munge/out" 2>&1 &
  pids+=($!)
  cat >"$dir/slurm.conf" <<CONF
ClusterName=ranks
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$control
SlurmUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$dir/munge.sock
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool-%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName=n[1-2] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$one,$two] CPUs=2
PartitionName=all Nodes=ALL Default=YES
CONF
  export SLURM_CONF=$dir/slurm.conf
  slurmctld -D -f "$SLURM_CONF" >"$dir/slurmctld.log" 2>&1 &
  pids+=($!)
  for n in n1 n2; do
    mkdir -p "$dir/spool-$n"
    slurmd -D -N "$n" -f "$SLURM_CONF" >"$dir/slurmd-$n.log" 2>&1 &
    pids+=($!)
  done
}

check_slurm() {
  start_slurm
  doctor srun -N 2 -n 3 --mpi=none # waits for the nodes by itself
  want slurm "srun|0|3|0|2|0|2
srun|1|3|1|2|0|2
srun|2|3|0|1|1|2" launcher rank ranks rank_of_this_host ranks_of_this_host host hosts
  case $(ranks rank0) in n1:*) ;; *) fail "srun: rank 0 is not on n1" ;; esac
  case $(ranks missing) in *--mpi=none*) ;; *) fail "srun: does not say that MPI is unreachable" ;; esac
  doctor srun -N 1 -n 2 --mpi=pmi2
  want "srun with PMI" "srun|0|2|PMI of Slurm
srun|1|2|PMI of Slurm" launcher rank ranks mpi_by
  # mpirun starts its own daemons by srun, whose variables its ranks see.
  doctor salloc -Q -N 1 -n 2 mpirun.mpich -n 2
  want "mpirun within a job" "MPICH's mpirun|0|2
MPICH's mpirun|1|2" launcher rank ranks
  doctor salloc -Q -N 1 -n 2
  want "a job without srun" "none|0|1" launcher rank ranks
  case $(ranks missing) in *"srun has not started"*) ;; *) fail "salloc: does not miss srun" ;; esac
}

: >"$dir/out"
: >"$dir/err"
[ $# -gt 0 ] || set -- openmpi mpich torchrun slurm
for launcher; do
  "check_$launcher"
  echo "ranks: $launcher gives what was asked for"
done
