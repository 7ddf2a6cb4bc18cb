/* The test double of CUDA: fills devices/cuda/library/api.h's table on the host. Streams are
 * threads, events tickets, a device's memory is at addresses that the host cannot read, kernels are
 * the real sources compiled for the host. Invariant: nothing of this is in the product; misuse that
 * CUDA would leave undefined (a dead pointer handed to a kernel, a divergent barrier) ends the test
 * with a message. */
#ifndef TANDEM_TESTS_DEVICES_CUDA_EMULATION_EMULATION_H
#define TANDEM_TESTS_DEVICES_CUDA_EMULATION_EMULATION_H

#include "devices/cuda/library/api.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { EMULATED_LOST = 719 }; /* result of every call after a device is lost */

typedef enum emulated_driver {
  EMULATED_DRIVER, /* two GPUs, or as many as set */
  EMULATED_NO_DRIVER,
  EMULATED_OLD_DRIVER,
  EMULATED_NO_DEVICE,
} emulated_driver;

void emulation_set_driver(emulated_driver driver, int device_count);
/* Makes the nth call from now (from 1) return code, once or from there on. 0: none. */
void emulation_fail_at(uint64_t n, tdm_cuda_code code, bool from_on);
uint64_t emulation_calls(void); /* number of calls since fail_at */
/* true: all devices are lost, and every call returns EMULATED_LOST. false: they work again. */
void emulation_lose(bool lost);
/* Streams pause at random before an operation; 0: never. */
void emulation_set_jitter(uint64_t seed);
/* While held, no stream begins an operation. */
void emulation_hold(bool held);
/* Every operation of a stream takes at least this long. 0: no delay. */
void emulation_set_delay(uint64_t delay_ns);
/* Blocks of memory, pinned blocks, streams, events and handles that were not given back. */
size_t emulation_outstanding(void);

/* Makes the nth launch from now (from 1) of GPU ordinal fault when its stream reaches it. From then
 * on the GPU's context is destroyed, and every call to it returns code, from any stream, thread or
 * logical device. Other GPUs work as before. 0: none, and lost contexts are restored. */
void emulation_fault_at(uint64_t n, int ordinal, tdm_cuda_code code);
/* Memory of GPUs is used up: allocations fail, and cuBLAS cannot begin, in its own words. */
void emulation_fill(bool full);
/* There is no library of cuBLAS. */
void emulation_hide_blas(bool hidden);
/* Returns true if the GPU has been opened since emulation_close. As in CUDA since 12, a GPU is
 * opened by selecting it, by retaining its context, or by calls that need a context. The latter
 * open GPU 0 if the thread has none. */
bool emulation_opened(int ordinal);
void emulation_close(void);

/* Makes this version of NCCL (22809: 2.28.9, as at first) available to the calling thread. 0: no
 * library. */
void emulation_set_nccl(int version);
/* Calls that may be in progress are so for a random while, from the seed; 0: as short as they can.
 */
void emulation_set_nccl_jitter(uint64_t seed);
/* Makes the nth call from now (from 1) that creates an id, joins or sums return code. later: it
 * begins, and then its communicator fails with code and the sum never ends. 0: none. */
void emulation_fail_nccl_at(uint64_t n, int code, bool later);
/* From now on these operations never end, and report nothing. 0: all end. */
typedef enum emulated_stall {
  EMULATED_SUMS = 1,
  EMULATED_TRANSFERS = 2,
  EMULATED_JOINING = 4,
} emulated_stall;
void emulation_stall_nccl(unsigned stalls);
uint64_t emulation_nccl_calls(void); /* such, since fail_nccl_at */
/* Sums that have been made, of all members together; since the process began. */
uint64_t emulation_nccl_sums(void);
/* Likewise, transfers from one member to another. */
uint64_t emulation_nccl_transfers(void);

/* Requested operations since the process began. */
typedef struct emulation_work {
  uint64_t launches;
  uint64_t products;
  uint64_t fills;
  uint64_t copies; /* on streams */
  uint64_t records;
  uint64_t stream_waits;
  uint64_t host_waits; /* number of waits for a stream, an event, or a blocking copy */
  uint64_t holds;      /* calls that may wait for the GPU: memory taken, given back, pinned */
} emulation_work;
emulation_work emulation_work_done(void);
/* A program writes the same when it ends, a number a line, into the file EMULATED_WORK names. */

/* Returns by how many ns at most the sleeps of threads that polled an unreached event have exceeded
 * their duration since the process began. */
int emulation_longest_slack(void);

/* Returns the number of existing streams with high priority. */
int emulation_urgent_streams(void);

/* Copies of each sort since the process began. */
typedef struct emulation_copies {
  uint64_t pinned;   /* copies between a device and pinned memory */
  uint64_t pageable; /* and pageable memory, on a stream: such a copy holds up the host */
  uint64_t peer;
} emulation_copies;
emulation_copies emulation_copies_made(void);

/* ---- For the emulation's own files ----------------------------------------------------------- */

/* Counts a call for a GPU; -1: for none. Returns the code of the injected failure, or success. */
tdm_cuda_code emulated_strike(int ordinal);
/* Likewise, for a call that is not counted: a poll of an unreached event. Their number depends on
 * timing. */
