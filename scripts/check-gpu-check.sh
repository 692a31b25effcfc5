#!/usr/bin/env bash
# scripts/gpu_check.sh on a machine without a GPU, in a pack with stand-ins for what it starts: a stage past its limit
# ends with all it started, a test that hangs does not hide the others' verdicts, a run repeats into one folder, a
# stage that fails does not keep the next one from running, and every line is JSON.  Then the program itself on PoCL,
# beside a stand-in for nvidia-smi and the driver's folder: run1 and run2, killed at KILLS (10) random moments.  Other
# checks may run beside it: a limit that is not to be reached is many times what its stage takes.
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

mkdir -p "$pack/bin" "$pack/tests" "$pack/lib" "$pack/golden" "$pack/peers" "$dir/driver"
cp "$here/scripts/gpu_check.sh" "$pack/"
: >"$dir/driver/libcuda.so.1"
: >"$dir/gpu"
echo 0123abc >"$pack/commit"
export LD_LIBRARY_PATH=$dir/driver GPU_FILE=$dir/gpu work=$pack/work

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
  case $1 in --run-dir) run=$2 ;; --json) json=$2 ;; --steps) steps=$2 ;; --device) device=$2 ;; esac
  shift
done
case $command in
  doctor)
    [ "/proc/$$/fd/9" -ef "$GPU_FILE" ] || echo "the device's file is closed"
    IFS=:
    for folder in $LD_LIBRARY_PATH; do
      [ ! -e "$folder/libcuda.so.1" ] || echo "  ${LISTS:-standin:0  a device of none}"
    done
    ;;
  bench)
    [ -z "${FAULT:-}" ] || [ "${!FAULT:-}" = off ] || exit 1
    loss=2.5
    [ -z "${WRONG:-}" ] || [[ " $* $device " == *" cpu "* ]] || [ "${!WRONG:-}" = off ] || loss=7
    echo "{\"images_per_s\": 1234.5, \"step_s\": 0.25, \"first_loss\": $loss, \"second_loss\": 1.5}"
    ;;
  profile) echo '{"f32_gflops": 10.5, "bf16_gflops": 20, "copy_gbs": 3, "rows": [{"op":"attention","ms":1.5}, {"op":"attention_vjp","ms":2}]}' >"$json" ;;
  train)
    mkdir "$run" && mkdir "$run/checkpoints" || exit 1
    echo parameters >"$run/checkpoints/step-0000${steps:-99}.safetensors"
    for i in $(seq "${steps:-99}"); do echo "{\"kind\":\"step\",\"loss\":2.$i,\"step_p50_s\":0.5}"; done >"$run/metrics.jsonl"
    ;;
esac
[ "$MILLRACE_KERNELS" = off ] || { mkdir -p "$MILLRACE_KERNELS" && : >"$MILLRACE_KERNELS/a.kernel"; }
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
cat >"$dir/tools/nvidia-smi" <<'P'
#!/bin/sh
echo "NVIDIA H100 80GB HBM3, 580.159.04, 81559 MiB, 1980 MHz"
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
! OMP_NUM_THREADS=1 DEVICE=cpu check one "$dir/real" train 20 train || fail "a training of minutes has ended within 20 s"
[ -e "$work/train/graph.mr" ] || fail "the training has not begun: $(cat "$work/train.log")"
[ -z "$(training)" ] || fail "millrace trains behind its stage"
lines "$dir/real" 'rows["train"]["result"] == "timeout" and rows["train"]["limit"] == 20'

mv "$pack/bin/stand-in" "$pack/bin/millrace"
export DEVICE=standin
! HANG=train check one "$dir/hang" train 15 train || fail "a stage that hangs is ok"
ended "a program that ignores TERM"
lines "$dir/hang" 'rows["train"]["result"] == "timeout"'
tar -xzOf "$dir/hang/one.tar.gz" ./results.jsonl | cmp - "$dir/hang/results.jsonl" || fail "the archive is not that of the stage"

