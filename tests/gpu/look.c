/* Prints one line with the GPU that the library can use, or the reason why there is none;
 * tools/gpu_check runs it first. */
#include <inttypes.h>
#include <stdio.h>

#include "devices/context/context.h"
#include "devices/tensors/tensor.h"

static int fail(void) {
  fprintf(stderr, "no GPU: %s\n", tdm_last_message());
  return 1;
}

int main(void) {
  const int64_t sent = 42;
  int64_t read = 0;
  tdm_context *context = tdm_context_create(NULL);
  if (!context) return fail();
  tdm_device *device = tdm_context_find_device(context, "cuda:0");
  if (!device) return fail();
  tdm_tensor *here = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, 1), &sent);
  tdm_tensor *there = tdm_tensor_to(here, "cuda:0", TDM_DTYPE_NONE);
  if (tdm_tensor_read(there, &read, sizeof read) != TDM_OK) return fail();
  printf("GPU: %s\n", device->identity);
  tdm_tensor_release(here);
  tdm_tensor_release(there);
  tdm_context_release(context);
  return read == sent ? 0 : 1;
}
