/* Datasets: user-defined ones, those of tensors, refused calls, and their end. */
#include <stdlib.h>
#include <string.h>

#include "data/dataset.h"
#include "tests/data/support.h"
#include "tests/options.h"

static void a_source_is_ended_once(void *user) {
  ++*(int *)user;
}

static tdm_status item_of_nothing(void *user, int64_t index, void *const *out_fields) {
  (void)user, (void)index, (void)out_fields;
  return TDM_OK;
}

static void a_dataset_ends_with_its_last_reference(void **state) {
  const data_fixture *fixture = *state;
  int ended = 0;
  const tdm_field field = {.name = "x", .dtype = TDM_FLOAT32, .shape = tdm_shape_of(1, 3)};
  const tdm_dataset_source source = {.struct_size = sizeof(source),
                                     .user = &ended,
                                     .length = 5,
                                     .fields = &field,
                                     .field_count = 1,
                                     .item = item_of_nothing,
                                     .destroy = a_source_is_ended_once};
  tdm_dataset *dataset = tdm_dataset_create(fixture->context, &source);
  assert_non_null(dataset);
  assert_int_equal(tdm_dataset_length(dataset), 5);
  assert_ptr_equal(tdm_dataset_retain(dataset), dataset);
  tdm_dataset_release(dataset);
  assert_int_equal(ended, 0);
  tdm_loader *loader = tdm_loader_create(dataset, NULL);
  assert_non_null(loader);
  tdm_dataset_release(dataset);
  assert_int_equal(ended, 0); /* the loader holds it */
  tdm_loader_release(loader);
  assert_int_equal(ended, 1);
  tdm_dataset_release(NULL);
  assert_null(tdm_dataset_retain(NULL));
}

typedef struct bad_source {
  const char *message;
  tdm_dataset_source source;
} bad_source;

static void bad_sources_are_refused(void **state) {
  const data_fixture *fixture = *state;
  const tdm_field x = {.name = "x", .dtype = TDM_INT64, .shape = tdm_shape_scalar()};
  const tdm_field fields[9] = {x};
  const tdm_field twice[2] = {x, x};
  const tdm_field nameless = {.dtype = TDM_INT64};
  const tdm_field typeless = {.name = "x"};
  const tdm_field symbolic = {
      .name = "x", .dtype = TDM_BOOL, .shape = tdm_shape_of(1, TDM_DIM("n"))};
  tdm_field deep = {.name = "x", .dtype = TDM_BOOL, .shape = {.rank = TDM_MAX_RANK}};
  const size_t size = sizeof(tdm_dataset_source);
#define SOURCE(...)                                                                                \
  { .struct_size = size, .length = 1, .item = item_of_nothing, __VA_ARGS__ }
  const bad_source table[] = {
      {"struct_size", {.struct_size = 3}},
      {"item is NULL", {.struct_size = size, .length = 1, .fields = &x, .field_count = 1}},
      {"length is -1", {.struct_size = size, .length = -1, .item = item_of_nothing}},
      {"field_count is 0", SOURCE(.fields = fields)},
      {"field_count is 9", SOURCE(.fields = fields, .field_count = 9)},
      {"no name", SOURCE(.fields = &nameless, .field_count = 1)},
      {"no dtype", SOURCE(.fields = &typeless, .field_count = 1)},
      {"[n]", SOURCE(.fields = &symbolic, .field_count = 1)},
      {"which no item can have", SOURCE(.fields = &deep, .field_count = 1)},
      {"two fields are named x", SOURCE(.fields = twice, .field_count = 2)},
  };
#undef SOURCE
  for (size_t i = 0; i < sizeof(table) / sizeof table[0]; i++) {
    assert_null(tdm_dataset_create(fixture->context, &table[i].source));
    assert_message(table[i].message);
  }
  assert_null(tdm_dataset_create(fixture->context, NULL));
  assert_null(tdm_dataset_create(NULL, &table[0].source));
}

