/* Every call of NCCL that the kind makes, as one table of functions over opaque types, as api.h has
 * those of CUDA. Invariant: nothing else in devices/cuda calls NCCL; codes are ncclResult_t's own
 * numbers; communicators do not block: what takes time answers IN_PROGRESS, and async_error tells
 * when it is over. */
#ifndef TANDEM_DEVICES_CUDA_LIBRARY_NCCL_H
#define TANDEM_DEVICES_CUDA_LIBRARY_NCCL_H

#include "devices/cuda/library/api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int tdm_nccl_code;
enum {
  TDM_NCCL_SUCCESS = 0,
  TDM_NCCL_CUDA_ERROR = 1,
  TDM_NCCL_SYSTEM_ERROR = 2,
  TDM_NCCL_INTERNAL_ERROR = 3,
  TDM_NCCL_INVALID_ARGUMENT = 4,
  TDM_NCCL_INVALID_USAGE = 5,
  TDM_NCCL_REMOTE_ERROR = 6,
  TDM_NCCL_IN_PROGRESS = 7,
};

enum {
  TDM_NCCL_ID_BYTES = 128,
  TDM_NCCL_LEAST_VERSION = 21400, /* 2.14, the first with communicators that do not block */
};

typedef struct tdm_nccl_communicator_opaque *tdm_nccl_communicator;

/* A communicator is used by one thread at a time, abort included. */
typedef struct tdm_nccl_api {
  /* Why NCCL cannot be opened here, of the calling thread until its next call; NULL: it can, and
   * only then the others may be called. */
  const char *(*absence)(void);
  tdm_nccl_code (*version)(int *out_version);    /* 22809 for 2.28.9 */
  const char *(*error_text)(tdm_nccl_code code); /* static */
  /* What NCCL says of the latest failure of a communicator, or of any (NULL); "" if nothing. Until
   * its next call. */
  const char *(*last_error)(tdm_nccl_communicator communicator);
  /* On one member, for all: what init finds the others by (TDM_NCCL_ID_BYTES). */
  tdm_nccl_code (*unique_id)(unsigned char *out_id);
  /* Member `index` of `count`, on the calling thread's device, of which a communicator has one
   * member at most; in progress until all have called it. Where it fails *out is NULL. */
  tdm_nccl_code (*init)(tdm_nccl_communicator *out, int count, const unsigned char *id, int index);
  /* What has become of what was begun: IN_PROGRESS until it is over, or a failure since. */
  tdm_nccl_code (*async_error)(tdm_nccl_communicator communicator, tdm_nccl_code *out_error);
  /* Ends what is under way, kernels included, waits for no other member, and frees. */
  tdm_nccl_code (*abort)(tdm_nccl_communicator communicator);
  /* On the stream: memory (count) of float32 or float64 becomes its sum over all members, which
   * call it in the same order. While it is in progress nothing else is called of the communicator,
   * and nothing is put on the stream. */
  tdm_nccl_code (*all_reduce)(tdm_nccl_communicator communicator, void *memory, size_t count,
                              tdm_dtype dtype, tdm_cuda_stream stream);
  /* On the stream, memory (bytes) goes to, or comes from, another member, which does the other of
   * the two. Blocks the stream until that has come to it; likewise in progress. */
  tdm_nccl_code (*send)(tdm_nccl_communicator communicator, const void *memory, size_t bytes,
                        int partner, tdm_cuda_stream stream);
  tdm_nccl_code (*receive)(tdm_nccl_communicator communicator, void *memory, size_t bytes,
                           int partner, tdm_cuda_stream stream);
} tdm_nccl_api;

/* The table that is linked in: NCCL, opened at run time, or the tests' double. */
const tdm_nccl_api *tdm_nccl_api_linked(void);

#ifdef __cplusplus
}
#endif
#endif
