#!/usr/bin/env bash
# Checks and measures a GPU on a machine that has one for minutes and neither this tree nor its libraries.
#
#   scripts/gpu_check.sh pack DIR      here: DIR/gpu_check.sh and DIR/pack.tar.xz, at most 24 MB: program, tests, peers
#   DIR/gpu_check.sh run1|run2|run3 [OUT]   there: run1 in 270 s, run2 in 390 s, run3 what is worth least
#   DIR/gpu_check.sh one OUT NAME SECONDS STAGE [ARGUMENT...]   there: one stage, as run1 to run3 (below) list them
#
# The stages of a run are in the order of their worth.  Each has a limit; what one leaves of it may be used by the next.
# OUT (DIR/out) is what is copied back, and holds at most 8 files, each whole at every moment: results.jsonl with
# a line of JSON for every stage that has ended, running.json with what the stage under way has found so far, and
# RUN.tar.gz with logs, tuning files and the device's description.  So a run that is killed, or a machine that is taken
# away, loses nothing that was measured.  A stage that fails, or is too slow, ends with all it started, and the next one
# begins.  If the device does not open, the peers are still measured, and the run ends with status 1 and a sentence.
#
# CUDA's own libraries are not packed: that machine has them, in /usr/local/cuda or as Python packages.
#
# BUILD  pack: the folder of its build, default build/gpu: optimised, with the core libraries, OpenCL and CUDA alone
# CUDA, OPENCL  pack: OFF builds without it
# DATA   CIFAR-10 in its binary layout; without it runs train on synthetic pictures, which results say
# PYTHON the Python of the peers (torch, jax, optax), default python3; CUDA's libraries are looked for in its packages first
# DEVICE what is checked; default cuda, or an OpenCL device of NVIDIA's if CUDA's does not open
# WORK   where stages write, on the machine's own disk, default DIR/work
# SCALE  a whole number that multiplies the limits, which are for a GPU; default 1
# BATCHES, LAYERS, STEPS  default "128 4096", 6 and what each stage takes: less where another device stands in for a GPU
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
most=24000000 # bytes of a pack

usage() {
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
  exit 2
}

SCALE=${SCALE:-1}
[[ $SCALE =~ ^[1-9][0-9]{0,3}$ ]] || { echo "gpu_check: SCALE is $SCALE, want a whole number in [1,9999]" >&2; exit 2; }
read -r small large _ <<<"${BATCHES:-128 4096}"
[[ "$small $large" =~ ^[1-9][0-9]{0,5}\ [1-9][0-9]{0,5}$ ]] || { echo "gpu_check: BATCHES is $BATCHES, want two numbers" >&2; exit 2; }
layers=${LAYERS:-6}

# ---- pack ----

# The libraries that "$@" need and that every machine does not have: all but the C library's and CUDA's.
libraries() {
  ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -Ev '/(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^/]*|libcuda|libcudart|libcublas|libcublasLt|libcudnn[^/]*|libnvrtc[^/]*)\.so'
}

# The programs of the tests that need a GPU: model.device_X_cuda is test_model_device_X with the argument "cuda".
gpu_tests() { # BUILD
  ctest --test-dir "$1" -L '^gpu$' --show-only=json-v1 |
    python3 -c 'import json, sys
for t in json.load(sys.stdin)["tests"]:
    print("test_" + t["name"].replace(".", "_").removesuffix("_cuda"))' | sort -u
}

