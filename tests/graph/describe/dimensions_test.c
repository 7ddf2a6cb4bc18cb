/* Comparison of dimensions in shape rules: the whole table of sizes, names and unknown ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tandem/graph/graph.h"

static void dimensions_agree_and_merge(void **unused) {
  (void)unused;
  enum { KINDS = 6 };
  const tdm_dim dims[KINDS] = {0, 3, 4, TDM_DIM("m"), TDM_DIM("n"), TDM_DIM_UNKNOWN};
  static const bool agree[KINDS][KINDS] = {
      {1, 0, 0, 1, 1, 1}, {0, 1, 0, 1, 1, 1}, {0, 0, 1, 1, 1, 1},
      {1, 1, 1, 1, 0, 1}, {1, 1, 1, 0, 1, 1}, {1, 1, 1, 1, 1, 1},
  };
  /* If two agree, a size takes precedence over a name, and a name over an unknown dimension. */
  for (int a = 0; a < KINDS; a++)
    for (int b = 0; b < KINDS; b++) {
      assert_int_equal(tdm_dim_agree(dims[a], dims[b]), agree[a][b]);
      if (agree[a][b]) assert_true(tdm_dim_merge(dims[a], dims[b]) == dims[a < b ? a : b]);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(dimensions_agree_and_merge)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
