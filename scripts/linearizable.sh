#!/usr/bin/env bash
# Prints the path of the checker of histories (tests/linearizable), built with Go into the user's
# cache once a version of its sources. PLIMSOLL_LINEARIZABLE names another one.
set -euo pipefail

sources=$(cd "$(dirname "${BASH_SOURCE[0]}")/../tests/linearizable" && pwd)
cache=${PLIMSOLL_CACHE:-$HOME/.cache/plimsoll}/linearizable
PATH=$PATH:/usr/local/go/bin

if [ -z "${PLIMSOLL_LINEARIZABLE:-}" ]; then
  PLIMSOLL_LINEARIZABLE=$cache/linearizable-$(cat "$sources"/*.go "$sources"/go.* | sha256sum | cut -c1-16)
  if [ ! -x "$PLIMSOLL_LINEARIZABLE" ]; then
    command -v go >/dev/null || {
      echo 'linearizable: please install Go 1.21 or later (https://go.dev/dl)' >&2
      exit 1
    }
    mkdir -p "$cache"
    stage=$(mktemp "$cache/.stage.XXXXXX")
    trap 'rm -f "$stage"' EXIT
    (cd "$sources" && go build -o "$stage" .) >&2
    mv "$stage" "$PLIMSOLL_LINEARIZABLE"
  fi
fi
echo "$PLIMSOLL_LINEARIZABLE"