static void rows_of_tensors_are_items(void **state) {
  const data_fixture *fixture = *state;
  float x[4][2][3];
  uint8_t y[4];
  for (int i = 0; i < 24; i++)
    (&x[0][0][0])[i] = (float)i;
  for (int i = 0; i < 4; i++)
    y[i] = (uint8_t)(i * 7);
  tdm_tensor *tensors[] = {
      tdm_tensor_from(fixture->context, TDM_FLOAT32, tdm_shape_of(3, 4, 2, 3), x),
      tdm_tensor_from(fixture->context, TDM_UINT8, tdm_shape_of(1, 4), y),
  };
  const char *const names[] = {"x", "y"};
  tdm_dataset *dataset = tdm_dataset_from_tensors(fixture->context, names, tensors, 2);
  assert_non_null(dataset);
  tdm_tensor_release(tensors[0]);
  tdm_tensor_release(tensors[1]);
  const tdm_loader_options options = OPTIONS(tdm_loader_options, o.batch_size = 3);
  tdm_loader *loader = tdm_loader_create(dataset, &options);
  tdm_dataset_release(dataset);
  int64_t rows = 0;
  tdm_tensor *batch[2];
  for (int64_t begin = 0; begin < 4; begin += 3) {
    assert_int_equal(tdm_loader_next(loader, batch, 2, &rows), TDM_OK);
    const int64_t wanted = begin == 0 ? 3 : 1;
    assert_int_equal(rows, wanted);
    const tdm_shape shapes[] = {tdm_shape_of(3, wanted, 2, 3), tdm_shape_of(1, wanted)};
    for (int i = 0; i < 2; i++) {
      const tdm_shape shape = tdm_tensor_shape(batch[i]);
      assert_true(tdm_shape_equal(&shape, &shapes[i]));
      assert_string_equal(tdm_tensor_device(batch[i]), "cpu:0");
    }
    assert_memory_equal(tdm_tensor_data(batch[0]), x[begin], (size_t)wanted * 24);
    assert_memory_equal(tdm_tensor_data(batch[1]), y + begin, (size_t)wanted);
    tdm_batch_release(batch, 2);
  }
  tdm_loader_release(loader);
}

static void tensors_that_do_not_fit_are_refused(void **state) {
  const data_fixture *fixture = *state;
  tdm_context *context = fixture->context;
  tdm_tensor *four = tdm_tensor_zeros(context, "cpu:0", TDM_INT32, tdm_shape_of(2, 4, 2));
  tdm_tensor *five = tdm_tensor_zeros(context, "cpu:0", TDM_INT32, tdm_shape_of(1, 5));
  tdm_tensor *scalar = tdm_tensor_zeros(context, "cpu:0", TDM_INT32, tdm_shape_scalar());
  tdm_tensor *far = tdm_tensor_zeros(context, "sim:0", TDM_INT32, tdm_shape_of(1, 4));
  assert_true(four && five && scalar && far);
  const char *const names[] = {"four", "other"};
  struct {
    tdm_tensor *tensor;
    const char *message;
  } table[] = {
      {five, "other has 5 rows, those before it have 4"},
      {scalar, "other is a scalar"},
      {far, "other lies on sim:0"},
      {NULL, "other is NULL"},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof table[0]; i++) {
    tdm_tensor *const tensors[] = {four, table[i].tensor};
    assert_null(tdm_dataset_from_tensors(context, names, tensors, 2));
    assert_message(table[i].message);
  }
  tdm_tensor *const same[] = {four, four};
  const char *const same_names[] = {"x", "x"};
  assert_null(tdm_dataset_from_tensors(context, same_names, same, 2));
  assert_message("two fields are named x");
  assert_null(tdm_dataset_from_tensors(context, names, same, 0));
  assert_null(tdm_dataset_from_tensors(context, names, same, 9));
  tdm_tensor_release(four);
  tdm_tensor_release(five);
  tdm_tensor_release(scalar);
  tdm_tensor_release(far);
}

static tdm_status item_that_fails(void *user, int64_t index, void *const *out_fields) {
  (void)user, (void)index, (void)out_fields;
  return TDM_IO;
}

/* The dataset is read on this thread, and on the loader's thread. */
static void an_item_that_does_not_say_why_is_named(void **state) {
  const data_fixture *fixture = *state;
  const tdm_field field = {.name = "x", .dtype = TDM_FLOAT32, .shape = tdm_shape_of(1, 3)};
  tdm_dataset *dataset = tdm_dataset_create(
      fixture->context, &(tdm_dataset_source){.struct_size = sizeof(tdm_dataset_source),
                                              .length = 2,
                                              .fields = &field,
                                              .field_count = 1,
                                              .item = item_that_fails});
  assert_non_null(dataset);
  for (int prefetch = 0; prefetch < 2; prefetch++) {
    tdm_loader *loader =
        tdm_loader_create(dataset, WITH(tdm_loader_options, o.prefetch = prefetch));
    assert_int_equal(tdm_loader_start(loader, 0), TDM_OK);
    (void)tdm_fail(TDM_CANCELLED, "a failure long past");
    tdm_tensor *batch;
    int64_t rows;
    assert_int_equal(tdm_loader_next(loader, &batch, 1, &rows), TDM_IO);
    assert_string_equal(tdm_last_message(),
                        "item 0 of the dataset: it does not say why (by tdm_fail)");
    tdm_loader_release(loader);
  }
  tdm_dataset_release(dataset);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_dataset_ends_with_its_last_reference, set_up, tear_down),
      cmocka_unit_test_setup_teardown(bad_sources_are_refused, set_up, tear_down),
      cmocka_unit_test_setup_teardown(rows_of_tensors_are_items, set_up, tear_down),
      cmocka_unit_test_setup_teardown(tensors_that_do_not_fit_are_refused, set_up, tear_down),
      cmocka_unit_test_setup_teardown(an_item_that_does_not_say_why_is_named, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