pack() { # DIR
  local root build to=$1 size files
  local -a tests libs
  root=$(cd "$here/.." && pwd)
  build=${BUILD:-$root/build/gpu}
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMILLRACE_WITH=OFF \
    -DMILLRACE_WITH_OPENCL="${OPENCL:-ON}" -DMILLRACE_CUDA="${CUDA:-ON}" >/dev/null || exit 1
  mapfile -t tests < <(gpu_tests "$build")
  [ ${#tests[@]} != 0 ] || [ "${CUDA:-ON}" = OFF ] || { echo "gpu_check: the build has no test with the label gpu" >&2; exit 1; }
  ninja -C "$build" millrace ${tests[@]+"${tests[@]}"} || exit 1
  tests=(${tests[@]+"${tests[@]/#/$build/tests/}"})
  mkdir -p "$to" && rm -rf "$to"/{pack,pack.tar.xz,work} && files=$to/pack || exit 1
  mkdir -p "$files"/{bin,tests,golden,lib,peers,share} || exit 1
  cp "$build/millrace" "$files/bin/"
  [ ${#tests[@]} = 0 ] || cp "${tests[@]}" "$files/tests/"
  cp -r "$root/tests/golden/vit" "$files/golden/"
  cp -r "$root/share" "$files/share/millrace" || exit 1
  mapfile -t libs < <(libraries "$build/millrace" ${tests[@]+"${tests[@]}"})
  cp -L "${libs[@]}" "$files/lib/"
  strip "$files"/bin/* "$files"/tests/* 2>/dev/null
  cp "$root"/bench/peers/vit_step_gpu.py "$files/peers/"
  git -C "$root" rev-parse HEAD >"$files/commit" 2>/dev/null || echo unknown >"$files/commit"
  # The programs have their libraries in common: a window over all of them finds that again.
  tar -C "$to" --sort=name --owner=0 --group=0 -cf - pack | xz -T1 --lzma2=preset=6,dict=64MiB >"$to/pack.tar.xz" || exit 1
  rm -rf "$files"
  cp "$here/gpu_check.sh" "$to/"
  size=$(du -cb "$to"/gpu_check.sh "$to"/pack.tar.xz | awk 'END {print $1}')
  echo "gpu_check: $to: ${#tests[@]} tests, ${#libs[@]} libraries, $size bytes"
  [ "$size" -le $most ] || { echo "gpu_check: the pack has $size bytes, want at most $most" >&2; exit 1; }
}

# Sets pack to the folder of what was packed: DIR itself if it is there already.  An unpacking that was killed begins anew.
unpack() {
  pack=$here
  [ ! -e "$here/bin/millrace" ] || return 0
  pack=$here/pack
  [ ! -e "$pack/bin/millrace" ] || return 0
  rm -rf "$here/unpacking" "$pack" && mkdir "$here/unpacking" || return
  tar -C "$here/unpacking" -xJf "$here/pack.tar.xz" 2>/dev/null ||
    "${PYTHON:-python3}" -c 'import sys, tarfile; tarfile.open(sys.argv[1], "r:xz").extractall(sys.argv[2])' \
      "$here/pack.tar.xz" "$here/unpacking" ||
    { echo "gpu_check: $here/pack.tar.xz cannot be unpacked" >&2; return 1; }
  mv "$here/unpacking/pack" "$pack" && rm -rf "$here/unpacking"
}

# ---- stages ----

json_text() { # TEXT: as a string of JSON
  local t=$1
  t=${t//\\/\\\\}
  t=${t//\"/\\\"}
  printf '"%s"' "$(printf '%s' "$t" | tr -d '\000-\010\013-\037' | tr '\011\012' '  ' | tr -cd '\040-\176')"
}

json_value() { # TEXT: a number as it is, anything else as a string
  if [[ $1 =~ ^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$ ]]; then printf '%s' "$1"; else json_text "$1"; fi
}

# A file of OUT, written anew by standard input: its old bytes or its new ones are there at every moment.
put() { # NAME
  cat >"$fresh/$1.new" && mv "$fresh/$1.new" "$back/$1"
}

# A stage's own figures: note NAME VALUE, into the line that it adds, and at once into running.json.
note() {
  printf '%s\t%s\n' "$1" "$2" >>"$notes"
  put_running
}

put_running() { stage_line running 0 | put running.json; }

stage_line() { # RESULT STATUS
  local line key value
  line="{\"run\": \"$run\", \"stage\": \"$name\", \"result\": \"$1\", \"status\": $2"
  line="$line, \"seconds\": $(awk "BEGIN {printf \"%.1f\", $(date +%s.%N) - $begun}"), \"limit\": $limit"
  line="$line, \"device\": $(json_text "$device"), \"commit\": $(json_text "$(cat "$pack/commit" 2>/dev/null)")"
  while IFS=$'\t' read -r key value; do line="$line, $(json_text "$key"): $(json_value "$value")"; done <"$notes"
  case $1 in ok | running) ;; *) line="$line, \"last\": $(json_text "$(tail -n 3 "$work/$name.log" 2>/dev/null | cut -c1-300)")" ;; esac
  echo "$line}"
}

# Adds a line to OUT/results.jsonl.
add_line() { # LINE
  { cat "$back/results.jsonl" 2>/dev/null; echo "$1"; } | put results.jsonl
  echo "$1"
}

# Kills what is left of a stage's process group and waits until it is dead, 10 s at most: what hangs in a driver
# may not die, and the stage's line says so.
group=
end_group() {
  local left i
  kill -KILL -- "-$group" 2>/dev/null || return 0
  for i in {1..100}; do
    left=$(living "$group")
    [ "$left" != 0 ] || return 0
    sleep 0.1
  done
  note "still alive" "$left"
}

# The number of a group's processes that run: not of those that only have not been reaped.
living() { # GROUP
  cat /proc/[0-9]*/stat 2>/dev/null | sed 's/.*) //' | awk -v group="$1" '$3 == group && $1 !~ /[ZX]/ {n++} END {print n + 0}'
}

result= # of the stage that ended last
slack=0 # seconds that the stages so far have left of their limits

# stage NAME SECONDS FUNCTION [ARGUMENT...]
stage() {
  local name=$1 own=$(($2 * SCALE)) begun limit status line took
  shift 2
  limit=$((slack < own ? own + slack : 2 * own))
  notes=$work/$name.notes
  begun=$(date +%s.%N)
  export notes run name limit begun back work fresh pack device
  : >"$notes"
  put_running
  took=$SECONDS
  timeout "$limit" bash "$here/gpu_check.sh" stage "$@" >"$work/$name.log" 2>&1 </dev/null &
  group=$! # timeout leads a process group of its own
  wait "$group"
  status=$?
  end_group # at the limit only the shell has surely ended: a program may take TERM as an order to end in its own time
  case $status in
    0) result=ok ;;
    77) result=skipped ;;
    124) result=timeout ;;
    *) result=failed ;;
  esac
  line=$(stage_line "$result" "$status")
  add_line "$line"
  rm -f "$back/running.json" "$notes"
  keep_results
  took=$((SECONDS - took))
  slack=$((slack + own - took))
  [ $slack -gt 0 ] || slack=0
}

