#!/usr/bin/env bash
# usage: scripts/check-ranks.sh [LAUNCHER...]
# Starts `millrace doctor` by real launchers and compares what it says about its rank with what was asked for: openmpi,
# mpich, torchrun, slurm (a cluster of two nodes on this machine, with ports and keys of its own; as root).  Needs their
# packages, and build/release/millrace or the program that $MILLRACE names.  By the same launchers it starts
# build/release/tests/ranks_program ($RANKS_PROGRAM): the ranks' collectives over MPI and ZeroMQ must give the bits of
# threads, and a rank that is stopped is named by the others.  `millrace train` by them has the checkpoint and ledger of one
# process, with zero=3 and with a stage of a pipeline on each rank too, and with stages whose ranks have parts of parameters
# those of threads; after kill -9 of a rank the engine's job ends, and the run resumes on one rank less.
# shellcheck disable=SC2317 # `launch` of each launcher is called by train_by
set -euo pipefail
cd "$(dirname "$0")/.."
program=$PWD/${MILLRACE:-build/release/millrace}
collect=$PWD/${RANKS_PROGRAM:-build/release/tests/ranks_program}
dir=$(mktemp -d)
# shellcheck source=scripts/slurm.sh
. scripts/slurm.sh
end() {
  local pid
  for pid in "${slurm_pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${slurm_pids[@]}"; do wait "$pid" || true; done
  rm -rf "$dir"
}
trap end EXIT
exec 9< <(python3 scripts/ports.py 24) # each is used once; they are held until the end
read -ra ports <&9
printf '%s\n' "${ports[@]}" >"$dir/ports"
next_port() { # the first of the file, which it leaves
  head -n 1 "$dir/ports"
  sed -i 1d "$dir/ports"
}
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

# What the ranks of a launcher write, by rank.
collect() { # COMMUNICATOR [stop RANK|threads N] -- COMMAND...
  local args=()
  while [ "$1" != -- ]; do args+=("$1"); shift; done
  shift
  rm -rf "$dir/collect"
  mkdir "$dir/collect"
  "$@" "$collect" "$dir/collect" "${args[@]}" >"$dir/out" 2>"$dir/err"
}

