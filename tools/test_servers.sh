#!/bin/sh
# Installs the object store servers that the storage tests talk to, into .tools/ of this repository:
# versitygw (S3 over a directory) and fake-gcs-server (GCS) with Go, azurite (Azure Blob) with npm.
# Safe to run again: what is there is kept. A server that cannot be installed is reported and left
# out; its tests are then skipped with a reason, so this script never fails a build.
#
# And strace, by which the reliability tests kill a writer at each of its system calls: with apt, as root.
#
# usage: tools/test_servers.sh [versitygw] [azurite] [fake-gcs-server] [strace]      (default: all four)
# All together get TEST_SERVERS_SECONDS (170); a build that was cut off goes on at the next run.

set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
bin="$root/.tools/bin"
deadline=$(($(date +%s) + ${TEST_SERVERS_SECONDS:-170}))
mkdir -p "$bin"

bounded() {
    left=$((deadline - $(date +%s)))
    [ "$left" -gt 0 ] || return 1
    if command -v timeout >/dev/null 2>&1; then timeout "$left" "$@"; else "$@"; fi
}

install_with_go() { # name, package
    if [ -x "$bin/$1" ] || command -v "$1" >/dev/null 2>&1; then
        echo "$1: present"
    elif ! command -v go >/dev/null 2>&1; then
        echo "$1: left out, there is no go compiler"
    elif GOBIN="$bin" CGO_ENABLED=0 bounded go install "$2" >"$bin/$1.log" 2>&1; then
        echo "$1: installed"
    else
        echo "$1: left out, see .tools/bin/$1.log"
    fi
}

install_azurite() {
    if [ -x "$root/.tools/node_modules/.bin/azurite-blob" ]; then
        echo "azurite: present"
    elif ! command -v npm >/dev/null 2>&1; then
        echo "azurite: left out, there is no npm"
    elif bounded npm install --silent --no-audit --no-fund --no-save --prefix "$root/.tools" \
        azurite@3 >"$bin/azurite.log" 2>&1; then
        echo "azurite: installed"
    else
        echo "azurite: left out, see .tools/bin/azurite.log"
    fi
}

install_strace() {
    if command -v strace >/dev/null 2>&1; then
        echo "strace: present"
    elif [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "strace: left out, that takes root and apt"
    elif { bounded apt-get install -qq -y strace || { bounded apt-get update -qq && bounded apt-get install -qq -y strace; }; } \
        >"$bin/strace.log" 2>&1; then
        echo "strace: installed"
    else
        echo "strace: left out, see .tools/bin/strace.log"
    fi
}

[ $# -gt 0 ] || set -- versitygw azurite fake-gcs-server strace
for server in "$@"; do
    case "$server" in
        versitygw) install_with_go versitygw github.com/versity/versitygw/cmd/versitygw@latest ;;
        fake-gcs-server) install_with_go fake-gcs-server github.com/fsouza/fake-gcs-server@latest ;;
        azurite) install_azurite ;;
        strace) install_strace ;;
        *) echo "$server: unknown server" ;;
    esac
done
exit 0
