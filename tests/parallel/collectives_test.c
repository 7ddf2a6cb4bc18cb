/* The primitives on tensors in addition to PyTorch's cases: refused calls and their messages, every
 * failure in turn, adversarial delays, a closed context. */
#include <stdlib.h>

#include "tests/options.h"
#include "tests/parallel/support.h"
#include "tests/support/faulty_allocator.h"

/* ---- Refused calls --------------------------------------------------------------------------- */

static void expect_scatter_refused(tdm_tensor *tensor, const char *devices, int dimension,
                                   const int64_t *sizes, const char *what) {
  tdm_tensor *chunks[TDM_MAX_DEVICES] = {NULL};
  size_t count = 1;
  assert_int_not_equal(
      tdm_tensors_scatter(tensor, devices, dimension, sizes, chunks, TDM_MAX_DEVICES, &count),
      TDM_OK);
  assert_message(what);
  assert_int_equal(count, 0);
  for (size_t i = 0; i < TDM_MAX_DEVICES; i++)
    assert_null(chunks[i]);
}

static void bad_scatters_are_refused(void **unused) {
  (void)unused;
  tdm_tensor *x = draw(tdm_shape_of(2, 6, 4), 1);
  tdm_tensor *scalar = draw(tdm_shape_scalar(), 1);
  expect_scatter_refused(NULL, "cpu:0", 0, NULL, "NULL");
  expect_scatter_refused(x, FIRST, 2, NULL, "no dimension 2");
  expect_scatter_refused(x, FIRST, -3, NULL, "[6, 4]");
  expect_scatter_refused(scalar, FIRST, 0, NULL, "no dimension 0");
  expect_scatter_refused(x, "", 0, NULL, "no devices");
  expect_scatter_refused(x, NULL, 0, NULL, "no devices");
  expect_scatter_refused(x, FIRST ",", 0, NULL, "no list of devices");
  expect_scatter_refused(x, "sim:0,sim:7", 0, NULL, "sim:7");
  expect_scatter_refused(x, "tpu:0", 0, NULL, "tpu");
  char many[(TDM_MAX_DEVICES + 1) * sizeof "cpu:0,"] = "cpu:0";
  for (size_t i = 0; i < TDM_MAX_DEVICES; i++)
    strcat(many, ",cpu:0");
  expect_scatter_refused(x, many, 0, NULL, "more than 64");
  expect_scatter_refused(x, FIRST "," SECOND, 0, (int64_t[]){5, 2}, "which is 6");
  expect_scatter_refused(x, FIRST "," SECOND, 0, (int64_t[]){3, 2}, "which is 6");
  expect_scatter_refused(x, FIRST "," SECOND, 0, (int64_t[]){INT64_MAX, 6}, "which is 6");
  expect_scatter_refused(x, FIRST "," SECOND, 0, (int64_t[]){-1, 7}, "-1");
  assert_status(tdm_tensors_scatter(x, FIRST, 0, NULL, NULL, 0, NULL), TDM_INVALID_ARGUMENT);
  tdm_tensor *one;
  assert_status(tdm_tensors_scatter(x, "cpu:0,cpu:0", 0, NULL, &one, 1, NULL),
                TDM_INVALID_ARGUMENT);
  assert_message("tdm_tensors_scatter: capacity is 1, expected at least 2");
  tdm_tensor_release(x);
  tdm_tensor_release(scalar);
}

static void expect_gather_refused(tdm_tensor *a, tdm_tensor *b, int dimension, const char *device,
                                  const char *what) {
  tdm_tensor *parts[] = {a, b};
  assert_null(tdm_tensors_gather(parts, 2, dimension, device));
  assert_message(what);
}

