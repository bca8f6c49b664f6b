# Owns: the unit tests: each test/unit/<folder>/test_<topic>.c is one program and one CTest entry "<folder>/<topic>".
# Helpers that several programs need live in test/unit/support/. Exit code 77 means skipped (a kernel that lacks it).
enable_testing()
pkg_check_modules(UVHTTP_PC_CMOCKA QUIET IMPORTED_TARGET cmocka)
if(NOT UVHTTP_PC_CMOCKA_FOUND)
  message(FATAL_ERROR "uvhttp: UVHTTP_BUILD_TESTS needs cmocka. On Debian: apt-get install libcmocka-dev")
endif()
uvhttp_require(UVHTTP_PC_NGHTTP2 "libnghttp2" "libnghttp2-dev (the oracle of HTTP/2)")

# cmocka.h uses these headers without including them, and sorted includes put it first.
add_library(uvhttp_unit_test INTERFACE)
target_compile_options(uvhttp_unit_test INTERFACE "SHELL:-include stdarg.h" "SHELL:-include stddef.h"
                                                  "SHELL:-include stdint.h" "SHELL:-include setjmp.h")
target_link_libraries(uvhttp_unit_test INTERFACE uvhttp_inside PkgConfig::UVHTTP_PC_CMOCKA)
# Hundreds of programs, in each configuration: gold links them in half of the time.
include(CheckLinkerFlag)
include(CheckSymbolExists)
check_linker_flag(C -fuse-ld=gold UVHTTP_HAVE_GOLD)
if(UVHTTP_HAVE_GOLD AND NOT UVHTTP_LTO)
  target_link_options(uvhttp_unit_test INTERFACE -fuse-ld=gold)
endif()
if(UVHTTP_TLS STREQUAL "mbedtls") # the tests' client is OpenSSL, whatever the server is
  uvhttp_require(UVHTTP_PC_OPENSSL "libssl>=3.0" "libssl-dev (the tests' TLS client)")
  target_link_libraries(uvhttp_unit_test INTERFACE PkgConfig::UVHTTP_PC_OPENSSL)
endif()

# System calls that tests let fail: the linker puts those of fail_wrap.c and fail_ring.c in their place. With link-time optimisation it
# sees the calls too late.
set(UVHTTP_FAILING_CALLS OFF)
if(BUILD_WITH_FORMS AND BUILD_WITH_MIDDLEWARE AND BUILD_WITH_STATIC AND NOT UVHTTP_LTO)
  set(UVHTTP_FAILING_CALLS ON)
  set(failing_calls
    accept4 bind clock_gettime close connect epoll_create1 epoll_ctl epoll_wait eventfd fcntl64 fdopendir flock fstat64 fstatat64
    ftruncate64 getaddrinfo getcwd getpeername getrandom getresgid getresuid getrlimit64 getsockname getsockopt initgroups ioctl
    listen lstat64 madvise memfd_create mkostemp64 mmap64 mprotect open64 openat64 pidfd_open poll posix_fadvise64 posix_spawn
    pread64 preadv64 preadv64v2 pthread_create pwrite64 read readlink recv recvmsg send sendfile64 sendmsg sendto setresgid setresuid
    setrlimit64 setsockopt shutdown sigtimedwait socket socketpair stat64 syscall timerfd_create timerfd_settime unlink unlinkat
    waitpid write)
  check_symbol_exists(__GLIBC__ features.h UVHTTP_HAVE_GLIBC)
  if(NOT UVHTTP_HAVE_GLIBC) # as fail_wrap.c
    list(REMOVE_ITEM failing_calls pidfd_open preadv64v2)
    list(TRANSFORM failing_calls REPLACE "64$" "")
  endif()
  add_library(uvhttp_failing_calls INTERFACE)
  target_sources(uvhttp_failing_calls INTERFACE "${PROJECT_SOURCE_DIR}/test/integration/faults/fail_wrap.c")
  target_include_directories(uvhttp_failing_calls INTERFACE test/integration/faults)
  if(UVHTTP_HAVE_URING)
    target_sources(uvhttp_failing_calls INTERFACE "${PROJECT_SOURCE_DIR}/test/integration/faults/fail_ring.c")
    target_link_libraries(uvhttp_failing_calls INTERFACE PkgConfig::UVHTTP_PC_LIBURING)
    list(APPEND failing_calls
      io_uring_get_events io_uring_queue_init_params io_uring_register_buf_ring io_uring_register_eventfd
      io_uring_register_ring_fd io_uring_submit io_uring_submit_and_get_events io_uring_submit_and_wait
      io_uring_submit_and_wait_timeout)
  endif()
  foreach(call IN LISTS failing_calls)
    target_link_options(uvhttp_failing_calls INTERFACE "LINKER:--wrap=${call}")
  endforeach()