# The collectives of N ranks by a launcher are those of threads, to the bit.
same_bits() { # N COMMUNICATOR EXPECTED COMMAND...
  local threads rank
  collect threads threads "$1" -- env || fail "threads fail"
  threads=$(cat "$dir"/collect/*)
  collect "$2" -- "${@:4}" || fail "$*: fails"
  [ "$(sed -n 1p -s "$dir"/collect/*)" = "$threads" ] || fail "$*: other bits than threads"
  for ((rank = 0; rank < $1; rank++)); do
    [ "$(sed -n 2p "$dir/collect/$rank")" = "$3" ] || fail "$*: rank $rank uses $(sed -n 2p "$dir/collect/$rank")"
  done
}

# Rank 1 of 3 stops itself: the others name it.
names_the_stopped_rank() { # COMMUNICATOR COMMAND...
  local rank
  collect "$1" stop 1 -- timeout -k 5 120 "${@:2}" || true # the engine ends such a job in its own way
  for rank in 0 2; do
    grep -q "rank 1 did not come to all_reduce within 3 s" "$dir/collect/$rank" || fail "$*: rank $rank does not name rank 1"
  done
}

# ---- train ----

cat >"$dir/train.mr" <<'GRAPH'
let run = unset
synthetic n=40 split=train ! shuffle seed=1 epochs=3 ! flip p=0.5 ! normalize preset=cifar10 ! batch 18 drop-remainder
  ! train-step name=train model=vit layers=1 embed=16 mlp=16 heads=2 dropout=0.2 lr=1e-2 threads=1 ordered=8 checkpoint-every=2
train.metrics ! progress
train.state ! checkpoint dir=$run/checkpoints keep=0
GRAPH

# Ranks leave their process's number in a file of their own; torchrun would replace $$.
train_by() { # N TRAIN'S-ARGUMENTS..., started by the function `launch`
  rm -rf "$dir/pids"
  mkdir "$dir/pids"
  # shellcheck disable=SC2016 # the rank's shell expands it
  launch "$1" sh -c 'sh -c "echo \$PPID" >"$(mktemp -p "$0")"; exec "$@"' "$dir/pids" "$program" train "${@:2}" >"$dir/out" 2>"$dir/err" </dev/null
}

train_alone() { # RUN TRAIN'S-ARGUMENTS...: the ledger
  "$program" train --graph "$dir/train.mr" --run-dir "$dir/$1" "${@:2}" >"$dir/alone" 2>"$dir/err" || fail "train of one process fails"
  grep '^ledger ' "$dir/alone"
}

newest_step() { # RUN
  local name
  name=$(readlink "$dir/$1/checkpoints/latest")
  name=${name#step-}
  echo $((10#${name%.safetensors}))
}

trains() { # LAUNCHER N
  local run=$1 expected step engine
  [ -d "$dir/alone-run" ] || train_alone alone-run >"$dir/expected"
  train_by "$2" --graph "$dir/train.mr" --run-dir "$dir/$run" || fail "train by $1 fails"
  [ "$(grep '^ledger ' "$dir/out")" = "$(cat "$dir/expected")" ] || fail "train by $1: another ledger than $(cat "$dir/expected")"
  cmp "$dir/alone-run/checkpoints/step-000006.safetensors" "$dir/$run/checkpoints/step-000006.safetensors" || fail "train by $1: another checkpoint"
  # A stage of a pipeline on each rank.
  [ -d "$dir/alone-stages" ] || train_alone alone-stages batch.size=16 train.layers=2 >"$dir/expected-stages"
  train_by "$2" --graph "$dir/train.mr" --run-dir "$dir/$run-stages" batch.size=16 train.layers=2 "train.pipeline=$2" || fail "train by $1 with stages fails"
  [ "$(grep '^ledger ' "$dir/out")" = "$(cat "$dir/expected-stages")" ] || fail "train by $1 with stages: another ledger than $(cat "$dir/expected-stages")"
  # A share of the values on each rank.
  train_by "$2" --graph "$dir/train.mr" --run-dir "$dir/$run-values" train.zero=3 || fail "train by $1 with zero=3 fails"
  [ "$(grep '^ledger ' "$dir/out")" = "$(cat "$dir/expected")" ] || fail "train by $1 with zero=3: another ledger than $(cat "$dir/expected")"
  cmp "$dir/alone-run/checkpoints/step-000006.safetensors" "$dir/$run-values/checkpoints/step-000006.safetensors" || fail "train by $1 with zero=3: another checkpoint"
  # Two stages of two ranks, each of which has a half of the stage's parameters: as by threads.
  local parts=(batch.size=16 train.layers=2 train.pipeline=2 --mesh "data=2,model=2")
  [ -d "$dir/threads-parts" ] || train_alone threads-parts "${parts[@]}" >"$dir/expected-parts"
  train_by 4 --graph "$dir/train.mr" --run-dir "$dir/$run-parts" "${parts[@]}" || fail "train by $1 with stages in parts fails"
  [ "$(grep '^ledger ' "$dir/out")" = "$(cat "$dir/expected-parts")" ] || fail "train by $1 with stages in parts: another ledger than $(cat "$dir/expected-parts")"
  cmp "$dir/threads-parts/checkpoints/step-000006.safetensors" "$dir/$run-parts/checkpoints/step-000006.safetensors" || fail "train by $1 with stages in parts: another checkpoint than that of threads"
  # A rank is killed when the run has a checkpoint.
  train_by "$2" --graph "$dir/train.mr" --run-dir "$dir/$run-killed" shuffle.epochs=100000 &
  engine=$!
  until [ -e "$dir/$run-killed/checkpoints/latest" ] || ! kill -0 $engine 2>/dev/null; do sleep 0.05; done
  kill -9 "$(sort -n "$dir/pids"/* | tail -n 1)" || fail "train by $1: no rank to kill"
  if wait $engine; then fail "train by $1: the job of a killed rank ends well"; fi
  step=$(newest_step "$run-killed")
  train_by $(($2 - 1)) --run-dir "$dir/$run-killed" --resume train.steps=$((step + 1)) || fail "train by $1 on one rank less fails"
  expected=$(train_alone "$run-undisturbed" shuffle.epochs=100000 train.steps=$((step + 1)))
  [ "$(grep '^ledger ' "$dir/out")" = "$expected" ] || fail "train by $1: after a kill another ledger than $expected"
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
  same_bits 3 auto mpi mpirun.openmpi --oversubscribe -n 3
  same_bits 3 zmq zmq mpirun.openmpi --oversubscribe -n 3 -x MILLRACE_RANK0="127.0.0.1:$(next_port)"
  names_the_stopped_rank mpi mpirun.openmpi --oversubscribe -n 3
  launch() { mpirun.openmpi --oversubscribe -n "$@"; }
  trains openmpi 3
}

check_mpich() {
  doctor mpirun.mpich -n 3
  want mpich "MPICH's mpirun|0|3|0|3|1
MPICH's mpirun|1|3|1|3|1
MPICH's mpirun|2|3|2|3|1" launcher rank ranks rank_of_this_host ranks_of_this_host hosts
  same_bits 3 auto mpi mpirun.mpich -n 3
  same_bits 3 zmq zmq env MILLRACE_RANK0="127.0.0.1:$(next_port)" mpirun.mpich -n 3
  names_the_stopped_rank mpi mpirun.mpich -n 3
  launch() { mpirun.mpich -n "$@"; }
  trains mpich 3
}

check_torchrun() { # Debian's does not know its own default of -r and -t under Python 3.11
  local port
  port=$(next_port)
  doctor torchrun --no_python --nproc_per_node 2 --master_addr 127.0.0.1 --master_port "$port" -r 1 -t 1 --log_dir "$dir/torchrun"
  local derived=$((61440 + port % 4096))
  want torchrun "torchrun|0|2|0|2|0|1|127.0.0.1:$derived|127.0.0.1
torchrun|1|2|1|2|0|1|127.0.0.1:$derived|127.0.0.1" launcher rank ranks rank_of_this_host ranks_of_this_host host hosts rank0 rank0_address
  same_bits 2 auto zmq torchrun --no_python --nproc_per_node 2 --master_addr 127.0.0.1 --master_port "$(next_port)" -r 1 -t 1 --log_dir "$dir/torchrun"
  launch() { # what rank 0 says is in its log
    local status=0
    rm -rf "$dir/torchrun"
    torchrun --no_python --nproc_per_node "$1" --master_addr 127.0.0.1 --master_port "$(next_port)" -r 1 -t 1 --log_dir "$dir/torchrun" "${@:2}" >/dev/null || status=$?
    cat "$dir"/torchrun/*/attempt_0/0/stdout.log
    return "$status"
  }
  trains torchrun 3
}

check_slurm() {
  start_slurm "$dir" "$(next_port)" "$(next_port)" "$(next_port)"
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
  same_bits 2 auto mpi srun -N 1 -n 2 --mpi=pmi2
  # The two nodes of this cluster are one host, and their names have no address.
  same_bits 3 auto zmq env MILLRACE_SECRET="$(python3 -c 'import secrets; print(secrets.token_hex(32))')" MILLRACE_RANK0="127.0.0.1:$(next_port)" srun -N 2 -n 3 --mpi=none
  launch() {
    MILLRACE_SECRET=$(python3 -c 'import secrets; print(secrets.token_hex(32))') MILLRACE_RANK0="127.0.0.1:$(next_port)" srun -N 2 -n "$1" --mpi=none "${@:2}"
  }
  trains slurm 4
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
