# Owns: the programs in addition to the library. uvhttp-load: all but its main is a library, so that the unit tests can reach it.
uvhttp_programs(load_sources tools/load/*.c)
list(REMOVE_ITEM load_sources tools/load/main.c)
add_library(uvhttp_load STATIC ${load_sources})
target_include_directories(uvhttp_load PUBLIC tools)
target_link_libraries(uvhttp_load PUBLIC uvhttp_inside m)
target_compile_options(uvhttp_load PRIVATE -Wconversion)
add_executable(uvhttp_load_program tools/load/main.c)
target_link_libraries(uvhttp_load_program PRIVATE uvhttp_load)
set_target_properties(uvhttp_load_program PROPERTIES
  OUTPUT_NAME uvhttp-load RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/dist/bin")

# The command line over the library. Without one of its parts there is nothing for it to do.
if(BUILD_WITH_STATIC AND BUILD_WITH_MIDDLEWARE)
  uvhttp_programs(cli_sources tools/cli/*.c)
  add_executable(uvhttp_cli ${cli_sources})
  target_link_libraries(uvhttp_cli PRIVATE uvhttp_program_support uvhttp_inside)
  target_compile_definitions(uvhttp_cli PRIVATE CLI_WITH_OPENSSL=${UVHTTP_FEATURE_openssl}
                                                CLI_WITH_MBEDTLS=${UVHTTP_FEATURE_mbedtls})
  set_target_properties(uvhttp_cli PROPERTIES OUTPUT_NAME uvhttp RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/dist/bin")
endif()

# What the programs write about themselves: manual pages, and completions of shells.
set(UVHTTP_ABOUT_DIR "${PROJECT_BINARY_DIR}/generated/about")
function(uvhttp_about program output)
  set(file "${UVHTTP_ABOUT_DIR}/${output}")
  get_filename_component(directory "${file}" DIRECTORY)
  add_custom_command(OUTPUT "${file}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${directory}"
    COMMAND ${program} ${ARGN} > "${file}"
    DEPENDS ${program} VERBATIM)
  set_property(GLOBAL APPEND PROPERTY UVHTTP_ABOUT "${file}")
endfunction()
if(NOT CMAKE_CROSSCOMPILING) # they have to run
  uvhttp_about(uvhttp_load_program man/uvhttp-load.1 --man)
  if(TARGET uvhttp_cli)
    uvhttp_about(uvhttp_cli man/uvhttp.1 man)
    uvhttp_about(uvhttp_cli completions/bash completion bash)
    uvhttp_about(uvhttp_cli completions/zsh completion zsh)
    uvhttp_about(uvhttp_cli completions/fish completion fish)
  endif()
  get_property(about GLOBAL PROPERTY UVHTTP_ABOUT)
  add_custom_target(uvhttp_about ALL DEPENDS ${about})
endif()
