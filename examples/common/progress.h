/* A progress bar on a terminal; nothing where output goes to a file or a pipe, so that logs hold
 * plain lines only. One line of stderr, redrawn at most ten times a second. */
#ifndef EXAMPLES_COMMON_PROGRESS_H
#define EXAMPLES_COMMON_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
  bool visible;
  uint64_t drawn_ns; /* when it was drawn last */
} progress;

progress progress_start(void);
/* Draws label, done of total, and note ("loss 0.61"). */
void progress_show(progress *bar, const char *label, int64_t done, int64_t total, const char *note);
/* Removes it, before a plain line is printed. */
void progress_clear(progress *bar);

/* A clock that never goes back. */
uint64_t monotonic_ns(void);

#endif
