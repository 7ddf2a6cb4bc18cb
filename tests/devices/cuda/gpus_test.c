/* Emulated GPUs in a process with others: an unused GPU is not opened, the log states how GPUs copy
 * from each other, one without cuBLAS is not offered, and a failure of one is reported at its next
 * use. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cuda/library/errors.h"
#include "devices/cuda/library/kernel_stream.h"
#include "devices/groups/groups.h"
#include "devices/staging/pool.h"
#include "tests/devices/cuda_emulation/emulation.h"
#include "tests/devices/support.h"
#include "tests/options.h"

/* ---- Which GPUs are opened ------------------------------------------------------------------- */

static void send_there_and_back(tdm_context *context, const char *name) {
  const int64_t values[] = {1, 2, 3};
  int64_t read[3] = {0};
  tdm_tensor *here = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, 3), values);
  tdm_tensor *there = tdm_tensor_to(here, name, TDM_DTYPE_NONE);
  assert_ok(tdm_tensor_read(there, read, sizeof read));
  assert_memory_equal(read, values, sizeof(values));
  tdm_tensor_release(here);
  tdm_tensor_release(there);
}

/* Memory, copies by this thread and by feeders, pinned memory of the caller, and times: all of the
 * second GPU only. */
static void a_gpu_that_nobody_uses_is_not_opened(void **state) {
  (void)state;
  emulation_close();
  tdm_context *context = test_context(NULL);
  assert_false(emulation_opened(0));
  assert_false(emulation_opened(1));
  send_there_and_back(context, "cuda:1");
  assert_ok(tdm_context_start(context));
  send_there_and_back(context, "cuda:1");
  tdm_device *device = test_device(context, "cuda:1");
  char *pages = aligned_alloc(4096, 4096);
  assert_non_null(pages);
  assert_ok(device->ops->pin(device, pages, 4096));
  assert_ok(device->ops->unpin(device, pages, 4096));
  free(pages);
  tdm_context_release(context);
  assert_true(emulation_opened(1));
  assert_false(emulation_opened(0));
  assert_int_equal(emulation_outstanding(), 0);
}

/* ---- Streams --------------------------------------------------------------------------------- */

static tdm_status run_mix(tdm_context *context, const char *name) {
  test_flight *test = test_flight_create(context);
  tdm_device *device = test_device(context, name);
  const uint32_t base = test_base(test, device, 100, 7);
  const uint32_t program = test_program(test, device->queues[TDM_QUEUE_COMPUTE]);
  tdm_command *command = test_execute(test, program, &test_mix_kernel, base, NULL, 0, 3);
  test_run(test, false);
  const tdm_status status = test_has_failed(test, command) ? test->flight.failure.status : TDM_OK;
  test_flight_destroy(test);
  return status;
}

/* The stream for sums has the highest priority of a used GPU's streams. */
static void streams_of_sums_are_urgent(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  assert_ok(tdm_context_start(context));
  assert_int_equal(emulation_urgent_streams(), 0);
  assert_status(run_mix(context, "cuda:0"), TDM_OK);
  assert_int_equal(emulation_urgent_streams(), 1);
  assert_status(run_mix(context, "cuda:1"), TDM_OK);
  assert_int_equal(emulation_urgent_streams(), 2);
  tdm_context_release(context);
  assert_int_equal(emulation_urgent_streams(), 0);
}

/* ---- Red zones ------------------------------------------------------------------------------- */

/* Each copy is a wait of the host; under a sanitizer there is time only for a few. */
static void fresh_memory_is_filled_by_few_copies(void **state) {
  (void)state;
  enum { BYTES = (1 << 20) + 5 };
  static unsigned char read[BYTES];
  assert_int_equal(setenv("TANDEM_RED_ZONES", "filled", 1), 0);
  tdm_context *context = test_context(NULL);
  assert_int_equal(unsetenv("TANDEM_RED_ZONES"), 0);
  const emulation_work before = emulation_work_done();
  tdm_tensor *fresh = tdm_tensor_create(context, "cuda:0", TDM_UINT8, tdm_shape_of(1, BYTES));
  assert_non_null(fresh);
  assert_in_range(emulation_work_done().host_waits - before.host_waits, 1, 12);
  memset(read, 0, sizeof read);
  assert_ok(tdm_tensor_read(fresh, read, sizeof read));
  for (int i = 0; i < BYTES; i++)
    if (read[i] != 0xff) fail_msg("byte %d is %d", i, read[i]);
  tdm_tensor_release(fresh);
  tdm_context_release(context);
}

