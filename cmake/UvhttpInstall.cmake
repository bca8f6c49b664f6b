# Owns: what "cmake --install" puts where, uvhttp.pc, and the package that find_package(uvhttp) reads.
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/uvhttp")

set(left_out)
if(NOT BUILD_WITH_WEBSOCKET)
  list(APPEND left_out PATTERN "websocket.h" EXCLUDE)
endif()
if(NOT BUILD_WITH_STATIC)
  list(APPEND left_out PATTERN "static.h" EXCLUDE)
endif()
if(NOT BUILD_WITH_MIDDLEWARE)
  foreach(name IN ITEMS access_log allowed_hosts auth compression cors rate_limit request_id security_headers)
    list(APPEND left_out PATTERN "${name}.h" EXCLUDE)
  endforeach()
endif()
install(DIRECTORY include/ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp"
        ${left_out})
install(FILES "${UVHTTP_FEATURES_DIR}/uvhttp/features.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/uvhttp")
set_target_properties(uvhttp_shared PROPERTIES EXPORT_NAME uvhttp)
set_target_properties(uvhttp_static PROPERTIES EXPORT_NAME static)
# Two export sets: who links the shared library needs none of the packages that the archive needs.
install(TARGETS uvhttp_shared EXPORT uvhttp-shared LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(TARGETS uvhttp_static EXPORT uvhttp-static ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
foreach(kind IN ITEMS shared static)
  install(EXPORT uvhttp-${kind} NAMESPACE uvhttp:: DESTINATION "${package_dir}")
endforeach()
if(UVHTTP_BUILD_TOOLS)
  install(TARGETS uvhttp_load_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  if(TARGET uvhttp_cli)
    install(TARGETS uvhttp_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
    # The unit names the program's path, which "cmake --install --prefix" decides.
    install(CODE "
      set(UVHTTP_BINDIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
      set(UVHTTP_DOCDIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}\")
      configure_file(\"${PROJECT_SOURCE_DIR}/tools/systemd/uvhttp.service.in\"
                     \"${PROJECT_BINARY_DIR}/generated/uvhttp.service\" @ONLY)")
    install(FILES "${PROJECT_BINARY_DIR}/generated/uvhttp.service" tools/systemd/uvhttp.socket
            DESTINATION lib/systemd/system)
  endif()
  if(TARGET uvhttp_about)
    install(DIRECTORY "${UVHTTP_ABOUT_DIR}/man/" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
    if(TARGET uvhttp_cli)
      install(FILES "${UVHTTP_ABOUT_DIR}/completions/bash" RENAME uvhttp
              DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
      install(FILES "${UVHTTP_ABOUT_DIR}/completions/zsh" RENAME _uvhttp
              DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
      install(FILES "${UVHTTP_ABOUT_DIR}/completions/fish" RENAME uvhttp.fish
              DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
    endif()
  endif()
endif()

# What a package's users read. Reports of measurements stay in the repository.
install(FILES LICENSE README.md README.zh-CN.md CHANGELOG.md SECURITY.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs/ DESTINATION "${CMAKE_INSTALL_DOCDIR}/docs" FILES_MATCHING PATTERN "*.md"
        PATTERN "performance" EXCLUDE)
install(DIRECTORY examples/ DESTINATION "${CMAKE_INSTALL_DOCDIR}/examples")

configure_package_config_file(cmake/uvhttp-config.cmake.in "${PROJECT_BINARY_DIR}/generated/uvhttp-config.cmake"
                              INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/generated/uvhttp-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/generated/uvhttp-config.cmake"
              "${PROJECT_BINARY_DIR}/generated/uvhttp-config-version.cmake" DESTINATION "${package_dir}")
if(UVHTTP_TLS STREQUAL "mbedtls")
  install(FILES cmake/UvhttpMbedtls.cmake DESTINATION "${package_dir}")
endif()

# Relative to the file: an installed tree may be moved.
file(RELATIVE_PATH UVHTTP_PC_INCLUDE "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
configure_file(cmake/uvhttp.pc.in "${PROJECT_BINARY_DIR}/generated/uvhttp.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/generated/uvhttp.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
