#!/usr/bin/env bash
# Installs the listed Debian packages that are missing, or, without the right to, prints the one line that does.
# Usage: packaging/setup-debian.sh LIST_FILE
set -euo pipefail

list_file=$1
mapfile -t wanted < <(sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$list_file")

is_installed() {
    [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=()
for package in "${wanted[@]}"; do
    is_installed "$package" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "setup: this is not a Debian system; install by other means: ${missing[*]}" >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "setup: packages are missing; type this, then run make again:" >&2
    echo "  sudo apt-get install --yes --no-install-recommends ${missing[*]}" >&2
    exit 1
fi

# The tests start servers of their own, so none of the installed services shall be started here.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet
apt-get install --yes --quiet --no-install-recommends "${missing[@]}"
