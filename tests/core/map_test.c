/* The hash, the map and its table: spread, put, replace, growth, removal against a plain model,
 * failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "core/map.h"
#include "tests/support/faulty_allocator.h"

enum { KEYS = 3000 };

typedef struct fixture {
  tdm_faulty_allocator *faulty;
  tdm_map map;
  char keys[KEYS][24];
} fixture;

static fixture shared;

static int create_map(void **state) {
  shared.faulty = tdm_faulty_allocator_create();
  if (!shared.faulty) return 1;
  const tdm_allocator allocator = tdm_faulty_allocator_view(shared.faulty);
  tdm_map_init(&shared.map, &allocator);
  for (int i = 0; i < KEYS; i++)
    (void)snprintf(shared.keys[i], sizeof shared.keys[i], "layer%d.bias", i);
  *state = &shared;
  return 0;
}

static int destroy_map(void **state) {
  (void)state;
  tdm_map_deinit(&shared.map);
  const int64_t outstanding = tdm_faulty_allocator_outstanding_bytes(shared.faulty);
  tdm_faulty_allocator_destroy(shared.faulty);
  return outstanding != 0;
}

static void every_bit_of_the_input_flips_half_the_hash(void **state) {
  (void)state;
  unsigned char bytes[24];
  int flips = 0;
  int pairs = 0;
  for (size_t size = 1; size <= sizeof bytes; size++) {
    for (size_t bit = 0; bit < size * 8; bit++, pairs++) {
      memset(bytes, (int)size, sizeof bytes);
      const uint64_t before = tdm_hash_bytes(bytes, size, 0);
      bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
      const int changed = __builtin_popcountll(before ^ tdm_hash_bytes(bytes, size, 0));
      assert_in_range(changed, 8, 56);
      flips += changed;
    }
  }
  assert_in_range(flips / pairs, 31, 32);
}

static void sizes_and_seeds_tell_hashes_apart(void **state) {
  (void)state;
  const unsigned char zeroes[32] = {0};
  for (size_t a = 0; a < sizeof zeroes; a++) {
    assert_true(tdm_hash_bytes(zeroes, a, 0) != tdm_hash_bytes(zeroes, a, 1));
    for (size_t b = 0; b < a; b++)
      assert_true(tdm_hash_bytes(zeroes, a, 0) != tdm_hash_bytes(zeroes, b, 0));
  }
  assert_true(tdm_hash_string("abc", 5) == tdm_hash_bytes("abcd", 3, 5));
  assert_true(tdm_hash_bytes(NULL, 0, 5) == tdm_hash_string("", 5));
}

static void what_was_put_is_found(void **state) {
  fixture *all = *state;
  assert_null(tdm_map_get(&all->map, "layer0.bias"));
  for (int i = 0; i < KEYS; i++) {
    assert_int_equal(tdm_map_put(&all->map, all->keys[i], all->keys[i]), TDM_OK);
    assert_int_equal(all->map.table.count, i + 1);
  }
  for (int i = 0; i < KEYS; i++) {
    char key[24]; /* another text of equal characters */
    memcpy(key, all->keys[i], sizeof key);
    assert_ptr_equal(tdm_map_get(&all->map, key), all->keys[i]);
    char longer[32];
    const int length = snprintf(longer, sizeof longer, "%s.more", key) - 5;
    assert_ptr_equal(tdm_map_get_part(&all->map, longer, (size_t)length), all->keys[i]);
    assert_null(tdm_map_get_part(&all->map, longer, (size_t)length + 1));
    assert_null(tdm_map_get_part(&all->map, longer, (size_t)length - 1));
  }
  assert_null(tdm_map_get(&all->map, "layer3000.bias"));
  assert_null(tdm_map_get(&all->map, ""));
}

