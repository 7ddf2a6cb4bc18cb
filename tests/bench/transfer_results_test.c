/* Statistics of samples, links that are recognised, sizes as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "bench/transfer/results.h"

static void summaries(void **state) {
  (void)state;
  double odd[] = {5, 1, 3};
  result made = {.bytes = 1};
  result_summarize(&made, odd, 3, true);
  assert_true(made.median == 3 && made.low == 1 && made.high == 5 && made.samples == 3);
  assert_true(made.p99 == 1); /* the bad end of a bandwidth */
  double even[] = {4, 1, 3, 2};
  result_summarize(&made, even, 4, false);
  assert_true(made.median == 2.5 && made.p99 == 4);
  double many[200];
  for (int i = 0; i < 200; i++)
    many[i] = i;
  result_summarize(&made, many, 200, false);
  assert_true(made.p99 == 197); /* 198 of 200 are not above it */
  for (int i = 0; i < 200; i++)
    many[i] = i;
  result_summarize(&made, many, 200, true);
  assert_true(made.p99 == 2);
}

static tdm_status add(results *list, const char *to, size_t bytes, double copy_ns) {
  result item = {.case_name = "uploads", .unit = "GB/s", .memory = "pinned", .from = "cpu:0"};
  (void)strncpy(item.to, to, sizeof item.to - 1);
  item.bytes = bytes;
  item.copy_ns = copy_ns;
  return results_add(list, &item);
}

/* Copies that take exactly 1000 ns and a nanosecond for every 8 bytes, those of another link
 * between them. */
static void fits(void **state) {
  (void)state;
  results list = {.items = NULL};
  for (size_t bytes = 1024; bytes <= (1u << 20); bytes *= 4) {
    assert_int_equal(add(&list, "sim:0", bytes, 1000 + (double)bytes / 8), TDM_OK);
    assert_int_equal(add(&list, "sim:1", bytes, 77), TDM_OK);
  }
  assert_true(results_first_of_link(&list, 0) && results_first_of_link(&list, 1));
  assert_false(results_first_of_link(&list, 2));
  tdm_link link;
  double deviation;
  assert_true(results_fit(&list, 0, &link, &deviation));
  assert_true(link.latency_ns > 999 && link.latency_ns < 1001);
  assert_true(link.bytes_per_ns > 7.99 && link.bytes_per_ns < 8.01);
  list.count = 4; /* two sizes of each are too few */
  assert_false(results_fit(&list, 0, &link, &deviation));
  results_deinit(&list);
}

static void sizes(void **state) {
  (void)state;
  char text[32];
  assert_string_equal(bytes_text(100, text, sizeof text), "100 B");
  assert_string_equal(bytes_text(1024, text, sizeof text), "1 KiB");
  assert_string_equal(bytes_text(1536, text, sizeof text), "1536 B");
  assert_string_equal(bytes_text((size_t)512 << 20, text, sizeof text), "512 MiB");
  assert_string_equal(bytes_text((size_t)3 << 30, text, sizeof text), "3 GiB");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(summaries),
      cmocka_unit_test(fits),
      cmocka_unit_test(sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
