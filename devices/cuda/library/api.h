/* Every call of the CUDA runtime and of cuBLAS that the kind uses, as one table of functions over
 * opaque types, so that only filling it requires a toolkit. Invariant: no other file in
 * devices/cuda calls CUDA. Codes are cudaError_t's own numbers; those of cuBLAS are above
 * TDM_CUDA_BLAS. */
#ifndef TANDEM_DEVICES_CUDA_LIBRARY_API_H
#define TANDEM_DEVICES_CUDA_LIBRARY_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int tdm_cuda_code;
enum {
  TDM_CUDA_SUCCESS = 0,
  TDM_CUDA_INVALID_VALUE = 1,
  TDM_CUDA_OUT_OF_MEMORY = 2,
  TDM_CUDA_INSUFFICIENT_DRIVER = 35,
  TDM_CUDA_NO_DEVICE = 100,
  TDM_CUDA_NO_BINARY = 209, /* no kernel image for this GPU */
  TDM_CUDA_NOT_READY = 600,
  TDM_CUDA_ILLEGAL_ADDRESS = 700,
  TDM_CUDA_PEER_ENABLED = 704,
  TDM_CUDA_UNKNOWN = 999,
  TDM_CUDA_BLAS = 100000, /* + cublasStatus_t */
  TDM_CUDA_BLAS_NOT_INITIALIZED = TDM_CUDA_BLAS + 1,
  TDM_CUDA_BLAS_ALLOC_FAILED = TDM_CUDA_BLAS + 3,
  TDM_CUDA_BLAS_ARCH_MISMATCH = TDM_CUDA_BLAS + 8,
  TDM_CUDA_BLAS_EXECUTION_FAILED = TDM_CUDA_BLAS + 13,
};

typedef struct tdm_cuda_stream_opaque *tdm_cuda_stream;
typedef struct tdm_cuda_event_opaque *tdm_cuda_event;
typedef struct tdm_cuda_blas_opaque *tdm_cuda_blas;
typedef struct tdm_cuda_context_opaque *tdm_cuda_context;

typedef struct tdm_cuda_properties {
  char name[256];
  char pci_bus_id[32]; /* "0000:3b:00.0", for locality */
  size_t memory_bytes;
  int major;
  int minor;
} tdm_cuda_properties;

typedef enum tdm_cuda_direction {
  TDM_CUDA_TO_DEVICE,
  TDM_CUDA_TO_HOST,
  TDM_CUDA_ON_DEVICE,
} tdm_cuda_direction;

/* A one-dimensional launch. The arguments are copied before the call returns. */
typedef struct tdm_cuda_launch {
  const void *function;
  void **arguments;             /* (argument_count) */
  const size_t *argument_bytes; /* (argument_count) */
  size_t argument_count;
  /* For kernels compiled for the host: which arguments are pointers (bit i: argument i), and the
   * function that calls `function` with its arguments, once per thread. Otherwise 0 and NULL. */
  uint64_t pointer_arguments;
  void (*call)(const void *function, void **arguments);
  const char *name;
  uint32_t blocks;
  uint32_t threads; /* per block */
  tdm_cuda_stream stream;
} tdm_cuda_launch;

/* c (m, n) = a (m, k) b (k, n) + beta c, row-major, where a and b may be stored transposed. dtype
 * is float32 or float64. Leading dimensions are the lengths of the stored rows. */
typedef struct tdm_cuda_product {
  tdm_dtype dtype;
  bool transpose_a; /* a is stored (k, m) */
  bool transpose_b; /* b is stored (n, k) */
  int64_t m, n, k;
  const void *a;
  const void *b;
  void *c;
  int64_t a_stride, b_stride, c_stride;
  double beta;
} tdm_cuda_product;

