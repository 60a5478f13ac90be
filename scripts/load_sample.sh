#!/usr/bin/env bash
# Sends the bundled sample to a node and counts what it answers:
#   load_sample.sh [RESP_HOST [RESP_PORT [HTTP_HOST [HTTP_PORT]]]]
# Rows go as Redis commands, documents as bulk requests. Needs bash and gzip, nothing else.
set -euo pipefail

resp_host=${1:-127.0.0.1} resp_port=${2:-6380} http_host=${3:-127.0.0.1} http_port=${4:-9200}
sample=$(cd "$(dirname "${BASH_SOURCE[0]}")/../sample" && pwd)
limit_seconds=60

load_rows() {
  local file=$1 want got
  want=$(gzip -dc "$file" | grep -c $'^\*[0-9]*\r$')
  exec 3<>"/dev/tcp/$resp_host/$resp_port"
  { gzip -dc "$file"; printf 'QUIT\r\n'; } >&3 &
  # Every reply of these commands is one line; QUIT adds the last one and ends the stream.
  got=$(timeout "$limit_seconds" cat <&3 | tee >(grep -m 3 '^-' >&2 || true) | grep -c '^[:+]' || true)
  exec 3>&-
  wait
  if [ "$got" -ne $((want + 1)) ]; then
    echo "load_sample: $(basename "$file"): $((got - 1)) of $want commands were answered" >&2
    exit 1
  fi
  echo "loaded $(basename "$file" .resp.gz): $want rows"
}

# METHOD PATH CONTENT_TYPE; the body is standard input, the answer standard output.
http() {
  local body
  body=$(mktemp)
  cat >"$body"
  exec 3<>"/dev/tcp/$http_host/$http_port"
  {
    printf '%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n' "$1" "$2" "$http_host:$http_port"
    printf 'Content-Type: %s\r\nContent-Length: %d\r\n\r\n' "$3" "$(wc -c <"$body")"
    cat "$body"
  } >&3
  timeout "$limit_seconds" cat <&3
  exec 3>&-
  rm -f "$body"
}

load_documents() {
  local file=$1 index answer
  index=$(basename "$file" .bulk.gz)
  answer=$(http PUT "/$index" application/json <"$sample/$index.mapping.json" | tail -n 1)
  case $answer in
    *'"acknowledged":true'* | *resource_already_exists_exception*) ;;
    *) echo "load_sample: $index: $answer" >&2; exit 1 ;;
  esac
  answer=$(gzip -dc "$file" | http POST "/$index/_bulk?refresh=true&filter_path=errors" application/x-ndjson | tail -n 1)
  if [[ $answer != *'"errors":false'* ]]; then
    echo "load_sample: $index: $answer" >&2
    exit 1
  fi
  echo "loaded $index: $(gzip -dc "$file" | grep -c '^{"index"') documents"
}

for file in "$sample"/*.resp.gz; do load_rows "$file"; done
for file in "$sample"/*.bulk.gz; do load_documents "$file"; done
