/* Ctrl-C while a program trains: the current step ends, requested files are written, then the
 * program ends. A second Ctrl-C ends it immediately. */
#ifndef EXAMPLES_COMMON_INTERRUPT_H
#define EXAMPLES_COMMON_INTERRUPT_H

#include <stdbool.h>

enum { INTERRUPTED_EXIT_CODE = 130 }; /* 128 + SIGINT, as in a shell */

/* From here on the first SIGINT is kept for interrupt_came, until interrupt_leave. Where it was
 * ignored (a job in the background of a script) it stays so. */
void interrupt_watch(void);
void interrupt_leave(void);
/* Returns true if an interrupt has arrived. Any thread. */
bool interrupt_came(void);

#endif
