/* Conformance of tensors on the device that TEST_DEVICE names: contents, views, moving and
 * converting, lifetimes past the context's end, shortage of memory. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/devices/support.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

static int set_up(void **state) {
  *state = test_context(NULL);
  return 0;
}

static int tear_down(void **state) {
  tdm_context_release(*state);
  return 0;
}

static tdm_tensor *counting(tdm_context *context, tdm_shape shape) {
  tdm_tensor *tensor = tdm_tensor_create(context, TEST_DEVICE, TDM_INT32, shape);
  assert_non_null(tensor);
  int32_t values[64];
  const size_t count = (size_t)tdm_shape_count(&shape);
  for (size_t i = 0; i < count; i++)
    values[i] = (int32_t)i;
  assert_ok(tdm_tensor_write(tensor, values, count * sizeof(int32_t)));
  return tensor;
}

static void assert_int32(const tdm_tensor *tensor, size_t count, int32_t first, int32_t step) {
  int32_t values[64];
  assert_int_equal(tdm_tensor_bytes(tensor), count * sizeof(int32_t));
  assert_ok(tdm_tensor_read(tensor, values, count * sizeof(int32_t)));
  for (size_t i = 0; i < count; i++)
    assert_int_equal(values[i], first + step * (int32_t)i);
}

static void tensors_say_what_they_are(void **state) {
  tdm_tensor *tensor = counting(*state, tdm_shape_of(2, 4, 3));
  assert_int_equal(tdm_tensor_dtype(tensor), TDM_INT32);
  const tdm_shape shape = tdm_tensor_shape(tensor);
  const tdm_shape expected = tdm_shape_of(2, 4, 3);
  assert_true(tdm_shape_equal(&shape, &expected));
  assert_string_equal(tdm_tensor_device(tensor), TEST_DEVICE);
  assert_int_equal(tdm_tensor_data(tensor) != NULL,
                   test_device(*state, TEST_DEVICE)->host_addressable);
  assert_int32(tensor, 12, 0, 1);
  tdm_tensor_release(tensor);
  tdm_tensor_release(NULL);
}

static void bad_tensors_are_refused(void **state) {
  tdm_context *context = *state;
  assert_null(tdm_tensor_create(context, TEST_DEVICE, TDM_INT32, tdm_shape_of(1, TDM_DIM("n"))));
  assert_message("[n]");
  assert_null(tdm_tensor_create(context, TEST_DEVICE, TDM_DTYPE_NONE, tdm_shape_of(1, 3)));
  assert_null(tdm_tensor_create(context, "sim:9", TDM_INT32, tdm_shape_of(1, 3)));
  assert_message("sim:9");
  assert_null(tdm_tensor_create(NULL, TEST_DEVICE, TDM_INT32, tdm_shape_of(1, 3)));
  tdm_tensor *tensor = counting(context, tdm_shape_of(1, 3));
  int32_t values[4] = {0};
  assert_status(tdm_tensor_read(tensor, values, 8), TDM_INVALID_ARGUMENT);
  assert_status(tdm_tensor_write(tensor, values, 16), TDM_INVALID_ARGUMENT);
  assert_status(tdm_tensor_write(tensor, NULL, 12), TDM_INVALID_ARGUMENT);
  assert_null(tdm_tensor_slice(tensor, 1, 4));
  assert_null(tdm_tensor_slice(tensor, 2, 1));
  assert_null(tdm_tensor_slice(tensor, -1, 1));
  assert_null(tdm_tensor_view(tensor, tdm_shape_of(1, 4)));
  assert_message("[4]");
  assert_null(tdm_tensor_to(tensor, "tpu:0", TDM_DTYPE_NONE));
  tdm_tensor_release(tensor);
}

static void views_share_storage(void **state) {
  tdm_tensor *tensor = counting(*state, tdm_shape_of(2, 4, 3));
  tdm_tensor *rows = tdm_tensor_slice(tensor, 1, 3);
  assert_non_null(rows);
  assert_int32(rows, 6, 3, 1);
  tdm_tensor *row = tdm_tensor_slice(rows, 1, 2);
  tdm_tensor *flat = tdm_tensor_view(row, tdm_shape_of(1, 3));
  assert_non_null(flat);
  tdm_tensor_release(row);
  tdm_tensor_release(rows);
  const int32_t changed[3] = {-1, -2, -3};
  assert_ok(tdm_tensor_write(flat, changed, sizeof changed));
  tdm_tensor_release(flat);
  int32_t all[12];
  assert_ok(tdm_tensor_read(tensor, all, sizeof all));
  assert_int_equal(all[5], 5);
  assert_int_equal(all[6], -1);
  assert_int_equal(all[8], -3);
  assert_int_equal(all[9], 9);
  tdm_tensor *none = tdm_tensor_slice(tensor, 4, 4);
  assert_non_null(none);
  assert_int_equal(tdm_tensor_bytes(none), 0);
  assert_ok(tdm_tensor_read(none, NULL, 0));
  tdm_tensor_release(none);
  tdm_tensor_release(tensor);
}

static void fills_are_the_same_everywhere(void **state) {
  tdm_context *context = *state;
  tdm_tensor *zeros = tdm_tensor_zeros(context, TEST_DEVICE, TDM_INT32, tdm_shape_of(1, 9));
  assert_int32(zeros, 9, 0, 0);
  tdm_tensor_release(zeros);
  tdm_tensor *full =
      tdm_tensor_full(context, TEST_DEVICE, TDM_INT32, tdm_shape_of(1, 9), INT32_MAX);
  assert_int32(full, 9, INT32_MAX, 0);
  tdm_tensor_release(full);
  static const uint8_t values[] = {0, 1, 254, 255};
  for (size_t i = 0; i < TDM_COUNT_OF(values); i++) {
    uint8_t read[2] = {7, 7};
    full = tdm_tensor_full(context, TEST_DEVICE, TDM_UINT8, tdm_shape_of(1, 2), values[i]);
    assert_ok(tdm_tensor_read(full, read, sizeof read));
    assert_int_equal(read[0], values[i]);
    assert_int_equal(read[1], values[i]);
    tdm_tensor_release(full);
  }
  static const double refused[] = {-3, 0.9, 254.5, 256, 3e10, NAN};
  for (size_t i = 0; i < TDM_COUNT_OF(refused); i++) {
    assert_null(tdm_tensor_full(context, TEST_DEVICE, TDM_UINT8, tdm_shape_of(1, 2), refused[i]));
    assert_message("uint8");
  }
  assert_null(tdm_tensor_full(context, TEST_DEVICE, TDM_FLOAT16, tdm_shape_of(1, 9), 1));

  float here[1000];
  float there[1000];
  tdm_tensor *a =
      tdm_tensor_uniform(context, TEST_DEVICE, TDM_FLOAT32, tdm_shape_of(1, 1000), 5, -2, 3);
  tdm_tensor *b =
      tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(1, 1000), 5, -2, 3);
  assert_ok(tdm_tensor_read(a, here, sizeof here));
  assert_ok(tdm_tensor_read(b, there, sizeof there));
  assert_memory_equal(here, there, sizeof here);
  double sum = 0;
  for (size_t i = 0; i < 1000; i++) {
    assert_true(here[i] >= -2.0f && here[i] < 3.0f);
    sum += here[i];
  }
  assert_true(fabs(sum / 1000 - 0.5) < 0.25);
  tdm_tensor_release(a);
  tdm_tensor_release(b);
  assert_null(tdm_tensor_uniform(context, TEST_DEVICE, TDM_FLOAT32, tdm_shape_of(1, 1), 5, 3, 2));
}

static void tensors_move_to_every_device(void **state) {
  tdm_context *context = *state;
  tdm_tensor *tensor = counting(context, tdm_shape_of(1, 50));
  for (size_t i = 0; i < tdm_device_count(context); i++) {
    const char *name = tdm_device_name_at(context, i);
    tdm_tensor *there = tdm_tensor_to(tensor, name, TDM_DTYPE_NONE);
    assert_non_null(there);
    assert_string_equal(tdm_tensor_device(there), name);
    assert_int_equal(there == tensor, strcmp(name, TEST_DEVICE) == 0);
    assert_int32(there, 50, 0, 1);
    tdm_tensor *back = tdm_tensor_to(there, TEST_DEVICE, TDM_INT32);
    assert_int32(back, 50, 0, 1);
    tdm_tensor_release(back);
    tdm_tensor_release(there);
  }
  tdm_tensor *same = tdm_tensor_to(tensor, NULL, TDM_INT32);
  assert_ptr_equal(same, tensor);
  tdm_tensor_release(same);
  tdm_tensor_release(tensor);
}

static void conversion_truncates_and_saturates(void **state) {
  tdm_context *context = *state;
  const float values[8] = {1.9f, -1.9f, 3e9f, -3e9f, NAN, 300.0f, -0.5f, 0.0f};
  tdm_tensor *source = tdm_tensor_create(context, TEST_DEVICE, TDM_FLOAT32, tdm_shape_of(1, 8));
  assert_ok(tdm_tensor_write(source, values, sizeof(values)));

  static const int32_t as_int32[8] = {1, -1, INT32_MAX, INT32_MIN, 0, 300, 0, 0};
  int32_t int32s[8];
  tdm_tensor *converted = tdm_tensor_to(source, NULL, TDM_INT32);
  assert_non_null(converted);
  assert_string_equal(tdm_tensor_device(converted), TEST_DEVICE);
  assert_ok(tdm_tensor_read(converted, int32s, sizeof int32s));
  assert_memory_equal(int32s, as_int32, sizeof as_int32);
  tdm_tensor_release(converted);

  static const uint8_t as_uint8[8] = {1, 0, 255, 0, 0, 255, 0, 0};
  uint8_t uint8s[8];
  converted = tdm_tensor_to(source, "sim:0", TDM_UINT8);
  assert_non_null(converted);
  assert_string_equal(tdm_tensor_device(converted), "sim:0");
  assert_ok(tdm_tensor_read(converted, uint8s, sizeof uint8s));
  assert_memory_equal(uint8s, as_uint8, sizeof as_uint8);
  tdm_tensor_release(converted);

  /* values rounded as in NumPy */
  static const uint16_t as_float16[] = {0x3f9a, 0xbf9a, 0x7c00, 0xfc00};
  uint16_t float16s[8];
  converted = tdm_tensor_to(source, NULL, TDM_FLOAT16);
  assert_non_null(converted);
  assert_ok(tdm_tensor_read(converted, float16s, sizeof float16s));
  assert_memory_equal(float16s, as_float16, sizeof as_float16);
  tdm_tensor_release(converted);
  float unchanged[8];
  assert_ok(tdm_tensor_read(source, unchanged, sizeof unchanged));
  assert_memory_equal(unchanged, values, sizeof(values));
  tdm_tensor_release(source);
}

