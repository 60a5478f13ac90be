#!/usr/bin/env bash
# Builds Plimsoll, starts one node, loads the sample into a new data folder, and says what to try.
# Settings: DATA (./data), RESP (127.0.0.1:6380), HTTP (127.0.0.1:9200). Ctrl-C stops the node.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
. "$(dirname "${BASH_SOURCE[0]}")/starting.sh"
cd "$root"

data=${DATA:-$root/data} resp=${RESP:-127.0.0.1:6380} http=${HTTP:-127.0.0.1:9200}
ready_seconds=60

check_ports() {
  local name owner
  for name in RESP HTTP; do
    local address=${name,,}
    address=${!address}
    if owner=$(port_owner "${address##*:}"); then
      echo "run: port ${address##*:} is taken by $owner" >&2
      echo "run: stop it, or choose another: make run $name=${address%:*}:$((${address##*:} + 1))" >&2
      exit 1
    fi
  done
}

stop_node() {
  trap - INT TERM EXIT
  kill -TERM "$node" 2>/dev/null && echo "stopping the node" || true
  wait "$node" 2>/dev/null || true
}

wait_ready() {
  local waited=0
  until grep -q '^ready ' "$output"; do
    kill -0 "$node" 2>/dev/null || { cat "$output" >&2; exit 1; }
    ((waited++ < ready_seconds * 10)) || { echo "run: not ready after $ready_seconds s" >&2; exit 1; }
    sleep 0.1
  done
}

# The lines are run here before they are shown: what is printed is known to answer.
say_what_to_try() {
  local one two three
  one=$(plain_question "$resp" 'HGETALL city:2643743')
  two="curl -s 'http://$http/cities/_search?q=name:london&filter_path=hits.total,hits.hits._source&pretty'"
  three="curl -s 'http://$http/logs/_search?size=0&filter_path=aggregations&pretty' -H 'Content-Type: application/json' -d '{\"aggs\":{\"by_status\":{\"terms\":{\"field\":\"status\"}}}}'"
  bash -c "$one" | grep -q London || echo "run: warning: the rows of the sample are not in $data" >&2
  if command -v curl >/dev/null; then
    bash -c "$two" | grep -q London && bash -c "$three" | grep -q by_status ||
      echo "run: warning: the documents of the sample are not in $data" >&2
  fi
  printf '\nPlimsoll answers. Copy a line into another shell (a row, a search, an aggregation):\n\n  %s\n  %s\n  %s\n\n' "$one" "$two" "$three"
  printf 'Ctrl-C stops the node; the data stays in %s.\n' "$data"
}

scripts/deps.sh build
check_ports
say_build_time
build_plimsoll

new=yes
[ -d "$data" ] && [ -n "$(ls -A "$data")" ] && new=no
output=$(mktemp)
"$plimsoll" serve --data "$data" --resp "$resp" --http "$http" ${ARGS:-} >"$output" &
node=$!
trap 'stop_node; rm -f "$output"; exit 0' INT TERM
trap 'stop_node; rm -f "$output"' EXIT
wait_ready
if [ "$new" = yes ]; then
  to=("${resp%:*}" "${resp##*:}" "${http%:*}" "${http##*:}")
  scripts/load_sample.sh "${to[@]}" ||
    echo "run: the sample was not loaded whole; again: scripts/load_sample.sh ${to[*]}" >&2
fi
say_what_to_try
wait "$node"