# The same, if the stages so far have left its seconds.
spare() {
  local seconds=$(($2 * SCALE))
  [ $slack -ge $seconds ] || { echo "gpu_check: no time is left for $1" >&2; return; }
  slack=$((slack - seconds))
  stage "$@"
}

skip() { # REASON
  echo "skipped: $1"
  exit 77
}

ours() { LD_LIBRARY_PATH=$pack/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$pack/bin/millrace" "$@"; }
device=${DEVICE:-cuda}

# The value of "NAME": NUMBER in the text of a line of JSON.
figure() { sed -nE "s/.*\"$1\": ?(-?[0-9.eE+-]+).*/\1/p" | tail -n 1; }

stage_probe() {
  local tool
  note glibc "$(getconf GNU_LIBC_VERSION 2>/dev/null)"
  note kernel "$(uname -r)"
  note processors "$(nproc)"
  if command -v nvidia-smi >/dev/null; then
    note gpu "$(nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv,noheader | head -n 1)"
  else
    note gpu "nvidia-smi is missing"
  fi
  for tool in compute-sanitizer ncu nsys "${PYTHON:-python3}"; do command -v "$tool" || echo "$tool is missing"; done
  "${PYTHON:-python3}" -c 'import importlib.metadata as m
for p in ("torch", "jax", "optax", "nvidia-cudnn-cu13", "nvidia-cublas"):
    try: print(p, m.version(p))
    except m.PackageNotFoundError: print(p, "is missing")'
  ours --version && ours doctor
}

# The device as a file from which it can be planned for elsewhere, under its own name (share/cuda/README.md).
describe_device() {
  local to=$work/share/cuda/devices name
  mkdir -p "$to"
  ours doctor --describe "$device" >"$to/new" || return
  name=$(sed -n 's/^name //p' "$to/new" | tr -c 'A-Za-z0-9._\n' '-')
  mv "$to/new" "$to/$name.txt"
  cat "$to/$name.txt"
  note description "$name"
}

# What the device can do, measured: the roofs of all figures.  On CUDA that of bf16 is a product of 8192^3.
stage_limits() {
  ours profile --device "$device" --steps 1 --json "$work/profile.json" batch=8 layers=1 || return
  grep -oE '"(f32_gflops|bf16_gflops|copy_gbs)":[[:space:]]*[0-9.]+' "$work/profile.json" | tr -d '"[:blank:]' |
    while IFS=: read -r key value; do note "$key" "$value"; done
  [ "${device%%:*}" != cuda ] || describe_device
}

# The tests, all at once, each on few threads; what they print is in OUT/tests.  The notes are right whenever the
# stage is ended: a test that hangs does not hide the verdicts of the others.
stage_tests() {
  local t
  rm -rf "$work/tests"
  mkdir "$work/tests" || return
  set -- "$pack"/tests/*
  [ -e "$1" ] || skip "the pack has no tests"
  export OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive
  for t in "$@"; do
    (
      LD_LIBRARY_PATH=$pack/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} MR_VECTORS=$pack/golden "$t" "$device" >"$work/tests/${t##*/}.log" 2>&1
      echo $? >"$work/tests/${t##*/}.status"
    ) &
  done
  note_tests "$@"
  for t in "$@"; do
    wait -n
    note_tests "$@"
  done
  tail -v -n 20 "$work"/tests/*.log
  note_tests "$@"
}

# Writes the stage's notes anew, of the tests that have ended; fails if one has failed or not ended, or none has passed.
note_tests() { # TEST...
  local t status passed=0 skipped=0 bad=0 running='' all=$notes
  local notes=$all.new
  : >"$notes"
  for t in "$@"; do
    t=${t##*/}
    status=$(cat "$work/tests/$t.status" 2>/dev/null)
    case $status in
      '') running="$running $t" ;;
      0) passed=$((passed + 1)) ;;
      77) skipped=$((skipped + 1)) ;;
      *) bad=$((bad + 1)) && note "failed: $t" "$(grep -E '^\[  FAILED' "$work/tests/$t.log" | sort -u | head -n 5 | cut -c1-100)" ;;
    esac
  done
  note passed $passed
  note skipped $skipped
  note failed $bad
  [ -z "$running" ] || note "did not end" "${running# }"
  mv "$notes" "$all"
  [ $bad = 0 ] && [ -z "$running" ] && [ $passed -gt 0 ]
}

