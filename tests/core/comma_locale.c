/* Making a locale. Invariant: between entering and leaving printf writes a comma. */
#define _GNU_SOURCE /* setenv */
#include "tests/core/comma_locale.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int enter_comma_locale(void **state) {
  (void)state;
  char command[4096], text[8];
  const char *folder = getenv("TEST_TMPDIR");
  if (!folder) folder = ".";
  /* Warnings about all that the locale does not have make its exit status 1. */
  (void)snprintf(command, sizeof command,
                 "localedef -c -f tests/core/ascii.charmap -i tests/core/comma.locale "
                 "'%s/comma' > '%s/localedef.log' 2>&1; test -f '%s/comma/LC_NUMERIC' || "
                 "{ cat '%s/localedef.log'; false; }",
                 folder, folder, folder, folder);
  if (system(command) != 0 || setenv("LOCPATH", folder, 1) != 0) return 1;
  if (!setlocale(LC_NUMERIC, "comma")) return 1;
  (void)snprintf(text, sizeof text, "%g", 1.5);
  return strcmp(text, "1,5") != 0;
}

int leave_comma_locale(void **state) {
  (void)state;
  return !setlocale(LC_NUMERIC, "C");
}
