#!/usr/bin/env bash
# Builds Plimsoll and starts a cluster on this machine: three log servers and three nodes. Says what
# to try; Ctrl-C ends everything. Settings: DATA (./data/cluster); RESP, HTTP, RPC and LOG, the first
# of three addresses in a row (127.0.0.1:6380, 9200, 9300, 4222); ARGS for every node; TLS=1 for TLS on every
# port, with certificates that it makes (DATA/certs).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
. "$(dirname "${BASH_SOURCE[0]}")/starting.sh"
cd "$root"

data=${DATA:-$root/data/cluster}
resp=${RESP:-127.0.0.1:6380} http=${HTTP:-127.0.0.1:9200}
rpc=${RPC:-127.0.0.1:9300} log=${LOG:-127.0.0.1:4222}
nodes=(n1 n2 n3)
# Making the log's streams takes a while on the first start.
ready_seconds=120
# Log servers reach each other through ports that lie this much higher (log_servers.sh).
route_offset=100

address() { # first address, number from 0
  echo "${1%:*}:$((${1##*:} + $2))"
}

check_port() { # name of the setting, first address, number, offset
  local port=$((${2##*:} + $3 + ${4:-0})) owner
  owner=$(port_owner "$port") || return 0
  echo "cluster: port $port is taken by $owner" >&2
  echo "cluster: stop it, or choose others: make cluster $1=${2%:*}:$((${2##*:} + 10))" >&2
  exit 1
}

check_ports() {
  local name lower i
  for name in RESP HTTP RPC LOG; do
    lower=${name,,}
    for i in 0 1 2; do check_port "$name" "${!lower}" "$i"; done
  done
  for i in 0 1 2; do check_port LOG "$log" "$i" "$route_offset"; done
}

# An authority, which stays, and what it signs for each process, anew at each start.
make_certificates() {
  local name host hosts=(--dns localhost --ip 127.0.0.1)
  for host in "${http%:*}" "${resp%:*}"; do
    case $host in
    localhost | 127.0.0.1) ;;
    \[*\]) hosts+=(--ip "${host:1:-1}") ;;
    *) hosts+=(--ip "$host") ;;
    esac
  done
  [ -f "$certs/ca.crt" ] || "$plimsoll" certificates ca --out "$certs" --force >/dev/null
  for name in "${nodes[@]}"; do
    "$plimsoll" certificates node --ca "$certs" --out "$certs" --name "$name" "${hosts[@]}" --force >/dev/null
  done
  for name in log0 log1 log2; do
    "$plimsoll" certificates server --ca "$certs" --out "$certs" --name "$name" "${hosts[@]}" --force >/dev/null
  done
}

# What a node is started with for that, a word in a line.
tls_words() { # its name
  local port
  for port in http resp rpc log; do
    printf -- '--set\n%s.tls.certificate=%s\n--set\n%s.tls.key=%s\n' "$port" "$certs/$1.crt" "$port" "$certs/$1.key"
  done
  printf -- '--set\n%s\n' http.tls.enabled=true resp.tls.enabled=true rpc.tls.mode=required \
    "rpc.tls.certificate_authorities=$certs/ca.crt" "log.tls.certificate_authorities=$certs/ca.crt"
}

declare -A pids=()
log_servers=

# Each in a session of its own: Ctrl-C reaches this script alone, which ends them in order.
start_node() { # number from 0
  local name=${nodes[$1]} tls=()
  [ -z "${TLS:-}" ] || mapfile -t tls < <(tls_words "$name")
  : >"$data/$name.log"
  # shellcheck disable=SC2086  # ARGS is a list of words
  setsid "$plimsoll" serve --node "$name" --data "$data/$name" --resp "$(address "$resp" "$1")" \
    --http "$(address "$http" "$1")" --rpc "$(address "$rpc" "$1")" \
    --log "nats://$log,$(address "$log" 1),$(address "$log" 2)" ${tls[@]+"${tls[@]}"} ${ARGS:-} >"$data/$name.log" 2>&1 &
  pids[$name]=$!
}

await_node() { # number from 0
  local name=${nodes[$1]} waited=0
  until grep -q '^ready ' "$data/$name.log"; do
    kill -0 "${pids[$name]}" 2>/dev/null || {
      echo "cluster: $name ended; it said:" >&2
      tail -n 20 "$data/$name.log" >&2
      return 1
    }
    ((waited++ < ready_seconds * 10)) || {
      echo "cluster: $name is not ready after $ready_seconds s; see $data/$name.log" >&2
      return 1
    }
    sleep 0.1
  done
}

