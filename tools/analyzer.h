/* Comes before every file that clang-tidy reads (tools/tidy.sh), and no compiler sees it. The
 * analyzer looks at one file at a time: it takes it as possible that tdm_fail returns TDM_OK and
 * that cmocka's failures return at all, and follows functions beyond them. */
#ifndef TANDEM_TOOLS_ANALYZER_H
#define TANDEM_TOOLS_ANALYZER_H

#include "../core/core.h"

/* The function that cmocka's fail_msg calls. */
void _fail(const char *file, int line) __attribute__((analyzer_noreturn));

#define tdm_fail(status, ...) ((void)tdm_fail(status, __VA_ARGS__), (status))

#endif
