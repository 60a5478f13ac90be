#!/usr/bin/env bash
# Provides RocksDB's static library: builds it once per (lock file, host, compiler, flags) into the
# user's cache and prints the environment lines through which every other build links it.
#
#   eval "$(scripts/rocksdb.sh)"       build if needed, then print the lines
#   scripts/rocksdb.sh --path          only say where the library is or would be
#   scripts/rocksdb.sh --adopt DIR     take a finished build from the Cargo target folder DIR
#
# Progress goes to stderr: one line rewritten in place on a terminal, a line a minute when piped.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
recipe=$root/build/rocksdb
cache=${PLIMSOLL_CACHE:-$HOME/.cache/plimsoll}/rocksdb
export CC=${ROCKSDB_CC:-clang} CXX=${ROCKSDB_CXX:-clang++}
# How many of RocksDB's sources are compiled as one file: its headers take most of the time.
sources_per_file=12
# Seconds of one core that one such file takes; only for the first guess of the time left.
seconds_per_file=20

say() { printf '%s\n' "$*" >&2; }
die() { say "rocksdb: $*"; exit 1; }

command -v "$CXX" >/dev/null || die "\`$CXX\` is missing; scripts/deps.sh installs what the build needs"

key() {
  {
    cat "$recipe/Cargo.lock" "$recipe/Cargo.toml"
    rustc -vV | grep '^host:'
    "$CXX" --version | head -n 1
    printf '%s\n' "${CFLAGS:-}" "${CXXFLAGS:-}" "${RUSTFLAGS:-}"
  } | sha256sum | cut -c1-16
}

# The unpacked source of rust-librocksdb-sys: holds the list of sources and the headers.
crate_dir() {
  cargo metadata --manifest-path "$recipe/Cargo.toml" --locked --format-version 1 |
    grep -o '"manifest_path":"[^"]*/rust-librocksdb-sys-[^"]*/Cargo.toml"' |
    head -n 1 | cut -d'"' -f4 | xargs dirname
}

# Copies the crate, and has it compile a few large files that include its sources. Those whose flags the
# crate chooses by name stay as they are, and the one that it leaves out.
unite() { # destination
  local list=rocksdb_lib_sources.txt
  rm -rf "$1"
  cp -r "$(crate_dir)" "$1"
  (cd "$1" && chmod -R u+w . && mkdir rocksdb/united && grep -v 'crc32c\|build_version' $list |
    split -l $sources_per_file -d --additional-suffix=.cc - rocksdb/united/ &&
    sed -i 's/.*/#include "&"/' rocksdb/united/*.cc &&
    { (cd rocksdb && ls united/*.cc) && grep 'crc32c\|build_version' $list; } >$list.new &&
    mv $list.new $list)
}

# The recipe with the copy of the crate in place of the crate. Everything else is as locked.
recipe_of() { # source, destination
  rm -rf "$2"
  cp -r "$recipe" "$2"
  printf '\n[patch.crates-io]\nrust-librocksdb-sys = { path = "%s" }\n' "$1" >>"$2/Cargo.toml"
  sed -i '/^name = "rust-librocksdb-sys"/,/^dependencies/{/^source/d;/^checksum/d}' "$2/Cargo.lock"
}

count_objects() {
  find "$1"/release/build/rust-librocksdb-sys-*/out -name '*.o' 2>/dev/null | wc -l
}

minutes() { printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); }

show_progress() { # target folder, number of sources, pid of cargo
  local target=$1 total=$2 pid=$3 begin=$SECONDS first=-1 ticks=0 done_count left rate_begin=0
  while kill -0 "$pid" 2>/dev/null; do
    sleep 1
    ticks=$((ticks + 1))
    done_count=$(count_objects "$target")
    ((done_count > total)) && done_count=$total
    if ((done_count > 0 && first < 0)); then first=$done_count rate_begin=$SECONDS; fi
    if ((first >= 0 && done_count - first >= 10)); then
      left=$(((total - done_count) * (SECONDS - rate_begin) / (done_count - first)))
    else
      left=$(((total - done_count) * seconds_per_file / $(nproc)))
    fi
    local line
    line="RocksDB: $done_count of $total files, $(minutes $((SECONDS - begin))), about $(minutes $left) left"
    if [ -t 2 ]; then printf '\r%s\033[K' "$line" >&2
    elif ((ticks % 60 == 1)); then say "$line"; fi
  done
  [ -t 2 ] && printf '\n' >&2
  return 0
}

install_from() { # target folder, destination
  local lib stage
  lib=$(find "$1"/release/build/rust-librocksdb-sys-*/out -name librocksdb.a -printf '%T@ %p\n' 2>/dev/null |
    sort -rn | head -n 1 | cut -d' ' -f2-)
  [ -n "$lib" ] || die "no librocksdb.a below $1"
  mkdir -p "$cache"
  stage=$(mktemp -d "$cache/.stage.XXXXXX")
  cp "$lib" "$stage/librocksdb.a"
  cp -r "$(crate_dir)/rocksdb/include" "$stage/include"
  chmod 755 "$stage"
  # A concurrent build may have finished first; its library is as good as ours.
  mv -T "$stage" "$2" 2>/dev/null || rm -rf "$stage"
}

build() { # destination
  local target=$cache/build-$(basename "$1") total log pid
  log=$cache/build.log
  mkdir -p "$target"
  unite "$target/source"
  recipe_of "$target/source" "$target/recipe"
  total=$(wc -l <"$target/source/rocksdb_lib_sources.txt")
  say "RocksDB is compiled once per machine: $total files on $(nproc) cores, about" \
    "$(minutes $((total * seconds_per_file / $(nproc)))). Log: $log"
  CARGO_TARGET_DIR=$target cargo build --release --locked --manifest-path "$target/recipe/Cargo.toml" \
    >"$log" 2>&1 &
  pid=$!
  trap 'kill "$pid" 2>/dev/null || true' EXIT
  show_progress "$target" "$total" "$pid"
  wait "$pid" || { tail -n 20 "$log" >&2; die "the build failed, see $log"; }
  trap - EXIT
  install_from "$target" "$1"
  rm -rf "$target"
}

dest=$cache/$(key)
case ${1:-} in
  --path) echo "$dest"; exit 0 ;;
  --adopt) [ -e "$dest/librocksdb.a" ] || install_from "${2:?--adopt needs a folder}" "$dest" ;;
  '') [ -e "$dest/librocksdb.a" ] || build "$dest" ;;
  *) die "unknown argument \`$1\`" ;;
esac
ln -sfn "$(basename "$dest")" "$cache/.current.$$" && mv -T "$cache/.current.$$" "$cache/current"

printf 'export %s\n' "ROCKSDB_LIB_DIR=$dest" "ROCKSDB_INCLUDE_DIR=$dest/include" ROCKSDB_STATIC=1
