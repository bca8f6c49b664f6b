/* Owns: whether a file can be made, without making it. May include: nothing. */
#ifndef UVHTTP_SRC_BASE_NEW_FILE_H
#define UVHTTP_SRC_BASE_NEW_FILE_H

/* Why no file can be made at a path where there is none: an errno of its directory. 0: nothing is known. The rights of
 * this process are left out. */
int uvhttp__new_file_error(const char *path);

#endif
