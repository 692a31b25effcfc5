#!/usr/bin/env bash
# What docs/operations.md says of systemd and containers, by systemd-nspawn.  A systemd that boots in a container enables,
# reloads, kills and disables the unit of examples/cluster; in a container whose calls of io_uring are denied millrace is
# process 1, says how it reads, and ends by SIGTERM with a checkpoint and status 143.  The system is this
# machine's /usr, read-only.  Needs build/release/millrace, or $MILLRACE, systemd-nspawn (systemd-container) and root; without
# the latter two it says so and checks nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
skip() { echo "systemd: not checked: $*"; exit 0; }
[ "$(id -u)" = 0 ] || skip "this needs root"
[ -n "$(command -v systemd-nspawn)" ] || skip "there is no systemd-nspawn"
program=$PWD/${MILLRACE:-build/release/millrace}
dir=$(mktemp -d)
host=
end() {
  [ -z "$host" ] || kill -KILL "$host" 2>/dev/null || true
  [ -z "$host" ] || wait "$host" 2>/dev/null || true
  rm -rf "$dir"
}
trap end EXIT
fail() { echo "systemd: $*" >&2; tail -n 20 "$dir"/*.log >&2 || true; exit 1; }
wait_for() { # SECONDS WHAT COMMAND...
  local until=$((SECONDS + $1))
  until "${@:3}" >/dev/null 2>&1; do
    [ $SECONDS -lt $until ] || fail "$2 does not happen"
    sleep 0.1
  done
}

# A root of links into /usr, which has the program where its package puts it.
root=$dir/root
mkdir -p "$root"/{usr,etc/millrace,etc/systemd/system/multi-user.target.wants,tmp,var/lib,proc,sys,dev,run} "$dir/usr/bin"
for name in bin sbin lib lib64; do ln -s "usr/$name" "$root/$name"; done
cp "$program" "$dir/usr/bin/millrace"
cp -r /etc/alternatives /etc/ld.so.conf /etc/ld.so.conf.d /etc/ld.so.cache "$root/etc"
printf 'root:x:0:0::/root:/bin/sh\nmessagebus:x:100:100::/:/bin/false\nmillrace:x:990:990::/var/lib/millrace:/bin/false\n' >"$root/etc/passwd"
printf 'root:x:0:\nmessagebus:x:100:\nmillrace:x:990:\n' >"$root/etc/group"
printf 'ID=check\n' >"$root/etc/os-release"
: >"$root/etc/machine-id"
cp examples/cluster/millrace@.service "$root/etc/systemd/system"
cat >"$root/etc/millrace/small.mr" <<'GRAPH'
let run = unset
synthetic n=200 split=train ! shuffle seed=1 epochs=100000 ! normalize preset=cifar10 ! batch 10 drop-remainder
  ! train-step name=train model=vit layers=1 embed=16 mlp=16 heads=2 lr=1e-3 threads=1 patch=16 watch-every=0
train.metrics ! progress
train.metrics ! jsonl path=$run/metrics.jsonl
train.state ! checkpoint dir=$run/checkpoints
GRAPH
echo 'ARGUMENTS=--graph /etc/millrace/small.mr' >"$root/etc/millrace/first.conf"

container() { # LOG [NSPAWN'S OPTIONS...]
  systemd-nspawn --quiet --register=no --keep-unit --directory="$root" --overlay-ro="/usr:$dir/usr:/usr" "${@:2}" >"$1" 2>&1 </dev/null &
  host=$!
}
leader() { pgrep -P "$host" | head -n 1; }
inside() { nsenter -t "$(leader)" -m -u -i -n -p "$@"; }

container "$dir/probe.log" --as-pid2 -- /bin/true
wait "$host" || skip "no container starts here: $(tail -n 1 "$dir/probe.log")"
host=

# ---- systemd and the unit ----

run=$root/var/lib/millrace/first
newest_step() {
  local name
  name=$(readlink "$run/checkpoints/latest")
  name=${name#step-}
  echo $((10#${name%.safetensors}))
}
show() { inside systemctl show --property "$1" --value millrace@first; }
is() { [ "$(show "$1")" = "$2" ]; }
killed() { [ "$(show Result)" = signal ]; }
restarted() { [ "$(show NRestarts)" -ge 1 ] && is SubState running; }
beyond() { [ "$(newest_step)" -gt "$1" ]; }

container "$dir/boot.log" --boot
wait_for 60 "the start of systemd" inside systemctl is-active multi-user.target
sed -i 's/^RestartSec=30/RestartSec=1/' "$root/etc/systemd/system/millrace@.service" # the unit but for this wait
inside systemctl daemon-reload
inside systemctl enable --now millrace@first 2>"$dir/enable.log"
[ -L "$root/etc/systemd/system/multi-user.target.wants/millrace@first.service" ] || fail "no boot starts the unit"
wait_for 60 "a checkpoint of the unit" test -e "$run/checkpoints/latest"
[ "$(stat -c %u "$run")" = 990 ] || fail "the run's folder is not the user's"
before=$(newest_step)
inside systemctl reload millrace@first
wait_for 60 "a checkpoint after the reload" beyond "$before"
is SubState running || fail "the reload ends the run"
inside kill -KILL "$(show MainPID)"
wait_for 60 "the end by SIGKILL" killed
wait_for 60 "the next start" restarted
inside systemctl disable --now millrace@first 2>"$dir/disable.log"
is ActiveState inactive || fail "the unit is $(show ActiveState) after disable"
is Result success || fail "its end is $(show Result)"
steps=$(newest_step)
inside journalctl --unit millrace@first --output cat --no-pager >"$dir/journal.log"
grep -q 'stopping after this step, with a checkpoint' "$dir/journal.log" || fail "systemd's SIGTERM is not said"
ledger=$(grep '^ledger ' "$dir/journal.log" | tail -n 1)
inside systemctl poweroff
wait "$host" || true
host=
"$program" train --graph "$root/etc/millrace/small.mr" --run-dir "$dir/whole" "train.steps=$steps" >"$dir/whole.log" 2>&1 </dev/null || fail "the undisturbed run fails"
[ "$ledger" = "$(grep '^ledger ' "$dir/whole.log")" ] || fail "$ledger, an undisturbed run has $(grep '^ledger ' "$dir/whole.log")"

# ---- process 1 of a container without io_uring ----

rm -rf "$run"
container "$dir/container.log" --system-call-filter='~io_uring_setup io_uring_enter io_uring_register' -- \
  /usr/bin/millrace train --graph /etc/millrace/small.mr --run-dir /var/lib/millrace/first --resume=auto
wait_for 60 "a checkpoint in the container" test -e "$run/checkpoints/latest"
kill -TERM "$(leader)" # process 1 of the container
status=0
wait "$host" || status=$?
host=
[ "$status" = 143 ] || fail "process 1 ends with status $status, not 143"
grep -q '^Done: .*stopped on request' "$dir/container.log" || fail "process 1 does not end in order"
container "$dir/doctor.log" --as-pid2 --system-call-filter='~io_uring_setup io_uring_enter io_uring_register' -- /usr/bin/millrace doctor
wait "$host" || fail "doctor fails in the container"
host=
grep -q 'io_uring *refused .*: records are read with pread' "$dir/doctor.log" || fail "doctor does not say that io_uring is refused"
echo "systemd: the unit starts at boot, is reloaded, killed, restarted and ends with its ledger; process 1 of a container without io_uring ends with 143"
