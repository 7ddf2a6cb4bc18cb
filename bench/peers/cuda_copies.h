/* Measures the driver's own copies: a plain cudaMemcpyAsync loop on one stream, for comparison with
 * the library's copies. C interface; a build without the toolkit finds no device. */
#ifndef BENCH_PEERS_CUDA_COPIES_H
#define BENCH_PEERS_CUDA_COPIES_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cuda_copies_direction {
  CUDA_COPIES_UPLOAD,
  CUDA_COPIES_DOWNLOAD,
  CUDA_COPIES_UPLOAD_BUSY,   /* downloads run on a second stream meanwhile */
  CUDA_COPIES_DOWNLOAD_BUSY, /* uploads do */
} cuda_copies_direction;

typedef enum cuda_copies_memory {
  CUDA_COPIES_PAGEABLE, /* malloc */
  CUDA_COPIES_PINNED,   /* cudaMallocHost */
  CUDA_COPIES_REGISTERED,
} cuda_copies_memory;

typedef struct cuda_copies {
  int device; /* the runtime's number */
  cuda_copies_direction direction;
  cuda_copies_memory memory;
  size_t bytes;
  int warm_ups;
  int timed;
  int samples;
} cuda_copies;

/* Returns the number of devices, 0 without a toolkit or a driver. */
int cuda_copies_device_count(void);
/* "" where there is no such device. */
void cuda_copies_device_name(int device, char *out_name, size_t capacity);
/* Measures copies. out_ns (samples): total time of the timed copies, between two events. Contents
 * are compared afterwards. Returns false on failure, with the reason in out_problem. */
bool cuda_copies_measure(const cuda_copies *wanted, double *out_ns, char *out_problem,
                         size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