static void bad_gathers_are_refused(void **unused) {
  (void)unused;
  tdm_tensor *a = draw(tdm_shape_of(2, 6, 4), 1);
  tdm_tensor *b = draw_on(FIRST, tdm_shape_of(2, 5, 4), 1);
  tdm_tensor *flat = draw(tdm_shape_of(1, 4), 1);
  tdm_tensor *integers = count_on(FIRST, TDM_INT32, tdm_shape_of(2, 6, 4));
  expect_gather_refused(a, NULL, 0, NULL, "tensor 1 is NULL");
  expect_gather_refused(a, b, 1, NULL, "[5, 4]");
  expect_gather_refused(a, b, 2, NULL, "no dimension 2");
  expect_gather_refused(a, flat, 0, NULL, "[4]");
  expect_gather_refused(a, integers, 0, NULL, "int32");
  expect_gather_refused(a, b, 0, "cpu:9", "cpu:9");
  tdm_tensor *long_one =
      tdm_tensor_create(context, "cpu:0", TDM_UINT8, tdm_shape_of(2, 1LL << 62, 0));
  assert_non_null(long_one);
  expect_gather_refused(long_one, long_one, 0, NULL, "too large to be counted");
  tdm_tensor_release(long_one);
  assert_null(tdm_tensors_gather(&a, 0, 0, NULL));
  assert_message("no tensors");
  assert_null(tdm_tensors_gather(&a, 1, 3, NULL));
  assert_message("no dimension 3");
  assert_null(tdm_tensors_gather(NULL, 2, 0, NULL));
  tdm_tensor *many[TDM_MAX_DEVICES + 1];
  for (size_t i = 0; i <= TDM_MAX_DEVICES; i++)
    many[i] = a;
  assert_null(tdm_tensors_gather(many, TDM_MAX_DEVICES + 1, 0, NULL));
  assert_message("65 tensors");
  tdm_tensor_release(a);
  tdm_tensor_release(b);
  tdm_tensor_release(flat);
  tdm_tensor_release(integers);
}

/* Checks that gathering copies elements of any dtype. */
static void halves_are_gathered(void **unused) {
  (void)unused;
  const uint16_t given[2][2] = {{0x3c00, 0x4000}, {0x4200, 0x7e01}};
  tdm_tensor *halves[2];
  for (size_t i = 0; i < 2; i++)
    halves[i] = tdm_tensor_from(context, TDM_FLOAT16, tdm_shape_of(2, 2, 1), given[i]);
  tdm_tensor *both = tdm_tensors_gather(halves, 2, 1, NULL);
  assert_non_null(both);
  const uint16_t wanted[4] = {0x3c00, 0x4200, 0x4000, 0x7e01};
  uint16_t read[4];
  assert_int_equal(tdm_tensor_read(both, read, sizeof read), TDM_OK);
  assert_memory_equal(read, wanted, sizeof wanted);
  tdm_tensor_release(both);
  release_tensors(halves, 2);
}

static void bad_sums_and_broadcasts_are_refused(void **unused) {
  (void)unused;
  tdm_tensor *terms[] = {draw(tdm_shape_of(1, 4), 1), draw_on(FIRST, tdm_shape_of(1, 5), 1),
                         count_on(FIRST, TDM_BOOL, tdm_shape_of(1, 4)),
                         count_on(FIRST, TDM_BOOL, tdm_shape_of(1, 4))};
  tdm_tensor *out[4];
  assert_status(tdm_tensors_reduce_add(terms, 2, 1, NULL, out), TDM_INVALID_ARGUMENT);
  assert_message("[5]");
  assert_null(out[0]);
  assert_status(tdm_tensors_reduce_add(terms, 0, 1, NULL, out), TDM_INVALID_ARGUMENT);
  assert_message("no tensors");
  assert_status(tdm_tensors_reduce_add(terms, TDM_MAX_DEVICES + 1, 1, NULL, out),
                TDM_INVALID_ARGUMENT);
  assert_message("65 lists");
  assert_status(tdm_tensors_reduce_add(&terms[2], 2, 1, NULL, out), TDM_UNSUPPORTED);
  assert_message("bool");
  assert_null(out[0]);
  assert_status(tdm_tensors_reduce_add(terms, 1, 1, "cpu:9", out), TDM_UNAVAILABLE);
  assert_status(tdm_tensors_broadcast(terms, 0, "cpu:0", out, 4), TDM_INVALID_ARGUMENT);
  assert_status(tdm_tensors_broadcast(terms, 2, "cpu:0,cpu:0", out, 3), TDM_INVALID_ARGUMENT);
  assert_message("tdm_tensors_broadcast: capacity is 3, expected at least 4");
  assert_status(tdm_tensors_broadcast(terms, 1, "cpu:0,nowhere", out, 4), TDM_INVALID_ARGUMENT);
  assert_message("nowhere");
  release_tensors(terms, 4);
}