endif()

# An archive: a program gets the helpers that it names, and what they start by themselves (io_server.c).
uvhttp_programs(support_sources test/unit/support/*.c)
if(NOT UVHTTP_FAILING_CALLS)
  list(FILTER support_sources EXCLUDE REGEX "/failing_calls\\.c$")
endif()
add_library(uvhttp_test_support STATIC ${support_sources})
target_link_libraries(uvhttp_test_support PUBLIC uvhttp_unit_test)
target_include_directories(uvhttp_test_support PUBLIC test/integration/faults)
set_target_properties(uvhttp_test_support PROPERTIES ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/test")

uvhttp_programs(test_sources test/unit/*/test_*.c)
if(NOT UVHTTP_FAILING_CALLS)
  list(FILTER test_sources EXCLUDE REGEX "/test_failing_")
endif()
# ThreadSanitizer is slow, and has nothing to find in one thread (test_check_dev.py looks for others). failing_upgrade and failing_unready have several.
set(UVHTTP_ONE_THREAD "^test/unit/(config|http1|http2|message|route|websocket)/|/test_(exhaustive_|failing_[^u])|^test/unit/base/test_date")
if("thread" IN_LIST UVHTTP_SANITIZERS)
  list(FILTER test_sources EXCLUDE REGEX "${UVHTTP_ONE_THREAD}")
