#!/bin/sh
# Makes an image with Python and certificates from Debian's packages alone, for where no registry of images is reached, once:
# its name is all that this prints.
set -eu
name=localhost/runtally-base
if ! buildah images --quiet "$name" > /dev/null 2>&1; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  # A Debian knows its own release's keys, and perhaps no later one's.
  suite=$(. /etc/os-release && if [ "$ID" = debian ]; then echo "$VERSION_CODENAME"; else echo stable; fi)
  mmdebstrap --quiet --variant=minbase --include=python3,python3-venv,ca-certificates "$suite" "$work/root.tar" >&2
  container=$(buildah from scratch)
  buildah add --quiet "$container" "$work/root.tar" / > /dev/null
  buildah commit --quiet "$container" "$name" > /dev/null
  buildah rm "$container" > /dev/null
fi
echo "$name"