# The first step of a process that compiles its kernels, and of one that finds them in the cache.
stage_starts() {
  local which begun
  export MILLRACE_KERNELS=$work/starts
  rm -rf "$work/starts"
  for which in cold warm; do
    begun=$(date +%s.%N)
    ours bench step --device "$device" --batch "$small" --layers "$layers" --steps 1 --warm-up 0 || return
    note ${which}_s "$(awk "BEGIN {printf \"%.2f\", $(date +%s.%N) - $begun}")"
  done
  note programs "$(find "$work/starts" -name '*.kernel' | wc -l)"
}

# 50 steps of a small model from one start, here and on the CPU: the largest difference of the losses.
stage_parity() { # DTYPE LIMIT
  local where steps=${STEPS:-50}
  rm -rf "$work/parity-$1"-*
  for where in cpu "$device"; do
    ours train --data synthetic --steps "$steps" --device "$where" --run-dir "$work/parity-$1-${where%%:*}" \
      batch=$((small < 64 ? small : 64)) layers=$((layers < 2 ? layers : 2)) train.dtype="$1" dropout=0 seed=7 >/dev/null || return
  done
  paste <(losses "$work/parity-$1-cpu") <(losses "$work/parity-$1-${device%%:*}") >"$work/parity-$1.txt"
  awk -v limit="$2" -v steps="$steps" '{d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d; n++}
    END {print n + 0, most + 0; exit !(n >= steps && most <= limit)}' "$work/parity-$1.txt" >"$work/parity-$1.sum"
  local status=$?
  note steps "$(cut -d' ' -f1 "$work/parity-$1.sum")"
  note largest_difference "$(cut -d' ' -f2 "$work/parity-$1.sum")"
  return $status
}

losses() { sed -nE '/"kind":"step"/s/.*"loss":([0-9.eE+-]+).*/\1/p' "$1/metrics.jsonl"; }

# Two runs of the same steps give the same checkpoint.
stage_twice() {
  local i steps=${STEPS:-20}
  rm -rf "$work"/twice-*
  for i in 1 2; do
    ours train --data synthetic --steps "$steps" --device "$device" --run-dir "$work/twice-$i" batch="$small" layers="$layers" seed=3 >/dev/null || return
  done
  cmp "$work"/twice-{1,2}/checkpoints/step-"$(printf %06d "$steps")".safetensors
}

# One step under CUDA's own checker of memory accesses.  A call that CUDA refuses is no error here: some only ask.
stage_sanitizer() {
  command -v compute-sanitizer >/dev/null || skip "compute-sanitizer is missing"
  LD_LIBRARY_PATH=$pack/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} compute-sanitizer --error-exitcode 9 --report-api-errors no --launch-timeout 0 \
    "$pack/bin/millrace" bench step --device "$device" --batch 4 --layers 1 --steps 1 --warm-up 1
}

# Attention of the recipe by cuDNN and by the kernel of one group a head: the milliseconds of a block's pass, beside the test of both
# against the CPU in f64.
stage_attention() { # BATCH...
  local batch way op ms
  [ ! -e "$pack/tests/test_model_device_attention" ] ||
    LD_LIBRARY_PATH=$pack/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$pack/tests/test_model_device_attention" "$device" || return
  for batch in "$@"; do
    for way in cudnn own; do
      MILLRACE_ATTENTION=$way ours profile --device "$device" --steps 3 --json "$work/attention.json" \
        batch="$batch" layers=1 || return
      for op in attention attention_vjp; do
        ms=$(tr -d '\n\t' <"$work/attention.json" | grep -oE "\"op\":\"$op\",[^}]*\"ms\":[0-9.eE+-]+" | figure ms)
        note "${op}_ms $way $batch" "${ms:-opened}"
      done
    done
  done
}

