# Owns: the fuzz targets: each test/fuzz/fuzz_*.c is one libFuzzer program in <build>/test/fuzz/.
uvhttp_glob(fuzz_sources test/fuzz/fuzz_*.c)
foreach(source IN LISTS fuzz_sources)
  get_filename_component(name "${source}" NAME_WE)
  add_executable(${name} "${source}")
  target_link_libraries(${name} PRIVATE uvhttp_inside)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/test/fuzz")
endforeach()
