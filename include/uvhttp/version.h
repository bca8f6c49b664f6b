/* Owns: the version that a program is compiled against. uvhttp_version() returns the version that the program runs
 * with. */
#ifndef UVHTTP_VERSION_H
#define UVHTTP_VERSION_H

#define UVHTTP_VERSION_MAJOR 0
#define UVHTTP_VERSION_MINOR 2
#define UVHTTP_VERSION_PATCH 0
#define UVHTTP_VERSION "0.2.0"

#endif
