#!/usr/bin/env bash
# Installs what building (`deps.sh build`) or testing (`deps.sh test`) needs and is missing.
# Uses apt-get where it may without asking for a password; otherwise names the packages and fails.
set -euo pipefail

missing=()
need() { missing+=("$1"); }

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml")
command -v cargo >/dev/null || {
  echo "deps: Rust is missing; install it from https://rustup.rs ($rust or later)" >&2
  exit 1
}
there=$(rustc --version | cut -d ' ' -f 2)
if [ "$(printf '%s\n' "$rust" "$there" | sort -V | head -n 1)" != "$rust" ]; then
  echo "deps: Rust $there is too old; $rust or later is needed (rustup update)" >&2
  exit 1
fi
command -v clang++ >/dev/null || need clang
# bindgen loads libclang at build time and needs the compiler's own headers beside it.
# libclang-cpp beside it is another library.
compgen -G '/usr/lib/llvm-*/lib/libclang[.-][s0-9]*' >/dev/null ||
  ldconfig -p 2>/dev/null | grep -qE 'libclang(-[0-9.]+)?\.so' || need libclang-dev
command -v cc >/dev/null || need gcc
[ -e /usr/include/stdio.h ] || need libc6-dev

if [ "${1:-build}" = test ]; then
  command -v redis-server >/dev/null || need redis-server
  command -v redis-benchmark >/dev/null || need redis-tools
  command -v python3 >/dev/null || need python3
  # Debian's python3 lacks the part that makes virtual environments with pip.
  python3 -c 'import ensurepip, venv' 2>/dev/null || need python3-venv
fi

[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  else
    echo "deps: please install: ${missing[*]}   (apt-get install ${missing[*]})" >&2
    exit 1
  fi
fi
command -v apt-get >/dev/null || {
  echo "deps: no apt-get here; please install what Debian calls: ${missing[*]}" >&2
  exit 1
}
echo "deps: installing ${missing[*]}" >&2
"${as_root[@]}" apt-get update -qq >&2
# At run level 1 the package redis-server does not start a server nobody asked for.
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
