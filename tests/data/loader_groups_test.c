/* Batches of one group: none crosses groups, none is lost, the order of batches is mixed. */
#include <stdlib.h>
#include <string.h>

#include "data/dataset.h"
#include "tests/data/support.h"
#include "tests/options.h"

enum { ITEMS = 500, BATCH = 16 };

static void fill_groups(int32_t *groups) {
  static const int32_t names[] = {7, -3, 1000000, 0, INT32_MIN, INT32_MAX};
  for (int i = 0; i < ITEMS; i++)
    groups[i] = names[(i + i / 7) % 6];
}

/* Expects every batch to have one group; returns the groups of batches in order. */
static int64_t read_epoch(tdm_loader *loader, const int32_t *groups, int32_t *batch_groups,
                          int *seen) {
  for (int64_t batches = 0;; batches++) {
    int64_t rows = 0;
    tdm_tensor *batch[1];
    assert_int_equal(tdm_loader_next(loader, batch, 1, &rows), TDM_OK);
    if (rows == 0) return batches;
    assert_in_range(rows, 1, BATCH);
    const int64_t *values = tdm_tensor_data(batch[0]); /* (rows) */
    for (int64_t i = 0; i < rows; i++) {
      assert_int_equal(groups[values[i]], groups[values[0]]);
      seen[values[i]]++;
    }
    batch_groups[batches] = groups[values[0]];
    tdm_tensor_release(batch[0]);
  }
}

static int64_t expected_batches(const int32_t *groups, bool drop_last) {
  int64_t batches = 0;
  for (int i = 0; i < ITEMS; i++) {
    int64_t size = 0;
    bool is_first = true;
    for (int j = 0; j < ITEMS; j++) {
      size += groups[j] == groups[i];
      is_first = is_first && !(j < i && groups[j] == groups[i]);
    }
    if (is_first) batches += drop_last ? size / BATCH : (size + BATCH - 1) / BATCH;
  }
  return batches;
}

static void no_batch_crosses_groups(void **state) {
  const data_fixture *fixture = *state;
  tdm_dataset *dataset = make_counting_dataset(fixture->context, ITEMS);
  for (int variant = 0; variant < 8; variant++) {
    int32_t groups[ITEMS];
    int32_t batch_groups[ITEMS];
    int seen[ITEMS] = {0};
    fill_groups(groups);
    const tdm_loader_options options =
        OPTIONS(tdm_loader_options, o.batch_size = BATCH, o.shuffle = variant & 1,
                o.drop_last = variant >> 1 & 1, o.prefetch = variant >> 2 & 1, o.seed = 5,
                o.groups = groups);
    tdm_loader *loader = tdm_loader_create(dataset, &options);
    assert_non_null(loader);
    int32_t kept[ITEMS];
    memcpy(kept, groups, sizeof(kept));
    memset(groups, 0, sizeof groups); /* only borrowed for the creation */
    const int64_t wanted = expected_batches(kept, options.drop_last);
    assert_int_equal(tdm_loader_batch_count(loader), wanted);
    assert_int_equal(read_epoch(loader, kept, batch_groups, seen), wanted);
    int changes = 0;
    for (int64_t i = 1; i < wanted; i++)
      changes += batch_groups[i] != batch_groups[i - 1];
    /* Six groups follow each other in five changes; mixed batches change far more often. */
    assert_true(options.shuffle ? changes > 12 : changes == 5);
    for (int i = 0; i < ITEMS; i++)
      assert_true(seen[i] == 1 || (options.drop_last && seen[i] == 0));
    tdm_loader_release(loader);
  }
  tdm_dataset_release(dataset);
}

static void epochs_of_groups_repeat(void **state) {
  const data_fixture *fixture = *state;
  tdm_dataset *dataset = make_counting_dataset(fixture->context, ITEMS);
  int32_t groups[ITEMS];
  int32_t first[ITEMS];
  int32_t again[ITEMS];
  int32_t other[ITEMS];
  int seen[ITEMS] = {0};
  fill_groups(groups);
  const tdm_loader_options options =
      OPTIONS(tdm_loader_options, o.batch_size = BATCH, o.shuffle = true, o.groups = groups);
  tdm_loader *loader = tdm_loader_create(dataset, &options);
  const size_t bytes = (size_t)tdm_loader_batch_count(loader) * sizeof *first;
  assert_int_equal(tdm_loader_start(loader, 1), TDM_OK);
  (void)read_epoch(loader, groups, first, seen);
  assert_int_equal(tdm_loader_start(loader, 2), TDM_OK);
  (void)read_epoch(loader, groups, other, seen);
  assert_int_equal(tdm_loader_start(loader, 1), TDM_OK);
  (void)read_epoch(loader, groups, again, seen);
  assert_memory_equal(first, again, bytes);
  assert_memory_not_equal(first, other, bytes);
  tdm_loader_release(loader);
  tdm_dataset_release(dataset);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(no_batch_crosses_groups, set_up, tear_down),
      cmocka_unit_test_setup_teardown(epochs_of_groups_repeat, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
