/* The progress bar on terminals of every width: it stays in one line. */
#define _GNU_SOURCE /* posix_openpt */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/progress/progress.h"

/* Writes the text of a bar on a terminal of this many columns, without cursor movements, to out. */
static void drawn_on(int columns, int64_t done, char *out, size_t capacity) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  assert_true(terminal >= 0);
  assert_int_equal(grantpt(terminal), 0);
  assert_int_equal(unlockpt(terminal), 0);
  const int side = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  assert_true(side >= 0);
  const struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = 24};
  assert_int_equal(ioctl(side, TIOCSWINSZ, &size), 0);
  const int kept = dup(STDERR_FILENO);
  assert_int_equal(dup2(side, STDERR_FILENO), STDERR_FILENO);
  progress bar = progress_start();
  progress_show(&bar, "epoch 3/10", done, 200, "loss 0.612");
  assert_int_equal(dup2(kept, STDERR_FILENO), STDERR_FILENO);
  assert_true(bar.visible);
  char raw[1024];
  const ssize_t got = read(terminal, raw, sizeof raw - 1);
  assert_true(got >= 4); /* what moves the cursor, at least */
  raw[got] = '\0';
  assert_int_equal(raw[0], '\r');
  char *end = strstr(raw, "\033[K");
  assert_non_null(end);
  *end = '\0';
  assert_true(strlen(raw + 1) < capacity);
  strcpy(out, raw + 1);
  (void)close(kept);
  (void)close(side);
  (void)close(terminal);
}

static void it_stays_in_its_line(void **state) {
  (void)state;
  char drawn[1024];
  for (int columns = 1; columns <= 200; columns++) {
    drawn_on(columns, 100, drawn, sizeof drawn);
    if (strlen(drawn) >= (size_t)columns)
      fail_msg("%d columns: \"%s\" has %zu", columns, drawn, strlen(drawn));
  }
}

static void the_bar_gives_way_before_the_text(void **state) {
  (void)state;
  char drawn[1024];
  drawn_on(200, 100, drawn, sizeof drawn);
  assert_string_equal(drawn, "epoch 3/10 [###############...............]  50%  loss 0.612");
  drawn_on(0, 100, drawn, sizeof drawn); /* a terminal of unknown width */
  assert_string_equal(drawn, "epoch 3/10 [###############...............]  50%  loss 0.612");
  drawn_on(41, 200, drawn, sizeof drawn);
  assert_string_equal(drawn, "epoch 3/10 [##########] 100%  loss 0.612");
  drawn_on(30, 100, drawn, sizeof drawn);
  assert_string_equal(drawn, "epoch 3/10  50%  loss 0.612");
  drawn_on(16, 100, drawn, sizeof drawn);
  assert_string_equal(drawn, "epoch 3/10  50%");
}

static void the_rate_and_what_is_left_are_told(void **state) {
  (void)state;
  static const struct {
    int64_t done;
    double rate;
    bool is_weighed;
    const char *line;
  } cases[] = {
      {100, 0, false, "epoch 1 [###############...............]  50%  loss"},
      {100, 2.5, false, "epoch 1 [###############...............]  50%  loss  2.5/s, 0:40 left"},
      {100, 0.5, false, "epoch 1 [###############...............]  50%  loss  0.5/s, 3:20 left"},
      {0, 0.01, false, "epoch 1 [..............................]   0%  loss  0.0/s, 5:33:20 left"},
      {0, 0.0001, false, "epoch 1 [..............................]   0%  loss"},
      {200, 1234, false, "epoch 1 [##############################] 100%  loss  1234/s, 0:00 left"},
      {50, 1, true, "epoch 1 [#######.......................]  25%  loss  2:30 left"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char line[PROGRESS_LINE];
    const progress_state shown = {"epoch 1", cases[i].done, 200,
                                  "loss",    cases[i].rate, cases[i].is_weighed};
    progress_line(line, 120, &shown);
    assert_string_equal(line, cases[i].line);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_stays_in_its_line),
      cmocka_unit_test(the_bar_gives_way_before_the_text),
      cmocka_unit_test(the_rate_and_what_is_left_are_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
