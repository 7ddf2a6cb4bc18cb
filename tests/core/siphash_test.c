/* SipHash-2-4 against its authors' vectors, and the map against keys that collide in a hash whose
 * key is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/hash.h"
#include "core/map.h"
#include "core/siphash.h"

/* Checks bytes 0, 1, 2, ... under the key 0, 1, ..., 15: the paper's appendix, and the lengths
 * around a word from the authors' reference code. */
static void the_authors_vectors(void **state) {
  (void)state;
  static const struct {
    size_t bytes;
    uint64_t hash;
  } vectors[] = {{0, 0x726fdb47dd0e0e31u}, {1, 0x74f839c593dc67fdu},  {7, 0xab0200f58b01d137u},
                 {8, 0x93f5f5799a932462u}, {15, 0xa129ca6149be45e5u}, {16, 0x3f2acc7f57c29bdbu}};
  const tdm_siphash_key key = {{0x0706050403020100u, 0x0f0e0d0c0b0a0908u}};
  unsigned char bytes[16];
  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = (unsigned char)i;
  for (size_t i = 0; i < TDM_COUNT_OF(vectors); i++)
    assert_true(tdm_siphash(&key, bytes, vectors[i].bytes) == vectors[i].hash);
}

static void keys_are_drawn_anew(void **state) {
  (void)state;
  tdm_siphash_key first, second;
  assert_int_equal(tdm_siphash_key_draw(&first), TDM_OK);
  assert_int_equal(tdm_siphash_key_draw(&second), TDM_OK);
  assert_memory_not_equal(&first, &second, sizeof first);
}

enum { KEYS = 3000, KEY_BYTES = 24 };

/* The plain hash multiplies by zero at the second word, so everything before it is lost. All these
 * keys have one hash. */
static void make_colliding(char keys[KEYS][KEY_BYTES]) {
  for (int i = 0; i < KEYS; i++)
    (void)snprintf(keys[i], KEY_BYTES, "key%05d\x03\xed\x92\xd1\x32\x4a\xb5\xd1", i);
}

static size_t longest_run(const tdm_map *map) {
  size_t longest = 0;
  size_t run = 0;
  const tdm_table *table = &map->table;
  for (size_t i = 0; i < 2 * table->capacity; i++) {
    run = table->slots[i & (table->capacity - 1)].key ? run + 1 : 0;
    if (run > longest) longest = run;
  }
  return longest;
}

static void chosen_names_do_not_collide_in_a_map(void **state) {
  (void)state;
  static char keys[KEYS][KEY_BYTES];
  make_colliding(keys);
  const tdm_allocator allocator = tdm_allocator_default();
  tdm_map map;
  tdm_map_init(&map, &allocator);
  for (int i = 0; i < KEYS; i++) {
    assert_true(tdm_hash_string(keys[i], 0) == tdm_hash_string(keys[0], 0));
    assert_int_equal(tdm_map_put(&map, keys[i], keys[i]), TDM_OK);
  }
  /* With one hash for all this would be KEYS. */
  assert_true(longest_run(&map) < KEYS / 4);
  for (int i = 0; i < KEYS; i++)
    assert_ptr_equal(tdm_map_get(&map, keys[i]), keys[i]);
  tdm_map_deinit(&map);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_authors_vectors),
      cmocka_unit_test(keys_are_drawn_anew),
      cmocka_unit_test(chosen_names_do_not_collide_in_a_map),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
