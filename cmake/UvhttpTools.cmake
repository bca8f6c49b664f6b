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
  add_executable(uvhttp_cli tools/cli/main.c)
  target_link_libraries(uvhttp_cli PRIVATE uvhttp_flags uvhttp_program_support uvhttp_static
                                           PkgConfig::UVHTTP_PC_LIBUV Threads::Threads)
  set_target_properties(uvhttp_cli PROPERTIES OUTPUT_NAME uvhttp RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/dist/bin")
endif()