# A run that is ended ends its stage.
: >"$pids"
HANG=train "$pack/gpu_check.sh" one "$dir/hang" train 100 train >"$dir/said" 2>&1 &
run=$!
for _ in {1..2400}; do [ -s "$pids" ] || sleep 0.05; done
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
! HANG=tests check one "$dir/hang" tests 20 tests || fail "a test that hangs is ok"
ended "a test that ignores TERM"
lines "$dir/hang" '(lambda t: t["result"] == "timeout" and (t["passed"], t["failed"], t["skipped"]) == (1, 1, 1)
  and t["did not end"] == "test_hangs" and t["failed: test_fails"] == "[  FAILED  ] a \"quoted\" \\ name")(rows["tests"])'

# What comes back is few files, each of them whole: every line is JSON, those that the run has printed are there, and
# the archive has those that were there when it was made.
whole() { # OUT PRINTED
  python3 - "$1" "$2" <<'P' || fail "$1 is not whole: $(ls -R "$1")"
import json, os, sys, tarfile
out, printed = sys.argv[1:]
newest = 0
files = [os.path.join(folder, f) for folder, _, names in os.walk(out) for f in names]
assert len(files) <= 8, files
def lines(text): return [json.loads(line) for line in text.splitlines()]
def read(name): return open(os.path.join(out, name)).read() if os.path.exists(os.path.join(out, name)) else ''
ended = lines(read('results.jsonl'))
assert not read('results.jsonl') or read('results.jsonl').endswith('\n')
for line in open(printed, errors='replace'):
    if line.startswith('{"run"') and line.endswith('\n'): assert json.loads(line) in ended, line
if read('running.json'): assert json.loads(read('running.json'))['result'] == 'running'
for f in files:
    if f.endswith('.tar.gz'):
        archive = tarfile.open(f)
        for member in archive:
            if member.isfile(): archive.extractfile(member).read()
            if member.name == './results.jsonl':
                kept = lines(archive.extractfile(member).read().decode())
                assert kept == ended[:len(kept)], (kept, ended)
                newest = max(newest, len(kept))
assert newest >= len(ended) - 1, (newest, ended) # an archive is made behind each line
P
}

# Both runs, twice into one folder.  What fails is in the middle.
for i in 1 2; do
  for run in run1 run2; do
    SCALE=10 check "$run" "$dir/out" || fail "$run is not as its stages want it, time $i"
    ! grep -q "the device's file is closed" "$work"/*.log || fail "the device's file is closed"
    whole "$dir/out" "$dir/said"
    ! tar -tzf "$dir/out/$run.tar.gz" | grep -E 'checkpoints|tar\.gz|\.notes|\.kernel' || fail "$run keeps too much"
  done
done
for kept in results.jsonl tests.log tests/test_fails.log train/metrics.jsonl profile.json ncu.csv products.txt \
  share/cuda/products/A-GPU-130100.txt; do
  tar -tzf "$dir/out/run2.tar.gz" "./$kept" >/dev/null || fail "$kept is not kept"
done
[ -n "$(find "$work" -name '*.kernel')" ] || fail "no kernel is in the cache that is not kept"
lines "$dir/out" '(lambda first, second: first == second and len(first) == 27 and len(names) == 54)(names[:27], names[27:])'
lines "$dir/out" 'names[:6] == ["probe", "step", "bench-128", "bench-4096", "peer-compile", "peer-jax"]'
lines "$dir/out" '{line["result"] for line in lines if line["stage"] not in ("tests", "sanitizer") and line["stage"][:4] != "peer"} == {"ok"}'
lines "$dir/out" '{(line["stage"], line["result"]) for line in lines if line["result"] != "ok"} == {("tests", "failed"),
  ("sanitizer", "failed")} | {("peer-" + p, "skipped") for p in ("eager", "compile", "max", "jax", "compile-uncut", "jax-uncut")}'
lines "$dir/out" '(lambda t: (t["passed"], t["failed"], t["skipped"]) == (2, 1, 1) and "did not end" not in t)(rows["tests"])'
lines "$dir/out" 'rows["kernels"]["kernel 1"].startswith("long grid") and rows["parity-f32"]["steps"] == 50'
lines "$dir/out" 'rows["probe"]["gpu"].startswith("NVIDIA H100") and rows["bench-4096"]["images_per_s 4096"] == 1234.5'
grep -qx 'threads 2' "$work/tests/test_passes.log" || fail "tests run on too many threads"

# The limits of both runs, with what need_device may wait and two starts of two minutes.
awk '$1 ~ /^run[12]\(\)$/ {on = 1} /^}/ {on = 0} on && $1 == "stage" {n += $3} on && $1 == "need_device" {n += 60} END {exit !(n > 0 && n + 240 <= 900)}' \
  "$pack/gpu_check.sh" || fail "run1 and run2 do not fit into 900 s"
awk '/^run1\(\)/ {on = 1} /^}/ {on = 0} on && $1 == "stage" {n += $3} on && $1 == "need_device" {n += 60} END {exit !(n > 0 && n <= 270)}' \
  "$pack/gpu_check.sh" || fail "run1 does not fit into 270 s"
tracked=$(cd "$here" && git ls-files -z | xargs -0 -r du -cb | awk '/\ttotal$/ {n += $1} END {print n + 0}')
most=$(sed -n 's/^most=\([0-9]*\).*/\1/p' "$pack/gpu_check.sh")
[ $((tracked + most)) -le $((64 << 20)) ] || fail "a pack and the checkout have more than 64 MiB"

