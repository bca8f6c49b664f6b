/* Owns: what this library says about its own build. The only source that depends on build_identity.h, which changes
 * with every source and every commit. */
#include "build_info.h"

#include <uvhttp/server.h>

#include "build_identity.h"

const char *uvhttp_version(void) {
    return UVHTTP_BUILD_VERSION;
}

const char *uvhttp_build_info(void) {
    return "version: " UVHTTP_BUILD_VERSION "\nrevision: " UVHTTP_BUILD_REVISION "\ndirty: " UVHTTP_BUILD_DIRTY
           "\nsources: " UVHTTP_BUILD_SOURCES "\ncompiler: " UVHTTP_BUILD_COMPILER "\nbuild type: " UVHTTP_BUILD_TYPE
           "\nflags: " UVHTTP_BUILD_FLAGS "\noptions: " UVHTTP_BUILD_OPTIONS "\n";
}
