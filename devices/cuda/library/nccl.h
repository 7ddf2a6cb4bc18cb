/* Every call of NCCL that the kind uses, as one table of functions over opaque types, like CUDA's
 * table in api.h. Invariant: no other file in devices/cuda calls NCCL. Codes are ncclResult_t's own
 * numbers. Communicators do not block: a call that takes time returns IN_PROGRESS, and async_error
 * returns when it is over. */
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
  TDM_NCCL_LEAST_VERSION = 21400, /* 2.14, the first version with communicators that do not block */
};

typedef struct tdm_nccl_communicator_opaque *tdm_nccl_communicator;

/* One thread at a time uses a communicator, also for abort. */
typedef struct tdm_nccl_api {
  /* Returns why NCCL cannot be opened here, valid on the calling thread until its next call.
   * Returns NULL if it can; only then the other functions may be called. */
  const char *(*absence)(void);
  tdm_nccl_code (*version)(int *out_version);    /* 22809 for 2.28.9 */
  const char *(*error_text)(tdm_nccl_code code); /* static */
  /* Returns NCCL's text on the latest failure of a communicator, or of any (NULL), or "" if there
   * is none. Valid until its next call. */
  const char *(*last_error)(tdm_nccl_communicator communicator);
  /* Creates, on one member, the id by which init finds the others (TDM_NCCL_ID_BYTES). */
  tdm_nccl_code (*unique_id)(unsigned char *out_id);
  /* Joins as member `index` of `count`, on the calling thread's device, which may have only one
   * member of a communicator. It is in progress until all have called it. On failure *out is
   * NULL. */
  tdm_nccl_code (*init)(tdm_nccl_communicator *out, int count, const unsigned char *id, int index);
  /* Gets the result of what was begun: IN_PROGRESS until it is over, or a later failure. */
  tdm_nccl_code (*async_error)(tdm_nccl_communicator communicator, tdm_nccl_code *out_error);
  /* Ends what is in progress, including kernels, waits for no other member, and frees. */
  tdm_nccl_code (*abort)(tdm_nccl_communicator communicator);
  /* Enqueues a sum: memory (count) of float32 or float64 becomes its sum over all members, which
   * call it in the same order. While the call is in progress, no other function of the communicator
   * may be called, and nothing may be put on the stream. */
  tdm_nccl_code (*all_reduce)(tdm_nccl_communicator communicator, void *memory, size_t count,
                              tdm_dtype dtype, tdm_cuda_stream stream);
  /* Enqueue a transfer: memory (bytes) is sent to, or received from, another member, which calls
   * the opposite function. It blocks the stream until that member has reached it. The call may be
   * in progress, as for all_reduce. */
  tdm_nccl_code (*send)(tdm_nccl_communicator communicator, const void *memory, size_t bytes,
                        int partner, tdm_cuda_stream stream);
  tdm_nccl_code (*receive)(tdm_nccl_communicator communicator, void *memory, size_t bytes,
                           int partner, tdm_cuda_stream stream);
} tdm_nccl_api;

/* Returns the table that is linked in: NCCL, opened at run time, or the tests' double. */
const tdm_nccl_api *tdm_nccl_api_linked(void);

#ifdef __cplusplus
}
#endif
#endif
