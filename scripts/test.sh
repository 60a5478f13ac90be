#!/usr/bin/env bash
# Every check of the tree, one stage after the other; stops at the first that fails and names it.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$root"

stage() { # name, command...
  local name=$1 begin=$SECONDS
  shift
  printf '\n==== %s\n' "$name"
  if ! "$@"; then
    printf '\nFAILED: %s (%s)\n' "$name" "$*" >&2
    exit 1
  fi
  printf -- '---- %s: passed in %d s\n' "$name" $((SECONDS - begin))
}

# The ten slowest are named at the end; a test's name is after that of its program.
unit_tests() {
  local log status
  log=$(mktemp) || return 1
  cargo test --release --workspace --locked \
    --config "target.'cfg(all())'.runner='$root/scripts/timed_test.sh'" "$@" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  printf '\nthe slowest:\n'
  sed -nE -e 's|.*Running .*/deps/(.*)-[0-9a-f]+\)$|\1|; t program' \
    -e 's|^test (.*) \.\.\. .*<([0-9.]+)s>$|\2 s \1|; T' -e 'G; s|\n(.*)| (\1)|p; d' -e ':program; h' "$log" |
    sort -rn | sed 10q
  rm -- "$log"
  return "$status"
}

# Most tests wait for what they are about: two at a time need half as long. Those of a file stay together, for
# they share a node.
#
# The binary is the one that the unit tests of the workspace were built with: another selection of
# packages has other features, and compiles most dependencies once more.
end_to_end() {
  local python
  python=$(scripts/venv.sh) || return 1
  PLIMSOLL_BIN=$plimsoll PLIMSOLL_NEXT_BIN=$CARGO_TARGET_DIR/release/plimsoll-next \
    "$python" -m pytest -q -rs --durations=10 -n 2 --dist loadfile tests
}

# The fuzz targets have a lock file of their own: one that lags behind would be found after half an hour.
lock_files() {
  local manifest
  for manifest in Cargo.toml fuzz/Cargo.toml; do
    cargo metadata --locked --format-version 1 --manifest-path "$manifest" >/dev/null || return 1
  done
}

stage 'dependencies' scripts/deps.sh test
stage 'lock files' lock_files
stage 'licences and sources of dependencies' scripts/deny.sh
stage 'format' cargo fmt --all --check
stage 'RocksDB' use_rocksdb
stage 'clippy' cargo clippy --release --workspace --all-targets --locked -- -D warnings
stage 'unit and property tests, tidy' unit_tests
stage 'what the fuzz targets call' cargo test --release --locked --no-default-features \
  --manifest-path fuzz/Cargo.toml
stage 'the next version, to upgrade to' build_next
stage 'end to end' end_to_end
printf '\nall stages passed in %d s\n' $SECONDS