/* ---- Peers ----------------------------------------------------------------------------------- */

typedef struct told_copies {
  char text[512];
} told_copies;

static void note_copies(void *user, tdm_log_level level, const char *message) {
  told_copies *told = user;
  const size_t used = strlen(told->text);
  if (level == TDM_LOG_INFO && strstr(message, "copies from"))
    (void)snprintf(told->text + used, sizeof told->text - used, "%s; ", message);
}

static void carry(tdm_context *context, const char *from, const char *to) {
  const int64_t values[] = {4, 5, 6};
  int64_t read[3] = {0};
  tdm_tensor *here = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, 3), values);
  tdm_tensor *there = tdm_tensor_to(here, from, TDM_DTYPE_NONE);
  tdm_tensor *beyond = tdm_tensor_to(there, to, TDM_DTYPE_NONE);
  assert_ok(tdm_tensor_read(beyond, read, sizeof read));
  assert_memory_equal(read, values, sizeof(values));
  tdm_tensor_release(here);
  tdm_tensor_release(there);
  tdm_tensor_release(beyond);
}

/* Two logical devices per GPU. The first GPU can access the second one, but not the other way. This
 * is logged once for each direction and device, also if access was enabled for another device
 * before. */
static void how_gpus_copy_from_each_other_is_told(void **state) {
  (void)state;
  emulation_close();
  told_copies told = {.text = ""};
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.log = note_copies, o.log_user = &told);
  assert_int_equal(setenv("TANDEM_CUDA_LOGICAL", "2", 1), 0);
  tdm_context *context = tdm_context_create(&options);
  assert_int_equal(unsetenv("TANDEM_CUDA_LOGICAL"), 0);
  assert_non_null(context);
  assert_ok(tdm_context_start(context)); /* until then, copies wait for the GPU, and run on the
                                          * calling thread */
  carry(context, "cuda:2", "cuda:0");
  carry(context, "cuda:2", "cuda:0");
  carry(context, "cuda:2", "cuda:1");
  carry(context, "cuda:0", "cuda:2");
  tdm_context_release(context);
  assert_string_equal(told.text, "cuda:0 copies from cuda:2 directly; "
                                 "cuda:1 copies from cuda:2 directly; "
                                 "cuda:2 copies from cuda:0 through the host; ");
}

/* ---- Groups ---------------------------------------------------------------------------------- */

/* Beats of ranks have a place for each device by this number; cpu:0 and sim:0 have none. */
static void devices_of_a_group_are_numbered_among_those_with_an_engine(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  const int16_t first = (int16_t)test_device(context, "cuda:0")->context_index;
  const int16_t second = (int16_t)test_device(context, "cuda:1")->context_index;
  assert_true(first > 0);
  const tdm_group *both = tdm_group_find(context, (const int16_t[]){second, first}, 2);
  const tdm_group *alone = tdm_group_find(context, (const int16_t[]){second}, 1);
  assert_int_equal(both->devices[0]->context_index, first);
  assert_int_equal(both->slots[0], 0);
  assert_int_equal(both->slots[1], 1);
  assert_int_equal(alone->slots[0], 1);
  tdm_context_release(context);
}

/* The number of times that NCCL is polled before it reports that a member has joined is random. */
static void who_joins_waits_for_all_members(void **state) {
  (void)state;
  for (int round = 0; round < 20; round++) {
    tdm_context *context = test_context(NULL);
    const int16_t first = (int16_t)test_device(context, "cuda:0")->context_index;
    const int16_t second = (int16_t)test_device(context, "cuda:1")->context_index;
    tdm_group *both = tdm_group_find(context, (const int16_t[]){first, second}, 2);
    assert_ok(tdm_group_join(context, both));
    for (size_t i = 0; i < both->count; i++) {
      bool joined = false;
      assert_ok(both->devices[i]->engine->joined(both->members[i], &joined));
      assert_true(joined);
    }
    tdm_context_release(context);
  }
}

/* ---- Staging --------------------------------------------------------------------------------- */

