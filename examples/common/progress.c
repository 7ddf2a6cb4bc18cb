/* The progress bar. Invariant: an invisible bar writes nothing; a cleared one leaves nothing. */
#include "examples/common/progress.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BAR_COLUMNS = 30 };

static const uint64_t REDRAW_NS = 100000000;

uint64_t monotonic_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

progress progress_start(void) {
  return (progress){.visible = isatty(STDERR_FILENO) != 0};
}

void progress_show(progress *bar, const char *label, int64_t done, int64_t total,
                   const char *note) {
  if (!bar->visible || total <= 0) return;
  const uint64_t now_ns = monotonic_ns();
  if (bar->drawn_ns != 0 && now_ns - bar->drawn_ns < REDRAW_NS) return;
  bar->drawn_ns = now_ns;
  char drawing[BAR_COLUMNS + 1];
  const int64_t filled = done * BAR_COLUMNS / total;
  memset(drawing, '.', BAR_COLUMNS);
  memset(drawing, '#', (size_t)(filled < BAR_COLUMNS ? filled : BAR_COLUMNS));
  drawing[BAR_COLUMNS] = '\0';
  fprintf(stderr, "\r%s [%s] %3d%%  %s\033[K", label, drawing, (int)(done * 100 / total), note);
  fflush(stderr);
}

void progress_clear(progress *bar) {
  if (!bar->visible || bar->drawn_ns == 0) return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
  bar->drawn_ns = 0;
}
