#!/usr/bin/env bash
# Checks licences, sources and bans of all dependencies (deny.toml), of the workspace and of the fuzz targets.
# cargo-deny is built once where this version of it is not there: some minutes.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$root"
version=0.20.2
tools=$cache/tools
if [ "$("$tools/bin/cargo-deny" --version 2>/dev/null)" != "cargo-deny $version" ]; then
  cargo install cargo-deny --version "$version" --locked --root "$tools" --target-dir "$tools/build" >&2
  rm -rf "$tools/build"
fi
for manifest in Cargo.toml fuzz/Cargo.toml; do
  "$tools/bin/cargo-deny" --locked --manifest-path "$manifest" --config "$root/deny.toml" check bans licenses sources
done