/* Pageable memory is copied through a few buffers, which are kept from one upload to the next. */
static void staging_buffers_are_kept(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  assert_ok(tdm_context_start(context));
  tdm_tensor *here = tdm_tensor_zeros(context, "cpu:0", TDM_INT64, tdm_shape_of(1, 1000));
  tdm_pool_counters counters;
  uint64_t made = 0;
  for (int i = 0; i < 20; i++) {
    tdm_tensor *there = tdm_tensor_to(here, "cuda:0", TDM_DTYPE_NONE);
    assert_non_null(there);
    int64_t read[1000] = {1};
    assert_ok(tdm_tensor_read(there, read, sizeof read));
    assert_int_equal(read[0], 0);
    tdm_tensor_release(there);
    tdm_pool_counters_read(tdm_context_pool(context), &counters);
    if (i == 0) made = counters.made;
    assert_int_equal(counters.made, made);
  }
  assert_true(made > 0);
  tdm_tensor_release(here);
  tdm_context_release(context);
}

/* ---- cuBLAS ---------------------------------------------------------------------------------- */

static void on_log(void *user, tdm_log_level level, const char *message) {
  if (level == TDM_LOG_WARNING && strstr(message, "2 GPUs are not offered: no cuBLAS"))
    ++*(int *)user;
}

static void a_gpu_without_cublas_is_not_offered(void **state) {
  (void)state;
  int told = 0;
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.log = on_log, o.log_user = &told);
  emulation_hide_blas(true);
  tdm_context *context = tdm_context_create(&options);
  assert_non_null(context);
  assert_int_equal(told, 1);
  assert_string_equal(tdm_accelerator(context), "cpu:0");
  assert_status(tdm_device_check(context, "cuda:0"), TDM_UNAVAILABLE);
  assert_message("there is no cuda:0: no cuBLAS: libcublas.so.13");
  assert_message("CUDA 13 brings it (pip: nvidia-cublas), and LD_LIBRARY_PATH names its folder");
  tdm_context_release(context);
  emulation_hide_blas(false);
}

typedef struct blas_test {
  tdm_cuda_kernel_stream stream;
  tdm_cuda_blas blas;
  void *memory;
} blas_test;

static void blas_begin(blas_test *test) {
  const tdm_cuda_api *api = tdm_cuda_api_linked();
  *test = (blas_test){.stream = {.api = api, .blas = &test->blas}};
  assert_int_equal(api->device_set(0), 0);
  assert_int_equal(api->stream_create(&test->stream.stream, false), 0);
  assert_int_equal(api->allocate(&test->memory, 4096), 0);
}

static void blas_end(blas_test *test) {
  const tdm_cuda_api *api = test->stream.api;
  emulation_fault_at(0, 0, 0);
  emulation_fill(false);
  if (test->blas) assert_int_equal(api->blas_destroy(test->blas), 0);
  assert_int_equal(api->stream_destroy(test->stream.stream), 0);
  assert_int_equal(api->release(test->memory), 0);
  assert_int_equal(emulation_outstanding(), 0);
}

static tdm_status multiply(blas_test *test) {
  const tdm_cuda_product product = {.m = 1,
                                    .n = 1,
                                    .k = 1,
                                    .a = test->memory,
                                    .b = test->memory,
                                    .c = (char *)test->memory + 4,
                                    .a_stride = 1,
                                    .b_stride = 1,
                                    .c_stride = 1};
  return tdm_cuda_kernel_stream_product(&test->stream, &product);
}

/* Checks that cuBLAS is not called for an empty product, whose strides it would refuse. */
static void a_product_of_nothing_is_none(void **state) {
  (void)state;
  for (int side = 0; side < 2; side++) {
    blas_test test;
    blas_begin(&test);
    const tdm_cuda_product product = {.m = side, .n = 1 - side, .k = 1};
    assert_ok(tdm_cuda_kernel_stream_product(&test.stream, &product));
    assert_null(test.blas);
    blas_end(&test);
  }
}

static void do_nothing(const void *function, void **arguments) {
  (void)function;
  (void)arguments;
}

/* The next kernel faults, and the fault has occurred before this returns. */
static void lose_by_a_kernel(blas_test *test) {
  tdm_cuda_launch launch = {.call = do_nothing, .name = "test", .blocks = 1, .threads = 1};
  emulation_fault_at(1, 0, TDM_CUDA_ILLEGAL_ADDRESS);
  assert_ok(tdm_cuda_kernel_stream_launch(&test->stream, &launch));
  assert_int_equal(test->stream.api->stream_synchronize(test->stream.stream),
                   TDM_CUDA_ILLEGAL_ADDRESS);
}

/* cuBLAS only reports that it could not execute or initialise. */
static void a_device_lost_is_told_through_cublas(void **state) {
  (void)state;
  for (int opened = 0; opened < 2; opened++) {
    blas_test test;
    blas_begin(&test);
    if (opened) assert_ok(multiply(&test));
    lose_by_a_kernel(&test);
    assert_status(multiply(&test), TDM_DEVICE_LOST);
    assert_message(opened ? "a product by cuBLAS: the device is lost"
                          : "opening cuBLAS: the device is lost");
    blas_end(&test);
  }
}

