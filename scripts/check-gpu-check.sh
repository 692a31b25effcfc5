#!/usr/bin/env bash
# scripts/gpu_check.sh on a machine without a GPU, in a pack with stand-ins for what it starts: a stage past its limit
# ends with all it started, a test that hangs does not hide the others' verdicts, a run repeats into one folder, a
# stage that fails does not keep the next one from running, and every line is JSON.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d)
trap 'kill_all; rm -rf "$dir"' EXIT
pack=$dir/pack
pids=$dir/pids # of the stand-ins that hang, one a line
: >"$pids"
export pids

living() { # of those, the ones that run; one that only has not been reaped has no command line
  local pid
  while read -r pid; do [ -z "$(tr -d '\0' 2>/dev/null <"/proc/$pid/cmdline")" ] || echo "$pid"; done <"$pids"
} 2>/dev/null
training() { find /proc/[0-9]*/exe -lname "$pack/bin/millrace*" 2>/dev/null | tr -dc '0-9\n'; }
kill_all() { for pid in $(living) $(training); do kill -KILL "$pid" || true; done; }
fail() {
  echo "gpu_check: $*" >&2
  cat "$dir/said" >&2
  exit 1
}
check() { "$pack/gpu_check.sh" "$@" >"$dir/said" 2>&1; }
ended() {
  [ -s "$pids" ] || fail "$1 has not begun"
  [ -z "$(living)" ] || fail "$1 is alive behind its stage"
}
lines() { # OUT EXPRESSION: of rows, the lines by the names of their stages, each name once; names holds all in order
  python3 - "$1/results.jsonl" "$2" <<'P' || fail "$1/results.jsonl is not as wanted: $2: $(cat "$1/results.jsonl")"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
rows = {line['stage']: line for line in lines}
names = [line['stage'] for line in lines]
sys.exit(not eval(sys.argv[2]))
P
}

mkdir -p "$pack/bin" "$pack/tests" "$pack/lib" "$pack/golden" "$pack/peers"
cp "$here/scripts/gpu_check.sh" "$pack/"
gzip -c "$pack/gpu_check.sh" >"$pack/lib/a-library.gz"
echo 0123abc >"$pack/commit"

# The program: as far as stages read what it writes.  It refuses the folder of an earlier run, as millrace does.
cat >"$pack/bin/stand-in" <<'P'
#!/usr/bin/env bash
command=$1
[ "$command" != "${HANG:-}" ] || {
  trap '' TERM
  echo $$ >>"$pids"
  while :; do sleep 1; done
}
while [ $# -gt 0 ]; do
  case $1 in --run-dir) run=$2 ;; --json) json=$2 ;; --steps) steps=$2 ;; esac
  shift
done
case $command in
  doctor) echo "  standin:0  a device of none" ;;
  bench) echo '{"images_per_s": 1234.5, "step_s": 0.25}' ;;
  profile) echo '{"f32_gflops": 10.5, "bf16_gflops": 20, "copy_gbs": 3, "rows": [{"op":"attention","ms":1.5}, {"op":"attention_vjp","ms":2}]}' >"$json" ;;
  train)
    mkdir "$run" && mkdir "$run/checkpoints" || exit 1
    echo parameters >"$run/checkpoints/step-0000${steps:-99}.safetensors"
    for i in $(seq "${steps:-99}"); do echo "{\"kind\":\"step\",\"loss\":2.$i,\"step_p50_s\":0.5}"; done >"$run/metrics.jsonl"
    ;;
