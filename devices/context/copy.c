/* A blocking copy outside any plan. Invariant: once threads run, memory is only touched through the
 * queues; before, through the same operation on the calling thread, so that a tensor written early
 * does not fix how cores are divided. */
#include "devices/context/context_state.h"

enum { STAGING_BYTES = 4 << 20 };

/* ---- One hop along a direct route ---------------------------------------------------------- */

typedef struct hop_wait {
  tdm_doorbell *bell; /* of the context, which outlives the ringer */
  _Atomic bool settled;
} hop_wait;

static void hop_settled(tdm_flight *flight) {
  hop_wait *wait = flight->user;
  tdm_doorbell *bell = wait->bell;
  atomic_store(&wait->settled, true); /* the flight may be gone from here on */
  tdm_doorbell_ring(bell);
}

static tdm_status hop_failure(const tdm_flight *flight) {
  if (flight->failure.id == UINT32_MAX) return TDM_OK;
  return tdm_fail(flight->failure.status, "%s", flight->failure.message);
}

static tdm_status hop_queued(tdm_context *context, tdm_queue *queue, const tdm_copy *copy,
                             tdm_address from, tdm_address to) {
  tdm_command command = {.kind = TDM_COMMAND_COPY, .signals = true, .copy = *copy};
  const tdm_program program = {.queue = queue, .commands = &command, .count = 1};
  uint64_t program_base = 0;
  tdm_address bases[2] = {from, to};
  uint8_t failed_ids[1] = {0};
  const tdm_run_scalars scalars = {0};
  const uint32_t bell = tdm_context_bell_acquire(context);
  hop_wait wait = {.bell = tdm_context_bell(context, bell)};
  tdm_flight flight = {.programs = &program,
                       .program_bases = &program_base,
                       .bases = bases,
                       .scalars = &scalars,
                       .failed_ids = failed_ids,
                       .settled = hop_settled,
                       .user = &wait};
  tdm_flight_reset(&flight, 1);
  tdm_submission submission = {.program = 0};
  tdm_status status = tdm_context_submit(context, &flight, &submission, 1, true);
  if (status == TDM_OK) {
    for (;;) {
      const uint32_t seen = tdm_doorbell_read(wait.bell);
      if (atomic_load(&wait.settled)) break;
      tdm_doorbell_park(wait.bell, seen, -1);
    }
    status = hop_failure(&flight);
  }
  tdm_context_bell_release(context, bell);
  return status;
}

static tdm_status hop(tdm_context *context, const tdm_memory *from, const tdm_memory *to,
                      size_t offset, size_t bytes) {
  tdm_queue *queue = tdm_route(from->device, to->device);
  const tdm_copy copy = {.from_device = from->device,
                         .to_device = to->device,
                         .from = {.base = 0, .offset = 0},
                         .to = {.base = 1, .offset = 0},
                         .bytes = bytes};
  const tdm_address from_address = from->address + offset;
  const tdm_address to_address = to->address + offset;
  if (!atomic_load_explicit(&context->started, memory_order_acquire)) {
    (void)pthread_mutex_lock(&context->start_mutex);
    const bool started = atomic_load(&context->started);
    tdm_status status = TDM_OK;
    if (!started) {
      status = tdm_faults_strike(&context->faults, TDM_FAULT_COPY);
      tdm_device *device = queue->device;
      if (status == TDM_OK) status = device->ops->copy(device, &copy, from_address, to_address);
    }
    (void)pthread_mutex_unlock(&context->start_mutex);
    if (!started) return status;
  }
  return hop_queued(context, queue, &copy, from_address, to_address);
}

/* ---- Any route ----------------------------------------------------------------------------- */

/* Through a buffer of the host's, piece by piece. */
static tdm_status copy_staged(tdm_context *context, const tdm_memory *from, const tdm_memory *to,
                              size_t bytes) {
  tdm_device *host = context->devices[0];
  const size_t piece = bytes < STAGING_BYTES ? bytes : STAGING_BYTES;
  tdm_memory staging = {0};
  TDM_TRY(host->ops->allocate(host, piece, &staging));
  tdm_status status = TDM_OK;
  for (size_t done = 0; done < bytes && status == TDM_OK;) {
    const size_t length = bytes - done < piece ? bytes - done : piece;
    /* Both ends of a hop are offset alike. */
    const tdm_memory window = {
        .device = host, .address = staging.address - done, .bytes = staging.bytes};
    status = hop(context, from, &window, done, length);
    if (status == TDM_OK) status = hop(context, &window, to, done, length);
    done += length;
  }
  host->ops->release(host, &staging);
  return status;
}

tdm_status tdm_context_copy(tdm_context *context, const tdm_memory *from, const tdm_memory *to,
                            size_t bytes) {
  if (bytes > from->bytes || bytes > to->bytes) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "%zu bytes cannot be copied from %zu to %zu", bytes,
                    from->bytes, to->bytes);
  }
  if (bytes == 0) return TDM_OK;
  if (!tdm_context_enter(context)) return tdm_context_refuse(context);
  const tdm_status status = tdm_route(from->device, to->device)
                                ? hop(context, from, to, 0, bytes)
                                : copy_staged(context, from, to, bytes);
  tdm_context_leave(context);
  return status;
}
