#!/usr/bin/env bash
# Checks and measures device cuda on a machine that has a GPU but neither this tree nor its libraries.
#
#   scripts/gpu_check.sh pack DIR      here: program, tests, vectors, peers and libraries into DIR, at most 60 MB
#   DIR/gpu_check.sh run1|run2 [OUT]   there: checks, then figures, each in under ten minutes
#   DIR/gpu_check.sh one OUT NAME SECONDS STAGE [ARGUMENT...]   there: one stage, as run1 and run2 (below) list them
#
# CUDA's own libraries are not packed: that machine has them, in /usr/local/cuda or as Python packages.
# Without the device a run ends behind its first stage with a sentence that says why, and status 1.
# Every stage has a limit and adds one line of JSON to OUT/results.jsonl (OUT: DIR/out) as it ends; a stage
# that fails or is too slow does not keep the next one from running.  OUT/STAGE.log is its output.  What a stage
# has started is dead before the next one begins.  A run ends with OUT/results-RUN.tar.gz, all of OUT that is worth
# keeping in one file.
#
# BUILD  pack: the folder of its build, default build/gpu: optimised, with the core libraries and CUDA alone
# CUDA   pack: OFF builds without it; OPENCL=ON builds with OpenCL, so that DEVICE=opencl tries a pack without a GPU
# DATA   CIFAR-10 in its binary layout; without it runs train on synthetic pictures, which results say
# PYTHON the Python of the peers (torch, jax, optax), default python3; CUDA's libraries are looked for in its packages first
# DEVICE what is checked, default cuda
# SCALE  a whole number that multiplies the limits of stages, which are for a GPU; default 1
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
most=60000000 # bytes of a pack

usage() {
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
  exit 2
}

