/* Pages in a real browser, Debian's Chromium without a window: what is on them once their scripts
 * are through. Every helper fails the running test when something is not as it says. */
#ifndef TESTS_TOOLS_BROWSER_H
#define TESTS_TOOLS_BROWSER_H

#include <stdbool.h>

/* Is a program in PATH? If not, that is printed, for the test to skip. */
bool is_program_here(const char *program);

/* Opens url, which a shell may expand ("file://$PWD/x.html"), for so many milliseconds of the
 * page's own time (0: until it is loaded): each of the texts (the last is NULL) is on the page, as
 * HTML writes it, and nothing was said to the console. */
void browser_expect(const char *url, int milliseconds, const char *const *texts);

#endif
