/* A blocking copy outside any plan. Invariant: after the threads have started, memory is accessed
 * only through the queues. Before, the same operation runs on the calling thread, so that an early
 * write to a tensor does not fix the division of cores. */
#include "devices/context/context_state.h"
#include "devices/context/route.h"

enum { STAGING_BYTES = 4 << 20 };

/* ---- One hop --------------------------------------------------------------------------------- */

typedef struct hop_wait {
  tdm_doorbell *bell; /* a bell of the context, which outlives the ringing thread */
  _Atomic bool settled;
} hop_wait;

static void hop_settled(tdm_flight *flight) {
  hop_wait *wait = flight->user;
  tdm_doorbell *bell = wait->bell;
  atomic_store(&wait->settled, true); /* the flight may be freed from here on */
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

static tdm_status copy_hop(tdm_context *context, const tdm_hop *hop, tdm_address from,
                           tdm_address to, size_t bytes) {
  const tdm_copy copy = {.from_device = hop->from,
                         .to_device = hop->to,
                         .from = {.base = 0, .offset = 0},
                         .to = {.base = 1, .offset = 0},
                         .bytes = bytes};
  if (!atomic_load_explicit(&context->started, memory_order_acquire)) {
    (void)pthread_mutex_lock(&context->start_mutex);
    const bool started = atomic_load(&context->started);
    tdm_status status = TDM_OK;
    if (!started) {
      status = tdm_faults_strike(&context->faults, TDM_FAULT_COPY);
      tdm_device *device = hop->queue->device;
      if (status == TDM_OK) status = device->ops->copy(device, &copy, from, to);
    }
    (void)pthread_mutex_unlock(&context->start_mutex);
    if (!started) return status;
  }
  return hop_queued(context, hop->queue, &copy, from, to);
}

/* ---- Routes of several hops ------------------------------------------------------------------ */

/* Allocates a piece on each device of the route. */
static tdm_status take_pieces(const tdm_route *route, size_t bytes, tdm_memory *pieces) {
  for (uint32_t i = 0; i + 1 < route->count; i++) {
    tdm_device *device = route->hops[i].to;
    TDM_TRY(device->ops->allocate(device, bytes, &pieces[i]));
  }
  return TDM_OK;
}

static void release_pieces(const tdm_route *route, tdm_memory *pieces) {
  for (uint32_t i = 0; i + 1 < route->count; i++)
    if (pieces[i].device) pieces[i].device->ops->release(pieces[i].device, &pieces[i]);
}

/* Copies piece by piece through the devices of the route, or at once if there are none. */
static tdm_status copy_along(tdm_context *context, const tdm_route *route, tdm_address from,
                             tdm_address to, size_t bytes) {
  const size_t piece = route->count == 1 || bytes < STAGING_BYTES ? bytes : STAGING_BYTES;
  tdm_memory pieces[TDM_ROUTE_MOST_HOPS] = {{0}};
  tdm_status status = take_pieces(route, piece, pieces);
  for (size_t done = 0; done < bytes && status == TDM_OK; done += piece) {
    const size_t length = bytes - done < piece ? bytes - done : piece;
    tdm_address here = from + done;
    for (uint32_t i = 0; i < route->count && status == TDM_OK; i++) {
      const tdm_address there = i + 1 < route->count ? pieces[i].address : to + done;
      status = copy_hop(context, &route->hops[i], here, there, length);
      here = there;
    }
  }
  release_pieces(route, pieces);
  return status;
}

tdm_status tdm_context_copy(tdm_context *context, const tdm_memory *from, const tdm_memory *to,
                            size_t bytes) {
  if (bytes > from->bytes || bytes > to->bytes) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "%zu bytes cannot be copied from %zu to %zu", bytes,
                    from->bytes, to->bytes);
  }
  if (bytes == 0) return TDM_OK;
  if (from->device->rank != context->rank || to->device->rank != context->rank) {
    return tdm_fail(TDM_UNSUPPORTED,
                    "%s and %s are not both of this rank, %d: outside of plans each "
                    "rank copies its own",
                    from->device->name, to->device->name, context->rank);
  }
  if (!tdm_context_enter(context)) return tdm_context_refuse(context);
  const tdm_route route = tdm_route_between(from->device, to->device);
  const tdm_status status = copy_along(context, &route, from->address, to->address, bytes);
  tdm_context_leave(context);
  return status;
}
