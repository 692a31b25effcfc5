#!/usr/bin/env bash
# usage: scripts/links.sh [KILLS]     (MILLRACE=PROGRAM, SEED=N)
# Kills the processes of graphs at random moments with SIGKILL, KILLS times in all (100), each process
# in turn, and compares with an undisturbed run: the ledger line by line and its hash; of training
# the ledger, the final weights to the bit and the metrics of every step.  Ends with status 1 at the
# first difference, or if a process is left behind.
set -eEu
trap 'echo "links.sh: line $LINENO failed"' ERR
here=$(cd "$(dirname "$0")/.." && pwd)
program=${MILLRACE:-$here/build/release/millrace}
kills=${1:-100}
RANDOM=${SEED:-1}
dir=$(mktemp -d "${TMPDIR:-/tmp}/mr-links-XXXXXX")
trap 'rm -rf "$dir"' EXIT
export OMP_WAIT_POLICY=passive OMP_NUM_THREADS=1

# Lines: a reader with two workers, one in between, one that writes what came.
cat >"$dir/lines.mr" <<'GRAPH'
process reader restart=1000 {
  synthetic n=4000 ! shuffle seed=1 epochs=2 ! flip ! batch 16 name=batches workers=2
}
process between restart=1000 { delay 1 name=delay }
process writer restart=1000 { ledger path=$out.txt state=$out.json every=5 name=lines }
batches. ! delay.
delay. ! lines.
GRAPH
# Training: a small Vision Transformer whose batches come from another process.
cat >"$dir/train.mr" <<'GRAPH'
process reader restart=1000 {
  synthetic n=800 ! shuffle seed=1 epochs=4 ! flip ! normalize ! batch 16 drop-remainder name=batches
  synthetic n=160 split=valid ! sequential epochs=0 ! normalize ! batch 32 name=held
}
process trainer restart=1000 {
  vit-step name=train embed=16 mlp=32 heads=2 layers=1 patch=8 checkpoint-every=7
  train.metrics ! telemetry ! jsonl path=$out.jsonl
  train.state ! checkpoint dir=$out.d
}
batches. ! train.
held. ! train.valid
GRAPH

# Lines again, of batches whose slices three readers make.
cat >"$dir/slices.mr" <<'GRAPH'
process reader restart=1000 copies=3 {
  synthetic n=4000 ! shuffle seed=1 epochs=2 ! flip ! batch 16 name=batches workers=2
}
process writer restart=1000 { delay 1 name=delay ! ledger path=$out.txt state=$out.json every=5 name=lines }
batches. ! delay.
GRAPH

run() { # GRAPH OUT
  { echo "let out = $2"; cat "$dir/$1.mr"; } >"$2.mr"
  "$program" run "$2.mr" >"$2.out" 2>"$2.err"
}

processes_of() { pgrep -f -- "--process=$1 .*$2.mr" || true; }

# One run that is disturbed once every now and then, the processes in turn; counts into $done.
disturbed() { # GRAPH OUT PROCESS...
  local graph=$1 out=$2 pid
  shift 2
  run "$graph" "$out" &
  local top=$!
  while kill -0 "$top" 2>/dev/null; do
    sleep "0.$(printf %03d $((RANDOM % 700 + 50)))"
    pid=$(processes_of "$1" "$out" | head -1)
    if [ -n "$pid" ] && [ "$done" -lt "$kills" ] && kill -9 "$pid" 2>/dev/null; then
      done=$((done + 1))
      set -- "${@:2}" "$1"
    fi
  done
  wait "$top" || { echo "links.sh: $graph: the run failed"; tail -5 "$out.err"; exit 1; }
  [ -z "$(pgrep -f -- "$out.mr" || true)" ] || { echo "links.sh: a process is left behind"; exit 1; }
}

same() { # WHAT A B
  cmp -s "$2" "$3" || { echo "links.sh: $1 differs after $done kills"; exit 1; }
}

hash_of() { grep -o "ledger [0-9a-f]\{16\}" "$1" | sort -u >"$1.hash"; }
numbers() { # what does not depend on the clock
  grep -oE '"(kind|step|loss|accuracy|lr|grad_norm|param_norm)":[^,}]*' "$1" >"$1.n"
}

done=0
run lines "$dir/calm"
run train "$dir/quiet"
hash_of "$dir/calm.out" && hash_of "$dir/quiet.out"
numbers "$dir/quiet.jsonl"
for ((i = 0; done < kills; i++)); do
  disturbed lines "$dir/l$i" reader between writer
  same "the ledger" "$dir/calm.txt" "$dir/l$i.txt"
  disturbed slices "$dir/s$i" reader-0 writer reader-1 reader-2
  same "the ledger of three readers" "$dir/calm.txt" "$dir/s$i.txt"
  disturbed train "$dir/t$i" reader trainer
  hash_of "$dir/t$i.out"
  numbers "$dir/t$i.jsonl"
  same "the ledger of training" "$dir/quiet.out.hash" "$dir/t$i.out.hash"
  same "the metrics" "$dir/quiet.jsonl.n" "$dir/t$i.jsonl.n"
  same "the final checkpoint" "$dir/quiet.d/latest" "$dir/t$i.d/latest"
  rm -rf "$dir/l$i".* "$dir/s$i".* "$dir/t$i".*
done
left=$(find /dev/shm -newer "$dir/calm.mr" -name '*millrace*' 2>/dev/null | head -3)
[ -z "$left" ] || { echo "links.sh: left behind: $left"; exit 1; }
echo "links.sh: $done kills of 9 processes in $((3 * i)) runs: the same ledgers, metrics and weights"