/* ---- Every failure in turn ------------------------------------------------------------------- */

typedef struct inputs {
  tdm_tensor *whole;    /* (6, 10) on FIRST */
  tdm_tensor *parts[6]; /* (4, 3) on FIRST, SECOND, cpu:1; and again */
} inputs;

static inputs make_inputs(tdm_context *owner) {
  static const char *const places[] = {FIRST, SECOND, "cpu:1"};
  inputs made;
  made.whole = tdm_tensor_uniform(owner, FIRST, TDM_FLOAT32, tdm_shape_of(2, 6, 10), 1, 0, 1);
  assert_non_null(made.whole);
  for (size_t i = 0; i < 6; i++) {
    made.parts[i] =
        tdm_tensor_uniform(owner, places[i % 3], TDM_FLOAT32, tdm_shape_of(2, 4, 3), i, 0, 1);
    assert_non_null(made.parts[i]);
  }
  return made;
}

static void release_inputs(inputs *made) {
  tdm_tensor_release(made->whole);
  release_tensors(made->parts, 6);
}

static void assert_all_null(tdm_tensor *const *tensors, size_t count) {
  for (size_t i = 0; i < count; i++)
    assert_null(tensors[i]);
}

static tdm_status first_failure(tdm_status a, tdm_status b) {
  return a != TDM_OK ? a : b;
}

/* Calls each function once; a failed call leaves nothing. Returns the first failure. */
static tdm_status call_all(const inputs *given) {
  tdm_tensor *out[12];
  tdm_status status =
      tdm_tensors_scatter(given->whole, SECOND ",cpu:2," FIRST, 1, NULL, out, 12, NULL);
  tdm_status all = status;
  if (status != TDM_OK) assert_all_null(out, 3);
  release_tensors(out, 3);
  tdm_tensor *whole = tdm_tensors_gather(given->parts, 3, 1, SECOND);
  if (!whole) all = first_failure(all, TDM_CANCELLED);
  tdm_tensor_release(whole);
  status = tdm_tensors_broadcast(given->parts, 3, SECOND "," FIRST, out, 12);
  if (status != TDM_OK) assert_all_null(out, 6);
  release_tensors(out, 6);
  all = first_failure(all, status);
  status = tdm_tensors_reduce_add(given->parts, 3, 1, SECOND, out);
  if (status != TDM_OK) assert_all_null(out, 1);
  release_tensors(out, 1);
  return first_failure(all, status);
}

static void every_failure_of_a_device_leaves_nothing(void **unused) {
  (void)unused;
  inputs given = make_inputs(context);
  assert_ok(call_all(&given));
  static const tdm_fault_site sites[] = {TDM_FAULT_ALLOCATION, TDM_FAULT_COPY, TDM_FAULT_KERNEL,
                                         TDM_FAULT_WAIT};
  for (size_t s = 0; s < TDM_COUNT_OF(sites); s++)
    for (int from_on = 0; from_on < 2; from_on++) {
      uint64_t n = 0;
      tdm_status status;
      do {
        tdm_faults_arm(tdm_context_faults(context), sites[s], ++n, from_on);
        status = call_all(&given);
        tdm_faults_arm(tdm_context_faults(context), sites[s], 0, false);
      } while (status != TDM_OK);
      assert_true(n > 3); /* some failed */
      assert_ok(call_all(&given));
    }
  release_inputs(&given);
}

