#!/bin/sh
# Install Slurm and munge from Debian's packages, or say what is missing; done if they are there.
set -eu
PATH="$PATH:/usr/sbin:/sbin"

missing=""
for program in munged mungekey slurmctld slurmd sbatch; do
    command -v "$program" >/dev/null || missing="$missing $program"
done
[ -n "$missing" ] || exit 0

packages="slurm-wlm munge"
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "not found:$missing" >&2
    echo "On Debian and Ubuntu they come with: sudo apt-get install $packages" >&2
    exit 1
fi
# should the packages start a service: the tests run daemons of their own beside it
export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet
apt-get install --yes --quiet --no-install-recommends $packages
