/* A build without the CUDA toolkit has no driver's copies to compare with. */
#include <stdio.h>

#include "bench/peers/cuda_copies.h"

int cuda_copies_device_count(void) {
  return 0;
}

void cuda_copies_device_name(int device, char *out_name, size_t capacity) {
  (void)device;
  if (capacity > 0) out_name[0] = '\0';
}

bool cuda_copies_measure(const cuda_copies *wanted, double *out_ns, char *out_problem,
                         size_t capacity) {
  (void)wanted, (void)out_ns;
  (void)snprintf(out_problem, capacity, "built without CUDA");
  return false;
}