typedef struct tdm_cuda_api {
  const char *(*error_text)(tdm_cuda_code code); /* static */
  /* Devices. driver_version: the newest CUDA version that the driver supports, 13000 for 13.0; 0 if
   * no driver is installed. runtime_version: the CUDA version that this build requires. */
  tdm_cuda_code (*driver_version)(int *out_version);
  int (*runtime_version)(void);
  tdm_cuda_code (*device_count)(int *out_count);
  tdm_cuda_code (*properties)(int ordinal, tdm_cuda_properties *out_properties);
  /* Opens the device and makes it the calling thread's; for the library's threads. */
  tdm_cuda_code (*device_set)(int ordinal);
  /* For other threads: retain opens the device. Between push and pop it is the calling thread's
   * device. Afterwards the thread has its previous device again, possibly none. */
  tdm_cuda_code (*context_retain)(tdm_cuda_context *out, int ordinal);
  tdm_cuda_code (*context_push)(tdm_cuda_context context);
  tdm_cuda_code (*context_pop)(void);
  tdm_cuda_code (*peer_possible)(int *out_possible, int ordinal, int peer);
  tdm_cuda_code (*peer_enable)(int peer); /* opens `peer` to the calling thread's device */
  /* Gets the total and the free memory of the calling thread's device. */
  tdm_cuda_code (*memory)(size_t *out_bytes, size_t *out_free_bytes);
  /* Allocate memory of the calling thread's device, and pinned memory that every device may
   * write. */
  tdm_cuda_code (*allocate)(void **out, size_t bytes);
  tdm_cuda_code (*release)(void *memory);
  tdm_cuda_code (*allocate_pinned)(void **out, size_t bytes);
  tdm_cuda_code (*release_pinned)(void *memory);
  /* Pins existing memory, whole pages, for every device. */
  tdm_cuda_code (*pin)(void *memory, size_t bytes);
  tdm_cuda_code (*unpin)(void *memory);
  /* Blocks until the bytes have arrived. */
  tdm_cuda_code (*copy)(void *to, const void *from, size_t bytes, tdm_cuda_direction direction);
  tdm_cuda_code (*copy_async)(void *to, const void *from, size_t bytes,
                              tdm_cuda_direction direction, tdm_cuda_stream stream);
  tdm_cuda_code (*copy_peer_async)(void *to, int to_ordinal, const void *from, int from_ordinal,
                                   size_t bytes, tdm_cuda_stream stream);
  tdm_cuda_code (*fill_async)(void *to, int byte, size_t bytes, tdm_cuda_stream stream);
  /* Streams that do not synchronize with the null stream, and events without times. urgent: blocks
   * of its kernels are scheduled first when the GPU has free space. */
  tdm_cuda_code (*stream_create)(tdm_cuda_stream *out, bool urgent);
  tdm_cuda_code (*stream_destroy)(tdm_cuda_stream stream);
  tdm_cuda_code (*stream_synchronize)(tdm_cuda_stream stream);
  tdm_cuda_code (*stream_query)(tdm_cuda_stream stream); /* NOT_READY: work is left */
  tdm_cuda_code (*stream_wait)(tdm_cuda_stream stream, tdm_cuda_event event);
  tdm_cuda_code (*event_create)(tdm_cuda_event *out);
  /* Creates an event that records its time. */
  tdm_cuda_code (*event_create_timed)(tdm_cuda_event *out);
  /* Gets the device's time between two such events that are reached; negative if end came before
   * begin. */
  tdm_cuda_code (*event_elapsed)(double *out_ns, tdm_cuda_event begin, tdm_cuda_event end);
  tdm_cuda_code (*event_destroy)(tdm_cuda_event event);
  tdm_cuda_code (*event_record)(tdm_cuda_event event, tdm_cuda_stream stream);
  tdm_cuda_code (*event_query)(tdm_cuda_event event);       /* NOT_READY: not yet */
  tdm_cuda_code (*event_synchronize)(tdm_cuda_event event); /* sleeps until it is reached */
  tdm_cuda_code (*launch)(const tdm_cuda_launch *launch);
  /* cuBLAS. absence returns why it cannot be opened here, valid on the calling thread until its
   * next call, or NULL if it can. If create fails, *out_reason may contain the reason, equally
   * valid on the thread. tf32: products may round float32 factors to TF32. */
  const char *(*blas_absence)(void);
  tdm_cuda_code (*blas_create)(tdm_cuda_blas *out, bool tf32, const char **out_reason);
  tdm_cuda_code (*blas_destroy)(tdm_cuda_blas blas);
  tdm_cuda_code (*blas_set_stream)(tdm_cuda_blas blas, tdm_cuda_stream stream);
  tdm_cuda_code (*blas_product)(tdm_cuda_blas blas, const tdm_cuda_product *product);
  /* Begins a named range of the calling thread in a profiler's timeline; costs almost nothing
   * without a profiler. */
  void (*range_begin)(const char *name);
  void (*range_end)(void);
} tdm_cuda_api;

/* Returns the table that is linked in: the real runtime, or the tests' emulation. */
const tdm_cuda_api *tdm_cuda_api_linked(void);

#ifdef __cplusplus
}
#endif
#endif
