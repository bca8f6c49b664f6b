# Owns: build_identity.h, which says what sources a binary was built from. Run at every build, by
#   cmake -DSOURCE=<dir> -DOUTPUT=<file> -P write_build_identity.cmake
# The file is replaced only if its text differs: otherwise nothing is compiled or linked again.
#
# The source hash is SHA-256 over one line "<SHA-256 of the file>  <path>\n" for each file, in the order of the paths'
# bytes. bench/uvhttp_bench/sources.py computes the same. It needs no git: an unpacked archive has the same hash.
cmake_minimum_required(VERSION 3.20)

set(patterns bench/*.c CMakeLists.txt CMakePresets.json)
set(patterns_below)
foreach(folder IN ITEMS cmake examples include src tools)
  foreach(suffix IN ITEMS c cmake cpp h hpp html in map)
    list(APPEND patterns_below "${SOURCE}/${folder}/*.${suffix}")
  endforeach()
endforeach()
list(TRANSFORM patterns PREPEND "${SOURCE}/")
file(GLOB files RELATIVE "${SOURCE}" ${patterns})
file(GLOB_RECURSE more LIST_DIRECTORIES false RELATIVE "${SOURCE}" ${patterns_below})
list(APPEND files ${more})
list(SORT files)
set(lines "")
foreach(path IN LISTS files)
  file(SHA256 "${SOURCE}/${path}" digest)
  string(APPEND lines "${digest}  ${path}\n")
endforeach()
string(SHA256 sources "${lines}")

# Prints nothing and fails without git, and in a directory that is no repository.
function(run_git result_out text_out)
  execute_process(COMMAND git -C "${SOURCE}" ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(${result_out} "${result}" PARENT_SCOPE)
  set(${text_out} "${text}" PARENT_SCOPE)
endfunction()

# A copy inside another project's repository has that project's revision, which says nothing about these sources.
set(revision unknown)
set(dirty unknown)
run_git(result prefix rev-parse --show-prefix)
if(result EQUAL 0 AND prefix STREQUAL "")
  run_git(result head rev-parse HEAD)
  run_git(status_result changes --no-optional-locks status --porcelain --untracked-files=all --
          bench cmake examples include src tools CMakeLists.txt CMakePresets.json)
  if(result EQUAL 0 AND status_result EQUAL 0)
    set(revision "${head}")
    set(dirty no)
    if(changes)
      set(dirty yes)
    endif()
  endif()
endif()

set(text "/* Owns: which sources this library was built from. Written at each build, do not edit. */
#ifndef UVHTTP_BUILD_IDENTITY_H
#define UVHTTP_BUILD_IDENTITY_H

#define UVHTTP_BUILD_REVISION \"${revision}\"
#define UVHTTP_BUILD_DIRTY \"${dirty}\"
#define UVHTTP_BUILD_SOURCES \"${sources}\"

#endif
")
set(old "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" old)
endif()
if(NOT text STREQUAL old)
  file(WRITE "${OUTPUT}" "${text}")
endif()
