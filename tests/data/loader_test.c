/* Loaders without a thread: sizes of batches, orders, refused calls. */
#include <stdlib.h>
#include <string.h>

#include "data/dataset.h"
#include "data/order.h"
#include "tests/data/support.h"
#include "tests/options.h"

static tdm_loader *make_loader(const data_fixture *fixture, int64_t length,
                               const tdm_loader_options *options) {
  tdm_dataset *dataset = make_counting_dataset(fixture->context, length);
  tdm_loader *loader = tdm_loader_create(dataset, options);
  if (!loader) fail_msg("no loader: %s", tdm_last_message());
  tdm_dataset_release(dataset);
  return loader;
}

/* Reads an epoch to its end. Writes the values of all rows, in order, to values, and the number of
 * rows of each batch to rows. Returns the number of batches. */
static int64_t read_epoch(tdm_loader *loader, int64_t *values, int64_t *rows) {
  int64_t batches = 0;
  int64_t count = 0;
  for (;; batches++) {
    tdm_tensor *batch[1];
    assert_int_equal(tdm_loader_next(loader, batch, 1, &rows[batches]), TDM_OK);
    if (rows[batches] == 0) {
      assert_null(batch[0]);
      return batches;
    }
    const tdm_shape shape = tdm_tensor_shape(batch[0]);
    const tdm_shape wanted = tdm_shape_of(1, rows[batches]);
    assert_true(tdm_shape_equal(&shape, &wanted));
    memcpy(values + count, tdm_tensor_data(batch[0]), (size_t)rows[batches] * sizeof *values);
    count += rows[batches];
    tdm_tensor_release(batch[0]);
  }
}

static void a_hundred_items_by_thirty(void **state) {
  const tdm_loader_options options = OPTIONS(tdm_loader_options, o.batch_size = 30);
  tdm_loader *loader = make_loader(*state, 100, &options);
  assert_int_equal(tdm_loader_batch_count(loader), 4);
  int64_t values[100];
  int64_t rows[8];
  for (uint64_t epoch = 0; epoch < 3; epoch++) {
    assert_int_equal(tdm_loader_start(loader, epoch), TDM_OK);
    assert_int_equal(read_epoch(loader, values, rows), 4);
    const int64_t wanted[] = {30, 30, 30, 10};
    assert_memory_equal(rows, wanted, sizeof wanted);
    for (int64_t i = 0; i < 100; i++)
      assert_int_equal(values[i], i);
    assert_int_equal(read_epoch(loader, values, rows), 0); /* the end stays the end */
  }
  tdm_loader_release(loader);
}

static void drop_last_drops_only_a_short_batch(void **state) {
  const struct {
    int64_t length, batch_size, batches;
  } table[] = {{100, 30, 3}, {90, 30, 3}, {29, 30, 0}, {30, 30, 1}, {0, 30, 0}, {5, 0, 5}};
  int64_t values[100];
  int64_t rows[101];
  for (size_t i = 0; i < sizeof(table) / sizeof table[0]; i++) {
    const tdm_loader_options options =
        OPTIONS(tdm_loader_options, o.batch_size = OR_ONE(table[i].batch_size), o.drop_last = true);
    tdm_loader *loader = make_loader(*state, table[i].length, &options);
    assert_int_equal(tdm_loader_batch_count(loader), table[i].batches);
    assert_int_equal(read_epoch(loader, values, rows), table[i].batches);
    for (int64_t j = 0; j < table[i].batches; j++)
      assert_int_equal(rows[j], table[i].batch_size == 0 ? 1 : table[i].batch_size);
    tdm_loader_release(loader);
  }
}

static void without_options_batches_hold_one(void **state) {
  tdm_loader *loader = make_loader(*state, 3, NULL);
  int64_t values[3];
  int64_t rows[4];
  assert_int_equal(tdm_loader_batch_count(loader), 3);
  assert_int_equal(read_epoch(loader, values, rows), 3);
  tdm_loader_release(loader);
  tdm_loader_release(NULL);
}

static void assert_permutation(const int64_t *values, int64_t count) {
  bool *seen = calloc((size_t)count, 1);
  assert_non_null(seen);
  for (int64_t i = 0; i < count; i++) {
    assert_in_range(values[i], 0, count - 1);
    assert_false(seen[values[i]]);
    seen[values[i]] = true;
  }
  free(seen);
}

enum { ITEMS = 1000 };

static void read_shuffled(const data_fixture *fixture, uint64_t seed, uint64_t epoch,
                          int64_t *values) {
  const tdm_loader_options options =
      OPTIONS(tdm_loader_options, o.batch_size = 64, o.shuffle = true, o.seed = seed);
  int64_t rows[20];
  tdm_loader *loader = make_loader(fixture, ITEMS, &options);
  assert_int_equal(tdm_loader_start(loader, epoch), TDM_OK);
  assert_int_equal(read_epoch(loader, values, rows), 16);
  assert_int_equal(rows[15], ITEMS - 15 * 64); /* the short one stays last */
  tdm_loader_release(loader);
}

static void a_shuffle_depends_on_seed_and_epoch_alone(void **state) {
  int64_t first[ITEMS];
  int64_t other[ITEMS];
  read_shuffled(*state, 7, 3, first);
  assert_permutation(first, ITEMS);
  int64_t in_place = 0;
  for (int64_t i = 0; i < ITEMS; i++)
    in_place += first[i] == i;
  assert_true(in_place < 20); /* one is to be expected */
  read_shuffled(*state, 7, 3, other);
  assert_memory_equal(first, other, sizeof first);
  const uint64_t keys[][2] = {{7, 4}, {8, 3}, {7, 3 + ((uint64_t)1 << 32)}, {UINT64_MAX, 3}};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    read_shuffled(*state, keys[i][0], keys[i][1], other);
    assert_permutation(other, ITEMS);
    assert_memory_not_equal(first, other, sizeof first);
  }
}

