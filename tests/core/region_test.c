/* Regions: alignment, zeroes, pieces that do not overlap, big pieces, strings, release. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "core/allocate.h"
#include "tests/support/faulty_allocator.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define IS_POISONED(memory) __asan_address_is_poisoned(memory)
#endif

static int create_faulty(void **state) {
  *state = tdm_faulty_allocator_create();
  return !*state;
}

static int destroy_faulty(void **state) {
  const int64_t outstanding = tdm_faulty_allocator_outstanding_bytes(*state);
  tdm_faulty_allocator_destroy(*state);
  return outstanding != 0;
}

static void pieces_are_zero_aligned_and_apart(void **state) {
  const tdm_allocator allocator = tdm_faulty_allocator_view(*state);
  tdm_region region;
  tdm_region_init(&region, &allocator);
  enum { PIECES = 2000 };
  unsigned char *pieces[PIECES];
  for (size_t i = 0; i < PIECES; i++) {
    /* Sizes around nothing, a line, and more than a block. */
    const size_t bytes = i % 500 == 499 ? 100000 : i % 97;
    pieces[i] = tdm_region_take(&region, bytes, "a piece");
    assert_non_null(pieces[i]);
    assert_int_equal((uintptr_t)pieces[i] % 16, 0);
    for (size_t j = 0; j < bytes; j++)
      assert_int_equal(pieces[i][j], 0);
    memset(pieces[i], (int)(i % 251) + 1, bytes);
  }
  for (size_t i = 0; i < PIECES; i++) {
    const size_t bytes = i % 500 == 499 ? 100000 : i % 97;
    for (size_t j = 0; j < bytes; j++)
      assert_int_equal(pieces[i][j], i % 251 + 1);
  }
  /* About 100 KB of small pieces and four big ones: a block serves many. */
  assert_true(tdm_faulty_allocator_calls(*state) < 20);
  tdm_region_deinit(&region);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(*state), 0);
}

/* Checks that only a large piece has a separate block, which is not zeroed. Small pieces share
 * zeroed blocks. */
static void room_is_aligned_and_apart(void **state) {
  const tdm_allocator allocator = tdm_faulty_allocator_view(*state);
  tdm_region region;
  tdm_region_init(&region, &allocator);
  enum { BIG = 100000, SMALL = 40 };
  unsigned char *big = tdm_region_take_room(&region, BIG, "an array");
  unsigned char *small = tdm_region_take_room(&region, SMALL, "a piece");
  assert_non_null(big);
  assert_non_null(small);
  assert_int_equal((uintptr_t)big % 16, 0);
  memset(big, 1, BIG);
  memset(small, 2, SMALL);
  const unsigned char *next = tdm_region_take(&region, SMALL, "a piece");
  for (size_t i = 0; i < SMALL; i++)
    assert_int_equal(next[i], 0);
  assert_int_equal(big[BIG - 1], 1);
  assert_int_equal(small[SMALL - 1], 2);
  tdm_region_deinit(&region);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(*state), 0);
}

static void strings_and_formats(void **state) {
  const tdm_allocator allocator = tdm_faulty_allocator_view(*state);
  tdm_region region;
  tdm_region_init(&region, &allocator);
  assert_string_equal(tdm_region_string(&region, "block2/fc"), "block2/fc");
  assert_string_equal(tdm_region_string(&region, ""), "");
  assert_string_equal(tdm_region_format(&region, "%s.%d", "weight", 12), "weight.12");
  const char *wide = tdm_region_format(&region, "%40000d", 7);
  assert_int_equal(strlen(wide), 40000);
  assert_int_equal(wide[39999], '7');
  tdm_region_deinit(&region);
}

static void usable_again_after_deinit_and_failure(void **state) {
  const tdm_allocator allocator = tdm_faulty_allocator_view(*state);
  tdm_region region;
  tdm_region_init(&region, &allocator);
  tdm_faulty_allocator_arm(*state, 1, true);
  assert_null(tdm_region_take(&region, 10, "a piece"));
  assert_non_null(strstr(tdm_last_message(), "a piece"));
  assert_null(tdm_region_take(&region, 50000, "a big piece"));
  assert_null(tdm_region_string(&region, "text"));
  assert_null(tdm_region_format(&region, "%d", 1));
  assert_null(tdm_region_take(&region, SIZE_MAX, "everything"));
  tdm_faulty_allocator_arm(*state, 0, false);
  assert_non_null(tdm_region_take(&region, 10, "a piece"));
  tdm_region_deinit(&region);
  tdm_region_deinit(&region);
  assert_non_null(tdm_region_take(&region, 10, "a piece"));
  tdm_region_deinit(&region);
}

/* Memory between pieces, and after the last, must not be accessed. */
static void past_a_piece_nothing_may_be_touched(void **state) {
  (void)state;
#ifdef IS_POISONED
  const tdm_allocator allocator = tdm_faulty_allocator_view(*state);
  tdm_region region;
  tdm_region_init(&region, &allocator);
  for (size_t bytes = 0; bytes <= 20000; bytes = 3 * bytes + 1) {
    char *piece = tdm_region_take(&region, bytes, "a piece");
    char *next = tdm_region_take(&region, 1, "the next");
    for (size_t i = 0; i < bytes; i++)
      assert_false(IS_POISONED(piece + i));
    assert_true(IS_POISONED(piece + bytes));
    assert_true(IS_POISONED(next - 1));
    assert_true(IS_POISONED(next + 1));
  }
  tdm_region_deinit(&region);
#else
  skip();
#endif
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(pieces_are_zero_aligned_and_apart, create_faulty,
                                      destroy_faulty),
      cmocka_unit_test_setup_teardown(room_is_aligned_and_apart, create_faulty, destroy_faulty),
      cmocka_unit_test_setup_teardown(strings_and_formats, create_faulty, destroy_faulty),
      cmocka_unit_test_setup_teardown(usable_again_after_deinit_and_failure, create_faulty,
                                      destroy_faulty),
      cmocka_unit_test_setup_teardown(past_a_piece_nothing_may_be_touched, create_faulty,
                                      destroy_faulty),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
