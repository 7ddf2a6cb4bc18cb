/* NCCL on one GPU: a communicator of one member, whose sum is its term. With a GPU this is NCCL
 * itself, without one its test double. */
#include "devices/cuda/library/library.h"
#include "tests/devices/support.h"

enum { COUNT = 100000 };

static void await(const tdm_nccl_api *nccl, tdm_nccl_communicator communicator) {
  tdm_nccl_code error = TDM_NCCL_IN_PROGRESS;
  while (error == TDM_NCCL_IN_PROGRESS)
    assert_int_equal(nccl->async_error(communicator, &error), TDM_NCCL_SUCCESS);
  if (error != TDM_NCCL_SUCCESS)
    fail_msg("NCCL: %s, %s", nccl->error_text(error), nccl->last_error(communicator));
}

static void begins(const tdm_nccl_api *nccl, tdm_nccl_code code) {
  if (code != TDM_NCCL_SUCCESS && code != TDM_NCCL_IN_PROGRESS)
    fail_msg("NCCL: %s, %s", nccl->error_text(code), nccl->last_error(NULL));
}

static void one_gpu_sums_with_itself(void **state) {
  (void)state;
  const char *reason;
  const tdm_cuda_library *library = tdm_cuda_library_open(&reason);
  if (!library) fail_msg("%s", reason);
  const tdm_cuda_api *cuda = library->api();
  const tdm_nccl_api *nccl = library->nccl();
  if (nccl->absence()) {
    print_message("passed over: %s\n", nccl->absence());
    skip();
  }
  int version = 0;
  assert_int_equal(nccl->version(&version), TDM_NCCL_SUCCESS);
  print_message("NCCL %d\n", version);
  unsigned char id[TDM_NCCL_ID_BYTES];
  tdm_nccl_communicator communicator = NULL;
  tdm_cuda_stream stream;
  void *memory;
  static float values[COUNT];
  for (int i = 0; i < COUNT; i++)
    values[i] = (float)i;
  assert_int_equal(cuda->device_set(0), 0);
  assert_int_equal(cuda->stream_create(&stream, false), 0);
  assert_int_equal(cuda->allocate(&memory, sizeof(values)), 0);
  assert_int_equal(cuda->copy(memory, values, sizeof(values), TDM_CUDA_TO_DEVICE), 0);
  begins(nccl, nccl->unique_id(id));
  begins(nccl, nccl->init(&communicator, 1, id, 0));
  await(nccl, communicator);
  for (int round = 0; round < 3; round++) {
    begins(nccl, nccl->all_reduce(communicator, memory, COUNT, TDM_FLOAT32, stream));
    await(nccl, communicator);
  }
  assert_int_equal(cuda->stream_synchronize(stream), 0);
  memset(values, 0, sizeof(values));
  assert_int_equal(cuda->copy(values, memory, sizeof(values), TDM_CUDA_TO_HOST), 0);
  for (int i = 0; i < COUNT; i++)
    if (values[i] != (float)i) fail_msg("element %d is %g", i, (double)values[i]);
  begins(nccl, nccl->abort(communicator));
  assert_int_equal(cuda->release(memory), 0);
  assert_int_equal(cuda->stream_destroy(stream), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_gpu_sums_with_itself)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