# Algorithms of the products of one batch size are measured and kept.
stage_tune() { # BATCH...
  local batch
  export MILLRACE_TUNE=1 MILLRACE_TUNING=$work/products.txt
  for batch in "$@"; do
    bench_step "$batch" --steps 1 --warm-up 1 || return
  done
  [ -e "$work/products.txt" ] || skip "device $device has no algorithms to measure"
  note products "$(($(wc -l <"$work/products.txt") - 1))"
  shipped_tunings "$work/products.txt" "$work/share/cuda/products"
  note shipped "$(cd "$work/share/cuda/products" && echo *)"
}

# Writes the rows of a tuning file as the files that millrace looks for, one for each GPU and version (share/cuda/README.md).
shipped_tunings() { # TUNING FOLDER
  rm -rf "$2"
  mkdir -p "$2"
  awk -F '\t' -v folder="$2" 'NR == 1 {head = $0; next}
    {
      name = $1
      gsub(/[^A-Za-z0-9._]/, "-", name)
      file = folder "/" name "-" $2 ".txt"
      if (!(file in begun)) print head >file
      begun[file] = 1
      print >file
    }' "$1"
}

# A step of the recipe here and on the CPU, from the same parameters and batch: the losses of the first step and of the
# second, which has the first one's update.
stage_step() { # LIMIT
  local here_line cpu_line step
  export MILLRACE_TUNING=off
  here_line=$(bench_step "$small" --steps 5) || { echo "$here_line"; return 1; }
  echo "$here_line"
  note "step_s $small" "$(printf '%s' "$here_line" | figure step_s)"
  for step in first second; do note "${step}_loss" "$(printf '%s' "$here_line" | figure ${step}_loss)"; done
  cpu_line=$(ours bench step --json --device cpu --batch "$small" --layers "$layers" --steps 2 --warm-up 0) || return
  echo "$cpu_line"
  for step in first second; do note "cpu_${step}_loss" "$(printf '%s' "$cpu_line" | figure ${step}_loss)"; done
  awk -v limit="$1" -v a="$(printf '%s' "$here_line" | figure first_loss)" -v b="$(printf '%s' "$cpu_line" | figure first_loss)" \
    -v c="$(printf '%s' "$here_line" | figure second_loss)" -v d="$(printf '%s' "$cpu_line" | figure second_loss)" \
    'BEGIN {x = a - b; y = c - d; if (x < 0) x = -x; if (y < 0) y = -y; exit !(a != "" && b != "" && x <= limit && y <= limit)}'
}

bench_step() { # BATCH [FLAG...]: one line of JSON
  ours bench step --json --device "$device" --batch "$1" --layers "$layers" "${@:2}"
}

# The ways to compute a step, the usual one first: what is set and to what.  One that fails leaves a figure to the next.
ways=(MILLRACE_GRAPH=on MILLRACE_GRAPH=off MILLRACE_CUDNN=off "MILLRACE_CUBLASLT=off MILLRACE_CUDNN=off" MILLRACE_ATTENTION=opened
  MILLRACE_CUDA_POOL=off "MILLRACE_SKIP_PASSES=fuse,join,merge")

# The step alone, with the algorithms of one tuning file, or with "off" of none.
stage_bench() { # TUNING BATCH...
  local line batch way wanted=$# got=1 steps=(${STEPS:+--steps "$STEPS"})
  export MILLRACE_TUNING=$work/$1
  [ "$1" != off ] || MILLRACE_TUNING=off
  shift
  for batch in "$@"; do
    [ -n "${STEPS:-}" ] || [ "$batch" -lt 1024 ] || steps=(--steps 40)
    for way in "${ways[@]}"; do
      # shellcheck disable=SC2086,SC2163 # words, each with its value
      line=$(export $way && bench_step "$batch" ${steps[@]+"${steps[@]}"}) || { echo "$way: $line"; continue; }
      echo "$line"
      [ "$way" = "${ways[0]}" ] || note "with $batch" "$way"
      note "step_s $batch" "$(printf '%s' "$line" | figure step_s)"
      note "images_per_s $batch" "$(printf '%s' "$line" | figure images_per_s)"
      note "step_with_copy_s $batch" "$(printf '%s' "$line" | figure step_with_copy_s)"
      got=$((got + 1))
      break
    done
  done
  [ $got = "$wanted" ]
}

