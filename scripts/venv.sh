#!/usr/bin/env bash
# Prints the Python of the test environment; makes the environment when tests/requirements.txt changed.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
venv=$cache/venv
wanted=$(sha256sum "$root/tests/requirements.txt" | cut -c1-16)
if [ "$(cat "$venv/.requirements" 2>/dev/null)" != "$wanted" ]; then
  rm -rf "$venv"
  python3 -m venv "$venv" >&2
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$root/tests/requirements.txt" >&2
  echo "$wanted" >"$venv/.requirements"
fi
echo "$venv/bin/python"
