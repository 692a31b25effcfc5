# Sourced by checks: start_slurm DIR CONTROL-PORT PORT... starts a cluster of Slurm on this machine, as root, a node n1, n2 and
# so on for each port, with a key of its own; sets SLURM_CONF.  The caller ends the daemons, whose numbers are in slurm_pids.
# shellcheck shell=bash
slurm_pids=()
start_slurm() {
  local dir=$1 control=$2 host n name nodes ports
  shift 2
  n=$#
  host=$(hostname -s)
  ports=$(IFS=,; echo "$*")
  nodes=n[1-$n]
  [ "$n" -gt 1 ] || nodes=n1
  mkdir -p "$dir/munge" "$dir/state"
  chmod 755 "$dir"
  head -c 128 /dev/urandom >"$dir/munge/key"
  chmod 700 "$dir/munge/key"
  munged --foreground --force --socket="$dir/munge.sock" --key-file="$dir/munge/key" --log-file="$dir/munge/log" \
    --pid-file="$dir/munge/pid" --seed-file="$dir/munge/seed" >"$dir/munge/out" 2>&1 &
  slurm_pids+=($!)
  # A job that is put back into the queue waits until the credentials of its last start are void, and 5 s are the least.
  cat >"$dir/slurm.conf" <<CONF
ClusterName=ranks
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$control
SlurmUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$dir/munge.sock,cred_expire=5
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool-%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName=$nodes NodeHostname=$host NodeAddr=127.0.0.1 Port=$([ "$n" -gt 1 ] && echo "[$ports]" || echo "$ports") CPUs=2
PartitionName=all Nodes=ALL Default=YES
CONF
  export SLURM_CONF=$dir/slurm.conf
  slurmctld -D -f "$SLURM_CONF" >"$dir/slurmctld.log" 2>&1 &
  slurm_pids+=($!)
  for ((name = 1; name <= n; name++)); do
    mkdir -p "$dir/spool-n$name"
    slurmd -D -N "n$name" -f "$SLURM_CONF" >"$dir/slurmd-n$name.log" 2>&1 &
    slurm_pids+=($!)
  done
}