# Which part a wrong loss comes from: the losses of a step with parts of the backend switched off one by one.
stage_bisect() {
  local way line
  export MILLRACE_TUNING=off
  for way in "${ways[@]}" MILLRACE_KERNELS=off MILLRACE_SYNC=1; do
    # shellcheck disable=SC2086,SC2163 # words, each with its value
    line=$(export $way && bench_step "$small" --steps 1 --warm-up 0) || { note "$way" failed; echo "$line"; continue; }
    note "$way" "$(printf '%s' "$line" | figure first_loss) $(printf '%s' "$line" | figure second_loss)"
  done
}

# Where the time of a step goes, call by call.
stage_profile() {
  ours profile --device "$device" --steps 5 --json "$work/profile-step.json" batch="$small" layers="$layers" || return
  note step_ms "$(tr -d "\n\t" <"$work/profile-step.json" | figure step_ms)"
}

# The same, each kernel given by the host.
stage_graph_off() { # BATCH...
  export MILLRACE_GRAPH=off
  stage_bench products.txt "$@"
}

# Training with loading, copies and sinks, on pictures of one dtype: the median step of 40, as images a second.
stage_pictures() { # DTYPE BATCH...
  local dtype=$1 batch run step
  export MILLRACE_TUNING=$work/products.txt
  shift
  for batch in "$@"; do
    run=$work/pictures-$dtype-$batch
    rm -rf "$run"
    ours train --data synthetic --steps "${STEPS:-40}" --device "$device" --run-dir "$run" \
      batch="$batch" layers="$layers" normalize.dtype="$dtype" seed=3 >/dev/null || return
    step=$(figure step_p50_s <"$run/metrics.jsonl")
    [ -n "$step" ] || return
    note "images_per_s $batch" "$(awk "BEGIN {printf \"%.0f\", $batch / $step}")"
    rm -rf "$run"
  done
}

