#!/bin/sh
# Owns: building the fuzz targets as OSS-Fuzz and ClusterFuzzLite ask for it: compilers, flags and the engine come from the
# environment (CC, CXX, CFLAGS, LIB_FUZZING_ENGINE), programs, seeds and dictionaries go to $OUT.
#   SRC_DIR=/src/uvhttp WORK=/work OUT=/out sh test/fuzz/oss_fuzz.sh
set -eu
: "${OUT:?where the programs go}" "${CC:=clang}" "${LIB_FUZZING_ENGINE:=-fsanitize=fuzzer}"
source=${SRC_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${WORK:-$source/build}/oss-fuzz
CC=$CC cmake -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=Debug -DUVHTTP_BUILD_FUZZERS=ON -DUVHTTP_BUILD_EXAMPLES=OFF \
    -DUVHTTP_BUILD_TOOLS=OFF -DUVHTTP_FUZZING_ENGINE="$LIB_FUZZING_ENGINE"
mkdir -p "$OUT"
for file in "$source"/test/fuzz/fuzz_*.c; do
    name=$(basename "$file" .c)
    cmake --build "$build" -j "$(nproc)" --target "$name"
    cp "$build/test/fuzz/$name" "$OUT/"
    [ ! -d "$source/test/fuzz/corpus/$name" ] || (cd "$source/test/fuzz/corpus/$name" && zip -q -r "$OUT/${name}_seed_corpus.zip" .)
    [ ! -f "$source/test/fuzz/$name.dict" ] || cp "$source/test/fuzz/$name.dict" "$OUT/$name.dict"
done
