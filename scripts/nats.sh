#!/usr/bin/env bash
# Provides the two nats-servers that the log's tests run on: Debian's (2.9.10, the oldest that is
# supported) and a current one, built once a machine with Go into the user's cache. Prints
#
#   PLIMSOLL_NATS_OLDEST=/usr/sbin/nats-server
#   PLIMSOLL_NATS_CURRENT=/home/…/nats-server-v2.15.2
#
# Either may be set beforehand to use another server. Progress goes to stderr.
set -euo pipefail

current_version=v2.15.2
cache=${PLIMSOLL_CACHE:-$HOME/.cache/plimsoll}/nats
PATH=$PATH:/usr/sbin:/usr/local/go/bin

say() { printf 'nats: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

mkdir -p "$cache"
# Several test processes may come at once.
exec 9>"$cache/lock"
flock 9

install_debian() {
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || die 'please install: nats-server   (apt-get install nats-server)'
    as_root=(sudo -n)
  fi
  command -v apt-get >/dev/null || die 'please install nats-server 2.9 or later'
  say 'installing nats-server'
  # At run level 1 the package does not start a server nobody asked for.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
    apt-get install -y -qq --no-install-recommends nats-server >&2
}

build_current() { # destination
  command -v go >/dev/null || die 'please install Go 1.21 or later, or set PLIMSOLL_NATS_CURRENT'
  say "building nats-server $current_version, once a machine, about a minute"
  local stage
  stage=$(mktemp -d "$cache/.stage.XXXXXX")
  # Expanded now: the variable is gone when the trap runs.
  # shellcheck disable=SC2064
  trap "rm -rf '$stage'" EXIT
  GOBIN=$stage go install "github.com/nats-io/nats-server/v2@$current_version" >&2
  mv "$stage/nats-server" "$1"
}

if [ -z "${PLIMSOLL_NATS_OLDEST:-}" ]; then
  command -v nats-server >/dev/null || install_debian
  PLIMSOLL_NATS_OLDEST=$(command -v nats-server)
fi
if [ -z "${PLIMSOLL_NATS_CURRENT:-}" ]; then
  PLIMSOLL_NATS_CURRENT=$cache/nats-server-$current_version
  [ -x "$PLIMSOLL_NATS_CURRENT" ] || build_current "$PLIMSOLL_NATS_CURRENT"
fi
printf '%s\n' "PLIMSOLL_NATS_OLDEST=$PLIMSOLL_NATS_OLDEST" \
  "PLIMSOLL_NATS_CURRENT=$PLIMSOLL_NATS_CURRENT"
