/* Copies inside host memory: every alignment, sizes around a cache line, overlaps. Surrounding
 * bytes do not change. */
#include <string.h>

#include "devices/host/copy.h"
#include "tests/devices/support.h"

enum { ROOM = 4096, MARGIN = 256 };

static void fill(unsigned char *memory, unsigned seed) {
  for (unsigned i = 0; i < ROOM; i++)
    memory[i] = (unsigned char)((i + seed) * 2654435761u >> 13);
}

/* Copies inside one block, and demands what memmove makes of it. */
static void check(size_t to, size_t from, size_t bytes, size_t large_bytes) {
  static unsigned char block[ROOM];
  static unsigned char wanted[ROOM];
  fill(block, (unsigned)(to * 31 + from));
  memcpy(wanted, block, ROOM);
  memmove(wanted + to, wanted + from, bytes);
  tdm_copy_host(block + to, block + from, bytes, large_bytes);
  assert_memory_equal(block, wanted, ROOM);
}

static void every_alignment_and_size(void **state) {
  (void)state;
  static const size_t sizes[] = {0, 1, 15, 16, 63, 64, 65, 127, 128, 129, 200, 1000, 1024, 1500};
  for (size_t i = 0; i < TDM_COUNT_OF(sizes); i++)
    for (size_t to = 0; to < 70; to += 3)
      for (size_t from = 0; from < 70; from += 7) {
        check(MARGIN + to, ROOM / 2 + from, sizes[i], 0); /* past the caches */
        check(MARGIN + to, ROOM / 2 + from, sizes[i], SIZE_MAX);
      }
}

static void overlapping_sides_are_moved(void **state) {
  (void)state;
  for (size_t distance = 0; distance < 200; distance++) {
    check(MARGIN + distance, MARGIN, 900, 0);
    check(MARGIN, MARGIN + distance, 900, 0);
  }
}

static void large_is_half_a_cache(void **state) {
  (void)state;
  assert_int_equal(tdm_copy_large_bytes(8 << 20), 4 << 20);
  assert_true(tdm_copy_large_bytes(0) >= 1 << 20); /* an unknown cache size still gives a limit */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_alignment_and_size),
      cmocka_unit_test(overlapping_sides_are_moved),
      cmocka_unit_test(large_is_half_a_cache),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
