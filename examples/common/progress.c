/* The progress bar. Invariant: it takes one line, however narrow the terminal is; an invisible bar
 * writes nothing; a cleared one leaves nothing. */
#include "examples/common/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { BAR_COLUMNS = 30, LEAST_BAR = 5, BAR_FRAME = 3, LINE_BYTES = 256 };

static const uint64_t REDRAW_NS = 100000000;

uint64_t monotonic_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

progress progress_start(void) {
  return (progress){.visible = isatty(STDERR_FILENO) != 0};
}

/* One that does not tell has as many as terminals used to have. */
static int columns_of_terminal(void) {
  struct winsize size;
  const bool told = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return told ? size.ws_col : 80;
}

/* The whole of it in fewer than `columns` columns, so that no terminal goes on in another line,
 * which the next drawing would leave behind: the bar gives way first, then the end of the text. */
static void progress_line(char line[LINE_BYTES], int columns, const char *label, int64_t done,
                          int64_t total, const char *note) {
  const int percent = (int)(done * 100 / total);
  const int room = columns - 1 < LINE_BYTES - 1 ? columns - 1 : LINE_BYTES - 1;
  char text[LINE_BYTES];
  snprintf(text, sizeof text, "%s %3d%%  %s", label, percent, note);
  const int left = room - (int)strlen(text) - BAR_FRAME;
  const int width = left < BAR_COLUMNS ? left : BAR_COLUMNS;
  if (width < LEAST_BAR) {
    snprintf(line, LINE_BYTES, "%.*s", room > 0 ? room : 0, text);
    return;
  }
  char drawing[BAR_COLUMNS + 1];
  const int64_t filled = done * width / total;
  memset(drawing, '.', (size_t)width);
  memset(drawing, '#', (size_t)(filled < width ? filled : width));
  drawing[width] = '\0';
  snprintf(line, LINE_BYTES, "%s [%s] %3d%%  %s", label, drawing, percent, note);
}

void progress_show(progress *bar, const char *label, int64_t done, int64_t total,
                   const char *note) {
  if (!bar->visible || total <= 0) return;
  const uint64_t now_ns = monotonic_ns();
  if (bar->drawn_ns != 0 && now_ns - bar->drawn_ns < REDRAW_NS) return;
  bar->drawn_ns = now_ns;
  char line[LINE_BYTES];
  progress_line(line, columns_of_terminal(), label, done, total, note);
  fprintf(stderr, "\r%s\033[K", line);
  fflush(stderr);
}

void progress_clear(progress *bar) {
  if (!bar->visible || bar->drawn_ns == 0) return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
  bar->drawn_ns = 0;
}
