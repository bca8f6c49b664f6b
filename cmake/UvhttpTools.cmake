# Owns: uvhttp-load. All but its main is a library, so that the unit tests can reach it.
uvhttp_glob(load_sources tools/load/*.c)
list(REMOVE_ITEM load_sources tools/load/main.c)
add_library(uvhttp_load STATIC ${load_sources})
target_include_directories(uvhttp_load PUBLIC tools)
target_link_libraries(uvhttp_load PUBLIC uvhttp_inside m)
target_compile_options(uvhttp_load PRIVATE -Wconversion)
add_executable(uvhttp_load_program tools/load/main.c)
target_link_libraries(uvhttp_load_program PRIVATE uvhttp_load)
set_target_properties(uvhttp_load_program PROPERTIES
  OUTPUT_NAME uvhttp-load RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/dist/bin")
