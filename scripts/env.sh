# shellcheck shell=bash
# Sourced by the other scripts: where builds go and which RocksDB they link.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${PLIMSOLL_CACHE:-$HOME/.cache/plimsoll}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$cache/target}
plimsoll=${PLIMSOLL_BIN:-$CARGO_TARGET_DIR/release/plimsoll}

# Compiles RocksDB on the first call of a machine, then only prints where it is.
use_rocksdb() {
  local lines
  lines=$("$root/scripts/rocksdb.sh") || return 1
  eval "$lines"
}

# What every chore builds, so that all of them share it: with another selection of packages cargo
# chooses other features, and compiles most dependencies once more.
whole=(--release --locked --workspace --bins --examples)

# Nothing to build where PLIMSOLL_BIN names a binary.
build_plimsoll() {
  [ -n "${PLIMSOLL_BIN:-}" ] || build_whole
}

# Also the programs that benchmarks ask servers with, which no PLIMSOLL_BIN has.
build_whole() {
  use_rocksdb || return 1
  (cd "$root" && cargo build "${whole[@]}")
}

# The same with a form of record that no release has: what tests of rolling upgrades upgrade to.
# Leaves plimsoll-next beside the binary, which stays as it was.
build_next() {
  local release=$CARGO_TARGET_DIR/release
  cp "$release/plimsoll" "$release/plimsoll-built" || return 1
  (cd "$root" && cargo build "${whole[@]}" --features plimsoll-server/next-version) || return 1
  mv "$release/plimsoll" "$release/plimsoll-next"
  mv "$release/plimsoll-built" "$release/plimsoll"
}

# The same without the allocator's layer, beside the binary: plimsoll-layerless.
build_layerless() {
  local release=$CARGO_TARGET_DIR/release
  build_whole && cp "$release/plimsoll" "$release/plimsoll-layered" || return 1
  (cd "$root" && cargo build "${whole[@]}" --features plimsoll-server/layerless) || return 1
  mv "$release/plimsoll" "$release/plimsoll-layerless"
  mv "$release/plimsoll-layered" "$release/plimsoll"
}