# A part that fails leaves a figure, and a wrong loss the parts that it comes from.
rm -rf "$dir/fault"
FAULT=MILLRACE_GRAPH check one "$dir/fault" bench 90 bench off 128 || fail "a fault of one part leaves no figure"
lines "$dir/fault" 'rows["bench"]["with 128"] == "MILLRACE_GRAPH=off" and rows["bench"]["step_s 128"] == 0.25'
SCALE=10 WRONG=MILLRACE_CUBLASLT check run1 "$dir/fault" || fail "a wrong loss ends the run"
lines "$dir/fault" 'rows["step"]["result"] == "failed" and rows["peer-jax"] and rows["bench-4096"]["result"] == "ok"'
lines "$dir/fault" 'rows["bisect"]["MILLRACE_GRAPH=off"] == "7 1.5" and rows["bisect"]["MILLRACE_CUBLASLT=off MILLRACE_CUDNN=off"] == "2.5 1.5"'

# Without the device a run says why, measures the peers and keeps what it has.
rm -rf "$work"
! DEVICE=other check run1 "$dir/none" || fail "runs without a device"
grep -q 'gpu_check: device other: doctor lists no such device' "$dir/said" || fail "does not say why"
lines "$dir/none" 'names == ["probe", "peer-compile", "peer-jax"]'
tar -tzf "$dir/none/run1.tar.gz" ./probe.log >/dev/null || fail "does not keep the log of its only stage"

# Behind a driver that is too old for CUDA's libraries, the GPU's OpenCL gives the figures.
GPU_FILE=$dir/missing DEVICE='' LISTS='opencl:1  NVIDIA H100, OpenCL 3.0 CUDA' check run1 "$dir/old" || fail "nothing is measured by OpenCL"
lines "$dir/old" 'rows["bench-128"]["device"] == "opencl:1" and rows["bench-128"]["step_s 128"] == 0.25'

# One archive, which the script unpacks itself.
mkdir "$dir/packed" "$dir/once" && cp -r "$pack" "$dir/once/pack" && rm -rf "$dir/once/pack/work"
tar -C "$dir/once" -cJf "$dir/packed/pack.tar.xz" pack
cp "$pack/gpu_check.sh" "$dir/packed/"
bash "$dir/packed/gpu_check.sh" one "$dir/packed-out" bench 90 bench off 128 >"$dir/said" 2>&1 || fail "a pack is not unpacked"
lines "$dir/packed-out" 'rows["bench"]["commit"] == "0123abc"'

for scale in 1.5 0 x 08; do
  status=0
  SCALE=$scale check run1 "$dir/none" || status=$?
  [ "$status $(cat "$dir/said")" = "2 gpu_check: SCALE is $scale, want a whole number in [1,9999]" ] || fail "of SCALE=$scale: status $status"
