#!/bin/sh
# Owns: the libraries for 64-bit ARM: sysroot.sh DIRECTORY. Debian's packages are unpacked there. Nothing is installed, and the machine's
# own list of architectures stays as it is, so that no other build can take one of them.
set -eu
packages="libuv1-dev libuv1 libxxhash-dev libxxhash0 libcmocka-dev libcmocka0 libnghttp2-dev libnghttp2-14 libssl-dev libssl3
    zlib1g-dev zlib1g libbrotli-dev libbrotli1 liburing-dev liburing2 libyaml-dev libyaml-0-2 libboost-context1.74-dev"
[ "$(cat "$1/packages" 2>/dev/null)" = "$packages" ] && exit 0
rm -rf "$1"
mkdir -p "$1/apt/lists/partial" "$1/apt/archives/partial" "$1/root"
cd "$1/apt"
set -- -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::Lists="$PWD/lists" -o Dir::Cache="$PWD" \
    -o APT::Sandbox::User=
apt-get "$@" update
# shellcheck disable=SC2086 # words on purpose
apt-get "$@" download $packages
for package in *.deb; do dpkg-deb -x "$package" ../root; done
rm -rf lists ./*.deb
printf '%s' "$packages" >../packages
