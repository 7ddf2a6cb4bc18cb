/* Checks pages in a real browser, Debian's Chromium without a window, after their scripts have
 * ended. Every helper fails the running test if its expectation is wrong. */
#ifndef TESTS_TOOLS_BROWSER_H
#define TESTS_TOOLS_BROWSER_H

#include <stdbool.h>

/* Returns true if a program is in PATH. Otherwise prints that the test is skipped. */
bool is_program_here(const char *program);

/* Opens url, which a shell may expand ("file://$PWD/x.html"), for this many milliseconds of the
 * page's own time (0: until it is loaded). Expects each of the texts (the last is NULL) on the
 * page, as HTML, and no message on the console. */
void browser_expect(const char *url, int milliseconds, const char *const *texts);

#endif