# The peers, timed as bench step times: each case is in running.json as soon as it is measured.
stage_peer() { # VARIANT CUT SECONDS
  "${PYTHON:-python3}" -c 'import '"${1%%-*}" || skip "${1%%-*} is not installed"
  local line last='' to=$work/peer-$1.jsonl status
  rm -f "$to"
  "${PYTHON:-python3}" "$pack/peers/vit_step_gpu.py" --variants "$1" --batches "$small,$large" --cut "$2" --seconds "$3" --out "$to" |
    while read -r line; do
      echo "$line"
      last="batch $(printf '%s' "$line" | figure batch)"
      note "$last step_ms" "$(printf '%s' "$line" | figure step_ms)"
      note "$last with_copy_ms" "$(printf '%s' "$line" | figure step_with_copy_ms)"
      note "$last attention" "$(printf '%s' "$line" | sed -nE 's/.*"attention": "([^"]*)".*/\1/p')"
    done
  status=${PIPESTATUS[0]}
  [ -s "$to" ] && ! grep -q '"error"' "$to" && return "$status"
}

stage_train() {
  local data=${DATA:-synthetic}
  note data "${DATA:-synthetic pictures}"
  rm -rf "$work/train"
  ours train --data "$data" --epochs 20 ${STEPS:+--steps "$STEPS"} --device "$device" --run-dir "$work/train" \
    batch="$small" layers="$layers" || return
  tail -n 3 "$work/train/metrics.jsonl"
  note last "$(tail -n 1 "$work/train/metrics.jsonl" | cut -c1-300)"
}

# The ten kernels of a step that take the longest, each given by the host, with what ncu says of their limits.  ncu runs
# each kernel several times and writes its table at the end: three blocks have every kernel of the recipe, in 168
# starts a step, of which those of the warm-up are skipped.
stage_kernels() {
  local metric=gpu__time_duration.sum
  command -v ncu >/dev/null || skip "ncu is missing"
  metric=$metric,sm__throughput.avg.pct_of_peak_sustained_elapsed,dram__throughput.avg.pct_of_peak_sustained_elapsed
  metric=$metric,launch__registers_per_thread
  MILLRACE_GRAPH=off LD_LIBRARY_PATH=$pack/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ncu --clock-control none --launch-skip 200 --launch-count 200 \
    --csv --page raw --print-units base --metrics "$metric" --log-file "$work/ncu.csv" \
    "$pack/bin/millrace" bench step --device "$device" --layers 3 --steps 2 --warm-up 1 || { tail -n 5 "$work/ncu.csv"; return 1; }
  longest_kernels "$work/ncu.csv" | tee "$work/longest.txt"
  [ -s "$work/longest.txt" ] || return
  while IFS=$'\t' read -r key value; do note "$key" "$value"; done <"$work/longest.txt"
}

# Of ncu's table, one kernel a row below the rows of names and units: the ten of the longest time, longest first.
longest_kernels() { # CSV
  "${PYTHON:-python3}" - "$1" <<'EOF'
import csv, sys
lines = [line for line in open(sys.argv[1], errors='replace') if line.startswith('"')]
rows = list(csv.DictReader(lines))[1:]
def number(row, name):
    try: return float(row[name].replace(',', ''))
    except (KeyError, ValueError): return 0.0
rows.sort(key=lambda row: -number(row, 'gpu__time_duration.sum'))
for i, row in enumerate(rows[:10]):
    print('kernel %d\t%s grid %s block %s: %.2f us, %.0f %% of arithmetic, %.0f %% of memory, %d registers' % (
        i + 1, row.get('Kernel Name', '')[:90].split('(')[0], row.get('Grid Size', ''), row.get('Block Size', ''),
        number(row, 'gpu__time_duration.sum') / 1e3,
        number(row, 'sm__throughput.avg.pct_of_peak_sustained_elapsed'),
        number(row, 'dram__throughput.avg.pct_of_peak_sustained_elapsed'),
        number(row, 'launch__registers_per_thread')))
EOF
}

# The folders of CUDA's libraries in the packages of PYTHON, a venv's too, separated by ':'.
python_libraries() {
  "${PYTHON:-python3}" -c 'import glob, site
places = site.getsitepackages() + [site.getusersitepackages()]
print(":".join(at for p in places for at in sorted(glob.glob(p + "/nvidia/*/lib"))))' 2>/dev/null
}

# Waits until the device opens: 60 s at most, and as long only if the machine has a GPU.  Sets device to an OpenCL one of
# NVIDIA's if CUDA was not asked for by name and does not open, as behind a driver that is older than CUDA's libraries.
need_device() {
  local list said='' opencl begun=$SECONDS limit=$((60 * SCALE)) status
  while :; do
    list=$(ours_within $((limit - SECONDS + begun)) doctor)
    status=$?
    said=$(sed -nE "s/^ +${device%%:*} +//p" <<<"$list" | head -n 1)
    ! grep -qE "^ +$device(:[0-9]+)? " <<<"$list" || { slack=$((slack + limit - SECONDS + begun)); return 0; }
    said=${said:-device $device: doctor lists no such device}
    [ $status != 137 ] || said="device $device: doctor has not ended within $limit s"
    { [ -e "$gpu_file" ] && [ $((SECONDS - begun + 5)) -lt $limit ]; } || break
    sleep 5
  done
  opencl=$(sed -nE 's/^ +(opencl:[0-9]+) .*NVIDIA.*/\1/p' <<<"$list" | head -n 1)
  slack=$((slack + limit - SECONDS + begun))
  [ $slack -gt 0 ] || slack=0
  echo "gpu_check: $said" >&2
  { [ -z "${DEVICE:-}" ] && [ -n "$opencl" ]; } || { without=$said; return 1; }
  device=$opencl
  echo "gpu_check: $device is measured in its place" >&2
}

# SIGKILL, since a driver that hangs hears nothing else.
ours_within() { # SECONDS ARGUMENT...
  LD_LIBRARY_PATH=$pack/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout -s KILL "$1" "$pack/bin/millrace" "${@:2}"
}

# A stage that computes here: without the device it has no line of its own, as the reason is said once.
on_device() { # stage|spare NAME SECONDS FUNCTION [ARGUMENT...]
  [ -n "$without" ] || "$@"
}

# Limits and need_device's 60 s add up to 270 s in run1 and 390 s in run2: both, and two starts of such a machine of two
# minutes each, fit into 900 s.

run1() {
  stage probe 15 probe
  need_device
  if [ -z "$without" ]; then
    stage step 30 step 2e-2
    [ "$result" = ok ] || bad=1
    stage bench-128 20 bench off "$small"
    stage bench-4096 30 bench off "$large"
  fi
  stage peer-compile 60 peer torch-compile 1 3
  stage peer-jax 50 peer jax 1 3
  [ $bad = 0 ] || on_device spare bisect 30 bisect
}

run2() {
  stage probe2 10 probe
  need_device
  if [ -z "$without" ]; then
    stage tests 75 tests
    stage tune 45 tune "$small" "$large"
    stage tuned 25 bench products.txt "$small" "$large"
    stage profile 15 profile
    stage kernels 55 kernels
    stage limits 20 limits
    stage parity-bf16 25 parity bf16 1e-2
    stage attention 30 attention "$small" "$large"
    stage graph-off 15 graph_off "$small"
    stage u8 15 pictures u8 "$small" "$large"
  fi
  rest spare
}

run3() {
  need_device
  rest stage
}

# What is worth least: in run2 as far as its time allows.
rest() { # stage|spare
  on_device "$1" parity-f32 25 parity f32 1e-3
  on_device "$1" twice 20 twice
  on_device "$1" sanitizer 60 sanitizer
  on_device "$1" f32 20 pictures f32 "$small" "$large"
  on_device "$1" starts 30 starts
  "$1" peer-compile-uncut 60 peer torch-compile 0 3
  "$1" peer-jax-uncut 50 peer jax 0 3
  "$1" peer-eager 50 peer torch-eager 1 3
  "$1" peer-max 150 peer torch-max 1 3
  on_device "$1" train 85 train
}

# What every stage needs: OUT, the pack, the libraries, and where CUDA's are.
prepare() { # OUT
  local packages folder
  unpack || exit 1
  mkdir -p "$1" "${WORK:-$here/work}" || exit 1
  back=$(cd "$1" && pwd) work=$(cd "${WORK:-$here/work}" && pwd) fresh=$work
  # A file is renamed into OUT, which is whole only within one file system.
  [ "$(stat -c %d "$work")" = "$(stat -c %d "$back")" ] || { fresh=$back/new && mkdir -p "$fresh" || exit 1; }
  if [ -e "$back/running.json" ]; then # of a run that was killed
    add_line "$(sed 's/"result": "running"/"result": "killed"/' "$back/running.json")"
    rm -f "$back/running.json"
  fi
  # Driver folders of containers, behind the caller's own: LD_LIBRARY_PATH may be the only way to the driver.
  for folder in /usr/local/nvidia/lib64 /usr/local/nvidia/lib; do
    [ ! -e "$folder/libcuda.so.1" ] || LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
  done
  [ -z "${LD_LIBRARY_PATH:-}" ] || export LD_LIBRARY_PATH
  export MILLRACE_KERNELS=$work/kernels # not the user's, whose programs may be there before
  [ ! -d /usr/local/cuda/bin ] || PATH=$PATH:/usr/local/cuda/bin
  packages=$(python_libraries)
  MILLRACE_CUDA_LIBRARIES=${MILLRACE_CUDA_LIBRARIES:-}${MILLRACE_CUDA_LIBRARIES:+${packages:+:}}$packages
  export MILLRACE_CUDA_LIBRARIES small large layers
  # Without persistence the driver starts the card anew for each process, unless one keeps it open.
  { exec 9<"$gpu_file"; } 2>/dev/null
  trap 'end_group; exit 143' HUP INT TERM # a stage is not in the process group of the run
}
gpu_file=${GPU_FILE:-/dev/nvidia0}
without= # why the device does not open
bad=0    # 1: a loss is wrong

# One file of what is worth keeping: a machine may give back few files, and none of deep folders.  Of a large file its end.
keep_results() {
  local f
  rm -rf "$work/keep" && mkdir "$work/keep" || return
  (
    cd "$work" &&
      find . \( -name checkpoints -o -path ./kernels -o -path ./starts -o -path ./keep \) -prune -o -type f \
        \( -name '*.log' -o -name '*.json' -o -name '*.jsonl' -o -name '*.csv' -o -name '*.txt' \) -print0 |
      while IFS= read -r -d '' f; do
        mkdir -p "keep/${f%/*}" && tail -c 400000 "$f" >"keep/$f"
      done
    cp "$back/results.jsonl" keep/ 2>/dev/null
    tar -C keep -czf - .
  ) | put "$run.tar.gz"
}

case ${1:-} in
  pack)
    [ $# = 2 ] || usage
    pack "$2"
    ;;
  run1 | run2 | run3)
    [ $# -le 2 ] || usage
    run=$1
    prepare "${2:-$here/out}"
    "$run"
    keep_results || exit 1
    echo "gpu_check: $back: $(find "$back" -type f | wc -l) files, $(du -sb "$back" | cut -f1) bytes" >&2
    [ -z "$without" ]
    ;;
  one)
    { [ $# -ge 5 ] && [[ $4 =~ ^[1-9][0-9]{0,3}$ ]] && declare -F "stage_$5" >/dev/null; } || usage
    run=$1
    prepare "$2"
    shift 2
    stage "$@"
    [ "$result" = ok ] || [ "$result" = skipped ]
    ;;
  stage) # in a process that timeout can end
    check=stage_$2
    shift 2
    "$check" "$@"
    ;;
  *) usage ;;
esac
