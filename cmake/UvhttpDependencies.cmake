# Owns: finding other people's libraries, and a clear line for each one that is missing.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

function(uvhttp_require prefix specification package)
  pkg_check_modules(${prefix} QUIET IMPORTED_TARGET "${specification}")
  if(NOT ${prefix}_FOUND)
    message(FATAL_ERROR "uvhttp: ${specification} not found. On Debian: apt-get install ${package}")
  endif()
  set(${prefix}_VERSION "${${prefix}_VERSION}" PARENT_SCOPE)
endfunction()

uvhttp_require(LIBUV "libuv>=1.40" libuv1-dev)
uvhttp_require(XXHASH "libxxhash" libxxhash-dev)
set(UVHTTP_DEPENDENCY_LIBRARIES PkgConfig::LIBUV PkgConfig::XXHASH)
set(UVHTTP_PC_REQUIRES "libuv libxxhash")
set(UVHTTP_PC_LIBS "")
set(UVHTTP_STATUS_LIBUV "libuv ${LIBUV_VERSION}")

set(UVHTTP_HAVE_URING 0)
if(UVHTTP_WITH_URING STREQUAL "OFF")
  set(UVHTTP_STATUS_URING "off (UVHTTP_WITH_URING=OFF)")
else()
  pkg_check_modules(LIBURING QUIET IMPORTED_TARGET "liburing>=2.3")
  if(LIBURING_FOUND)
    set(UVHTTP_HAVE_URING 1)
    list(APPEND UVHTTP_DEPENDENCY_LIBRARIES PkgConfig::LIBURING)
    string(APPEND UVHTTP_PC_REQUIRES " liburing")
    set(UVHTTP_STATUS_URING "liburing ${LIBURING_VERSION}")
  elseif(UVHTTP_WITH_URING STREQUAL "ON")
    message(FATAL_ERROR "uvhttp: UVHTTP_WITH_URING=ON, but liburing>=2.3 was not found. "
                        "On Debian: apt-get install liburing-dev")
  else()
    set(UVHTTP_STATUS_URING "off: liburing>=2.3 not found (Debian: liburing-dev)")
  endif()
endif()

if(BUILD_WITH_WEBSOCKET)
  uvhttp_require(CRYPTO "libcrypto>=3.0" libssl-dev)
  list(APPEND UVHTTP_DEPENDENCY_LIBRARIES PkgConfig::CRYPTO)
  string(APPEND UVHTTP_PC_REQUIRES " libcrypto")
endif()

set(UVHTTP_HAVE_MIMALLOC 0)
if(NOT BUILD_WITH_MIMALLOC)
  set(UVHTTP_STATUS_MIMALLOC "off (BUILD_WITH_MIMALLOC=OFF)")
elseif(UVHTTP_SANITIZERS)
  set(UVHTTP_STATUS_MIMALLOC "off: a sanitizer must see every allocation")
else()
  find_package(mimalloc CONFIG QUIET) # no .pc file in Debian 12
  if(mimalloc_FOUND)
    set(UVHTTP_HAVE_MIMALLOC 1)
    list(APPEND UVHTTP_DEPENDENCY_LIBRARIES mimalloc)
    set(UVHTTP_PC_LIBS "-lmimalloc")
    set(UVHTTP_STATUS_MIMALLOC "mimalloc ${mimalloc_VERSION}")
  else()
    set(UVHTTP_STATUS_MIMALLOC "off: not found (Debian: libmimalloc-dev)")
  endif()
endif()

add_library(uvhttp_dependencies INTERFACE)
target_link_libraries(uvhttp_dependencies INTERFACE ${UVHTTP_DEPENDENCY_LIBRARIES})

# What library sources may ask the preprocessor; always 0 or 1, so that a missing definition is a -Wundef warning.
set(UVHTTP_HAVE_WEBSOCKET 0)
if(BUILD_WITH_WEBSOCKET)
  set(UVHTTP_HAVE_WEBSOCKET 1)
endif()
add_library(uvhttp_features INTERFACE)
target_compile_definitions(uvhttp_features INTERFACE
  UVHTTP_WITH_URING=${UVHTTP_HAVE_URING}
  UVHTTP_WITH_MIMALLOC=${UVHTTP_HAVE_MIMALLOC}
  UVHTTP_WITH_WEBSOCKET=${UVHTTP_HAVE_WEBSOCKET})
