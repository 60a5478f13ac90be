#!/usr/bin/env bash
# Races esrally and opensearch-benchmark against a fresh node with a small track of our own:
# benchmark-only, offline, and failing at the first error of either.
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
node=
finish() {
  if [ -n "$node" ]; then
    kill "$node" 2>/dev/null || true
    wait "$node" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap finish EXIT
python3 "$root/tests/tracks/things/make_documents.py" "$work/track"
read -r resp http < <(python3 - <<'PY'
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in sockets))
PY
)
"$plimsoll" serve --data "$work/data" --resp "127.0.0.1:$resp" --http "127.0.0.1:$http" >"$work/node.log" 2>&1 &
node=$!
for _ in $(seq 300); do
  grep -q '^ready ' "$work/node.log" && break
  kill -0 "$node" 2>/dev/null || { cat "$work/node.log" >&2; exit 1; }
  sleep 0.1
done

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
race esrally "$cache/rally/bin/esrally" race --track-path="$work/track" --pipeline=benchmark-only \
  --target-hosts="127.0.0.1:$http" --offline --on-error=abort --kill-running-processes \
  --telemetry=node-stats,recovery-stats,shard-stats,segment-stats \
  --telemetry-params='node-stats-include-indices:true,node-stats-sample-interval:1'
race opensearch-benchmark "$cache/osb/bin/opensearch-benchmark" "${OSB_COMMAND:-run}" \
  --workload-path="$work/track" --pipeline=benchmark-only --target-hosts="127.0.0.1:$http" \
  --offline --on-error=abort --kill-running-processes
