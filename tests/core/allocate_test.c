/* Allocation: alignment and zeroes, impossible sizes, arrays that grow, and the allocator that
 * fails on demand, swept over every allocation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "core/allocate.h"
#include "core/map.h"
#include "tests/support/faulty_allocator.h"

static int create_faulty(void **state) {
  *state = tdm_faulty_allocator_create();
  return !*state;
}

static int destroy_faulty(void **state) {
  tdm_faulty_allocator_destroy(*state);
  return 0;
}

static void memory_is_zero_and_aligned(void **state) {
  (void)state;
  const tdm_allocator allocator = tdm_allocator_default();
  for (size_t bytes = 0; bytes < 300; bytes += 37) {
    unsigned char *memory = tdm_allocate(&allocator, bytes, "a test");
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % 64, 0);
    for (size_t i = 0; i < bytes; i++)
      assert_int_equal(memory[i], 0);
    memset(memory, 0xff, bytes);
    tdm_release(&allocator, memory, bytes);
  }
  tdm_release(&allocator, NULL, 10);
}

static void impossible_sizes_fail_with_a_message(void **state) {
  (void)state;
  const tdm_allocator allocator = tdm_allocator_default();
  assert_null(tdm_allocate(&allocator, SIZE_MAX - 8, "everything"));
  assert_non_null(strstr(tdm_last_message(), "out of memory"));
  assert_non_null(strstr(tdm_last_message(), "everything"));
  void *items = NULL;
  size_t capacity = 0;
  assert_int_equal(tdm_array_reserve(&allocator, &items, &capacity, SIZE_MAX / 8, 64, "an array"),
                   TDM_OUT_OF_MEMORY);
  assert_null(items);
  assert_int_equal(capacity, 0);
}

static void strings_are_copied(void **state) {
  const tdm_allocator allocator = tdm_faulty_allocator_view(*state);
  char *copy = tdm_string_copy(&allocator, "embedding.weight");
  assert_string_equal(copy, "embedding.weight");
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(*state), 17);
  tdm_string_release(&allocator, copy);
  tdm_string_release(&allocator, NULL);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(*state), 0);
}

static void arrays_grow_and_keep_their_items(void **state) {
  const tdm_allocator allocator = tdm_faulty_allocator_view(*state);
  void *memory = NULL;
  size_t capacity = 0;
  for (size_t i = 0; i < 1000; i++) {
    assert_int_equal(
        tdm_array_reserve(&allocator, &memory, &capacity, i + 1, sizeof(uint32_t), "numbers"),
        TDM_OK);
    assert_true(capacity > i);
    uint32_t *numbers = memory;
    assert_int_equal(numbers[i], 0);
    numbers[i] = (uint32_t)i * 3 + 1;
  }
  const uint32_t *numbers = memory;
  for (size_t i = 0; i < 1000; i++)
    assert_int_equal(numbers[i], i * 3 + 1);
  /* Growth is by a factor: a thousand appends take few allocations. */
  assert_true(tdm_faulty_allocator_calls(*state) < 20);
  tdm_release(&allocator, memory, capacity * sizeof(uint32_t));
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(*state), 0);
}

static void the_armed_allocation_fails(void **state) {
  tdm_faulty_allocator *faulty = *state;
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  tdm_faulty_allocator_arm(faulty, 3, false);
  for (int call = 1; call <= 6; call++) {
    void *memory = tdm_allocate(&allocator, 10, "a test");
    assert_int_equal(!memory, call == 3);
    tdm_release(&allocator, memory, 10);
  }
  assert_int_equal(tdm_faulty_allocator_calls(faulty), 6);
  assert_int_equal(tdm_faulty_allocator_failures(faulty), 1);
  tdm_faulty_allocator_arm(faulty, 3, true);
  for (int call = 1; call <= 6; call++) {
    void *memory = tdm_allocate(&allocator, 10, "a test");
    assert_int_equal(!memory, call >= 3);
    tdm_release(&allocator, memory, 10);
  }
  assert_int_equal(tdm_faulty_allocator_failures(faulty), 4);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
}

/* One use of everything that allocates. All memory is released, whether it fails or not. */
static tdm_status build_something(const tdm_allocator *allocator) {
  static const char *const keys[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i",
                                     "j", "k", "l", "m", "n", "o", "p", "q", "r"};
  tdm_status status = TDM_OUT_OF_MEMORY;
  void *items = NULL;
  size_t capacity = 0;
  char *name = NULL;
  tdm_map map;
  tdm_region region;
  tdm_map_init(&map, allocator);
  tdm_region_init(&region, allocator);
  for (size_t i = 0; i < TDM_COUNT_OF(keys); i++) {
    status = tdm_map_put(&map, keys[i], &map);
    if (status != TDM_OK) goto fail;
    status = tdm_array_reserve(allocator, &items, &capacity, i + 1, 24, "items");
    if (status != TDM_OK) goto fail;
    if (!tdm_region_take(&region, 5000, "a piece")) {
      status = TDM_OUT_OF_MEMORY;
      goto fail;
    }
  }
  name = tdm_string_copy(allocator, "name");
  if (!name) status = TDM_OUT_OF_MEMORY;
fail:
  tdm_string_release(allocator, name);
  tdm_release(allocator, items, capacity * 24);
  tdm_region_deinit(&region);
  tdm_map_deinit(&map);
  return status;
}

static void every_allocation_may_fail(void **state) {
  tdm_faulty_allocator *faulty = *state;
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  uint64_t fail_at = 1;
  tdm_status status;
  do {
    tdm_faulty_allocator_arm(faulty, fail_at, fail_at % 2 == 0);
    status = build_something(&allocator);
    assert_int_equal(status == TDM_OK, tdm_faulty_allocator_failures(faulty) == 0);
    assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
    if (status != TDM_OK) assert_int_equal(status, TDM_OUT_OF_MEMORY);
    fail_at++;
  } while (status != TDM_OK);
  assert_true(fail_at > 8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_is_zero_and_aligned),
      cmocka_unit_test(impossible_sizes_fail_with_a_message),
      cmocka_unit_test_setup_teardown(strings_are_copied, create_faulty, destroy_faulty),
      cmocka_unit_test_setup_teardown(arrays_grow_and_keep_their_items, create_faulty,
                                      destroy_faulty),
      cmocka_unit_test_setup_teardown(the_armed_allocation_fails, create_faulty, destroy_faulty),
      cmocka_unit_test_setup_teardown(every_allocation_may_fail, create_faulty, destroy_faulty),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