static void putting_again_replaces_and_removing_ends(void **state) {
  fixture *all = *state;
  int first = 0;
  int second = 0;
  assert_int_equal(tdm_map_put(&all->map, "key", &first), TDM_OK);
  assert_int_equal(tdm_map_put(&all->map, "key", &second), TDM_OK);
  assert_int_equal(all->map.table.count, 1);
  assert_ptr_equal(tdm_map_get(&all->map, "key"), &second);
  assert_null(tdm_map_remove(&all->map, "another key"));
  assert_ptr_equal(tdm_map_remove(&all->map, "key"), &second);
  assert_null(tdm_map_get(&all->map, "key"));
  assert_null(tdm_map_remove(&all->map, "key"));
}

static bool is_equal(const void *key, const void *sought) {
  return strcmp(key, sought) == 0;
}

/* A fixed sequence of puts and removals, compared with an array. Keys share few hashes, so that
 * most entries are not in their own slots. */
static void removals_leave_the_rest_reachable(void **state) {
  fixture *all = *state;
  tdm_table *table = &all->map.table;
  enum { USED = 200, HASHES = 50 };
  bool present[USED] = {false};
  size_t count = 0;
  uint64_t random = 1;
  for (int step = 0; step < 20000; step++) {
    random = tdm_hash_mix(random, (uint64_t)step);
    const size_t i = random % USED;
    char *key = all->keys[i];
    const uint64_t hash = UINT64_MAX - i % HASHES; /* the last slots, and the first after them */
    assert_int_equal(tdm_table_reserve(table, count + 1, "a table"), TDM_OK);
    if (!present[i]) {
      assert_null(tdm_table_find(table, hash, key, is_equal));
      tdm_table_put(table, hash, key, key);
      count++;
    } else {
      assert_ptr_equal(tdm_table_get(table, hash, key, is_equal), key);
      tdm_table_remove(table, hash, key);
      count--;
    }
    present[i] = !present[i];
    assert_int_equal(table->count, count);
    if (step % 100 != 0) continue;
    for (size_t j = 0; j < USED; j++) {
      void *found = tdm_table_get(table, UINT64_MAX - j % HASHES, all->keys[j], is_equal);
      assert_ptr_equal(found, present[j] ? all->keys[j] : NULL);
    }
  }
}

/* A capacity beyond addressable memory is refused. */
static void a_table_refuses_more_than_memory(void **state) {
  fixture *all = *state;
  assert_int_equal(tdm_table_reserve(&all->map.table, SIZE_MAX / 8, "a table"), TDM_OUT_OF_MEMORY);
  assert_int_equal(all->map.table.capacity, 0);
}

static void a_failed_put_changes_nothing(void **state) {
  fixture *all = *state;
  int failures = 0;
  for (int i = 0; i < KEYS; i++) {
    tdm_faulty_allocator_arm(all->faulty, 1, false);
    const tdm_status status = tdm_map_put(&all->map, all->keys[i], all->keys[i]);
    tdm_faulty_allocator_arm(all->faulty, 0, false);
    if (status == TDM_OK) continue;
    failures++;
    assert_int_equal(status, TDM_OUT_OF_MEMORY);
    assert_int_equal(all->map.table.count, i);
    assert_null(tdm_map_get(&all->map, all->keys[i]));
    for (int j = 0; j < i; j++)
      assert_ptr_equal(tdm_map_get(&all->map, all->keys[j]), all->keys[j]);
    assert_int_equal(tdm_map_put(&all->map, all->keys[i], all->keys[i]), TDM_OK);
  }
  assert_in_range(failures, 5, 12); /* once for each doubling */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_bit_of_the_input_flips_half_the_hash),
      cmocka_unit_test(sizes_and_seeds_tell_hashes_apart),
      cmocka_unit_test_setup_teardown(what_was_put_is_found, create_map, destroy_map),
      cmocka_unit_test_setup_teardown(putting_again_replaces_and_removing_ends, create_map,
                                      destroy_map),
      cmocka_unit_test_setup_teardown(removals_leave_the_rest_reachable, create_map, destroy_map),
      cmocka_unit_test_setup_teardown(a_table_refuses_more_than_memory, create_map, destroy_map),
      cmocka_unit_test_setup_teardown(a_failed_put_changes_nothing, create_map, destroy_map),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
