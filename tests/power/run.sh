#!/usr/bin/env bash
# Power cuts: a store on a file system in a file, which is shut down under it as a power cut would, again and
# again. What was acknowledged before the cut must be there after it.
#
#   run.sh CYCLES
#   run.sh can-mount   ends with 77 if mounting is not allowed here
#
#   FS=ext4|xfs        the file system
#   ERROR=1            the file system gives up by itself (an aborted journal, a shutdown) while the store goes on: what is
#                      acknowledged from then on counts too, as the kernel may confirm a sync that it did not make
#   CONTROL=skip-sync  the store leaves out the sync of its logs: nine in ten cycles must find losses
#   SEED=n             decides when power is cut
#   WORKLOAD=path      the program, if it is built already
#
# Without ERROR an acknowledgement counts if it was written before the shutdown was asked for.

set -euo pipefail

cycles=${1:?how many cycles?}
forbidden=77
fs=${FS:-ext4}
control=${CONTROL:-}
error=${ERROR:-}
here=$(cd "$(dirname "$0")" && pwd)
export PATH=$PATH:/usr/sbin:/sbin

forbid() { echo "mounting is not allowed here: $1" >&2; exit $forbidden; }
(( $(id -u) == 0 )) || forbid "not root"
unshare --mount true || forbid "no mount name space"

# Mounts are made in a name space of their own, so that none can be left behind.
if [[ ${POWER_NAMESPACE:-} != "$PPID" ]]; then
  POWER_NAMESPACE=$$ exec unshare --mount --propagation private --fork --kill-child "$BASH" "$0" "$@"
fi

if [[ -z ${WORKLOAD:-} && $cycles != can-mount ]]; then
  (cd "$here/../.." && cargo build --quiet --locked --package test-support --bin workload)
  WORKLOAD=$here/../../target/debug/workload
fi

place=$(mktemp -d)
image=$place/image mount=$place/mount acks=$place/acks
worker=
clean_up() {
  if [[ -n $worker ]]; then kill -9 "$worker" 2>/dev/null || true; fi
  wait
  umount --quiet "$mount" 2>/dev/null || true
  losetup --associated "$image" 2>/dev/null | cut -d: -f1 | xargs --no-run-if-empty losetup --detach || true
  if [[ ${keep:-} ]]; then echo "kept: $place"; else rm -rf "$place"; fi
}
trap clean_up EXIT
trap 'exit 130' INT TERM
mkdir "$mount"
exec 9<> <(:) # nothing ever comes: reading it with a time-out waits

RANDOM=$(( ${SEED:=$RANDOM} % 32768 ))
seed() { echo $(( (RANDOM << 30) | (RANDOM << 15) | RANDOM )); }

new_image() {
  rm -f "$image" "$acks"
  : >"$acks"
  case $fs in
    ext4) truncate --size 192M "$image"; mkfs.ext4 -q -F "$image" ;;
    xfs) truncate --size 320M "$image"; mkfs.xfs -q -f "$image" ;;
    *) echo "FS is ext4 or xfs, not $fs" >&2; exit 2 ;;
  esac
}

check_image() {
  case $fs in
    ext4) e2fsck -fn "$image" >"$place/fsck" 2>&1 ;;
    xfs) xfs_repair -n "$image" >"$place/fsck" 2>&1 ;;
  esac || { keep=1; echo "the file system is damaged:"; cat "$place/fsck"; exit 1; }
}

# The store asks for the id of the boot to know whether the page cache has survived; here it has not.
power_on() {
  uuidgen >"$place/boot" 2>/dev/null || cat /proc/sys/kernel/random/uuid >"$place/boot"
  mount --bind "$place/boot" /proc/sys/kernel/random/boot_id
  mount -o loop "$image" "$mount"
}

power_off() {
  umount "$mount"
  umount /proc/sys/kernel/random/boot_id
}

size() { stat --format %s "$acks"; }

