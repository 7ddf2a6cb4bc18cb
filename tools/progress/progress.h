/* The progress bar of examples and tools, on a terminal; nothing where output goes to a file or a
 * pipe, so that logs hold plain lines only. One line of stderr, redrawn at most ten times a second.
 */
#ifndef TOOLS_PROGRESS_PROGRESS_H
#define TOOLS_PROGRESS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
  bool visible;
  bool is_weighed;   /* weights of unequal parts are counted; no rate is shown */
  uint64_t drawn_ns; /* time of the last drawing */
  uint64_t began_ns; /* time at which the shown part began, when began_done were done; 0: the next
                      * call sets it */
  int64_t began_done;
} progress;

progress progress_start(void);
/* Draws label, done of total, note ("loss 0.61"), and, once two of them took some time, how many
 * are done a second, and how long the others will take at that rate. */
void progress_show(progress *bar, const char *label, int64_t done, int64_t total, const char *note);

/* The contents of a line. */
typedef struct progress_state {
  const char *label;
  int64_t done;
  int64_t total;
  const char *note;
  double rate; /* done a second; 0: not known */
  bool is_weighed;
} progress_state;
/* Formats the line of progress, shorter than `columns`. */
enum { PROGRESS_LINE = 256 };
void progress_line(char line[PROGRESS_LINE], int columns, const progress_state *shown);
/* Removes the line before other output is printed. The next update draws it immediately. */
void progress_hide(progress *bar);
/* Removes the line; the next update starts a new measurement of progress. */
void progress_clear(progress *bar);

/* Returns the time in nanoseconds of a clock that never goes back. */
uint64_t monotonic_ns(void);

#endif