SCALE=${SCALE:-1}
[[ $SCALE =~ ^[1-9][0-9]{0,3}$ ]] || { echo "gpu_check: SCALE is $SCALE, want a whole number in [1,9999]" >&2; exit 2; }

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
  local root build to=$1 size
  local -a tests libs
  root=$(cd "$here/.." && pwd)
  build=${BUILD:-$root/build/gpu}
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMILLRACE_WITH=OFF \
    -DMILLRACE_WITH_OPENCL="${OPENCL:-OFF}" -DMILLRACE_CUDA="${CUDA:-ON}" >/dev/null || exit 1
  mapfile -t tests < <(gpu_tests "$build")
  [ ${#tests[@]} != 0 ] || [ "${CUDA:-ON}" = OFF ] || { echo "gpu_check: the build has no test with the label gpu" >&2; exit 1; }
  ninja -C "$build" millrace ${tests[@]+"${tests[@]}"} || exit 1
  tests=(${tests[@]+"${tests[@]/#/$build/tests/}"})
  rm -rf "$to"
  mkdir -p "$to/bin" "$to/tests" "$to/golden" "$to/lib" "$to/peers" || exit 1
  cp "$build/millrace" "$to/bin/"
  [ ${#tests[@]} = 0 ] || cp "${tests[@]}" "$to/tests/"
  cp -r "$root/tests/golden/vit" "$to/golden/"
  mkdir "$to/share" && cp -r "$root/share" "$to/share/millrace" || exit 1
  mapfile -t libs < <(libraries "$build/millrace" ${tests[@]+"${tests[@]}"})
  cp -L "${libs[@]}" "$to/lib/"
  strip "$to"/bin/* "$to"/tests/* 2>/dev/null
  gzip "$to"/lib/* # most of a pack; a run unpacks them
  cp "$root"/bench/peers/vit_step_gpu.py "$to/peers/"
  cp "$here/gpu_check.sh" "$to/"
  git -C "$root" rev-parse HEAD >"$to/commit" 2>/dev/null || echo unknown >"$to/commit"
  size=$(du -sb "$to" | cut -f1)
  echo "gpu_check: $to: ${#tests[@]} tests, ${#libs[@]} libraries, $size bytes"
  [ "$size" -le $most ] || { echo "gpu_check: the pack has $size bytes, want at most $most" >&2; exit 1; }
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

# A stage's own figures: note NAME VALUE, into the line that it adds.
note() { printf '%s\t%s\n' "$1" "$2" >>"$notes"; }

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

spent=0 # seconds of all limits
result= # of the stage that ended last

# stage NAME SECONDS FUNCTION [ARGUMENT...]
stage() {
  local name=$1 limit=$(($2 * SCALE)) begun status line key value
  shift 2
  spent=$((spent + limit))
  notes=$out/$name.notes
  export notes
  : >"$notes"
  begun=$(date +%s.%N)
  timeout "$limit" bash "$here/gpu_check.sh" stage "$out" "$@" >"$out/$name.log" 2>&1 </dev/null &
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
  line="{\"run\": \"$run\", \"stage\": \"$name\", \"result\": \"$result\", \"status\": $status"
  line="$line, \"seconds\": $(awk "BEGIN {printf \"%.1f\", $(date +%s.%N) - $begun}"), \"limit\": $limit"
  line="$line, \"commit\": $(json_text "$(cat "$here/commit" 2>/dev/null)")"
  while IFS=$'\t' read -r key value; do line="$line, $(json_text "$key"): $(json_value "$value")"; done <"$notes"
  [ $result = ok ] || line="$line, \"last\": $(json_text "$(tail -n 3 "$out/$name.log" | cut -c1-300)")"
  echo "$line}" | tee -a "$out/results.jsonl"
  rm -f "$notes"
}

skip() { # REASON
  echo "skipped: $1"
  exit 77
}

ours() { LD_LIBRARY_PATH=$here/lib "$here/bin/millrace" "$@"; }
device=${DEVICE:-cuda}

# The value of "NAME": NUMBER in the text of a line of JSON.
figure() { sed -nE "s/.*\"$1\": ?(-?[0-9.eE+-]+).*/\1/p" | tail -n 1; }

stage_probe() {
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
  local to=$out/share/cuda/devices name
  mkdir -p "$to"
  ours doctor --describe "$device" >"$to/new" || return
  name=$(sed -n 's/^name //p' "$to/new" | tr -c 'A-Za-z0-9._\n' '-')
  mv "$to/new" "$to/$name.txt"
  cat "$to/$name.txt"
  note description "$name"
}

# What the device can do, measured: the roofs of all figures.  On CUDA that of bf16 is a product of 8192^3.
stage_limits() {
  ours profile --device "$device" --steps 1 --json "$out/profile.json" || return
  grep -oE '"(f32_gflops|bf16_gflops|copy_gbs)":[[:space:]]*[0-9.]+' "$out/profile.json" | tr -d '"[:blank:]' |
    while IFS=: read -r key value; do note "$key" "$value"; done
  [ "${device%%:*}" != cuda ] || describe_device
}

# The tests, all at once, each on few threads; what they print is in OUT/tests.  The notes are right whenever the
# stage is ended: a test that hangs does not hide the verdicts of the others.
stage_tests() {
  local t
  rm -rf "$out/tests"
  mkdir "$out/tests" || return
  set -- "$here"/tests/*
  [ -e "$1" ] || skip "the pack has no tests"
  export OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive
  for t in "$@"; do
    (
      LD_LIBRARY_PATH=$here/lib MR_VECTORS=$here/golden "$t" "$device" >"$out/tests/${t##*/}.log" 2>&1
      echo $? >"$out/tests/${t##*/}.status"
    ) &
  done
  note_tests "$@"
  for t in "$@"; do
    wait -n
    note_tests "$@"
  done
  tail -v -n 20 "$out"/tests/*.log
  note_tests "$@"
}

# Writes the stage's notes anew, of the tests that have ended; fails if one has failed or not ended, or none has passed.
note_tests() { # TEST...
  local t status passed=0 skipped=0 bad=0 running='' all=$notes
  local notes=$all.new
  : >"$notes"
  for t in "$@"; do
    t=${t##*/}
    status=$(cat "$out/tests/$t.status" 2>/dev/null)
    case $status in
      '') running="$running $t" ;;
      0) passed=$((passed + 1)) ;;
      77) skipped=$((skipped + 1)) ;;
      *) bad=$((bad + 1)) && note "failed: $t" "$(grep -E '^\[  FAILED' "$out/tests/$t.log" | sort -u | head -n 5 | cut -c1-100)" ;;
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
  export MILLRACE_KERNELS=$out/starts
  rm -rf "$out/starts"
  for which in cold warm; do
    begun=$(date +%s.%N)
    ours bench step --device "$device" --batch 128 --steps 1 --warm-up 0 || return
    note ${which}_s "$(awk "BEGIN {printf \"%.2f\", $(date +%s.%N) - $begun}")"
  done
  note programs "$(find "$out/starts" -name '*.kernel' | wc -l)"
}

