/* Owns: see new_file.h. */
#include "base/new_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int uvhttp__new_file_error(const char *path) {
    char directory[PATH_MAX] = ".";
    struct stat info;
    const char *slash = strrchr(path, '/');
    if (slash && slash[1] == '\0') return EISDIR;
    if (slash && slash - path + 1 >= PATH_MAX) return ENAMETOOLONG;
    if (slash) snprintf(directory, sizeof directory, "%.*s", (int)(slash - path) + 1, path); /* with the slash */
    if (stat(directory, &info) == 0 && access(directory, W_OK | X_OK) == 0) return 0;
    return errno == EACCES ? 0 : errno;
}
