# Owns: build_info.h and build_identity.h, by which a binary says how and from which sources it was built, and the summary
# that configure prints. A benchmark reads the flags out of the running program, never from a command line.
set(UVHTTP_BUILD_INFO_DIR "${PROJECT_BINARY_DIR}/generated")

string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type_upper)
set(codegen -std=gnu17 ${uvhttp_codegen})
list(FILTER codegen EXCLUDE REGEX "^-fmacro-prefix-map") # holds a path of this machine
string(REPLACE ";" " " codegen "${codegen}")
string(STRIP "${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${build_type_upper}} ${codegen}" UVHTTP_FLAGS_TEXT)
if(UVHTTP_LTO)
  string(APPEND UVHTTP_FLAGS_TEXT " -flto")
endif()

# What is in the binary, not what was asked for: BUILD_WITH_MIMALLOC is OFF here if mimalloc was not found.
set(UVHTTP_OPTIONS_TEXT "")
foreach(name IN ITEMS BUILD_WITH_WEBSOCKET:${UVHTTP_HAVE_WEBSOCKET}
                       BUILD_WITH_STATIC:${BUILD_WITH_STATIC} BUILD_WITH_FORMS:${BUILD_WITH_FORMS}
                       BUILD_WITH_MIDDLEWARE:${BUILD_WITH_MIDDLEWARE}
                       BUILD_WITH_COMPRESSION:${UVHTTP_HAVE_COMPRESSION} BUILD_WITH_REDIS:${UVHTTP_HAVE_REDIS}
                       BUILD_WITH_YAML:${UVHTTP_HAVE_YAML}
                       BUILD_WITH_COROUTINES:${UVHTTP_HAVE_COROUTINES} BUILD_WITH_MIMALLOC:${UVHTTP_HAVE_MIMALLOC}
                       BUILD_WITH_USDT:${UVHTTP_HAVE_USDT}
                      ENABLE_DEBUG:${ENABLE_DEBUG} ENABLE_COVERAGE:${ENABLE_COVERAGE}
                      UVHTTP_WITH_URING:${UVHTTP_HAVE_URING} UVHTTP_LTO:${UVHTTP_LTO}
                      UVHTTP_PERFORMANCE_MODE:${UVHTTP_PERFORMANCE_MODE})
  string(REGEX MATCH "^([^:]*):(.*)$" ignored "${name}")
  set(value OFF)
  if(CMAKE_MATCH_2)
    set(value ON)
  endif()
  string(APPEND UVHTTP_OPTIONS_TEXT "${CMAKE_MATCH_1}=${value} ")
endforeach()
string(REPLACE ";" "," sanitize_text "${UVHTTP_SANITIZERS}")
string(APPEND UVHTTP_OPTIONS_TEXT "UVHTTP_HARDEN=${UVHTTP_HARDENED} UVHTTP_TLS=${UVHTTP_TLS} UVHTTP_SANITIZE=${sanitize_text}")

foreach(name IN ITEMS UVHTTP_FLAGS_TEXT UVHTTP_OPTIONS_TEXT)
  string(REPLACE "\\" "\\\\" ${name} "${${name}}")
  string(REPLACE "\"" "\\\"" ${name} "${${name}}")
endforeach()
configure_file("${PROJECT_SOURCE_DIR}/cmake/build_info.h.in" "${UVHTTP_BUILD_INFO_DIR}/build_info.h" @ONLY)

add_custom_target(uvhttp_build_identity
  COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${PROJECT_SOURCE_DIR}" "-DOUTPUT=${UVHTTP_BUILD_INFO_DIR}/build_identity.h"
          -P "${PROJECT_SOURCE_DIR}/cmake/write_build_identity.cmake"
  BYPRODUCTS "${UVHTTP_BUILD_INFO_DIR}/build_identity.h"
  COMMENT "" VERBATIM)

function(uvhttp_print_summary)
  message(STATUS "uvhttp ${PROJECT_VERSION}: ${CMAKE_BUILD_TYPE}, ${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}")
  message(STATUS "  flags     ${UVHTTP_FLAGS_TEXT}")
  message(STATUS "  options   ${UVHTTP_OPTIONS_TEXT}")
  message(STATUS "  event loop ${UVHTTP_STATUS_LIBUV}; io_uring: ${UVHTTP_STATUS_URING}; "
                 "allocator: ${UVHTTP_STATUS_MIMALLOC}; Redis: ${UVHTTP_STATUS_REDIS}; "
                 "coroutines: ${UVHTTP_STATUS_COROUTINES}; C++: ${UVHTTP_STATUS_CXX}")
endfunction()
