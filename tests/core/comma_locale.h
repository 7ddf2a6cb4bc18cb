/* A locale that writes "1,5", made of tests/core/comma.locale, so that no machine needs to have
 * one. Use as a cmocka group setup and teardown. */
#ifndef TANDEM_TESTS_CORE_COMMA_LOCALE_H
#define TANDEM_TESTS_CORE_COMMA_LOCALE_H

/* Makes the locale in the test's folder and sets it for the process. On failure it fails with the
 * message of localedef. */
int enter_comma_locale(void **state);
int leave_comma_locale(void **state);

#endif
