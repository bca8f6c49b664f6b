# Owns: finding mbedTLS 2.28, here and for who links an installed archive: the target uvhttp_mbedtls::mbedtls, or a
# reason in UVHTTP_STATUS_MBEDTLS.
find_path(UVHTTP_MBEDTLS_INCLUDE_DIR mbedtls/version.h)
set(UVHTTP_STATUS_MBEDTLS "no header mbedtls/version.h")
set(uvhttp_mbedtls_libraries)
foreach(name IN ITEMS mbedtls mbedx509 mbedcrypto)
  find_library(UVHTTP_${name}_LIBRARY ${name})
  list(APPEND uvhttp_mbedtls_libraries "${UVHTTP_${name}_LIBRARY}")
endforeach()
mark_as_advanced(UVHTTP_MBEDTLS_INCLUDE_DIR UVHTTP_mbedtls_LIBRARY UVHTTP_mbedx509_LIBRARY UVHTTP_mbedcrypto_LIBRARY)
if(UVHTTP_MBEDTLS_INCLUDE_DIR)
  file(STRINGS "${UVHTTP_MBEDTLS_INCLUDE_DIR}/mbedtls/version.h" UVHTTP_STATUS_MBEDTLS
       REGEX "define MBEDTLS_VERSION_STRING ")
  string(REGEX MATCH "[0-9][0-9.]*" UVHTTP_STATUS_MBEDTLS "${UVHTTP_STATUS_MBEDTLS}")
  if(NOT "${uvhttp_mbedtls_libraries}" MATCHES "NOTFOUND" AND UVHTTP_STATUS_MBEDTLS MATCHES "^2\\.28\\.")
    if(NOT TARGET uvhttp_mbedtls::mbedtls)
      add_library(uvhttp_mbedtls::mbedtls INTERFACE IMPORTED)
      set_target_properties(uvhttp_mbedtls::mbedtls PROPERTIES
        INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${UVHTTP_MBEDTLS_INCLUDE_DIR}"
        INTERFACE_LINK_LIBRARIES "${uvhttp_mbedtls_libraries}")
    endif()
  endif()
endif()
