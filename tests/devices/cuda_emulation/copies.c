/* Operations of the emulation's streams: copies, fills, launches. Invariant: pointers are checked
 * and converted to the host's when the call is made; bytes move when the stream reaches the
 * operation. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/devices/cuda_emulation/emulation.h"
#include "tests/devices/cuda_emulation/grid.h"

enum { MOST_ARGUMENTS = 40 };

static struct {
  _Atomic uint64_t pinned;
  _Atomic uint64_t pageable;
  _Atomic uint64_t peer;
} made;

emulation_copies emulation_copies_made(void) {
  return (emulation_copies){.pinned = atomic_load(&made.pinned),
                            .pageable = atomic_load(&made.pageable),
                            .peer = atomic_load(&made.peer)};
}

/* Returns the GPU of a stream, which is open, or of the thread. */
static int opened_ordinal(tdm_cuda_stream stream) {
  return !stream ? emulated_opened_ordinal() : emulated_stream_ordinal(stream);
}

/* ---- Copies and fills ------------------------------------------------------------------------ */

typedef struct copy_data {
  char *to;
  const char *from;
  size_t bytes;
  int byte; /* value of a fill */
  char snapshot[];
} copy_data;

static copy_data *copy_create(void *to, const void *from, size_t bytes, size_t snapshot_bytes) {
  copy_data *copy = malloc(sizeof *copy + snapshot_bytes);
  if (!copy) emulated_misuse("no memory");
  *copy = (copy_data){.to = to, .from = from, .bytes = bytes};
  return copy;
}

static void run_copy(void *data) {
  const copy_data *mine = data;
  memmove(mine->to, mine->from, mine->bytes);
}

static void run_fill(void *data) {
  const copy_data *mine = data;
  memset(mine->to, mine->byte, mine->bytes);
}

/* As CUDA does it: a pageable source is read before the call returns, a pageable target is written
 * before it returns, pinned memory is read and written when the stream comes to it. */
static tdm_cuda_code copy_host(void *to, const void *from, size_t bytes,
                               tdm_cuda_direction direction, tdm_cuda_stream stream) {
  const bool uploads = direction == TDM_CUDA_TO_DEVICE;
  const void *host = uploads ? from : to;
  void *device = emulated_block(uploads ? to : from, bytes, emulated_stream_ordinal(stream));
  if (!device) return TDM_CUDA_INVALID_VALUE;
  const bool pinned = emulated_is_pinned(host, bytes);
  if (stream) atomic_fetch_add(pinned ? &made.pinned : &made.pageable, 1);
  const bool snapshots = uploads && !pinned;
  copy_data *mine =
      copy_create(uploads ? device : to, uploads ? from : device, bytes, snapshots ? bytes : 0);
  if (snapshots) {
    memcpy(mine->snapshot, from, bytes);
    mine->from = mine->snapshot;
  }
  emulated_enqueue(stream, run_copy, mine);
  if (!uploads && !pinned) emulated_stream_drain(stream);
  return TDM_CUDA_SUCCESS;
}

static tdm_cuda_code copy_devices(void *to, int to_ordinal, const void *from, int from_ordinal,
                                  size_t bytes, tdm_cuda_stream stream) {
  void *target = emulated_block(to, bytes, to_ordinal);
  const void *source = emulated_block(from, bytes, from_ordinal);
  if (!target || !source) return TDM_CUDA_INVALID_VALUE;
  emulated_enqueue(stream, run_copy, copy_create(target, source, bytes, 0));
  return TDM_CUDA_SUCCESS;
}

tdm_cuda_code emulated_copy_async(void *to, const void *from, size_t bytes,
                                  tdm_cuda_direction direction, tdm_cuda_stream stream) {
  const tdm_cuda_code code = emulated_strike(opened_ordinal(stream));
  emulated_did(!stream ? EMULATED_HOST_WAIT : EMULATED_COPY);
  if (code != TDM_CUDA_SUCCESS) return code;
  if (direction != TDM_CUDA_ON_DEVICE) return copy_host(to, from, bytes, direction, stream);
  const int ordinal = emulated_stream_ordinal(stream);
  return copy_devices(to, ordinal, from, ordinal, bytes, stream);
}

