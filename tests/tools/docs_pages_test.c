/* The documentation that `bazel build //docs` makes, in a browser: its first page, another and one
 * of the reference have the expected contents, and their scripts report no error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/examples/program.h"
#include "tests/tools/browser.h"

static char build[16 * PATH_MAX]; /* the command, with its arguments */

static void run(const char *line) {
  outcome ended = program_run_as(line);
  if (ended.exit_code != 0) fail_msg("%s: %d\n%s", line, ended.exit_code, ended.output);
  outcome_free(&ended);
}

#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Returns true if python3-markdown is installed, which makes the pages. */
static bool has_markdown(void) {
  outcome ended = program_run_as("/usr/bin/python3 -c 'import markdown'");
  const bool found = ended.exit_code == 0;
  outcome_free(&ended);
  if (!found) print_message("python3-markdown is not here: what asks it is left out\n");
  return found;
}

static void browsers_open_the_documentation(void **state) {
  (void)state;
  if (!is_program_here("doxygen") || !is_program_here("chromium") || !has_markdown()) skip();
  FILE *script = fopen("build.sh", "w");
  assert_non_null(script);
  assert_true(fputs(build, script) >= 0);
  assert_int_equal(fclose(script), 0);
  run("sh build.sh && tar -xzf documentation.tar.gz");
  /* Nothing is fetched from elsewhere. */
  run("! grep -rhoE '<(script|link|img)[^>]*(src|href)=\"https?:[^>]*' tandem --include=*.html");
  browser_expect("file://$PWD/tandem/index.html", 0, TEXTS("<nav", "Tandem", "tutorial.html"));
  browser_expect("file://$PWD/tandem/tutorial.html", 0,
                 TEXTS("tdm_graph_create", "reference/", "<pre"));
  browser_expect("file://$PWD/tandem/reference/index.html", 3000,
                 TEXTS("globals.html", "tandem_8h.html", "../index.html"));
  browser_expect("file://$PWD/tandem/reference/sessions_8h.html", 3000,
                 TEXTS("tdm_session_create", "tdm_session_options", "id=\"main-menu\""));
}

int main(int count, char **arguments) {
  const char *folder = getenv("TEST_TMPDIR");
  char here[PATH_MAX];
  if (count < 4 || !folder || !getcwd(here, sizeof here)) return 2;
  size_t used = (size_t)snprintf(
      build, sizeof build, "out=$PWD/documentation.tar.gz; cd '%s'; '%s' $out", here, arguments[1]);
  for (int i = 2; i < count && used < sizeof build; i++)
    used += (size_t)snprintf(build + used, sizeof build - used, " '%s'", arguments[i]);
  if (used >= sizeof build || chdir(folder) != 0) return 2;
  const struct CMUnitTest tests[] = {cmocka_unit_test(browsers_open_the_documentation)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
