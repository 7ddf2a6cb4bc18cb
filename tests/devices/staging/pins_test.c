/* Ranges of the host's memory that are pinned for a device: none overlaps another, and covered
 * memory is in one of them. */
#include "devices/staging/pins.h"

#include <string.h>

#include "tests/devices/support.h"

static void ranges_do_not_overlap(void **state) {
  (void)state;
  static char memory[1000];
  const tdm_allocator allocator = tdm_allocator_default();
  tdm_pins pins;
  assert_ok(tdm_pins_init(&pins, &allocator));
  assert_ok(tdm_pins_add(&pins, "cuda:0", memory + 100, 100));
  assert_ok(tdm_pins_add(&pins, "cuda:0", memory + 300, 100));
  static const struct {
    size_t begin, bytes;
    bool is_free;
  } ranges[] = {{0, 100, true},    {0, 101, false},  {199, 1, false},  {200, 100, true},
                {200, 101, false}, {120, 10, false}, {50, 200, false}, {100, 100, false},
                {399, 1, false},   {400, 600, true}, {90, 500, false}};
  for (size_t i = 0; i < TDM_COUNT_OF(ranges); i++) {
    char *begin = memory + ranges[i].begin;
    const tdm_status status = tdm_pins_add(&pins, "cuda:0", begin, ranges[i].bytes);
    if (status != (ranges[i].is_free ? TDM_OK : TDM_INVALID_ARGUMENT))
      fail_msg("range %zu: %s", i, tdm_status_name(status));
    if (ranges[i].is_free) assert_ok(tdm_pins_remove(&pins, "cuda:0", begin, ranges[i].bytes));
  }
  assert_status(tdm_pins_add(&pins, "cuda:0", memory + 399, 1), TDM_INVALID_ARGUMENT);
  assert_string_equal(tdm_last_message(), "1 bytes are pinned for cuda:0 already");
  assert_status(tdm_pins_add(&pins, "cuda:0", memory, 0), TDM_INVALID_ARGUMENT);
  assert_string_equal(tdm_last_message(), "there is no memory to pin for cuda:0");
  assert_status(tdm_pins_add(&pins, "cuda:0", NULL, 1), TDM_INVALID_ARGUMENT);
  assert_status(tdm_pins_remove(&pins, "cuda:0", memory + 100, 99), TDM_INVALID_ARGUMENT);
  assert_status(tdm_pins_remove(&pins, "cuda:0", memory + 101, 100), TDM_INVALID_ARGUMENT);
  assert_string_equal(tdm_last_message(), "100 bytes are unpinned that were not pinned for cuda:0");
  assert_ok(tdm_pins_remove(&pins, "cuda:0", memory + 100, 100)); /* the other one stays */
  assert_status(tdm_pins_remove(&pins, "cuda:0", memory + 100, 100), TDM_INVALID_ARGUMENT);
  assert_false(tdm_pins_cover(&pins, memory + 100, 1));
  assert_true(tdm_pins_cover(&pins, memory + 300, 100));
  tdm_pins_deinit(&pins);
  tdm_pins_deinit(&pins); /* legal twice */
}

static void what_is_covered_lies_in_one_range(void **state) {
  (void)state;
  static char memory[1000];
  const tdm_allocator allocator = tdm_allocator_default();
  tdm_pins pins;
  assert_ok(tdm_pins_init(&pins, &allocator));
  assert_false(tdm_pins_cover(&pins, memory, 1));
  for (size_t i = 0; i < 5; i++) /* next to one another */
    assert_ok(tdm_pins_add(&pins, "cuda:0", memory + 100 + i * 100, 100));
  static const struct {
    size_t begin, bytes;
    bool covered;
  } ranges[] = {{100, 100, true}, {100, 101, false}, {99, 1, false},   {99, 2, false},
                {199, 1, true},   {199, 2, false},   {500, 100, true}, {550, 50, true},
                {550, 51, false}, {599, 1, true},    {601, 0, false},  {150, 0, true}};
  for (size_t i = 0; i < TDM_COUNT_OF(ranges); i++)
    if (tdm_pins_cover(&pins, memory + ranges[i].begin, ranges[i].bytes) != ranges[i].covered)
      fail_msg("range %zu", i);
  tdm_pins_deinit(&pins);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranges_do_not_overlap),
      cmocka_unit_test(what_is_covered_lies_in_one_range),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
