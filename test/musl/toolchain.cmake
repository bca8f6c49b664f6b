# Owns: the build with musl instead of glibc. UVHTTP_MUSL in the environment: the libraries for musl, which libraries.py has built.
# Shared ones: tests put functions of their own in the place of those of a library.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER musl-gcc)
set(root "$ENV{UVHTTP_MUSL}/root")

set(CMAKE_FIND_ROOT_PATH "${root}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} "${root}/lib/pkgconfig:${root}/share/pkgconfig")

set(CMAKE_C_FLAGS_INIT "-isystem ${root}/include")
foreach(kind IN ITEMS EXE SHARED)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "-L${root}/lib -Wl,-rpath,${root}/lib")
endforeach()
