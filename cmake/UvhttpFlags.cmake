# Owns: compiler flags. uvhttp_flags is linked by everything of ours and never installed.
set(CMAKE_C_STANDARD_REQUIRED ON)
# Files of any size on 32 bits, too; and system calls have one name in each build, by which tests replace them.
set(uvhttp_codegen -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64)
set(uvhttp_link -Wl,--as-needed)

# Asserts would otherwise carry the directory that the library was built in.
list(APPEND uvhttp_codegen "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=")

# A frame larger than a page touches each of its pages, so that it cannot step over a guard: of coroutines and of threads.
include(CheckCCompilerFlag)
set(CMAKE_REQUIRED_FLAGS -Werror)
check_c_compiler_flag(-fstack-clash-protection UVHTTP_HAVE_STACK_CLASH_PROTECTION)
unset(CMAKE_REQUIRED_FLAGS)
if(UVHTTP_HAVE_STACK_CLASH_PROTECTION)
  list(APPEND uvhttp_codegen -fstack-clash-protection)
endif()

# What makes a fault of memory end the process instead of being of use to an attacker. It is for what is optimized: the checks of
# the C library need the optimizer, and sanitizers see more. UVHTTP_HARDENED: what this build has.
set(UVHTTP_HARDENED OFF)
if(UVHTTP_HARDEN MATCHES "^(ON|FULL)$" AND CMAKE_BUILD_TYPE MATCHES "^(Release|RelWithDebInfo|MinSizeRel)$" AND NOT UVHTTP_SANITIZERS)
  set(UVHTTP_HARDENED ${UVHTTP_HARDEN})
  list(APPEND uvhttp_codegen -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
  list(APPEND uvhttp_link -Wl,-z,relro,-z,now,-z,noexecstack)
  include(CheckPIESupported)
  check_pie_supported(LANGUAGES C)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON) # programs: PIE
endif()
# What costs instructions for each function: docs/performance.md has how many.
if(UVHTTP_HARDENED STREQUAL "FULL")
  list(APPEND uvhttp_codegen -fstack-protector-strong)
  check_c_compiler_flag(-fcf-protection UVHTTP_HAVE_CF_PROTECTION) # x86 only
  if(UVHTTP_HAVE_CF_PROTECTION)
    list(APPEND uvhttp_codegen -fcf-protection)
  endif()
endif()

if(UVHTTP_SANITIZERS)
  string(REPLACE ";" "," sanitizers "${UVHTTP_SANITIZERS}")
  set(uvhttp_sanitize -fsanitize=${sanitizers} -fno-omit-frame-pointer)
  if("undefined" IN_LIST UVHTTP_SANITIZERS)
    list(APPEND uvhttp_sanitize -fno-sanitize-recover=undefined) # a finding must fail the test, not only print
  endif()
  list(APPEND uvhttp_codegen -O1 ${uvhttp_sanitize})
  list(APPEND uvhttp_link ${uvhttp_sanitize})
endif()
if(ENABLE_COVERAGE)
  list(APPEND uvhttp_codegen --coverage)
  list(APPEND uvhttp_link --coverage)
endif()
if(UVHTTP_BUILD_FUZZERS AND NOT UVHTTP_FUZZING_ENGINE STREQUAL "replay")
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "uvhttp: UVHTTP_BUILD_FUZZERS needs clang (libFuzzer): CC=clang cmake ..., or UVHTTP_FUZZING_ENGINE=replay")
  endif()
  if(UVHTTP_FUZZING_ENGINE STREQUAL "-fsanitize=fuzzer") # another one brings its instrumentation in CFLAGS
    list(APPEND uvhttp_codegen -fsanitize=fuzzer-no-link)
  endif()
endif()
if(UVHTTP_LTO)
  include(CheckIPOSupported)
  check_ipo_supported(LANGUAGES C)
  set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)
endif()

set(uvhttp_warnings -Wall -Wextra -Wpedantic -Wshadow -Wundef)
if(UVHTTP_WERROR)
  list(APPEND uvhttp_warnings -Werror)
endif()

add_library(uvhttp_flags INTERFACE)
target_compile_options(uvhttp_flags INTERFACE "$<IF:$<COMPILE_LANGUAGE:CXX>,-std=c++20,-std=gnu17>" ${uvhttp_codegen}
                                              ${uvhttp_warnings})
if("undefined" IN_LIST UVHTTP_SANITIZERS) # Clang before 17 cannot mark coroutines that are templates
  target_compile_options(uvhttp_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fno-sanitize=function>)
endif()
target_link_options(uvhttp_flags INTERFACE ${uvhttp_link})