# 50 steps of a small model from one start, here and on the CPU: the largest difference of the losses.
stage_parity() { # DTYPE LIMIT
  local where
  rm -rf "$out/parity-$1"-*
  for where in cpu "$device"; do
    ours train --data synthetic --steps 50 --device "$where" --run-dir "$out/parity-$1-${where%%:*}" \
      batch=64 layers=2 train.dtype="$1" dropout=0 seed=7 >/dev/null || return
  done
  paste <(losses "$out/parity-$1-cpu") <(losses "$out/parity-$1-${device%%:*}") >"$out/parity-$1.txt"
  awk -v limit="$2" '{d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d; n++}
    END {print n + 0, most + 0; exit !(n >= 50 && most <= limit)}' "$out/parity-$1.txt" >"$out/parity-$1.sum"
  local status=$?
  note steps "$(cut -d' ' -f1 "$out/parity-$1.sum")"
  note largest_difference "$(cut -d' ' -f2 "$out/parity-$1.sum")"
  return $status
}

losses() { sed -nE '/"kind":"step"/s/.*"loss":([0-9.eE+-]+).*/\1/p' "$1/metrics.jsonl"; }

# Two runs of the same steps give the same checkpoint.
stage_twice() {
  local i
  rm -rf "$out"/twice-*
  for i in 1 2; do
    ours train --data synthetic --steps 20 --device "$device" --run-dir "$out/twice-$i" batch=128 seed=3 >/dev/null || return
  done
  cmp "$out"/twice-{1,2}/checkpoints/step-000020.safetensors
}

# One step under CUDA's own checker of memory accesses.  A call that CUDA refuses is no error here: some only ask.
stage_sanitizer() {
  command -v compute-sanitizer >/dev/null || skip "compute-sanitizer is missing"
  LD_LIBRARY_PATH=$here/lib compute-sanitizer --error-exitcode 9 --report-api-errors no --launch-timeout 0 \
    "$here/bin/millrace" bench step --device "$device" --batch 4 --layers 1 --steps 1 --warm-up 1
}

# Attention of the recipe by cuDNN and by the kernel of one group a head: the milliseconds of a block's pass, beside the test of both
# against the CPU in f64.
stage_attention() { # BATCH...
  local batch way op ms
  [ ! -e "$here/tests/test_model_device_attention" ] ||
    LD_LIBRARY_PATH=$here/lib "$here/tests/test_model_device_attention" "$device" || return
  for batch in "$@"; do
    for way in cudnn own; do
      MILLRACE_ATTENTION=$way ours profile --device "$device" --steps 3 --json "$out/attention.json" \
        batch="$batch" layers=1 || return
      for op in attention attention_vjp; do
        ms=$(tr -d '\n\t' <"$out/attention.json" | grep -oE "\"op\":\"$op\",[^}]*\"ms\":[0-9.eE+-]+" | figure ms)
        note "${op}_ms $way $batch" "${ms:-opened}"
      done
    done
  done
}

