#!/usr/bin/env bash
# Checks licences, sources and bans of all dependencies (deny.toml), of the workspace and of the fuzz targets.
# cargo-deny is built once where this version of it is not there: some minutes. Where it cannot be had, as
# without a way to crates.io, that is said and nothing is checked.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$root"
version=0.20.2
tools=$cache/tools
if [ "$("$tools/bin/cargo-deny" --version 2>/dev/null)" != "cargo-deny $version" ]; then
  if ! cargo install cargo-deny --version "$version" --locked --root "$tools" --target-dir "$tools/build" >&2; then
    echo "NOT CHECKED: cargo-deny $version cannot be built here" >&2
    exit 0
  fi
  rm -rf "$tools/build"
fi
for manifest in Cargo.toml fuzz/Cargo.toml; do
  "$tools/bin/cargo-deny" --locked --manifest-path "$manifest" --config "$root/deny.toml" check bans licenses sources
done