static void a_full_gpu_is_told_through_cublas(void **state) {
  (void)state;
  blas_test test;
  blas_begin(&test);
  emulation_fill(true);
  assert_status(multiply(&test), TDM_OUT_OF_MEMORY);
  assert_message("opening cuBLAS: out of memory");
  emulation_fill(false);
  emulation_fail_at(1, 1, false); /* and one that is not full has something else */
  assert_status(multiply(&test), TDM_UNAVAILABLE);
  emulation_fail_at(0, 0, false);
  assert_ok(multiply(&test));
  blas_end(&test);
}

/* ---- Faults ---------------------------------------------------------------------------------- */

/* A lost GPU, a machine without a working driver, and an invalid call have different statuses. */
static void codes_are_told_apart(void **state) {
  (void)state;
  static const struct {
    tdm_cuda_code code;
    tdm_status status;
  } told[] = {{2, TDM_OUT_OF_MEMORY}, {9, TDM_INTERNAL},      {46, TDM_UNAVAILABLE},
              {214, TDM_DEVICE_LOST}, {220, TDM_DEVICE_LOST}, {221, TDM_UNAVAILABLE},
              {226, TDM_DEVICE_LOST}, {701, TDM_INTERNAL},    {719, TDM_DEVICE_LOST},
              {721, TDM_DEVICE_LOST}, {801, TDM_UNSUPPORTED}, {802, TDM_UNAVAILABLE},
              {809, TDM_UNAVAILABLE}, {810, TDM_DEVICE_LOST}, {911, TDM_DEVICE_LOST}};
  for (size_t i = 0; i < TDM_COUNT_OF(told); i++) {
    assert_int_equal(tdm_cuda_is_lost(told[i].code), told[i].status == TDM_DEVICE_LOST);
    assert_status(tdm_cuda_fail(tdm_cuda_api_linked(), told[i].code, "a call"), told[i].status);
    assert_message("a call: ");
  }
}

/* Two logical devices per GPU. The run that faults fails, and so does the next use of that GPU by
 * its own queues. The other GPU continues to work. */
static void a_fault_is_told_by_all_of_its_gpu(void **state) {
  (void)state;
  assert_int_equal(setenv("TANDEM_CUDA_LOGICAL", "2", 1), 0);
  tdm_context *context = test_context(NULL);
  assert_int_equal(unsetenv("TANDEM_CUDA_LOGICAL"), 0);
  for (int i = 0; i < 4; i++) {
    static const char *const names[] = {"cuda:0", "cuda:1", "cuda:2", "cuda:3"};
    assert_status(run_mix(context, names[i]), TDM_OK);
  }
  emulation_fault_at(1, 0, TDM_CUDA_ILLEGAL_ADDRESS);
  assert_status(run_mix(context, "cuda:1"), TDM_DEVICE_LOST);
  tdm_device *device = test_device(context, "cuda:0");
  tdm_memory memory;
  assert_status(device->ops->allocate(device, 64 << 20, &memory), TDM_DEVICE_LOST);
  assert_status(run_mix(context, "cuda:2"), TDM_OK);
  assert_status(run_mix(context, "cuda:3"), TDM_OK);
  tdm_context_release(context);
  emulation_fault_at(0, 0, 0);
  assert_int_equal(emulation_outstanding(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_gpu_that_nobody_uses_is_not_opened),
      cmocka_unit_test(streams_of_sums_are_urgent),
      cmocka_unit_test(fresh_memory_is_filled_by_few_copies),
      cmocka_unit_test(how_gpus_copy_from_each_other_is_told),
      cmocka_unit_test(devices_of_a_group_are_numbered_among_those_with_an_engine),
      cmocka_unit_test(who_joins_waits_for_all_members),
      cmocka_unit_test(staging_buffers_are_kept),
      cmocka_unit_test(a_gpu_without_cublas_is_not_offered),
      cmocka_unit_test(a_product_of_nothing_is_none),
      cmocka_unit_test(a_device_lost_is_told_through_cublas),
      cmocka_unit_test(a_full_gpu_is_told_through_cublas),
      cmocka_unit_test(codes_are_told_apart),
      cmocka_unit_test(a_fault_is_told_by_all_of_its_gpu),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
