#!/usr/bin/env bash
# What docs/operations.md says, by the files of examples/cluster and examples/k8s: a real Slurm of one node puts a job back
# into its queue, the command of the systemd unit is stopped, reloaded and started as systemd does it, and so is that of the
# Kubernetes job with its probes.  Each run ends with the ledger of an undisturbed one.  A systemd
# and a container of its own are scripts/check-systemd.sh; here their files are checked by systemd-analyze and as YAML, and what
# they and Kubernetes do is done by hand.  scripts/check-debian.sh runs the commands of the container file.  Needs
# build/release/millrace, or $MILLRACE; root.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/slurm.sh
. scripts/slurm.sh
here=$PWD
program=$PWD/${MILLRACE:-build/release/millrace}
dir=$(mktemp -d)
end() { # of a failure in the middle: no run is left
  local pid
  if [ -n "${job:-}" ]; then
    scancel --full --signal=KILL "$job" 2>/dev/null || true
    scancel "$job" 2>/dev/null || true
    for ((pid = 0; pid < 100; pid++)); do
      [ -n "$(squeue -h -j "$job" -t running,completing 2>/dev/null)" ] || break
      sleep 0.1
    done
  fi
  for pid in ${MAINPID:-} ${pod:-}; do kill -KILL "$pid" 2>/dev/null || true; done
  for pid in "${slurm_pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${slurm_pids[@]}"; do wait "$pid" || true; done
  rm -rf "$dir"
}
trap end EXIT
fail() { echo "operations: $*" >&2; tail -n 20 "$dir"/*.log "$dir"/*.out >&2 || true; exit 1; }

mkdir "$dir/bin"
ln -s "$program" "$dir/bin/millrace"
export PATH=$dir/bin:$PATH
cat >"$dir/small.mr" <<'GRAPH'
let run = unset
synthetic n=200 split=train ! shuffle seed=1 epochs=100000 ! normalize preset=cifar10 ! batch 10 drop-remainder
  ! train-step name=train model=vit layers=1 embed=16 mlp=16 heads=2 lr=1e-3 threads=1 patch=16 watch-every=0
train.metrics ! progress
train.metrics ! jsonl path=$run/metrics.jsonl
train.state ! checkpoint dir=$run/checkpoints
GRAPH

wait_for() { # SECONDS WHAT COMMAND...
  local until=$((SECONDS + $1))
  until "${@:3}" 2>/dev/null; do
    [ $SECONDS -lt $until ] || fail "$2 does not happen"
    sleep 0.1
  done
}
newest_step() { # RUN
  local name
  name=$(readlink "$1/checkpoints/latest")
  name=${name#step-}
  echo $((10#${name%.safetensors}))
}
lines_beyond() { [ "$(wc -l 2>/dev/null <"$1/metrics.jsonl" || echo 0)" -gt "$2" ]; } # RUN N
has_checkpoint() { [ -e "$1/checkpoints/latest" ]; }

# The run, ended a step after where it was, has the ledger of one that nothing has disturbed.
same_ledger() { # RUN
  local steps got expected
  steps=$(($(newest_step "$1") + 1))
  millrace train --run-dir "$1" --resume=auto "train.steps=$steps" >"$dir/resumed.out" 2>&1 </dev/null || fail "$1 does not resume"
  millrace train --graph "$dir/small.mr" --run-dir "$1-whole" "train.steps=$steps" >"$dir/whole.out" 2>&1 </dev/null || fail "the undisturbed run fails"
  got=$(grep '^ledger ' "$dir/resumed.out") expected=$(grep '^ledger ' "$dir/whole.out")
  [ "$got" = "$expected" ] || fail "$1: $got, an undisturbed run has $expected"
}

# ---- Slurm ----

job_has() { scontrol show job -o "$job" | grep -q "$1"; }

exec 9< <(python3 scripts/ports.py 2)
read -ra ports <&9
start_slurm "$dir/slurm" "${ports[@]}"
wait_for 60 "a node of Slurm" sh -c 'sinfo -h -o %t 2>/dev/null | grep -q idle'
job=$(sbatch --parsable --chdir="$dir" "$here/examples/cluster/train.sbatch" "$dir/job" --graph "$dir/small.mr")
wait_for 60 "the job's tenth step" lines_beyond "$dir/job" 10
scancel --batch --signal=USR1 "$job" # as --signal=B:USR1@180 does
wait_for 60 "the job's second start" job_has Restarts=1
first=$(newest_step "$dir/job")
wait_for 60 "its return from the queue" job_has JobState=RUNNING
wait_for 60 "its resumption" grep -q "^resumed at step $first" "$dir/millrace-$job.log"
wait_for 60 "its next steps" lines_beyond "$dir/job" $((first + 10))
scancel --batch --signal=TERM "$job" # by hand, or in preemption: it does not come back by itself
wait_for 60 "the end of the job" sh -c "! scontrol show job -o $job | grep -Eq 'JobState=(RUNNING|COMPLETING|PENDING)'"
job_has ExitCode=143:0 || fail "the job's status: $(scontrol show job -o "$job")"
job_has Restarts=1 || fail "a job that was ended has come back"
unset job
same_ledger "$dir/job"
echo "operations: Slurm's job returns to the queue before its limit, resumes at step $first and ends with the same ledger"

# The run may have ended before its script asks about it; here the signal returns only then.
cat >"$dir/slow-kill" <<'BASH'
kill() {
  local status=0
  builtin kill "$@" || status=$?
  if [ "$1" = -TERM ]; then while builtin kill -0 "$2" 2>/dev/null; do sleep 0.1; done; fi
  return $status
}
BASH
job=$(BASH_ENV=$dir/slow-kill sbatch --parsable --chdir="$dir" "$here/examples/cluster/train.sbatch" "$dir/again" --graph "$dir/small.mr")
wait_for 60 "the second job's tenth step" lines_beyond "$dir/again" 10
scancel --batch --signal=USR1 "$job"
wait_for 60 "the second start of a job whose run ends at once" job_has Restarts=1
first=$(newest_step "$dir/again")
wait_for 60 "its resumption" grep -q "^resumed at step $first" "$dir/millrace-$job.log"
wait_for 60 "its next steps" lines_beyond "$dir/again" $((first + 10))
scancel "$job" # SIGTERM, and SIGKILL after KillWait
wait_for 60 "the end of a job that is cancelled" job_has JobState=CANCELLED
wait_for 60 "the end of its processes" sh -c "[ -z \"\$(squeue -h -j $job -t completing)\" ]"
[ "$(newest_step "$dir/again")" -gt "$first" ] || fail "a job that is cancelled writes no checkpoint"
job_has Restarts=1 || fail "a job that was cancelled has come back"
unset job
same_ledger "$dir/again"
echo "operations: a job returns to the queue though its run ends at once, and a cancelled one ends with a checkpoint"

# ---- systemd ----

unit=$dir/unit/millrace@one.service
mkdir -p "$dir/unit" "$dir/state/millrace"
sed "s,/usr/bin/millrace,$program,; /^Documentation/d" examples/cluster/millrace@.service >"$unit"
systemd-analyze verify "$unit" >"$dir/verify.out" 2>&1 || fail "systemd-analyze refuses the unit"
[ ! -s "$dir/verify.out" ] || fail "systemd-analyze warns about the unit"
# What the page starts it with holds for the next boot too.
mkdir -p "$dir/root/etc/systemd/system" "$dir/root/usr/lib/systemd/system"
cp examples/cluster/millrace@.service "$dir/root/usr/lib/systemd/system/"
read -ra enable < <(sed -n 's/^ *systemctl \(.*millrace@first\) *# starts or resumes.*/\1/p' docs/operations.md)
[ "${enable[1]:-}" = --now ] || fail "docs/operations.md does not start the unit at once"
systemctl --root="$dir/root" "${enable[0]}" "${enable[2]}" >"$dir/enable.out" 2>&1 || fail "the unit is not enabled"
[ -L "$dir/root/etc/systemd/system/multi-user.target.wants/millrace@first.service" ] || fail "no boot starts the unit"
value() { sed -n "s/^$1=//p" "$unit"; }
start_unit() { # the main process is the command itself
  local words
  words=$(value ExecStart)
  words=${words//%S/$dir/state} words=${words//%i/one} words=${words//\$ARGUMENTS/--graph $dir/small.mr}
  # shellcheck disable=SC2086 # systemd splits at spaces too
  (cd "$dir/state/millrace" && exec $words >>"$dir/unit.log" 2>&1 </dev/null) &
  MAINPID=$!
}
one=$dir/state/millrace/one
start_unit
wait_for 60 "the unit's tenth step" lines_beyond "$one" 10
export MAINPID
eval "$(value ExecReload)"
wait_for 60 "the checkpoint of a reload" has_checkpoint "$one"
kill -0 "$MAINPID" || fail "a reload ends the unit"
kill -KILL "$MAINPID"
status=0; wait "$MAINPID" 2>/dev/null || status=$?
unset MAINPID
if [ $status != 137 ] || [ "$(value Restart)" != on-failure ]; then fail "the unit would not be started again"; fi
before=$(newest_step "$one")
start_unit
wait_for 60 "the unit's resumption" grep -q "^resumed at step $before" "$dir/unit.log"
wait_for 60 "its next steps" lines_beyond "$one" $((before + 10))
kill -TERM "$MAINPID"
status=0; wait "$MAINPID" || status=$?
unset MAINPID
[ "$status" = "$(value SuccessExitStatus)" ] || fail "the unit stops with status $status"
same_ledger "$one"
status=0; millrace train --run-dir "$dir/none" --resume=auto no-such=1 >"$dir/wrong.out" 2>&1 || status=$?
[ "$status" = "$(value RestartPreventExitStatus)" ] || fail "a wrong command line ends with status $status"
echo "operations: the unit is valid, is reloaded with a checkpoint, resumes after a kill, and stops with status 143"

# ---- Kubernetes ----

# The words of a container's command or of a probe, with the run in a folder of ours, a line each.
words() { # PATH-IN-THE-CONTAINER
  /usr/bin/python3 - examples/k8s/train-job.yaml "$dir/pod" "$@" <<'PY'
import sys, yaml
with open(sys.argv[1], encoding='utf-8') as f:
    spec = yaml.safe_load(f)['spec']
where = spec['template']['spec']['containers'][0]
for key in sys.argv[3:]:
    where = where[key]
print('\n'.join(w.replace('/runs/one', sys.argv[2]) for w in where))
PY
}
mapfile -t command < <(echo millrace; words args)
mapfile -t ready < <(words startupProbe exec command)
mapfile -t alive < <(words livenessProbe exec command)
for ((i = 0; i < ${#command[@]}; i++)); do # data of its own
  case ${command[i]} in
    --data) command[i]=--graph command[i + 1]=$dir/small.mr ;;
    --epochs) command=("${command[@]:0:i}" "${command[@]:i+2}") ;;
  esac
done
start_pod() { "${command[@]}" >>"$dir/pod.log" 2>&1 </dev/null & pod=$!; }
evict_pod() {
  local status=0
  kill -TERM "$pod"
  wait "$pod" || status=$?
  unset pod
  [ $status = 143 ] || fail "an evicted pod ends with status $status"
}
if "${ready[@]}" 2>/dev/null; then fail "the pod is ready before it starts"; fi
start_pod
wait_for 60 "the pod's readiness" "${ready[@]}"
"${alive[@]}" || fail "a pod that works is not alive"
wait_for 60 "the pod's tenth step" lines_beyond "$dir/pod" 10
kill -STOP "$pod"
touch -d '-31 minutes' "$dir/pod/metrics.jsonl"
if "${alive[@]}"; then fail "a pod that stands still is alive"; fi
kill -CONT "$pod"
wait_for 60 "the pod's return" "${alive[@]}"
evict_pod
before=$(newest_step "$dir/pod")
touch -d '-31 minutes' "$dir/pod/metrics.jsonl" # it waits for a node, say
if "${ready[@]}"; then fail "a pod that resumes is ready before its first step"; fi
start_pod
wait_for 60 "the second pod's readiness" "${ready[@]}"
"${alive[@]}" || fail "a pod that has resumed is not alive"
wait_for 60 "the second pod's steps" lines_beyond "$dir/pod" $((before + 10))
grep -q "^resumed at step $before" "$dir/pod.log" || fail "the second pod does not resume"
evict_pod
same_ledger "$dir/pod"
for file in examples/k8s/*.yaml; do
  /usr/bin/python3 -c 'import sys, yaml; assert all("apiVersion" in d and "kind" in d for d in yaml.safe_load_all(open(sys.argv[1])))' "$file" || fail "$file is no manifest"
done
echo "operations: the probes of the Kubernetes job see its start, a late resumption and a standstill; it ends with status 143"

# ---- the container file ----

# What it runs, the tree has; its entry point is the program that the package puts into the path.
for file in scripts/make-debian.sh debian/rules debian/millrace.install; do
  [ -s "$file" ] || fail "examples/cluster/Containerfile needs $file"
done
grep -q '^usr/bin/millrace$' debian/millrace.install || fail "the package has no program"