stop_all() {
  trap - INT TERM EXIT
  echo "stopping the nodes, then the log servers"
  local name
  for name in "${!pids[@]}"; do
    kill -TERM "${pids[$name]}" 2>/dev/null || true
    # A frozen one would not hear it.
    kill -CONT "${pids[$name]}" 2>/dev/null || true
  done
  for name in "${!pids[@]}"; do wait "${pids[$name]}" 2>/dev/null || true; done
  [ -z "$log_servers" ] || kill -TERM "$log_servers" 2>/dev/null || true
  wait 2>/dev/null || true
}

# The lines are run here before they are shown: what is printed is known to answer.
say_what_to_try() {
  local write read document search curl="curl -s" scheme=http ca
  ca=$(printf %q "$certs/ca.crt")
  write=$(plain_question "$resp" 'SET greeting ahoy')
  read=$(plain_question "$(address "$resp" 1)" 'GET greeting')
  if [ -n "${TLS:-}" ]; then
    scheme=https curl="curl -s --cacert $ca"
    write="redis-cli --tls --cacert $ca -h ${resp%:*} -p ${resp##*:} SET greeting ahoy"
    read="redis-cli --tls --cacert $ca -h ${resp%:*} -p $((${resp##*:} + 1)) GET greeting"
  fi
  document="$curl -XPUT '$scheme://$http/ships/_doc/1?refresh=true' -H 'Content-Type: application/json' -d '{\"name\":\"Cutty Sark\",\"tons\":963}'"
  search="$curl '$scheme://$(address "$http" 2)/ships/_search?q=name:cutty&pretty'"
  [ -n "${TLS:-}" ] && ! command -v redis-cli >/dev/null ||
    { bash -c "$write" | grep -q OK && bash -c "$read" | grep -q ahoy; } ||
    echo "cluster: warning: a write at n1 is not read at n2" >&2
  if command -v curl >/dev/null; then
    bash -c "$document" | grep -q '"_id":"1"' && bash -c "$search" | grep -q 'Cutty Sark' ||
      echo "cluster: warning: a document put at n1 is not found at n3" >&2
  fi
  cat <<TEXT

The cluster answers. Copy a line into another shell.

A write at n1, a read at n2:
  $write
  $read
A document at n1, a search at n3:
  $document
  $search
Who is there, and where the copies are:
  $curl '$scheme://$http/_cat/nodes?v'
  $curl '$scheme://$http/_cat/shards?v'
Kill n3 (the read and the write go on), then see that the others miss it:
  kill -9 ${pids[n3]}
  $curl '$scheme://$http/_cluster/health?pretty'

A node that ended starts again when you type its name here and press Enter.
Ctrl-C ends everything; data and what the processes say stay in $data.
TEXT
}

# Tells of nodes that end, and starts those that are named on standard input.
attend() {
  local i name line is_input_over=
  while true; do
    for i in "${!nodes[@]}"; do
      name=${nodes[$i]}
      [ -n "${pids[$name]:-}" ] || continue
      if ! kill -0 "${pids[$name]}" 2>/dev/null; then
        wait "${pids[$name]}" 2>/dev/null && line=0 || line=$?
        unset "pids[$name]"
        echo "$name ended with $line; type $name and press Enter to start it again"
      fi
    done
    kill -0 "$log_servers" 2>/dev/null || { echo "cluster: the log servers ended" >&2; exit 1; }
    if [ -n "$is_input_over" ]; then
      sleep 1
      continue
    fi
    line=
    # More than 128: nothing was typed for a second. Else what is typed has ended.
    read -r -t 1 line || { [ $? -gt 128 ] || is_input_over=yes; }
    for i in "${!nodes[@]}"; do
      name=${nodes[$i]}
      if [ "$line" = "$name" ] && [ -z "${pids[$name]:-}" ]; then
        start_node "$i"
        await_node "$i" && echo "$name is ready again (process ${pids[$name]})"
      fi
    done
  done
}

scripts/deps.sh build
check_ports
say_build_time
build_plimsoll
PLIMSOLL_NATS=${PLIMSOLL_NATS:-$(scripts/nats.sh | sed -n 's/^PLIMSOLL_NATS_CURRENT=//p')}
export PLIMSOLL_NATS

mkdir -p "$data"
data=$(cd "$data" && pwd)
certs=$data/certs
if [ -n "${TLS:-}" ]; then
  make_certificates
  export TLS_DIR=$certs
else
  unset TLS_DIR
fi
trap 'stop_all; exit 0' INT TERM
trap stop_all EXIT
setsid scripts/log_servers.sh "$data/log" 3 "${log##*:}" >"$data/log_servers.log" 2>&1 &
log_servers=$!
for i in "${!nodes[@]}"; do start_node "$i"; done
for i in "${!nodes[@]}"; do
  await_node "$i"
  echo "${nodes[$i]} is ready: RESP $(address "$resp" "$i"), REST http${TLS:+s}://$(address "$http" "$i"), process ${pids[${nodes[$i]}]}"
done
say_what_to_try
attend