/* ---- Lifetimes ------------------------------------------------------------------------------- */

static void count_release(void *user) {
  atomic_fetch_add((_Atomic int *)user, 1);
}

static void wrapped_memory_is_told_of_its_end(void **state) {
  tdm_context *context = *state;
  _Atomic int released = 0;
  int32_t data[6] = {0, 1, 2, 3, 4, 5};
  tdm_tensor *tensor = tdm_tensor_wrap(context, TDM_INT32, tdm_shape_of(2, 3, 2), data,
                                       count_release, (void *)&released);
  assert_non_null(tensor);
  assert_ptr_equal(tdm_tensor_data(tensor), data);
  tdm_tensor *there = tdm_tensor_to(tensor, TEST_DEVICE, TDM_DTYPE_NONE);
  assert_int32(there, 6, 0, 1);
  tdm_tensor_release(there);
  tdm_tensor *part = tdm_tensor_slice(tensor, 1, 2);
  tdm_tensor_release(tensor);
  assert_int_equal(released, 0);
  assert_int32(part, 2, 2, 1);
  tdm_tensor_release(part);
  assert_int_equal(released, 1);
  assert_null(tdm_tensor_wrap(context, TDM_INT32, tdm_shape_of(1, 2), NULL, count_release,
                              (void *)&released));
  assert_int_equal(released, 1);
}

