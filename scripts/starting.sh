# shellcheck shell=bash
# Sourced by what starts nodes for people: who has a port, how long a build takes, what to ask.

# Prints who listens on a port, from /proc, so that it works where ss and lsof are not installed.
port_owner() {
  local inode fd pid
  inode=$(awk -v port="$(printf ':%04X' "$1")" \
    '$4 == "0A" && substr($2, length($2) - 4) == port {print $10; exit}' \
    /proc/net/tcp /proc/net/tcp6 2>/dev/null)
  [ -n "$inode" ] || return 1
  fd=$(find /proc/[0-9]*/fd -lname "socket:\[$inode\]" 2>/dev/null | head -n 1 || true)
  if [ -z "$fd" ]; then echo "a process of another user"; return 0; fi
  pid=$(cut -d/ -f3 <<<"$fd")
  echo "process $pid ($(tr '\0' ' ' <"/proc/$pid/cmdline" | cut -c1-80 | sed 's/ *$//'))"
}

say_build_time() {
  [ -x "$plimsoll" ] && return
  local cores minutes
  cores=$(nproc)
  # Core minutes measured on Debian 12: about 10 for RocksDB (kept in the cache), 26 for the rest; one crate waits for
  # the other for the last three.
  minutes=$((3 + 20 / cores))
  [ -e "$(scripts/rocksdb.sh --path)/librocksdb.a" ] || minutes=$((minutes + 10 / cores))
  echo "The first build takes about $minutes minutes on $cores cores; later ones take seconds."
}

# One question over RESP to an address, that needs nothing but bash.
plain_question() { # address, question
  printf "bash -c 'exec 3<>/dev/tcp/%s/%s; printf \"%s\\\\r\\\\nQUIT\\\\r\\\\n\" >&3; cat <&3'" "${1%:*}" "${1##*:}" "$2"
}
