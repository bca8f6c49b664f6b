/* Owns: the syntax of the parts of a request target that are the same in all versions of HTTP. May include: nothing. */
#ifndef UVHTTP_SRC_BASE_URI_H
#define UVHTTP_SRC_BASE_URI_H

#include <uvhttp/types.h>

/* Whether text is the authority of an http URI without userinfo: host [ ":" port ] (RFC 3986 section 3.2). A port, if
 * there are digits, is at most 65535; port_required asks for at least one digit. An empty text is not an authority. */
bool uvhttp__valid_authority(uvhttp_str_t text, bool port_required);

/* Whether the path holds no '%', no "//" and no dot segment: it is its own decoded form. */
bool uvhttp__plain_path(const char *path, size_t size);

#endif
