/* Owns: dates of HTTP (RFC 9110 section 5.6.7), written and read. May include: nothing. */
#ifndef UVHTTP_SRC_BASE_DATE_H
#define UVHTTP_SRC_BASE_DATE_H

#include <uvhttp/types.h>

#define UVHTTP__DATE_SIZE 29

/* IMF-fixdate of a Unix time, exactly 29 bytes, no terminator. Years beyond 0..9999 are cut to that. */
void uvhttp__date_write(char out[UVHTTP__DATE_SIZE], int64_t unix_seconds);

/* Reads IMF-fixdate and the two obsolete forms; the day of the week is not compared. now_unix_seconds: what the two
 * digits of an RFC 850 year are near to. Returns false, and leaves *unix_seconds alone, for anything else. */
bool uvhttp__date_parse(uvhttp_str_t text, int64_t now_unix_seconds, int64_t *unix_seconds);

#endif
