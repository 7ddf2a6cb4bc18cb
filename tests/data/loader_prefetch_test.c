/* The loader's thread: the same batches as without it, errors where they belong, a prompt end. */
#define _GNU_SOURCE /* usleep */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/dataset.h"
#include "tests/data/support.h"
#include "tests/options.h"

/* A dataset that counts its calls, can be slow, and can fail at one item. */
typedef struct trouble {
  atomic_int calls;
  atomic_llong fail_at; /* -1: never */
  useconds_t delay_us;
} trouble;

static tdm_status troubled_item(void *user, int64_t index, void *const *out_fields) {
  trouble *at = user;
  atomic_fetch_add(&at->calls, 1);
  if (at->delay_us > 0) (void)usleep(at->delay_us);
  if (index == atomic_load(&at->fail_at)) return tdm_fail(TDM_CORRUPT_DATA, "a torn page");
  *(int64_t *)out_fields[0] = index;
  return TDM_OK;
}

static tdm_dataset *make_troubled(const data_fixture *fixture, trouble *at, int64_t length) {
  const tdm_field field = {.name = "value", .dtype = TDM_INT64, .shape = tdm_shape_scalar()};
  const tdm_dataset_source source = {.struct_size = sizeof(source),
                                     .user = at,
                                     .length = length,
                                     .fields = &field,
                                     .field_count = 1,
                                     .item = troubled_item};
  tdm_dataset *dataset = tdm_dataset_create(fixture->context, &source);
  assert_non_null(dataset);
  return dataset;
}

static void prefetch_changes_nothing(void **state) {
  const data_fixture *fixture = *state;
  tdm_dataset *dataset = make_counting_dataset(fixture->context, 333);
  tdm_loader_options options =
      OPTIONS(tdm_loader_options, o.batch_size = 10, o.shuffle = true, o.seed = 11);
  tdm_loader *plain = tdm_loader_create(dataset, &options);
  for (int prefetch = 1; prefetch < 100; prefetch = prefetch * 3 + 1) {
    options.prefetch = prefetch;
    tdm_loader *ahead = tdm_loader_create(dataset, &options);
    assert_non_null(ahead);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
      assert_int_equal(tdm_loader_start(plain, epoch), TDM_OK);
      if (epoch > 0) assert_int_equal(tdm_loader_start(ahead, epoch), TDM_OK); /* 0 is automatic */
      for (int64_t rows = 1; rows > 0;) {
        tdm_tensor *a[1];
        tdm_tensor *b[1];
        int64_t other_rows = 0;
        assert_int_equal(tdm_loader_next(plain, a, 1, &rows), TDM_OK);
        assert_int_equal(tdm_loader_next(ahead, b, 1, &other_rows), TDM_OK);
        assert_int_equal(rows, other_rows);
        if (rows == 0) break;
        assert_memory_equal(tdm_tensor_data(a[0]), tdm_tensor_data(b[0]), (size_t)rows * 8);
        tdm_tensor_release(a[0]);
        tdm_tensor_release(b[0]);
      }
    }
    tdm_loader_release(ahead);
  }
  tdm_loader_release(plain);
  tdm_dataset_release(dataset);
}

static void errors_of_items_arrive_in_their_place(void **state) {
  const data_fixture *fixture = *state;
  for (int prefetch = 0; prefetch < 5; prefetch++) {
    trouble at = {.fail_at = 57};
    tdm_dataset *dataset = make_troubled(fixture, &at, 100);
    const tdm_loader_options options =
        OPTIONS(tdm_loader_options, o.batch_size = 10, o.prefetch = prefetch);
    tdm_loader *loader = tdm_loader_create(dataset, &options);
    tdm_tensor *batch[1];
    int64_t rows = 0;
    for (int i = 0; i < 5; i++) {
      assert_int_equal(tdm_loader_next(loader, batch, 1, &rows), TDM_OK);
      assert_int_equal(rows, 10);
      tdm_tensor_release(batch[0]);
    }
    for (int i = 0; i < 3; i++) { /* and stays until a new start */
      (void)tdm_fail(TDM_IO, "something else");
      rows = 1;
      assert_int_equal(tdm_loader_next(loader, batch, 1, &rows), TDM_CORRUPT_DATA);
      assert_string_equal(tdm_last_message(), "item 57 of the dataset: a torn page");
      assert_int_equal(rows, 0);
      assert_null(batch[0]);
    }
    assert_true(atomic_load(&at.calls) == 58); /* nothing was made after it */
    atomic_store(&at.fail_at, -1);
    assert_int_equal(tdm_loader_start(loader, 0), TDM_OK);
    for (int i = 0; i < 10; i++) {
      assert_int_equal(tdm_loader_next(loader, batch, 1, &rows), TDM_OK);
      tdm_tensor_release(batch[0]);
    }
    tdm_loader_release(loader);
    tdm_dataset_release(dataset);
  }
}

static void the_queue_is_bounded(void **state) {
  const data_fixture *fixture = *state;
  trouble at = {.fail_at = -1};
  tdm_dataset *dataset = make_troubled(fixture, &at, 1000);
  const tdm_loader_options options = OPTIONS(tdm_loader_options, o.batch_size = 10, o.prefetch = 3);
  tdm_loader *loader = tdm_loader_create(dataset, &options);
  assert_int_equal(tdm_loader_start(loader, 0), TDM_OK);
  while (atomic_load(&at.calls) < 30)
    (void)usleep(1000);
  (void)usleep(50000); /* room for a thread that ran on */
  assert_int_equal(atomic_load(&at.calls), 30);
  tdm_loader_release(loader);
  tdm_dataset_release(dataset);
}

/* A batch here takes 100 s to make: only a thread that looks up in between ends in time. */
static void release_and_start_abandon_a_batch(void **state) {
  const data_fixture *fixture = *state;
  trouble at = {.fail_at = -1, .delay_us = 1000};
  tdm_dataset *dataset = make_troubled(fixture, &at, 200000);
  const tdm_loader_options options =
      OPTIONS(tdm_loader_options, o.batch_size = 100000, o.prefetch = 2);
  tdm_loader *loader = tdm_loader_create(dataset, &options);
  for (uint64_t epoch = 0; epoch < 3; epoch++) {
    const int before = atomic_load(&at.calls);
    assert_int_equal(tdm_loader_start(loader, epoch), TDM_OK);
    while (atomic_load(&at.calls) == before)
      (void)usleep(1000);
  }
  tdm_loader_release(loader);
  const int calls = atomic_load(&at.calls);
  assert_true(calls < 100000);
  tdm_dataset_release(dataset);
}

static void a_loader_may_never_be_asked(void **state) {
  const data_fixture *fixture = *state;
  for (int64_t length = 0; length < 3; length++) {
    tdm_dataset *dataset = make_counting_dataset(fixture->context, length);
    const tdm_loader_options options = OPTIONS(tdm_loader_options, o.prefetch = 4);
    tdm_loader *loader = tdm_loader_create(dataset, &options);
    assert_non_null(loader);
    assert_int_equal(tdm_loader_batch_count(loader), length);
    tdm_loader_release(loader);
    tdm_dataset_release(dataset);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(prefetch_changes_nothing, set_up, tear_down),
      cmocka_unit_test_setup_teardown(errors_of_items_arrive_in_their_place, set_up, tear_down),
      cmocka_unit_test_setup_teardown(the_queue_is_bounded, set_up, tear_down),
      cmocka_unit_test_setup_teardown(release_and_start_abandon_a_batch, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_loader_may_never_be_asked, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
