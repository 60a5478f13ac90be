#!/usr/bin/env bash
# Races esrally and opensearch-benchmark against a fresh node with a small track of our own, both again
# against one that was made secure (TLS, and a password), then esrally against a second node that follows the first one over TLS, with its devices ccr-stats and
# recovery-stats: benchmark-only, offline, and failing at the first error of either, or where a
# device stored nothing.
# Both come from PyPI into environments of their own, beside the other things that are kept.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

environment() { # name, package: makes the environment where it is missing or another version's
  local venv=$cache/$1
  if [ "$(cat "$venv/.package" 2>/dev/null)" != "$2" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$2"
    echo "$2" >"$venv/.package"
  fi
}
environment rally esrally==2.13.0
environment osb opensearch-benchmark==2.4.0

work=$(mktemp -d)
nodes=()
finish() {
  if [ ${#nodes[@]} -gt 0 ]; then
    kill "${nodes[@]}" 2>/dev/null || true
    wait "${nodes[@]}" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap finish EXIT
start() { # name, HTTP port, RESP port, more arguments…: starts a node and waits until it is ready
  local name=$1 http=$2 resp=$3
  shift 3
  "$plimsoll" serve --data "$work/$name" --resp "127.0.0.1:$resp" --http "127.0.0.1:$http" "$@" \
    >"$work/$name.log" 2>&1 &
  nodes+=($!)
  for _ in $(seq 300); do
    grep -q '^ready ' "$work/$name.log" && return
    kill -0 "${nodes[-1]}" 2>/dev/null || break
    sleep 0.1
  done
  cat "$work/$name.log" >&2
  exit 1
}
ask() { # method, port, path, body: what is answered, or a failure
  curl --silent --show-error --fail-with-body -X "$1" "127.0.0.1:$2$3" \
    -H 'content-type: application/json' ${4:+-d "$4"}
}
python3 "$root/tests/tracks/things/make_documents.py" "$work/track"
read -r http resp remote follower follower_resp safe safe_resp < <(python3 - <<'PY'
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(7)]
print(*(s.getsockname()[1] for s in sockets))
PY
)
"$plimsoll" certificates ca --out "$work/certs" >/dev/null
"$plimsoll" certificates node --ca "$work/certs" --out "$work/certs" --name leader --ip 127.0.0.1 >/dev/null
ssl=xpack.security.remote_cluster_server.ssl
start leader "$http" "$resp" --set remote_cluster_server.enabled=true --set "remote_cluster.port=$remote" \
  --set "$ssl.certificate=$work/certs/leader.crt" --set "$ssl.key=$work/certs/leader.key"

# The drivers keep their files in the home folder; this one goes with the race.
export HOME=$work/home
mkdir -p "$HOME"
race() { # name, command…: shows the end of the report, or everything where it failed
  local name=$1
  shift
  if "$@" >"$work/$name.log" 2>&1; then
    echo "$name finished:"
    grep -E 'Median Throughput|error rate|SUCCESS' --color=never "$work/$name.log" || true
  else
    cat "$work/$name.log" >&2
    find "$HOME" -name '*.log' -exec tail -n 40 {} + >&2
    echo "$name did not finish" >&2
    exit 1
  fi
}
esrally() { # name, command, track, port, more arguments…
  local name=$1 command=$2 track=$3 port=$4
  shift 4
  # shellcheck disable=SC2086
  race "$name" $command race --track-path="$track" --pipeline=benchmark-only \
    --target-hosts="127.0.0.1:$port" --offline --on-error=abort --kill-running-processes "$@"
}
esrally esrally "$cache/rally/bin/esrally" "$work/track" "$http" \
  --telemetry=node-stats,recovery-stats,shard-stats,segment-stats \
  --telemetry-params='node-stats-include-indices:true,node-stats-sample-interval:1'
osb() { # name, port, more arguments…
  local name=$1 port=$2
  shift 2
  race "$name" "$cache/osb/bin/opensearch-benchmark" "${OSB_COMMAND:-run}" \
    --workload-path="$work/track" --pipeline=benchmark-only --target-hosts="127.0.0.1:$port" \
    --offline --on-error=abort --kill-running-processes "$@"
}
osb opensearch-benchmark "$http"

start safe "$safe" "$safe_resp" --secure
password=$(sed -n 's/^password of elastic .*: //p' "$work/safe.log")
options="use_ssl:true,verify_certs:true,ca_certs:'$work/safe/certificates/ca.crt'"
options+=",basic_auth_user:'elastic',basic_auth_password:'$password'"
esrally 'esrally by TLS' "$cache/rally/bin/esrally" "$work/track" "$safe" --client-options="$options"
osb 'opensearch-benchmark by TLS' "$safe" --client-options="$options"

# The follower. Its files come so slowly that each of the devices, which look once a second, sees them come.
start follower "$follower" "$follower_resp"
key=$(ask POST "$http" /_security/cross_cluster/api_key \
  '{"name": "follower", "access": {"replication": [{"names": ["things"]}]}}')
python3 -c 'import json, sys; print(json.load(sys.stdin)["encoded"])' <<<"$key" >"$work/key"
ask PUT "$follower" /_cluster/settings '{"persistent": {
  "ccr.indices.recovery.max_bytes_per_sec": "100kb",
  "cluster.remote.leader.seeds": ["127.0.0.1:'"$remote"'"],
  "cluster.remote.leader.certificate_authorities": "'"$work"'/certs/ca.crt",
  "cluster.remote.leader.credentials_file": "'"$work"'/key"}}' >/dev/null
samples=$work/samples
esrally 'esrally on a follower' \
  "$cache/rally/bin/python $root/tests/tracks/follower/esrally_kept.py $samples" \
  "$root/tests/tracks/follower" "$follower" --enable-assertions \
  --telemetry=ccr-stats,recovery-stats --telemetry-params='ccr-stats-sample-interval:1'
for device in ccr-stats recovery-stats; do
  count=$(grep -c "\"name\": \"$device\".*\"index\": \"followed\"" "$samples" || true)
  echo "$device stored $count samples"
  [ "$count" -gt 0 ] || { echo "the device $device stored nothing of the follower" >&2; exit 1; }
done