static void *release_tensor(void *user) {
  tdm_tensor_release(user);
  return NULL;
}

static void tensors_outlive_the_closed_context(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  assert_ok(tdm_context_start(context));
  tdm_tensor *tensor = counting(context, tdm_shape_of(1, 5));
  tdm_tensor *host = tdm_tensor_full(context, "cpu:0", TDM_INT32, tdm_shape_of(1, 4), 8);
  tdm_context_close(context, NULL, NULL);
  tdm_context_release(context);
  assert_int32(host, 4, 8, 0);
  if (!tdm_tensor_data(tensor)) {
    int32_t values[5];
    assert_status(tdm_tensor_read(tensor, values, sizeof(values)), TDM_CANCELLED);
  } else {
    assert_int32(tensor, 5, 0, 1);
  }
  tdm_tensor_release(host);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, release_tensor, tensor), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
}

static void tensors_keep_the_context(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  tdm_tensor *tensor = counting(context, tdm_shape_of(1, 5));
  tdm_context_release(context);
  assert_int32(tensor, 5, 0, 1);
  tdm_tensor *moved = tdm_tensor_to(tensor, "sim:1", TDM_DTYPE_NONE);
  tdm_tensor_release(tensor);
  assert_int32(moved, 5, 0, 1);
  tdm_tensor_release(moved); /* closes and frees the context, which is still open */
}

