#!/bin/sh
# Owns: fuzz targets of the parsers with MemorySanitizer: run.sh BUILD_DIR SECONDS SEED. Only what needs no other library is compiled, for
# MemorySanitizer takes everything that such a library writes for uninitialised. Seeds first, then so many seconds each.
set -eu
build=$1
seconds=$2
seed=$3
work=$build/msan
mkdir -p "$work/objects" "$work/uvhttp"
# Its allocator is another library.
sed 's/MIMALLOC 1/MIMALLOC 0/' "$build/generated/include/uvhttp/features.h" >"$work/uvhttp/features.h"
flags="-std=gnu17 -g -O1 -fsanitize=memory,undefined,fuzzer-no-link -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
includes="-D_GNU_SOURCE -Isrc -Iinclude -Itest/unit -I$work -I$build/generated -I$build/generated/include"
sources=$(ls src/base/*.c src/http1/*.c src/http2/*.c src/websocket/frame.c src/base/utf8.c)

for source in $sources; do echo "$source"; done |
    xargs -P "$(nproc)" -I '{}' sh -c "clang $flags $includes -c '{}' -o \"$work/objects/\$(echo '{}' | tr / _).o\""
rm -f "$work/parsers.a"
ar rcs "$work/parsers.a" "$work"/objects/*.o
# Each is linked and run by one process: it has one thread.
for target in http1_request http1_chunked http2_frames http2_head response websocket_frames; do echo "$target"; done |
    xargs -P "$(nproc)" -I '{}' sh -c "clang $flags -fsanitize=fuzzer $includes test/fuzz/fuzz_{}.c \"$work/parsers.a\" -o \"$work/fuzz_{}\" &&
        sh test/tools/fuzz_one.sh \"$work/fuzz_{}\" \"$seconds\" \"$seed\""
