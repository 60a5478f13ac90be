#!/usr/bin/env bash
# Sends the bundled sample to a node and counts its replies: load_sample.sh [HOST [PORT]].
# Needs bash and gzip, nothing else.
set -euo pipefail

host=${1:-127.0.0.1} port=${2:-6380}
sample=$(cd "$(dirname "${BASH_SOURCE[0]}")/../sample" && pwd)
limit_seconds=60

for file in "$sample"/*.resp.gz; do
  want=$(gzip -dc "$file" | grep -c $'^\*[0-9]*\r$')
  exec 3<>"/dev/tcp/$host/$port"
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
done
