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
# Without what a node has no part in, which costs more than a minute: for the first answer. Neither gives another
# package a feature, so that nothing of this is compiled again for the whole.
node_only=("${whole[@]}" --exclude plimsoll-simulation --exclude xtask)

# Nothing to build where PLIMSOLL_BIN names a binary.
build_plimsoll() {
  [ -n "${PLIMSOLL_BIN:-}" ] || compile "${node_only[@]}"
}

# Also the programs that benchmarks ask servers with, which no PLIMSOLL_BIN has.
build_whole() {
  compile "${whole[@]}"
}

compile() { # cargo's arguments...
  use_rocksdb && (cd "$root" && cargo build "$@")
}

# Builds in a folder with further arguments, and leaves the binary beside the one that is there, which
# stays as it was.
build_aside() { # name, folder, cargo's arguments...
  local name=$1 folder=$2 release=$CARGO_TARGET_DIR/release
  shift 2
  cp "$release/plimsoll" "$release/plimsoll-built" || return 1
  (cd "$folder" && cargo build "${whole[@]}" "$@") || return 1
  mv "$release/plimsoll" "$release/plimsoll-$name"
  mv "$release/plimsoll-built" "$release/plimsoll"
}

# With a form of record that no release has: what tests of rolling upgrades upgrade to, plimsoll-next.
build_next() {
  use_rocksdb && build_aside next "$root" --features plimsoll-server/next-version
}

# The last version that is tagged, what `make soak` upgrades from: plimsoll-last. Nothing where none is.
build_last() {
  local tag folder=$cache/last
  rm -f "$CARGO_TARGET_DIR/release/plimsoll-last"
  if ! tag=$(git -C "$root" describe --tags --abbrev=0 2>/dev/null); then
    echo 'no version is tagged: the upgrade from the last one is passed over' >&2
    return
  fi
  rm -rf "$folder" && git clone --quiet --branch "$tag" "$root" "$folder" || return 1
  use_rocksdb && build_aside last "$folder"
}

# Without the allocator's layer: plimsoll-layerless.
build_layerless() {
  build_whole && build_aside layerless "$root" --features plimsoll-server/layerless
}