# Algorithms of the products of one batch size are measured and kept.
stage_tune() { # BATCH...
  local batch
  export MILLRACE_TUNE=1 MILLRACE_TUNING=$out/products.txt
  for batch in "$@"; do
    ours bench step --device "$device" --batch "$batch" --steps 1 --warm-up 1 || return
  done
  note products "$(($(wc -l <"$out/products.txt") - 1))"
  shipped_tunings "$out/products.txt" "$out/share/cuda/products"
  note shipped "$(cd "$out/share/cuda/products" && echo *)"
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

# The step alone, with the algorithms of one tuning file, or with "off" of none.
stage_bench() { # TUNING BATCH...
  local line batch
  export MILLRACE_TUNING=$out/$1
  [ "$1" != off ] || MILLRACE_TUNING=off
  shift
  for batch in "$@"; do
    line=$(ours bench step --json --device "$device" --batch "$batch" --steps 20 --warm-up 5) || { echo "$line"; return 1; }
    echo "$line"
    note "images_per_s $batch" "$(printf '%s' "$line" | figure images_per_s)"
    note "step_s $batch" "$(printf '%s' "$line" | figure step_s)"
  done
}

# The same, each kernel given by the host.
stage_graph_off() { # BATCH...
  export MILLRACE_GRAPH=off
  stage_bench products.txt "$@"
}

# Training with loading, copies and sinks, on pictures of one dtype: the median step of 40, as images a second.
stage_pictures() { # DTYPE BATCH...
  local dtype=$1 batch run step
  export MILLRACE_TUNING=$out/products.txt
  shift
  for batch in "$@"; do
    run=$out/pictures-$dtype-$batch
    rm -rf "$run"
    ours train --data synthetic --steps 40 --device "$device" --run-dir "$run" \
      batch="$batch" normalize.dtype="$dtype" seed=3 >/dev/null || return
    step=$(grep '"kind":"step"' "$run/metrics.jsonl" | tail -n 1 | figure step_p50_s)
    note "images_per_s $batch" "$(awk "BEGIN {printf \"%.0f\", $batch / $step}")"
    rm -rf "$run"
  done
}

stage_peer() { # VARIANT BATCHES SECONDS
  "${PYTHON:-python3}" -c 'import '"${1%%-*}" || skip "${1%%-*} is not installed"
  local status line to=$out/peer-$1.jsonl
  rm -f "$to"
  "${PYTHON:-python3}" "$here/peers/vit_step_gpu.py" --variants "$1" --batches "$2" --seconds "$3" --out "$to"
  status=$?
  [ -e "$to" ] || return
  while read -r line; do
    note "batch $(printf '%s' "$line" | figure batch) cut $(printf '%s' "$line" | figure cut)" \
      "$(printf '%s' "$line" | figure images_per_s)"
  done <"$to"
  return $status
}

stage_train() {
  local data=${DATA:-synthetic}
  note data "${DATA:-synthetic pictures}"
  rm -rf "$out/train"
  ours train --data "$data" --epochs 20 --device "$device" --run-dir "$out/train" || return
  tail -n 3 "$out/train/metrics.jsonl"
  note last "$(tail -n 1 "$out/train/metrics.jsonl" | cut -c1-300)"
}

# The ten kernels of a step that take the longest, each given by the host, with what ncu says of their limits.  ncu runs
# each kernel several times and writes its table at the end: three blocks have every kernel of the recipe, in 168
# starts a step, of which those of the warm-up are skipped.
stage_kernels() {
  local metric=gpu__time_duration.sum
  command -v ncu >/dev/null || skip "ncu is missing"
  metric=$metric,sm__throughput.avg.pct_of_peak_sustained_elapsed,dram__throughput.avg.pct_of_peak_sustained_elapsed
  metric=$metric,launch__registers_per_thread
  MILLRACE_GRAPH=off LD_LIBRARY_PATH=$here/lib ncu --clock-control none --launch-skip 200 --launch-count 200 \
    --csv --page raw --print-units base --metrics "$metric" --log-file "$out/ncu.csv" \
    "$here/bin/millrace" bench step --device "$device" --layers 3 --steps 2 --warm-up 1 || { tail -n 5 "$out/ncu.csv"; return 1; }
  longest_kernels "$out/ncu.csv" | tee "$out/longest.txt"
  [ -s "$out/longest.txt" ] || return
  while IFS=$'\t' read -r key value; do note "$key" "$value"; done <"$out/longest.txt"
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

# Fails with doctor's sentence if the device cannot be opened: every stage would fail for the same reason.
need_device() {
  local list said limit=$((20 * SCALE))
  list=$(LD_LIBRARY_PATH=$here/lib timeout -s KILL "$limit" "$here/bin/millrace" doctor)
  if [ $? = 137 ]; then
    said="device $device: doctor has not ended within $limit s"
  else
    said=$(sed -nE "s/^ +${device%%:*} +//p" <<<"$list" | head -n 1)
    grep -qE "^ +$device(:[0-9]+)? " <<<"$list" || said=${said:-device $device: doctor lists no such device}
  fi
  [ -z "$said" ] || { echo "gpu_check: $said" >&2; return 1; }
}

# The limits of a run add up to at most 560 s, which leaves the rest of ten minutes to what is not in a stage.

run1() {
  stage probe 25 probe
  need_device || return
  stage limits 30 limits
  stage tests 100 tests
  stage starts 30 starts
  stage parity-f32 30 parity f32 1e-3
  stage parity-bf16 30 parity bf16 1e-2
  stage twice 25 twice
  stage sanitizer 45 sanitizer
  stage bench-128 15 bench off 128
  stage attention 40 attention 128 4096
  stage tune 60 tune 128 1024 4096
  stage tuned 35 bench products.txt 128 1024 4096
  stage graph-off 30 graph_off 128 1024 4096
  stage f32 30 pictures f32 128 1024 4096
  stage u8 30 pictures u8 128 1024 4096
}

run2() {
  stage probe2 20 probe
  need_device || return
  stage peer-eager 55 peer torch-eager 128,1024,4096 3
  stage peer-compile 100 peer torch-compile 128,1024,4096 3
  stage peer-max 150 peer torch-max 128,1024 3
  stage peer-jax 90 peer jax 128,1024,4096 3
  stage train 85 train
  stage kernels 60 kernels
}

# What every stage needs: OUT, the libraries, and where CUDA's are.
prepare() { # OUT
  local packages
  mkdir -p "$1" || exit 1
  out=$(cd "$1" && pwd)
  [ -z "$(find "$here/lib" -name '*.gz')" ] || gunzip -f "$here"/lib/*.gz || exit 1
  export MILLRACE_KERNELS=$out/kernels # not the user's, whose programs may be there before
  [ ! -d /usr/local/cuda/bin ] || PATH=$PATH:/usr/local/cuda/bin
  packages=$(python_libraries)
  MILLRACE_CUDA_LIBRARIES=${MILLRACE_CUDA_LIBRARIES:-}${MILLRACE_CUDA_LIBRARIES:+${packages:+:}}$packages
  export MILLRACE_CUDA_LIBRARIES
  trap 'end_group; exit 143' HUP INT TERM # a stage is not in the process group of the run
}

# One file of what is worth keeping: a machine may give back few files, and none of deep folders.
keep_results() {
  local to=results-$run.tar.gz
  (
    cd "$out" &&
      find . \( -name checkpoints -o -path ./kernels -o -path ./starts \) -prune -o -type f \
        \( -name '*.log' -o -name '*.json' -o -name '*.jsonl' -o -name '*.csv' -o -name '*.txt' \) -print0 |
      tar -czf "$to" --null -T -
  ) && echo "gpu_check: $out/$to: $(wc -c <"$out/$to") bytes" >&2
}

case ${1:-} in
  pack)
    [ $# = 2 ] || usage
    pack "$2"
    ;;
  run1 | run2)
    [ $# -le 2 ] || usage
    run=$1
    prepare "${2:-$here/out}"
    "$run"
    status=$?
    keep_results || exit 1
    [ $spent -le $((560 * SCALE)) ] || { echo "gpu_check: the limits of $run add up to $spent s" >&2; exit 1; }
    exit $status
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
    out=$2 check=stage_$3
    shift 3
    "$check" "$@"
    ;;
  *) usage ;;
esac
