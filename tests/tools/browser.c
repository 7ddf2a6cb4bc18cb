/* See browser.h. Files of the browser are in the test's own folder. */
#include "tests/tools/browser.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "tests/examples/program.h"

bool is_program_here(const char *program) {
  char line[64];
  (void)snprintf(line, sizeof line, "command -v %s", program);
  outcome ended = program_run_as(line);
  const bool found = ended.exit_code == 0;
  outcome_free(&ended);
  if (!found) print_message("%s is not here: what asks it is left out\n", program);
  return found;
}

void browser_expect(const char *url, int milliseconds, const char *const *texts) {
  char budget[64] = "", line[2 * PATH_MAX];
  if (milliseconds > 0)
    (void)snprintf(budget, sizeof budget, "--virtual-time-budget=%d", milliseconds);
  (void)snprintf(line, sizeof line,
                 "HOME=\"$PWD\" XDG_CONFIG_HOME=\"$PWD\" chromium --headless --no-sandbox "
                 "--disable-gpu --disable-dev-shm-usage --user-data-dir=\"$PWD/browser\" "
                 "--enable-logging=stderr %s --dump-dom \"%s\" 2> console",
                 budget, url);
  outcome ended = program_run_as(line);
  if (ended.exit_code != 0) fail_msg("%s: %d\n%s", line, ended.exit_code, ended.output);
  for (; *texts; texts++)
    if (!strstr(ended.output, *texts)) fail_msg("%s: no %s in\n%s", url, *texts, ended.output);
  outcome_free(&ended);
  ended = program_run_as("grep CONSOLE console");
  if (ended.exit_code != 1) fail_msg("%s: the browser says %s", url, ended.output);
  outcome_free(&ended);
}