static void every_shortage_of_memory_leaves_nothing(void **unused) {
  (void)unused;
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.allocator = &allocator, o.cpu_devices = 3, o.sim_devices = 2,
              o.sim = "latency_us=0,gigabytes_per_second=0");
  tdm_context *own = tdm_context_create(&options);
  if (!own) fail_msg("no context: %s", tdm_last_message());
  inputs given = make_inputs(own);
  assert_ok(call_all(&given));
  const int64_t before = tdm_faulty_allocator_outstanding_bytes(faulty);
  uint64_t failures = 1;
  uint64_t n = 0;
  while (failures > 0) {
    tdm_faulty_allocator_arm(faulty, ++n, false);
    (void)call_all(&given);
    failures = tdm_faulty_allocator_failures(faulty);
    tdm_faulty_allocator_arm(faulty, 0, false);
  }
  assert_true(n > 10);
  assert_ok(call_all(&given));
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), before);
  release_inputs(&given);
  tdm_context_release(own);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
  tdm_faulty_allocator_destroy(faulty);
}

/* ---- Delays ---------------------------------------------------------------------------------- */

/* A tensor is scattered, broadcast, summed and gathered, with random delays of copies and kernels.
 * The result does not depend on them. */
static void delays_change_nothing(void **unused) {
  (void)unused;
  static const char *const settings[] = {"delay_seed=1", "delay_seed=2", "delay_seed=3"};
  for (size_t s = 0; s < TDM_COUNT_OF(settings); s++) {
    const tdm_context_options options =
        OPTIONS(tdm_context_options, o.cpu_devices = 3, o.sim_devices = 2, o.sim = settings[s]);
    tdm_context *own = tdm_context_create(&options);
    if (!own) fail_msg("no context: %s", tdm_last_message());
    tdm_tensor *x =
        tdm_tensor_uniform(own, "sim:0", TDM_FLOAT64, tdm_shape_of(3, 5, 9, 3), 4, -8, 8);
    tdm_tensor *chunks[4];
    size_t count;
    assert_ok(tdm_tensors_scatter(x, "cpu:1,sim:1," FIRST "," SECOND, 1, NULL, chunks, 4, &count));
    assert_int_equal(count, 3);
    tdm_tensor *again = tdm_tensors_gather(chunks, count, 1, "sim:1");
    assert_equal_tensors(again, x);
    tdm_tensor *terms[] = {x, again, x, again};
    tdm_tensor *sum;
    assert_ok(tdm_tensors_reduce_add(terms, 4, 1, "cpu:2", &sum)); /* exactly four times x */
    const double *four = tdm_tensor_data(sum);
    tdm_tensor *here = to_host(tdm_tensor_retain(x));
    for (int i = 0; i < 5 * 9 * 3; i++)
      assert_true(four[i] == ((const double *)tdm_tensor_data(here))[i] * 4);
    tdm_tensor_release(here);
    tdm_tensor_release(sum);
    tdm_tensor_release(again);
    release_tensors(chunks, count);
    tdm_tensor_release(x);
    tdm_context_release(own);
  }
}

static void a_closed_context_refuses(void **unused) {
  (void)unused;
  const tdm_context_options options = OPTIONS(tdm_context_options, o.cpu_devices = 2);
  tdm_context *own = tdm_context_create(&options);
  tdm_tensor *x = tdm_tensor_zeros(own, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 4, 4));
  assert_non_null(x);
  tdm_context_close(own, NULL, NULL);
  tdm_tensor *out[2];
  assert_status(tdm_tensors_scatter(x, "cpu:1,cpu:0", 1, NULL, out, 2, NULL), TDM_CANCELLED);
  assert_status(tdm_tensors_broadcast(&x, 1, "cpu:1", out, 2), TDM_CANCELLED);
  assert_message("closed");
  tdm_tensor_release(x);
  tdm_context_release(own);
}

int main(void) {
  /* One context at a time: each reserves a lot of addresses. */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(bad_scatters_are_refused, begin_group, end_group),
      cmocka_unit_test_setup_teardown(bad_gathers_are_refused, begin_group, end_group),
      cmocka_unit_test_setup_teardown(halves_are_gathered, begin_group, end_group),
      cmocka_unit_test_setup_teardown(bad_sums_and_broadcasts_are_refused, begin_group, end_group),
      cmocka_unit_test_setup_teardown(every_failure_of_a_device_leaves_nothing, begin_group,
                                      end_group),
      cmocka_unit_test(every_shortage_of_memory_leaves_nothing),
      cmocka_unit_test(delays_change_nothing),
      cmocka_unit_test(a_closed_context_refuses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
