/* Owns: printf into a buffer, whatever the locale of the program: the decimal point is a point. May include: nothing.
 */
#ifndef UVHTTP_SRC_BASE_FORMAT_H
#define UVHTTP_SRC_BASE_FORMAT_H

#include <stdarg.h>
#include <stddef.h>
#include <uvhttp/types.h>

/* As snprintf(3) and vsnprintf(3), in the C locale. Returns -1 and an empty text if that is unavailable, for want of
 * memory.
 */
UVHTTP_PRINTF(3, 4) int uvhttp__format(char *out, size_t size, const char *format, ...);
int uvhttp__format_v(char *out, size_t size, const char *format, va_list arguments);

#endif
