#!/usr/bin/env bash
# Runs log servers on this machine until it is ended: COUNT (1, 3 or 5) nats-servers that keep
# their files in DIR and listen for clients on 127.0.0.1 from PORT on. Prints their address.
#
#   scripts/log_servers.sh DIR [COUNT [PORT [SYNC_INTERVAL]]]
#
# With TLS_DIR, a folder with ca.crt and each server's log0.crt, log0.key and so on (`plimsoll certificates
# server`), clients and servers connect by TLS alone, and each shows a certificate that ca.crt signed.
#
# SYNC_INTERVAL is `always` (the default here: an append is acknowledged when it is on disk), or a
# time as `2m`, the server's own default. PLIMSOLL_NATS names another server; 2.9 has no such
# setting, and needs `-` here.
set -euo pipefail

dir=${1:?a folder is needed} count=${2:-3} port=${3:-4222} sync=${4:-always}
if [ -z "${PLIMSOLL_NATS:-}" ]; then
  PLIMSOLL_NATS=$("$(dirname "${BASH_SOURCE[0]}")/nats.sh" | sed -n 's/^PLIMSOLL_NATS_CURRENT=//p')
fi
[ "$sync" = - ] && sync_line='' || sync_line="sync_interval: \"$sync\""

mkdir -p "$dir"
routes='' addresses=''
for ((i = 0; i < count; i++)); do
  routes+="${routes:+, }nats://127.0.0.1:$((port + 100 + i))"
  addresses+="${addresses:+,}127.0.0.1:$((port + i))"
done

pids=()
# Frozen ones would not hear it otherwise.
trap 'kill -TERM "${pids[@]}" 2>/dev/null; kill -CONT "${pids[@]}" 2>/dev/null; wait' EXIT
trap 'exit 0' INT TERM
for ((i = 0; i < count; i++)); do
  {
    echo "server_name: log$i"
    echo "listen: \"127.0.0.1:$((port + i))\""
    echo 'max_payload: 8MB'
    echo "jetstream { store_dir: \"$dir/log$i\", $sync_line }"
    tls=
    if [ -n "${TLS_DIR:-}" ]; then
      tls="tls { cert_file: \"$TLS_DIR/log$i.crt\", key_file: \"$TLS_DIR/log$i.key\", ca_file: \"$TLS_DIR/ca.crt\""
      echo "$tls, verify: true }"
      tls=", $tls }"
    fi
    ((count == 1)) ||
      echo "cluster { name: plimsoll, listen: \"127.0.0.1:$((port + 100 + i))\", routes: [$routes]$tls }"
  } >"$dir/log$i.conf"
  "$PLIMSOLL_NATS" -c "$dir/log$i.conf" -l "$dir/log$i.log" &
  pids+=($!)
done
echo "nats://$addresses"
wait
