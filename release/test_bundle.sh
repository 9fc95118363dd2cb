#!/usr/bin/env bash
# Unpack an archive of `make bundle` in an empty folder, and run make targets there with no network, no
# pip cache and no settings of pip: release/test_bundle.sh ARCHIVE [TARGET …]
set -euo pipefail
archive=$(realpath "$1")
shift
targets=("${@:-results test}")
(cd "$(dirname "$archive")" && sha256sum --quiet --check "$(basename "$archive").sha256")
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
tar --extract --file "$archive" --directory "$folder"
cd "$folder"/*/
sha256sum --quiet --check SHA256SUMS
mkdir "$folder/home"
# a network of its own, in which this machine reaches itself alone, also for who is not root
env --ignore-environment PATH="$PATH" HOME="$folder/home" LANG=C.UTF-8 PIP_CONFIG_FILE=/dev/null \
    PIP_NO_CACHE_DIR=1 unshare --map-root-user --net \
    sh -ec 'ip link set lo up; exec make "$@"' sh ${targets[*]}