run_workload() {
  local more=(--seed "$(seed)" --threads $(( RANDOM % 6 + 1 )) --ops 1000000)
  if (( RANDOM % 4 == 0 )); then more+=(--durability each); fi
  if [[ $control ]]; then more+=(--sabotage "$control"); fi
  "$WORKLOAD" run "$mount/store" --acks "$acks" "${more[@]}" >/dev/null 2>"$place/stderr" &
  worker=$!
}

# Cuts the power when the notes have grown enough; `sure` is how much of them was written before.
cut_power() {
  local more=$(( RANDOM % 24000 )) deadline=$(( SECONDS + 60 ))
  if [[ $control ]]; then
    more=$(( more + 4000 )) # so that there is something to lose
  elif (( RANDOM % 5 == 0 )); then
    more=1 # while it recovers
  fi
  local want=$(( $(size) + more ))
  while (( $(size) < want )); do
    if ! kill -0 "$worker" 2>/dev/null || (( SECONDS > deadline )); then
      keep=1
      echo "the workload stands still or has ended:"; cat "$place/stderr"; tail -3 "$acks"
      exit 1
    fi
    read -rt 0.002 -u 9 || true
  done
  sure=$(size)
  if [[ $error && $fs == ext4 ]]; then
    echo 1 >"/sys/fs/ext4/$(basename "$(findmnt --noheadings --output SOURCE "$mount")")/trigger_fs_error"
  else
    xfs_io -x -c shutdown "$mount"
  fi
  if [[ $error ]]; then
    read -rt 0.3 -u 9 || true # the store goes on for a while
  fi
  kill -9 "$worker" 2>/dev/null || true
  wait "$worker" 2>/dev/null || true
  worker=
  if [[ $error ]]; then sure=$(size); fi
}

# What was acknowledged later may have come too late.
mark_late() {
  { head --bytes "$sure" "$acks"; tail --bytes +$(( sure + 1 )) "$acks" | sed 's/^ack /late /'; } >"$acks.new"
  mv "$acks.new" "$acks"
}

if [[ $cycles == can-mount ]]; then
  new_image
  said=$(mount -o loop "$image" "$mount" 2>&1) || forbid "$said"
  umount "$mount"
  exit 0
fi

done=0 acked=0 lost=0 caught=0
new_image
while (( done < cycles )); do
  power_on
  run_workload
  cut_power
  power_off
  mark_late
  # A journal that was aborted leaves a mark that wants a check.
  if [[ $error && $fs == ext4 ]]; then e2fsck -fy "$image" >"$place/fsck" 2>&1 || true; fi
  power_on
  more=()
  if (( RANDOM % 2 )); then more+=(--unclean); fi
  if (( done % 10 == 9 )); then more+=(--oracle "$here/../oracle/check.py"); fi
  if (( done % 20 == 19 )); then more+=(--rebuild); fi
  acked=$(( acked + $(awk '$1 == "run" { n = 0 } $1 == "ack" { n++ } END { print n + 0 }' "$acks") ))
  verified=0
  timeout 120 "$WORKLOAD" verify "$mount/store" "$acks" "${more[@]}" >"$place/said" 2>&1 || verified=$?
  done=$(( done + 1 ))
  used=$(du --summarize --block-size=1M "$mount/store" | cut -f1)
  power_off
  if (( done % 50 == 0 )); then echo "$done cycles, $acked acks, $lost lost" >&2; fi
  # Not before: it is the mount that plays the journal back.
  if (( done % 10 == 0 )); then check_image; fi
  if (( verified != 0 )); then
    lost=$(( lost + $(grep -c '^bad:' "$place/said" || true) ))
    caught=$(( caught + 1 ))
    if [[ -z $control ]]; then
      keep=1
      echo "cycle $done (SEED=$SEED) on $fs:"; cut -c1-600 "$place/said"; cp "$place/said" "$place/problem"
      break
    fi
    new_image
  elif (( used > 40 )); then
    new_image # a look at it takes the longer the more there is
  fi
done

echo "$fs${control:+, $control}${error:+, errors}: $done cycles, $acked acks, $lost lost${control:+, caught in $caught cycles}"
if [[ $control ]]; then (( caught * 10 >= done * 9 )); else (( lost == 0 )); fi