/* Between any two devices, as cudaMemcpyDefault does. */
tdm_cuda_code emulated_copy(void *to, const void *from, size_t bytes,
                            tdm_cuda_direction direction) {
  if (direction != TDM_CUDA_ON_DEVICE) return emulated_copy_async(to, from, bytes, direction, NULL);
  const tdm_cuda_code code = emulated_strike(emulated_opened_ordinal());
  emulated_did(EMULATED_HOST_WAIT);
  if (code != TDM_CUDA_SUCCESS) return code;
  return copy_devices(to, -1, from, -1, bytes, NULL);
}

tdm_cuda_code emulated_copy_peer_async(void *to, int to_ordinal, const void *from, int from_ordinal,
                                       size_t bytes, tdm_cuda_stream stream) {
  const tdm_cuda_code code = emulated_strike(opened_ordinal(stream));
  emulated_did(EMULATED_COPY);
  if (code != TDM_CUDA_SUCCESS) return code;
  if (!emulated_is_device(to_ordinal) || !emulated_is_device(from_ordinal))
    return TDM_CUDA_INVALID_VALUE;
  atomic_fetch_add(&made.peer, 1);
  return copy_devices(to, to_ordinal, from, from_ordinal, bytes, stream);
}

tdm_cuda_code emulated_fill_async(void *to, int byte, size_t bytes, tdm_cuda_stream stream) {
  const tdm_cuda_code code = emulated_strike(opened_ordinal(stream));
  emulated_did(EMULATED_FILL);
  if (code != TDM_CUDA_SUCCESS) return code;
  void *target = emulated_block(to, bytes, emulated_stream_ordinal(stream));
  if (!target) return TDM_CUDA_INVALID_VALUE;
  copy_data *mine = copy_create(target, NULL, bytes, 0);
  mine->byte = byte;
  emulated_enqueue(stream, run_fill, mine);
  return TDM_CUDA_SUCCESS;
}

/* ---- Kernels --------------------------------------------------------------------------------- */

typedef struct launch_data {
  tdm_cuda_launch launch;
  void *arguments[MOST_ARGUMENTS];
  _Alignas(16) char bytes[];
} launch_data;

static size_t aligned(size_t bytes) {
  return (bytes + 15) & ~(size_t)15;
}

static void run_launch(void *data) {
  launch_data *mine = data;
  if (emulated_faults(emulated_stream_ordinal(mine->launch.stream))) return;
  emulated_run_blocks(mine->launch.function, mine->arguments, mine->launch.call, mine->launch.name,
                      mine->launch.blocks, mine->launch.threads);
}

/* Copies the arguments one after another to mine->bytes, with device pointers converted to the
 * host's. */
static void pack(launch_data *mine, const tdm_cuda_launch *wanted) {
  const int ordinal = emulated_stream_ordinal(wanted->stream);
  char *at = mine->bytes;
  for (size_t i = 0; i < wanted->argument_count; i++) {
    memcpy(at, wanted->arguments[i], wanted->argument_bytes[i]);
    if (wanted->pointer_arguments >> i & 1) {
      void *pointer;
      memcpy(&pointer, at, sizeof pointer);
      pointer = emulated_pointer(pointer, ordinal, wanted->name);
      memcpy(at, &pointer, sizeof pointer);
    }
    mine->arguments[i] = at;
    at += aligned(wanted->argument_bytes[i]);
  }
}

tdm_cuda_code emulated_launch(const tdm_cuda_launch *wanted) {
  const tdm_cuda_code code = emulated_strike(opened_ordinal(wanted->stream));
  emulated_did(EMULATED_LAUNCH);
  if (code != TDM_CUDA_SUCCESS) return code;
  if (wanted->blocks == 0 || wanted->blocks > INT32_MAX || wanted->threads == 0 ||
      wanted->threads > 1024 || wanted->argument_count > MOST_ARGUMENTS || !wanted->call) {
    return TDM_CUDA_INVALID_VALUE;
  }
  size_t bytes = sizeof(launch_data);
  for (size_t i = 0; i < wanted->argument_count; i++)
    bytes += aligned(wanted->argument_bytes[i]);
  launch_data *mine = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (!mine) emulated_misuse("no memory");
  mine->launch = *wanted;
  pack(mine, wanted);
  emulated_enqueue(wanted->stream, run_launch, mine);
  return TDM_CUDA_SUCCESS;
}