/* ---- Shortage -------------------------------------------------------------------------------- */

static bool use_tensors(tdm_context *context) {
  const double values[4] = {1, 2, 3, 4};
  bool whole = false;
  tdm_tensor *made = tdm_tensor_from(context, TDM_FLOAT64, tdm_shape_of(2, 2, 2), values);
  tdm_tensor *there = tdm_tensor_to(made, TEST_DEVICE, TDM_INT64);
  tdm_tensor *slice = tdm_tensor_slice(there, 0, 1);
  tdm_tensor *view = tdm_tensor_view(slice, tdm_shape_of(1, 2));
  tdm_tensor *zeros = tdm_tensor_zeros(context, TEST_DEVICE, TDM_BOOL, tdm_shape_of(1, 3));
  if (view && zeros) {
    int64_t read[2];
    whole = tdm_tensor_read(view, read, sizeof read) == TDM_OK && read[0] == 1 && read[1] == 2;
  }
  tdm_tensor_release(zeros);
  tdm_tensor_release(view);
  tdm_tensor_release(slice);
  tdm_tensor_release(there);
  tdm_tensor_release(made);
  return whole;
}

static void every_nth_allocation_fails(void **state) {
  (void)state;
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.allocator = &allocator, o.cpu_devices = 2, o.sim_devices = 2,
              o.sim = "latency_us=0,gigabytes_per_second=0");
  tdm_context *context = tdm_context_create(&options);
  assert_non_null(context);
  assert_ok(tdm_context_start(context));
  assert_true(use_tensors(context)); /* a device may keep what its first use made */
  const int64_t before = tdm_faulty_allocator_outstanding_bytes(faulty);
  for (int from_on = 0; from_on < 2; from_on++) {
    for (uint64_t n = 1;; n++) {
      tdm_faulty_allocator_arm(faulty, n, from_on == 1);
      const bool whole = use_tensors(context);
      const bool failed = tdm_faulty_allocator_failures(faulty) > 0;
      tdm_faulty_allocator_arm(faulty, 0, false);
      assert_int_equal(whole, !failed);
      assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), before);
      if (!failed) break;
      assert_true(n < 100);
    }
  }
  tdm_context_release(context);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
  tdm_faulty_allocator_destroy(faulty);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(tensors_say_what_they_are, set_up, tear_down),
      cmocka_unit_test_setup_teardown(bad_tensors_are_refused, set_up, tear_down),
      cmocka_unit_test_setup_teardown(views_share_storage, set_up, tear_down),
      cmocka_unit_test_setup_teardown(fills_are_the_same_everywhere, set_up, tear_down),
      cmocka_unit_test_setup_teardown(tensors_move_to_every_device, set_up, tear_down),
      cmocka_unit_test_setup_teardown(conversion_truncates_and_saturates, set_up, tear_down),
      cmocka_unit_test_setup_teardown(wrapped_memory_is_told_of_its_end, set_up, tear_down),
      cmocka_unit_test(tensors_outlive_the_closed_context),
      cmocka_unit_test(tensors_keep_the_context),
      cmocka_unit_test(every_nth_allocation_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