endif()
# Nothing measures the tests themselves: without optimization they compile in half of the time. Not those that compute most of theirs, and
# not with sanitizers, which make frames on the stacks of coroutines large.
set(UVHTTP_COMPUTING "/test_exhaustive_|^test/unit/(base/test_date|http1/test_(mutation|response_read)|http2/test_(hpack_huffman|response)|route/test_random)\\.c$")
foreach(source IN LISTS test_sources)
  if(NOT UVHTTP_SANITIZERS AND NOT source MATCHES "${UVHTTP_COMPUTING}")
    set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS "-O0;-U_FORTIFY_SOURCE")
  endif()
  string(REGEX MATCH "^test/unit/([^/]+)/test_(.+)\\.c$" ignored "${source}")
  set(target "test_${CMAKE_MATCH_1}_${CMAKE_MATCH_2}")
  add_executable(${target} "${source}")
  target_link_libraries(${target} PRIVATE uvhttp_test_support)
  if(CMAKE_MATCH_1 STREQUAL "load")
    target_link_libraries(${target} PRIVATE uvhttp_load)
  elseif(CMAKE_MATCH_1 STREQUAL "http2")
    target_link_libraries(${target} PRIVATE PkgConfig::UVHTTP_PC_NGHTTP2)
  endif()
  string(FIND "${CMAKE_MATCH_2}" "failing_" at) # MATCHES would forget folder and topic
  if(at EQUAL 0)
    target_link_libraries(${target} PRIVATE uvhttp_failing_calls)
  endif()
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/test/bin")
  add_test(NAME "${CMAKE_MATCH_1}/${CMAKE_MATCH_2}" COMMAND ${target} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  # A build without NDEBUG would log at INFO: what tests expect is what WARN lets through, in each configuration.
  set_tests_properties("${CMAKE_MATCH_1}/${CMAKE_MATCH_2}" PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77
    ENVIRONMENT "UVHTTP_LOG_LEVEL=warn")
endforeach()

# Those that wait out real seconds start first, so that the others run meanwhile.
foreach(name IN ITEMS conn/idle conn/idle_queue exchange/deadline exchange/streams_end tls/tcp io/pitfalls io/stream io/stream_receive
    conn/connection)
  if(TEST ${name})
    set_tests_properties(${name} PROPERTIES COST 10)
  endif()
endforeach()

# Micro benchmarks see the inside as well; they are built with the tests so that they do not rot, and run by hand.
uvhttp_programs(micro_sources bench/micro/*.c)
if("thread" IN_LIST UVHTTP_SANITIZERS) # nobody runs them, nor the simulation
  set(micro_sources)
endif()
foreach(source IN LISTS micro_sources)
  get_filename_component(target "${source}" NAME_WE)
  add_executable(${target} "${source}")
  target_link_libraries(${target} PRIVATE uvhttp_inside)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
endforeach()

# Programs that the integration tests start, which want everything. The server sees the public headers only, as examples do.
if(BUILD_WITH_STATIC AND BUILD_WITH_FORMS AND BUILD_WITH_MIDDLEWARE)
  uvhttp_programs(server_sources test/integration/server/*.c)
  list(REMOVE_ITEM server_sources test/integration/server/without_io_uring.c)
  add_executable(http_test_server ${server_sources})
  target_link_libraries(http_test_server PRIVATE uvhttp_flags uvhttp_static PkgConfig::UVHTTP_PC_LIBUV Threads::Threads)
  add_executable(without_io_uring test/integration/server/without_io_uring.c)
  target_link_libraries(without_io_uring PRIVATE uvhttp_flags)
  add_executable(static_test_server test/integration/static/static_test_server.c)
  target_link_libraries(static_test_server PRIVATE uvhttp_flags uvhttp_static Threads::Threads)
  set_target_properties(http_test_server without_io_uring static_test_server PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/test/bin")
endif()
# What the tests of failing system calls start: a server whose calls can be failed, and a client that checks every byte.
if(UVHTTP_FAILING_CALLS)
  add_executable(pattern_server test/integration/faults/pattern_server.c test/integration/faults/pattern_routes.c
    test/integration/faults/fail_calls.c test/unit/support/failing_allocator.c)
  target_include_directories(pattern_server PRIVATE test/unit)
  target_link_libraries(pattern_server PRIVATE uvhttp_flags uvhttp_static uvhttp_failing_calls PkgConfig::UVHTTP_PC_LIBUV Threads::Threads)
  if(BUILD_WITH_WEBSOCKET)
    target_compile_definitions(pattern_server PRIVATE PATTERN_WEBSOCKET)
  endif()
  if(UVHTTP_HAVE_COROUTINES)
    target_compile_definitions(pattern_server PRIVATE PATTERN_COROUTINES)
  endif()
  set_target_properties(pattern_server PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/test/bin")
endif()
add_executable(verify_client test/integration/faults/verify_client.c)
target_link_libraries(verify_client PRIVATE uvhttp_flags Threads::Threads)
if(TARGET PkgConfig::UVHTTP_PC_OPENSSL)
  target_link_libraries(verify_client PRIVATE PkgConfig::UVHTTP_PC_OPENSSL)
  target_compile_definitions(verify_client PRIVATE VERIFY_TLS)
endif()
set_target_properties(verify_client PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/test/bin")
if(BUILD_WITH_WEBSOCKET)
  uvhttp_programs(websocket_server_sources test/integration/websocket/*.c)
  add_executable(websocket_test_server ${websocket_server_sources})
  target_link_libraries(websocket_test_server PRIVATE uvhttp_flags uvhttp_static Threads::Threads)
  set_target_properties(websocket_test_server PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/test/bin")
endif()

if(UVHTTP_HAVE_CXX)
  foreach(program IN ITEMS cpp_test_server cpp_site_server)
    add_executable(${program} test/integration/cpp/${program}.cpp)
    target_link_libraries(${program} PRIVATE uvhttp_flags uvhttp_static Threads::Threads)
    target_compile_options(${program} PRIVATE -Wconversion)
    set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/test/bin")
  endforeach()
  if(NOT UVHTTP_SANITIZERS) # they have an operator new of their own
    target_compile_definitions(cpp_test_server PRIVATE COUNT_NEWS)
  endif()
endif()

# Programs of the gates (test/gates/*.py run them); public headers only. They count calls of malloc, as sanitizers do.
uvhttp_programs(gate_sources test/gates/*.c)
if(UVHTTP_SANITIZERS)
  set(gate_sources)
endif()
foreach(source IN LISTS gate_sources)
  get_filename_component(name "${source}" NAME_WE)
  add_executable(gate_${name} "${source}")
  target_link_libraries(gate_${name} PRIVATE uvhttp_flags uvhttp_static PkgConfig::UVHTTP_PC_LIBUV Threads::Threads)
  set_target_properties(gate_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/test/bin")
endforeach()

# What the stories of header compression are sent to.
add_executable(hpack_stories test/integration/http2/hpack_stories.c)
target_link_libraries(hpack_stories PRIVATE uvhttp_inside PkgConfig::UVHTTP_PC_NGHTTP2)
# What PyPI h2 gets as well.
add_executable(frame_sequences test/integration/http2/frame_sequences.c)
target_include_directories(frame_sequences PRIVATE test/fuzz)
target_link_libraries(frame_sequences PRIVATE uvhttp_inside)
# What PyPI h11 and httptools get as well.
add_executable(request_streams test/integration/http1/request_streams.c)
target_link_libraries(request_streams PRIVATE uvhttp_inside)
set_target_properties(hpack_stories frame_sequences request_streams PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/test/bin")

# The simulation wants everything. With link-time optimisation the linker sees the calls too late to put others in their place.
if(UVHTTP_HAVE_COROUTINES AND BUILD_WITH_STATIC AND BUILD_WITH_MIDDLEWARE AND BUILD_WITH_WEBSOCKET AND NOT UVHTTP_LTO
   AND NOT "thread" IN_LIST UVHTTP_SANITIZERS)
  add_subdirectory("${PROJECT_SOURCE_DIR}/test/sim" "${PROJECT_BINARY_DIR}/sim")
endif()