esac
mkdir -p "$MILLRACE_KERNELS" && : >"$MILLRACE_KERNELS/a.kernel"
[ -z "${MILLRACE_TUNE:-}" ] || printf 'gpu\tversion\nA GPU\t130100\n' >"$MILLRACE_TUNING"
P
chmod +x "$pack/bin/stand-in"
# A Python without the peers, whichever this machine has, and programs of CUDA's toolkit.
mkdir "$dir/tools"
cat >"$dir/tools/python" <<'P'
#!/bin/sh
case $* in *"import torch"* | *"import jax"*) exit 1 ;; esac
exec python3 "$@"
P
cat >"$dir/tools/compute-sanitizer" <<'P'
#!/bin/sh
echo "compute-sanitizer $*"
exit 9
P
cat >"$dir/tools/ncu" <<'P'
#!/bin/sh
while [ "$1" != --log-file ]; do shift; done
cat >"$2" <<'C'
==PROF== a line that is not of the table
"ID","Kernel Name","Grid Size","Block Size","dram__throughput.avg.pct_of_peak_sustained_elapsed","gpu__time_duration.sum"
"","","","","%","ns"
"0","short(float *)","(1, 1, 1)","(256, 1, 1)","20","1,000"
"1","long(float *)","(1, 1, 1)","(256, 1, 1)","30","2,000"
C
P
chmod +x "$dir"/tools/*
export PATH=$dir/tools:$PATH PYTHON=$dir/tools/python

# millrace itself takes TERM as an order to stop in its own time, behind a step and a checkpoint.
cp "$here/build/release/millrace" "$pack/bin/millrace"
! DEVICE=cpu check one "$dir/real" train 4 train || fail "a training of minutes has ended within 4 s"
[ -e "$dir/real/train/graph.mr" ] || fail "the training has not begun: $(cat "$dir/real/train.log")"
[ -z "$(training)" ] || fail "millrace trains behind its stage"
lines "$dir/real" 'rows["train"]["result"] == "timeout" and rows["train"]["limit"] == 4'

mv "$pack/bin/stand-in" "$pack/bin/millrace"
export DEVICE=standin
! HANG=train check one "$dir/hang" train 1 train || fail "a stage that hangs is ok"
ended "a program that ignores TERM"
lines "$dir/hang" 'rows["train"]["result"] == "timeout"'

# A run that is ended ends its stage.
: >"$pids"
HANG=train "$pack/gpu_check.sh" one "$dir/hang" train 100 train >"$dir/said" 2>&1 &
run=$!
for _ in {1..400}; do [ -s "$pids" ] || sleep 0.05; done
kill -TERM "$run"
! wait "$run" || fail "a run that was ended is ok"
ended "the stage of a run that was ended"

# Tests that pass, fail, are skipped and, only if asked, hang.
cat >"$pack/tests/test_passes" <<'P'
#!/bin/sh
echo "threads $OMP_NUM_THREADS"
P
cat >"$pack/tests/test_fails" <<'P'
#!/bin/sh
echo '[  FAILED  ] a "quoted" \ name'
exit 1
P
printf '#!/bin/sh\nexit 77\n' >"$pack/tests/test_skips"
cat >"$pack/tests/test_hangs" <<'P'
#!/bin/sh
trap '' TERM
[ -n "${HANG:-}" ] || exit 0
echo $$ >>"$pids"
while :; do sleep 1; done
P
chmod +x "$pack"/tests/*
: >"$pids"
! HANG=tests check one "$dir/hang" tests 3 tests || fail "a test that hangs is ok"
ended "a test that ignores TERM"
lines "$dir/hang" '(lambda t: t["result"] == "timeout" and (t["passed"], t["failed"], t["skipped"]) == (1, 1, 1)
  and t["did not end"] == "test_hangs" and t["failed: test_fails"] == "[  FAILED  ] a \"quoted\" \\ name")(rows["tests"])'

# Both runs, twice into one folder.  What fails is in the middle.
for i in 1 2; do
  for run in run1 run2; do
    check "$run" "$dir/out" || fail "$run is not as its stages want it, time $i"
    ! tar -tzf "$dir/out/results-$run.tar.gz" | grep -E 'checkpoints|tar\.gz|\.notes|\.kernel' || fail "$run keeps too much"
  done
done
for kept in results.jsonl tests.log tests/test_fails.log train/metrics.jsonl profile.json ncu.csv products.txt \
  share/cuda/products/A-GPU-130100.txt; do
  tar -tzf "$dir/out/results-run2.tar.gz" "./$kept" >/dev/null || fail "$kept is not kept"
done
[ -n "$(find "$dir/out" -name '*.kernel')" ] || fail "no kernel is in the cache that is not kept"
lines "$dir/out" '(lambda first, second: first == second and len(first) == 22 and len(names) == 44)(names[:22], names[22:])'
lines "$dir/out" '{line["result"] for line in lines if line["stage"] not in ("tests", "sanitizer") and line["stage"][:4] != "peer"} == {"ok"}'
lines "$dir/out" '{(line["stage"], line["result"]) for line in lines if line["result"] != "ok"} == {("tests", "failed"),
  ("sanitizer", "failed")} | {("peer-" + p, "skipped") for p in ("eager", "compile", "max", "jax")}'
lines "$dir/out" '(lambda t: (t["passed"], t["failed"], t["skipped"]) == (2, 1, 1) and "did not end" not in t)(rows["tests"])'
lines "$dir/out" 'rows["kernels"]["kernel 1"].startswith("long grid") and rows["parity-f32"]["steps"] == 50'
grep -qx 'threads 2' "$dir/out/tests/test_passes.log" || fail "tests run on too many threads"

# Without the device a run says why and keeps what it has.
! DEVICE=other check run1 "$dir/none" || fail "runs without a device"
grep -q 'gpu_check: device other: doctor lists no such device' "$dir/said" || fail "does not say why"
tar -tzf "$dir/none/results-run1.tar.gz" ./probe.log >/dev/null || fail "does not keep the log of its only stage"

for scale in 1.5 0 x 08; do
  status=0
  SCALE=$scale check run1 "$dir/none" || status=$?
  [ "$status $(cat "$dir/said")" = "2 gpu_check: SCALE is $scale, want a whole number in [1,9999]" ] || fail "of SCALE=$scale: status $status"
done
echo "gpu_check: stages end with all they start, tests keep their verdicts, two runs into one folder of $(wc -l <"$dir/out/results.jsonl") lines"