done

# ---- the program itself, on PoCL ----

session() { # PID: the living processes of its session
  local stat pid rest
  for stat in /proc/[0-9]*/stat; do
    read -r pid rest <"$stat" || continue
    # shellcheck disable=SC2086 # fields
    set -- "$1" ${rest##*) }
    case $2 in Z | X) continue ;; esac # ended; nothing may ever wait for it
    [ "$5" != "$1" ] || echo "$pid"
  done 2>/dev/null
}

kill_session() { # PID: as a machine that is taken away, all at once
  local left
  while left=$(session "$1") && [ -n "$left" ]; do
    # shellcheck disable=SC2086 # several
    kill -KILL $left 2>/dev/null || true
  done
}

cp "$here/build/release/millrace" "$pack/bin/millrace"
rm -rf "$pack"/tests/* "$work"
cp "$here/build/release/tests/test_model_device_fit" "$pack/tests/"
export DEVICE=opencl BATCHES='2 2' LAYERS=1 STEPS=2 SCALE=${SCALE:-60}
# PoCL compiles for ten minutes of a processor what it has not kept: what it keeps is found by the text and outlives this
# check.  Not the user's own folder, and not the one that is in use where compilers are killed.
export POCL_CACHE_DIR=$here/build/pocl
mkdir -p "$POCL_CACHE_DIR"
[ "$(du -sm "$POCL_CACHE_DIR" | cut -f1)" -lt 256 ] || rm -rf "${POCL_CACHE_DIR:?}"/* # of older texts, mostly
declare -A took
for run in run1 run2; do
  begun=$SECONDS most=$([ $run = run1 ] && echo 20 || echo 60)
  check "$run" "$dir/pocl-out" || fail "$run fails on PoCL"
  took[$run]=$((SECONDS - begun))
  [ "${took[$run]}" -lt "$most" ] || took[$run]=$most # the first pass compiled: the next ones are over sooner
  whole "$dir/pocl-out" "$dir/said"
done
# That 50 steps in bf16 stay near the CPU's is not asked of one block on PoCL: tests/model/device/ compares the devices.
lines "$dir/pocl-out" '{line["stage"] for line in lines if line["result"] not in ("ok", "skipped")} <= {"sanitizer", "parity-bf16"}'
lines "$dir/pocl-out" 'rows["step"]["first_loss"] > 0 and rows["bench-4096"]["step_with_copy_s 2"] > 0 and rows["tests"]["passed"] == 1'
printf '{"run":"a","stage":"b","result": "running","status":0}\n' >"$dir/pocl-out/running.json"
check one "$dir/pocl-out" probe 20 probe || fail "a run behind one that was killed fails"
lines "$dir/pocl-out" 'rows["b"]["result"] == "killed"'

cp -r "$POCL_CACHE_DIR" "$dir/pocl"
export POCL_CACHE_DIR=$dir/pocl
RANDOM=${SEED:-$$}
echo "gpu_check: kills on PoCL within ${took[run1]} s and ${took[run2]} s, from seed ${SEED:-$$}"
for i in $(seq "${KILLS:-10}"); do
  run=$([ $((i % 2)) = 1 ] && echo run1 || echo run2)
  moment=$(awk "BEGIN {printf \"%.2f\", ${took[$run]} * $RANDOM / 32768}")
  rm -rf "$dir/killed"
  setsid "$pack/gpu_check.sh" "$run" "$dir/killed" >"$dir/said" 2>&1 &
  pid=$!
  sleep "$moment" &
  clock=$!
  wait -n $pid $clock || true
  {
    kill_session $pid
    kill $clock || true
    wait $pid $clock || true
  } 2>/dev/null # the shell tells of each kill
  [ ! -d "$dir/killed" ] || whole "$dir/killed" "$dir/said"
done
echo "gpu_check: stages end with all they start, tests keep their verdicts, two runs into one folder of $(wc -l <"$dir/out/results.jsonl") lines, ${KILLS:-10} kills leave whole files"
