/* The progress bar. Invariant: it takes one line, however narrow the terminal is; an invisible bar
 * writes nothing; a cleared one leaves nothing. */
#include "tools/progress/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { BAR_COLUMNS = 30, LEAST_BAR = 5, BAR_FRAME = 3, RATE_TEXT = 80 };

static const uint64_t REDRAW_NS = 100000000;

uint64_t monotonic_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

progress progress_start(void) {
  return (progress){.visible = isatty(STDERR_FILENO) != 0};
}

/* Returns the columns of the terminal; 80 if unknown. */
static int columns_of_terminal(void) {
  struct winsize size;
  const bool told = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return told ? size.ws_col : 80;
}

/* "12.3/s, 1:05 left", "1:05 left" of what is weighed; "": nothing is known. */
static void rate_text(char *text, size_t capacity, const progress_state *shown) {
  const double rate = shown->rate;
  text[0] = '\0';
  if (rate <= 0) return;
  const double seconds = (double)(shown->total - shown->done) / rate;
  if (seconds >= 359999) return; /* 99:59:59 */
  const int whole = (int)(seconds + 0.5);
  char left_text[32], pace[32] = "";
  if (whole >= 3600)
    (void)snprintf(left_text, sizeof left_text, "%d:%02d:%02d", whole / 3600, whole / 60 % 60,
                   whole % 60);
  else
    (void)snprintf(left_text, sizeof left_text, "%d:%02d", whole / 60, whole % 60);
  if (!shown->is_weighed) (void)snprintf(pace, sizeof pace, "%.*f/s, ", rate < 10 ? 1 : 0, rate);
  (void)snprintf(text, capacity, "  %s%s left", pace, left_text);
}

/* Formats a line that fits the terminal, because the next drawing would not erase a second line.
 * The bar is shortened first, then the end of the text. */
void progress_line(char line[PROGRESS_LINE], int columns, const progress_state *shown) {
  const int percent = (int)((double)shown->done * 100 / (double)shown->total);
  const int room = columns - 1 < PROGRESS_LINE - 1 ? columns - 1 : PROGRESS_LINE - 1;
  char text[PROGRESS_LINE], pace[RATE_TEXT];
  rate_text(pace, sizeof pace, shown);
  (void)snprintf(text, sizeof text, "%s %3d%%  %s%s", shown->label, percent, shown->note, pace);
  const int left = room - (int)strlen(text) - BAR_FRAME;
  const int width = left < BAR_COLUMNS ? left : BAR_COLUMNS;
  if (width < LEAST_BAR) {
    (void)snprintf(line, PROGRESS_LINE, "%.*s", room > 0 ? room : 0, text);
    return;
  }
  char drawing[BAR_COLUMNS + 1];
  const int filled = (int)((double)shown->done * width / (double)shown->total);
  memset(drawing, '.', (size_t)width);
  memset(drawing, '#', (size_t)(filled < width ? filled : width));
  drawing[width] = '\0';
  (void)snprintf(line, PROGRESS_LINE, "%s [%s] %3d%%  %s%s", shown->label, drawing, percent,
                 shown->note, pace);
}

/* Returns the rate since the bar was first shown. */
static double rate_of(progress *bar, int64_t done, uint64_t now_ns) {
  if (bar->began_ns == 0) {
    bar->began_ns = now_ns;
    bar->began_done = done;
  }
  const uint64_t took_ns = now_ns - bar->began_ns;
  return took_ns > 0 ? (double)(done - bar->began_done) * 1e9 / (double)took_ns : 0;
}

void progress_show(progress *bar, const char *label, int64_t done, int64_t total,
                   const char *note) {
  if (!bar->visible || total <= 0) return;
  const uint64_t now_ns = monotonic_ns();
  const double rate = rate_of(bar, done, now_ns);
  if (bar->drawn_ns != 0 && now_ns - bar->drawn_ns < REDRAW_NS) return;
  bar->drawn_ns = now_ns;
  char line[PROGRESS_LINE];
  const progress_state shown = {label, done, total, note, rate, bar->is_weighed};
  progress_line(line, columns_of_terminal(), &shown);
  fprintf(stderr, "\r%s\033[K", line);
  fflush(stderr);
}

void progress_hide(progress *bar) {
  if (!bar->visible || bar->drawn_ns == 0) return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
  bar->drawn_ns = 0;
}

void progress_clear(progress *bar) {
  bar->began_ns = 0;
  progress_hide(bar);
}
