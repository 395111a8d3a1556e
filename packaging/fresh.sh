#!/usr/bin/env bash
# Proves that a machine with nothing on it can run a make target: builds a Debian bookworm root, clones the committed
# HEAD into it and runs the target there. Usage: packaging/fresh.sh [TARGET [NAME=VALUE...]]
#
# Needs root, debootstrap and unshare. Mounts live in a mount namespace and processes in a process namespace of their
# own, so both are gone when this ends, however it ends. How this machine reaches its package sources (apt, pip,
# certificates, name resolution) is copied in at run time. MIRROR=address overrides where Debian comes from;
# KEEP=1 leaves the root standing and prints where.
set -euo pipefail

target=${*:-test}
suite=bookworm
tree=$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel)

fail() {
    echo "fresh: $1" >&2
    exit 1
}

[ "$(id -u)" -eq 0 ] || fail "building a root needs the rights of root; run: sudo make fresh TARGET=$target"
for tool in debootstrap unshare chroot; do
    command -v "$tool" >/dev/null || fail "$tool is missing; type: apt-get install --yes debootstrap util-linux coreutils"
done

# The mirror of this machine's own apt: deb822 files first, then one-line files.
own_mirror() {
    {
        sed -nE 's/^URIs:[[:space:]]*([^[:space:]]+).*/\1/p' /etc/apt/sources.list.d/*.sources
        sed -nE 's/^deb[[:space:]]+(\[[^]]*\][[:space:]]+)?([^[:space:]]+).*/\2/p' \
            /etc/apt/sources.list /etc/apt/sources.list.d/*.list
    } 2>/dev/null | grep -m 1 -E '/debian/?$' || true
}

mirror=${MIRROR:-$(own_mirror)}

root=$(mktemp --directory --tmpdir="${TMPDIR:-/var/tmp}" penstock-fresh.XXXXXX)
inner=
cleanup() {
    if [ -n "$inner" ]; then
        kill -KILL "$inner" 2>/dev/null || true
        wait "$inner" 2>/dev/null || true
    fi
    if [ -n "${KEEP:-}" ]; then
        echo "fresh: the root is kept in $root"
        return
    fi
    rm --recursive --force --one-file-system "$root"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
chmod 755 "$root"

echo "fresh: building a $suite root"
# No mirror given: debootstrap has a default of its own.
debootstrap --variant=minbase --include=ca-certificates,git,make "$suite" "$root" ${mirror:+"$mirror"} \
    >"$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; rm -f "$root.log"; fail "debootstrap failed"; }
rm -f "$root.log"

carry() { # copies a file or folder of this machine to the same place in the root
    [ -e "$1" ] || return 0
    mkdir --parents "$root$(dirname "$1")"
    cp --recursive --dereference --no-target-directory "$1" "$root$1"
}

carry /etc/resolv.conf
carry /etc/hosts
# apt: the sources that are Debian's own, and how they are reached. Hooks of other programs stay outside.
for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources /etc/apt/auth.conf /etc/apt/auth.conf.d; do
    carry "$file"
done
if [ -e /etc/apt/sources.list.d/debian.sources ] && [ ! -e /etc/apt/sources.list ]; then
    rm -f "$root/etc/apt/sources.list"
fi
for file in /etc/apt/apt.conf.d/*; do
    if [ -f "$file" ] && grep --quiet --extended-regexp 'Acquire|Proxy' "$file" \
        && ! grep --quiet --extended-regexp 'Invoke|Pre-Install|Post-' "$file"; then
        carry "$file"
    fi
done
# pip and certificates. The whole bundle is carried, so that an authority of this machine's own is known inside too.
for file in /etc/pip.conf "$HOME/.pip/pip.conf" "$HOME/.config/pip/pip.conf" "$HOME/.netrc"; do
    [ -e "$file" ] || continue
    inside=${file/#$HOME\//\/root\/}
    mkdir --parents "$root$(dirname "$inside")"
    cp "$file" "$root$inside"
done
carry /etc/ssl/certs/ca-certificates.crt
carry /usr/local/share/ca-certificates

settings=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8
    DEBIAN_FRONTEND=noninteractive)
for name in CI FULL SEED SEEDS ONLY ALL SEARCH TERM http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY \
    PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST PIP_DEFAULT_TIMEOUT; do
    [ -z "${!name:-}" ] || settings+=("$name=${!name}")
done
for name in PIP_CERT SSL_CERT_FILE REQUESTS_CA_BUNDLE; do
    if [ -n "${!name:-}" ] && [ -f "${!name}" ]; then
        carry "$(realpath --no-symlinks "${!name}")"
        settings+=("$name=${!name}")
    fi
done

git clone --quiet --no-hardlinks "$tree" "$root/src/penstock"
echo "fresh: running make $target on $(git -C "$root/src/penstock" log -1 --format='%h %s')"

# proc must be there, else the Java package fails to configure.
unshare --mount --pid --fork --kill-child /bin/bash -euo pipefail -c '
    root=$1; target=$2; shift 2
    mount --make-rprivate /
    # A root of its own as a mount, else tests in there cannot make mount namespaces.
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mount -t tmpfs -o mode=755 tmpfs "$root/run"
    # Not exec: this shell is process 1 in there and must reap the orphans that daemons leave.
    chroot "$root" /usr/bin/env --ignore-environment "$@" make --directory=/src/penstock $target
' fresh "$root" "$target" "${settings[@]}" </dev/null &
inner=$!
wait "$inner"
inner=
echo "fresh: make $target passed"
