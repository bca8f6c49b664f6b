/* Owns: a locale whose decimal point is a comma, for tests of what may not depend on it. */
#ifndef UVHTTP_TEST_SUPPORT_COMMA_LOCALE_H
#define UVHTTP_TEST_SUPPORT_COMMA_LOCALE_H

/* Makes the locale with localedef(1) and sets it for the process; test_comma_locale_end() goes back to "C". A test that
 * cannot have it is skipped. */
void test_comma_locale_begin(void);
void test_comma_locale_end(void);

#endif
