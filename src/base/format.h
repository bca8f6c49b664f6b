/* Owns: the C locale for a call, and printf into a buffer with it: the decimal point is a point in every locale of the
 * program. May include: nothing. */
#ifndef UVHTTP_SRC_BASE_FORMAT_H
#define UVHTTP_SRC_BASE_FORMAT_H

#include <locale.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <uvhttp/types.h>

typedef struct uvhttp__c_locale {
    locale_t own, before;
} uvhttp__c_locale_t;

/* Sets the C locale for the calling thread until uvhttp__c_locale_leave(). Returns false, and changes nothing, if there
 * is no memory for it. */
bool uvhttp__c_locale_enter(uvhttp__c_locale_t *locale);
void uvhttp__c_locale_leave(const uvhttp__c_locale_t *locale);

/* As snprintf(3) and vsnprintf(3), in the C locale. Returns -1 and an empty text if there is no memory for the locale.
 */
UVHTTP_PRINTF(3, 4) int uvhttp__format(char *out, size_t size, const char *format, ...);
int uvhttp__format_v(char *out, size_t size, const char *format, va_list arguments);

#endif
