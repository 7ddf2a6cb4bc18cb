/* The server's page in a browser: a link classifies a word, figures are updated, and text of
 * clients is shown as text. Two made-up languages, as in serve_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/examples/program.h"
#include "tests/examples/serve_client.h"
#include "tests/tools/browser.h"

enum { SHOWN_MS = 3000 };

static char serve[PATH_MAX];

static int set_up(void **state) {
  (void)state;
  start_languages(serve, "2");
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  char line[256] = "";
  return stop_server(line, sizeof line);
}

static void expect(const char *fragment, const char *const *texts) {
  char url[128];
  (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/%s", running.port, fragment);
  browser_expect(url, SHOWN_MS, texts);
}

#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void a_link_asks_a_word(void **state) {
  (void)state;
  if (!is_program_here("chromium")) skip();
  expect("#abcdef", TEXTS("<td>abcdef</td><td>low</td>", " %</span>"));
  expect("#uvwxyz", TEXTS("<td>uvwxyz</td><td>high</td>"));
}

static void figures_come_by_themselves(void **state) {
  (void)state;
  if (!is_program_here("chromium")) skip();
  char answer[ANSWER_BYTES];
  for (int i = 0; i < 5; i++)
    assert_int_equal(post("abcd", answer), 200);
  expect("", TEXTS("<span>answers a second</span>", " ms</b><span>p99</span>",
                   "<span>words a batch, now</span>", "119,"));
  assert_true(metric("connections") >= 1);
}

static void what_is_asked_is_text(void **state) {
  (void)state;
  if (!is_program_here("chromium")) skip();
  expect("#%3Cimg%20src%3Dx%20onerror%3D%22document.title%3D%27taken%27%22%3E",
         TEXTS("<td>&lt;img src=x onerror=", "class=\"bad\"", "is in no word list",
               "<title>Tandem: which language is a word of?</title>"));
}

int main(int count, char **arguments) {
  if (count != 2 || !realpath(arguments[1], serve)) return 2;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_link_asks_a_word),
      cmocka_unit_test(figures_come_by_themselves),
      cmocka_unit_test(what_is_asked_is_text),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
