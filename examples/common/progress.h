/* A progress bar on a terminal; nothing where output goes to a file or a pipe, so that logs hold
 * plain lines only. One line of stderr, redrawn at most ten times a second. */
#ifndef EXAMPLES_COMMON_PROGRESS_H
#define EXAMPLES_COMMON_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
  bool visible;
  uint64_t drawn_ns; /* when it was drawn last */
  uint64_t began_ns; /* when what is shown began, with began_done done; 0: with the next */
  int64_t began_done;
} progress;

progress progress_start(void);
/* Draws label, done of total, note ("loss 0.61"), and, once two of them took some time, how many
 * are done a second, and how long the others will take at that rate. */
void progress_show(progress *bar, const char *label, int64_t done, int64_t total, const char *note);
/* The line that it draws, of fewer than columns; rate, of those done a second: 0: not known. */
enum { PROGRESS_LINE = 256 };
void progress_line(char line[PROGRESS_LINE], int columns, const char *label, int64_t done,
                   int64_t total, const char *note, double rate);
/* Removes it, before a plain line is printed; what is shown next begins anew. */
void progress_clear(progress *bar);

/* A clock that never goes back. */
uint64_t monotonic_ns(void);

#endif
