/* Owns: see format.h. */
#include "base/format.h"

#include <stdio.h>

bool uvhttp__c_locale_enter(uvhttp__c_locale_t *locale) {
    locale->own = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!locale->own) return false;
    locale->before = uselocale(locale->own);
    return true;
}

void uvhttp__c_locale_leave(const uvhttp__c_locale_t *locale) {
    uselocale(locale->before);
    freelocale(locale->own);
}

int uvhttp__format_v(char *out, size_t size, const char *format, va_list arguments) {
    if (size > 0) *out = '\0';
    uvhttp__c_locale_t locale;
    if (!uvhttp__c_locale_enter(&locale)) return -1;
    int wanted = vsnprintf(out, size, format, arguments);
    uvhttp__c_locale_leave(&locale);
    return wanted;
}

int uvhttp__format(char *out, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int wanted = uvhttp__format_v(out, size, format, arguments);
    va_end(arguments);
    return wanted;
}