tdm_cuda_code emulated_glance(int ordinal);
/* Opens the GPU. */
void emulated_open(int ordinal);
/* Returns true if its context is destroyed. Then streams do nothing more. */
bool emulated_is_lost(int ordinal);
/* A stream of the GPU has come to a launch: true if that faults. */
bool emulated_faults(int ordinal);
/* Counts one of emulation_work's. */
typedef enum emulated_sort {
  EMULATED_LAUNCH,
  EMULATED_PRODUCT,
  EMULATED_FILL,
  EMULATED_COPY,
  EMULATED_RECORD,
  EMULATED_STREAM_WAIT,
  EMULATED_HOST_WAIT,
  EMULATED_HOLD,
  EMULATED_SORTS,
} emulated_sort;
void emulated_did(emulated_sort sort);
bool emulated_is_full(void);
bool emulated_blas_is_hidden(void);
/* Counts outstanding operations. */
void emulated_count(int change);
/* Called where the emulation may pause. */
void emulated_pause(void);
int emulated_ordinal(void); /* device of the calling thread */
/* The same for a call that needs it open. */
int emulated_opened_ordinal(void);
bool emulated_is_device(int ordinal);
_Noreturn void emulated_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns the host's pointer for [pointer, pointer + bytes), which must be allocated memory of
 * device `ordinal`, in one block, or else NULL. */
void *emulated_block(const void *pointer, size_t bytes, int ordinal);
/* Returns the host's pointer for a pointer that a kernel of device `ordinal` received: its memory,
 * or pinned memory, which is unchanged. Any other pointer ends the test. what: the receiver. */
void *emulated_pointer(const void *pointer, int ordinal, const char *what);
/* Returns true if all of it is inside one pinned block. */
bool emulated_is_pinned(const void *pointer, size_t bytes);
tdm_cuda_code emulated_memory(size_t *out_bytes, size_t *out_free_bytes);
tdm_cuda_code emulated_allocate(void **out, size_t bytes);
tdm_cuda_code emulated_release(void *memory);
tdm_cuda_code emulated_allocate_pinned(void **out, size_t bytes);
tdm_cuda_code emulated_release_pinned(void *memory);
tdm_cuda_code emulated_pin(void *memory, size_t bytes);
tdm_cuda_code emulated_unpin(void *memory);

/* Streams and events. */
tdm_cuda_code emulated_stream_create(tdm_cuda_stream *out, bool urgent);
tdm_cuda_code emulated_stream_destroy(tdm_cuda_stream stream);
tdm_cuda_code emulated_stream_synchronize(tdm_cuda_stream stream);
tdm_cuda_code emulated_stream_wait(tdm_cuda_stream stream, tdm_cuda_event event);
tdm_cuda_code emulated_event_create(tdm_cuda_event *out);
tdm_cuda_code emulated_event_create_timed(tdm_cuda_event *out);
/* If the events have no times or are not reached, the test ends. */
tdm_cuda_code emulated_event_elapsed(double *out_ns, tdm_cuda_event begin, tdm_cuda_event end);
tdm_cuda_code emulated_event_destroy(tdm_cuda_event event);
tdm_cuda_code emulated_event_record(tdm_cuda_event event, tdm_cuda_stream stream);
tdm_cuda_code emulated_stream_query(tdm_cuda_stream stream);
tdm_cuda_code emulated_event_query(tdm_cuda_event event);
tdm_cuda_code emulated_event_synchronize(tdm_cuda_event event);
/* Returns the GPU of the stream, or of the calling thread if it is NULL. */
int emulated_stream_ordinal(tdm_cuda_stream stream);
/* Waits for all enqueued operations. This is no call of CUDA. */
void emulated_stream_drain(tdm_cuda_stream stream);
/* Runs work(data) on the stream, then frees data by free(). stream NULL: runs immediately. */
void emulated_enqueue(tdm_cuda_stream stream, void (*work)(void *data), void *data);

/* Copies, fills, launches. */
tdm_cuda_code emulated_copy(void *to, const void *from, size_t bytes, tdm_cuda_direction direction);
tdm_cuda_code emulated_copy_async(void *to, const void *from, size_t bytes,
                                  tdm_cuda_direction direction, tdm_cuda_stream stream);
tdm_cuda_code emulated_copy_peer_async(void *to, int to_ordinal, const void *from, int from_ordinal,
                                       size_t bytes, tdm_cuda_stream stream);
tdm_cuda_code emulated_fill_async(void *to, int byte, size_t bytes, tdm_cuda_stream stream);
tdm_cuda_code emulated_launch(const tdm_cuda_launch *launch);

/* Products. */
const char *emulated_blas_absence(void);
tdm_cuda_code emulated_blas_create(tdm_cuda_blas *out, bool tf32, const char **out_reason);
tdm_cuda_code emulated_blas_destroy(tdm_cuda_blas blas);
tdm_cuda_code emulated_blas_set_stream(tdm_cuda_blas blas, tdm_cuda_stream stream);
tdm_cuda_code emulated_blas_product(tdm_cuda_blas blas, const tdm_cuda_product *product);

#ifdef __cplusplus
}
#endif
#endif
