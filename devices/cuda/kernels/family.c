/* States of kernels. */
#include "devices/cuda/kernels/family.h"

#include <stdlib.h>

#include "core/status.h"

void *tdm_cuda_state_create(tdm_kernel_answer *answer, size_t bytes) {
  answer->state = calloc(1, bytes);
  if (answer->state == NULL) (void)tdm_fail_memory(bytes, "the state of a kernel");
  return answer->state;
}

void tdm_cuda_state_release(void *state) {
  free(state);
}