/* All 24 orders of 4 items come up as often as each other: chi-square with 23 degrees of freedom
 * stays below 60 (p about 4e-5) for these fixed seeds. */
static void every_order_is_as_likely(void **state) {
  (void)state;
  enum { TRIALS = 24000 };
  int counts[256] = {0};
  for (uint64_t seed = 0; seed < TRIALS; seed++) {
    int64_t items[] = {0, 1, 2, 3};
    const tdm_random random = {.seed = seed, .stream = 99};
    tdm_shuffle(items, 4, &random, 0);
    counts[items[0] * 64 + items[1] * 16 + items[2] * 4 + items[3]]++;
  }
  int orders = 0;
  double chi_square = 0;
  for (int i = 0; i < 256; i++) {
    if (counts[i] == 0) continue;
    orders++;
    chi_square += (counts[i] - 1000.0) * (counts[i] - 1000.0) / 1000.0;
  }
  assert_int_equal(orders, 24);
  assert_true(chi_square < 60);
}

static void a_start_begins_anew(void **state) {
  const tdm_loader_options options =
      OPTIONS(tdm_loader_options, o.batch_size = 10, o.shuffle = true, o.seed = 1);
  tdm_loader *loader = make_loader(*state, 35, &options);
  int64_t whole[35];
  int64_t again[35];
  int64_t rows[8];
  assert_int_equal(tdm_loader_start(loader, 5), TDM_OK);
  assert_int_equal(read_epoch(loader, whole, rows), 4);
  assert_int_equal(tdm_loader_start(loader, 6), TDM_OK);
  tdm_tensor *batch[1];
  assert_int_equal(tdm_loader_next(loader, batch, 1, rows), TDM_OK);
  tdm_tensor_release(batch[0]);
  assert_int_equal(tdm_loader_start(loader, 5), TDM_OK);
  assert_int_equal(read_epoch(loader, again, rows), 4);
  assert_memory_equal(whole, again, sizeof whole);
  tdm_loader_release(loader);
}

static void bad_options_are_refused(void **state) {
  const data_fixture *fixture = *state;
  const struct {
    const char *message;
    tdm_loader_options options;
  } table[] = {
      {"batch_size is -1, expected 1", OPTIONS(tdm_loader_options, o.batch_size = -1)},
      {"batch_size is 0, expected 1", OPTIONS(tdm_loader_options, o.batch_size = 0)},
      {"replicas is 0, expected 1", OPTIONS(tdm_loader_options, o.replicas = 0)},
      {"prefetch is -2, expected 0", OPTIONS(tdm_loader_options, o.prefetch = -2)},
      {"tdm_loader_options_default()", *UNMADE(tdm_loader_options)},
      {"4000 bytes", OPTIONS(tdm_loader_options, o.struct_size = TDM_OPTIONS_INITIALIZED | 4000)},
  };
  tdm_dataset *dataset = make_counting_dataset(fixture->context, 4);
  for (size_t i = 0; i < sizeof(table) / sizeof table[0]; i++) {
    assert_null(tdm_loader_create(dataset, &table[i].options));
    assert_message(table[i].message);
  }
  tdm_dataset_release(dataset);
  assert_null(tdm_loader_create(NULL, NULL));
  assert_message("dataset is NULL");
  int64_t rows = 1;
  tdm_tensor *batch[1];
  assert_int_equal(tdm_loader_next(NULL, batch, 1, &rows), TDM_INVALID_ARGUMENT);
  dataset = make_counting_dataset(fixture->context, 4);
  tdm_loader *loader = tdm_loader_create(dataset, NULL);
  assert_int_equal(tdm_loader_next(loader, batch, 0, &rows), TDM_INVALID_ARGUMENT);
  assert_message("tdm_loader_next: capacity is 0, expected at least 1");
  tdm_loader_release(loader);
  tdm_dataset_release(dataset);
  assert_int_equal(tdm_loader_start(NULL, 0), TDM_INVALID_ARGUMENT);
}

static void *allocate_small(void *user, size_t bytes, size_t alignment) {
  (void)user;
  return bytes < 4096 ? aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
                      : NULL;
}

static void release_small(void *user, void *memory, size_t bytes) {
  (void)user;
  (void)bytes;
  free(memory);
}

/* Checks that the call fails immediately: its time must not grow with the number of batches. */
static void a_dataset_beyond_memory_is_refused(void **state) {
  (void)state;
  const tdm_allocator allocator = {.allocate = allocate_small, .release = release_small};
  const int64_t lengths[] = {(int64_t)1 << 59, INT64_MAX};
  for (size_t i = 0; i < 2; i++) {
    for (int64_t replicas = 0; replicas < 3; replicas++) {
      tdm_order order;
      const tdm_order_options options = {.batch_size = replicas + !replicas, .replicas = replicas};
      assert_int_equal(tdm_order_init(&order, &allocator, lengths[i], &options), TDM_OUT_OF_MEMORY);
      tdm_order_deinit(&order);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_hundred_items_by_thirty, set_up, tear_down),
      cmocka_unit_test_setup_teardown(drop_last_drops_only_a_short_batch, set_up, tear_down),
      cmocka_unit_test_setup_teardown(without_options_batches_hold_one, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_shuffle_depends_on_seed_and_epoch_alone, set_up, tear_down),
      cmocka_unit_test(every_order_is_as_likely),
      cmocka_unit_test_setup_teardown(a_start_begins_anew, set_up, tear_down),
      cmocka_unit_test_setup_teardown(bad_options_are_refused, set_up, tear_down),
      cmocka_unit_test(a_dataset_beyond_memory_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
