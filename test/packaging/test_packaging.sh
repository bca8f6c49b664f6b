#!/bin/sh
# Owns: the test of what is installed: test_packaging.sh BUILD_DIR WORK_DIR. A program is built against the installed
# library in every way that the README offers, and run; nothing but the public API may leave the libraries.
set -eu
build=$(cd "$1" && pwd)
rm -rf "$2"
mkdir -p "$2"
work=$(cd "$2" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
prefix=$work/prefix

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

echo "install"
cmake --install "$build" --prefix "$prefix" >/dev/null
! grep -rlF "$work" "$prefix/lib/pkgconfig" "$prefix/lib/cmake" || fail "an installed file holds its own path"

echo "exported symbols"
nm -D --defined-only "$prefix/lib/libuvhttp.so" | awk '$2 != "A" { print $NF }' | sed 's/@.*//' >"$work/exported"
[ -s "$work/exported" ] || fail "the shared library exports nothing"
! grep -vE '^uvhttp_[^_]' "$work/exported" || fail "the shared library exports what is not public"
nm -g --defined-only "$prefix/lib/libuvhttp.a" 2>/dev/null | awk 'NF == 3 { print $3 }' >"$work/archived"
! grep -vE '^uvhttp_' "$work/archived" || fail "the archive defines global names without the prefix"
# Before 1.0 a minor version may change the ABI: the soname and the symbols' version say which one it is.
series=$(sed -n 's/.*define UVHTTP_VERSION "\(0\.[0-9]*\|[1-9][0-9]*\)\..*/\1/p' "$prefix/include/uvhttp/version.h")
[ -n "$series" ] || fail "version.h has no version"
readelf -d "$prefix/lib/libuvhttp.so" | grep -qF "[libuvhttp.so.$series]" || fail "the soname is not libuvhttp.so.$series"
[ -f "$prefix/lib/libuvhttp.so.$series" ] || fail "libuvhttp.so.$series is not installed"
! nm -D --defined-only "$prefix/lib/libuvhttp.so" | grep ' [TDBRV] ' | grep -vF "@@UVHTTP_$series" || fail "symbols without version"

echo "licence, docs and examples"
for file in LICENSE README.md CHANGELOG.md SECURITY.md docs/guide/tls.md examples/hello.c; do
    [ -s "$prefix/share/doc/uvhttp/$file" ] || fail "$file is not installed"
done
! readelf -d "$prefix/lib/libuvhttp.so" | grep -E 'RPATH|RUNPATH' || fail "the shared library has a run path"

echo "systemd units"
for unit in service socket; do
    [ -s "$prefix/lib/systemd/system/uvhttp.$unit" ] || fail "uvhttp.$unit is not installed"
done
systemd-analyze verify "$prefix/lib/systemd/system/uvhttp.service" "$prefix/lib/systemd/system/uvhttp.socket" ||
    fail "systemd does not accept the units"
# 0 is the best of 10; docs/guide/deployment.md names what is left.
systemd-analyze security --offline=yes --threshold=5 "$prefix/lib/systemd/system/uvhttp.service" >"$work/security" ||
    fail "the unit is more exposed than 0.5: $(tail -1 "$work/security")"

echo "public headers compile alone and without a warning, as C99, C17, C++17 and C++20"
python3 "$here/../tools/check_headers.py" "$prefix/include" || fail "public headers"

echo "features.h says what is in the library"
for feature in WEBSOCKET STATIC FORMS MIDDLEWARE COMPRESSION TLS YAML REDIS COROUTINES URING MIMALLOC; do
    grep -qE "^#define UVHTTP_WITH_$feature [01]\$" "$prefix/include/uvhttp/features.h" || fail "features.h lacks $feature"
done
grep -q '^#define UVHTTP_WITH_STATIC 1' "$prefix/include/uvhttp/features.h" || fail "features.h hides static files"
nm -D --defined-only "$prefix/lib/libuvhttp.so" | grep -q uvhttp_static || fail "static files are not in"

export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
version=$(pkg-config --modversion uvhttp)
check() { # check PROGRAM: it runs and knows its version
    [ "$(LD_LIBRARY_PATH="$prefix/lib" "$1")" = "$version" ] || fail "$1 does not say $version"
}

echo "pkg-config, shared, C and C++"
# shellcheck disable=SC2046 # words on purpose
{
    cc "$here/consumer.c" -o "$work/shared" $(pkg-config --cflags --libs uvhttp)
    c++ -x c++ "$here/consumer.c" -o "$work/shared_cpp" $(pkg-config --cflags --libs uvhttp)
    c++ -std=c++20 "$here/consumer.cpp" -o "$work/shared_cpp20" $(pkg-config --cflags --libs uvhttp)
}
check "$work/shared"
check "$work/shared_cpp"
check "$work/shared_cpp20"

echo "what coroutines give away is destroyed once, by each compiler and optimization"
owned_once() { # owned_once COMPILER
    command -v "$1" >/dev/null || fail "$1 is needed"
    owning=$work/owning-$1
    for level in 0 1 2; do
        # shellcheck disable=SC2046 # words on purpose
        "$1" -std=c++20 -O$level -fsanitize=address "$here/owning.cpp" -o "$owning" $(pkg-config --cflags --libs uvhttp)
        echo "$1 -O$level"
        check "$owning"
    done
    # A closure that is made where it is awaited: right, or refused with a message.
    # shellcheck disable=SC2046
    if "$1" -std=c++20 -fsanitize=address -DAWAIT_TEMPORARY "$here/owning.cpp" -o "$owning" \
        $(pkg-config --cflags --libs uvhttp) 2>"$owning.log"; then
        check "$owning"
    else
        grep -q 'keep it in a variable' "$owning.log" || fail "$1: $(cat "$owning.log")"
    fi
}
# Each compiler has one CPU. "wait" brings the failure of the one that it names.
owned_once clang++ &
clang=$!
owned_once g++ &
gcc=$!
wait $clang
wait $gcc

echo "uvhttp-load"
[ "$("$prefix/bin/uvhttp-load" --version)" = "uvhttp-load $version" ] || fail "uvhttp-load does not say $version"
echo "uvhttp"
[ "$("$prefix/bin/uvhttp" version | head -n 1)" = "uvhttp $version" ] || fail "uvhttp does not say $version"

echo "find_package"
cmake -S "$here" -B "$work/find_package" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$work/find_package" >/dev/null
check "$work/find_package/consumer"
check "$work/find_package/consumer_static"

echo "add_subdirectory"
cmake -S "$here/embed" -B "$work/embed" >/dev/null
cmake --build "$work/embed" -j 2 --target consumer >/dev/null
check "$work/embed/consumer"

echo "add_subdirectory leaves the project as it was"
cmake -S "$here/guest" -B "$work/guest" >/dev/null

echo "pkg-config, static"
rm -f "$prefix"/lib/libuvhttp.so*
# shellcheck disable=SC2046
cc "$here/consumer.c" -o "$work/static" $(pkg-config --static --cflags --libs uvhttp)
check "$work/static"
