/* Owns: see format.h. */
#include "base/format.h"

#include <locale.h>
#include <stdio.h>

int uvhttp__format_v(char *out, size_t size, const char *format, va_list arguments) {
    if (size > 0) *out = '\0';
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c_locale) return -1;
    locale_t before = uselocale(c_locale);
    int wanted = vsnprintf(out, size, format, arguments);
    uselocale(before);
    freelocale(c_locale);
    return wanted;
}

int uvhttp__format(char *out, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int wanted = uvhttp__format_v(out, size, format, arguments);
    va_end(arguments);
    return wanted;
}
