/* Measuring links: copies of every doubling of the size, in turns, timed as plans' copies are.
 * Invariant: a link's measurement owns the memory at both ends; nothing is published before all
 * links are measured. */
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "devices/context.h"
#include "devices/host/link_fit.h"
#include "devices/host/links.h"
#include "devices/host/pool.h"

enum { LEAST_COPIES = 5, DEFAULT_COPIES = 15 };

typedef struct measurement {
  tdm_context *context;
  tdm_links_calibration options;
  tdm_device *from;
  tdm_device *to;
  tdm_memory ends[2];   /* from, to; device NULL: none of a device's */
  tdm_memory others[2]; /* where an end is the host's: what it is written from, or read to */
  tdm_staging *staging; /* of the host's end where that is pinned; else NULL */
  size_t most_bytes;    /* of the memory there is */
  tdm_link_sample samples[TDM_LINK_MOST_KNOTS * TDM_LINK_MOST_SAMPLES_OF_SIZE];
  size_t sample_count;
  uint64_t spent_ns[TDM_LINK_MOST_KNOTS];
} measurement;

/* ---- One copy ------------------------------------------------------------------------------ */

typedef struct copy_wait {
  tdm_doorbell *bell;
  _Atomic bool settled;
} copy_wait;

static void copy_settled(tdm_flight *flight) {
  copy_wait *wait = flight->user;
  tdm_doorbell *bell = wait->bell;
  atomic_store(&wait->settled, true); /* the flight may be gone from here on */
  tdm_doorbell_ring(bell);
}

static void await_settled(copy_wait *wait) {
  for (;;) {
    const uint32_t seen = tdm_doorbell_read(wait->bell);
    if (atomic_load(&wait->settled)) return;
    tdm_doorbell_park(wait->bell, seen, -1);
  }
}

static tdm_status timed_copy(measurement *measured, tdm_copy copy, tdm_address from, tdm_address to,
                             double *out_ns) {
  tdm_context *context = measured->context;
  tdm_command command = {.kind = TDM_COMMAND_COPY, .signals = true, .copy = copy};
  const tdm_program program = {
      .queue = tdm_route(copy.from_device, copy.to_device), .commands = &command, .count = 1};
  uint64_t program_base = 0;
  tdm_address bases[2] = {from, to};
  uint8_t failed_ids[1] = {0};
  tdm_command_times times = {0};
  const tdm_run_scalars scalars = {0};
  const uint32_t bell = tdm_context_bell_acquire(context);
  copy_wait wait = {.bell = tdm_context_bell(context, bell)};
  tdm_flight flight = {.programs = &program,
                       .program_bases = &program_base,
                       .bases = bases,
                       .scalars = &scalars,
                       .failed_ids = failed_ids,
                       .times = &times,
                       .settled = copy_settled,
                       .user = &wait};
  tdm_flight_reset(&flight, 1);
  tdm_submission submission = {.program = 0};
  tdm_status status = tdm_context_submit(context, &flight, &submission, 1, false);
  if (status == TDM_OK) {
    await_settled(&wait);
    if (flight.failure.id != UINT32_MAX) {
      status = tdm_fail(flight.failure.status, "%s", flight.failure.message);
    }
  }
  tdm_context_bell_release(context, bell);
  /* A clock may not have moved on. */
  *out_ns = times.end_ns > times.begin_ns ? (double)(times.end_ns - times.begin_ns) : 1;
  return status;
}

static tdm_status copy_over(measurement *measured, size_t bytes, double *out_ns) {
  const tdm_copy copy = {.from_device = measured->from,
                         .to_device = measured->to,
                         .from = {.base = 0},
                         .to = {.base = 1},
                         .bytes = bytes};
  return timed_copy(measured, copy, measured->ends[0].address, measured->ends[1].address, out_ns);
}

/* ---- Memory at both ends ------------------------------------------------------------------- */

static void release_ends(measurement *measured) {
  for (size_t i = 0; i < 2; ++i) {
    tdm_memory *end = &measured->ends[i];
    if (end->device != NULL) end->device->ops->release(end->device, end);
    *end = (tdm_memory){0};
    tdm_memory *other = &measured->others[i];
    if (other->device != NULL) other->device->ops->release(other->device, other);
    *other = (tdm_memory){0};
  }
  if (measured->staging != NULL) {
    tdm_pool_give_back(tdm_context_pool(measured->context), measured->staging, NULL, 0);
    measured->staging = NULL;
  }
}

/* As much pinned memory, up to most_bytes, as the pool's cap allows; none where it is refused. */
static tdm_status take_pinned(measurement *measured, tdm_device *discrete) {
  tdm_pool *pool = tdm_context_pool(measured->context);
  tdm_status status = TDM_OUT_OF_MEMORY;
  for (; measured->most_bytes >= 2 * measured->options.least_bytes; measured->most_bytes /= 2) {
    status = tdm_pool_take(pool, discrete, measured->most_bytes, &measured->staging);
    if (status != TDM_OUT_OF_MEMORY) break;
  }
  if (status != TDM_OK || measured->staging->pinned) return status;
  tdm_pool_give_back(pool, measured->staging, NULL, 0);
  measured->staging = NULL;
  return TDM_OK;
}

static tdm_status allocate_end(measurement *measured, size_t end, bool pinned) {
  tdm_device *device = end == 0 ? measured->from : measured->to;
  tdm_memory *memory = &measured->ends[end];
  if (!device->host_addressable) return device->ops->allocate(device, measured->most_bytes, memory);
  TDM_TRY(device->ops->allocate(device, measured->most_bytes, &measured->others[end]));
  memset((void *)measured->others[end].address, 1, measured->most_bytes);
  if (!pinned) return device->ops->allocate(device, measured->most_bytes, memory);
  memory->address = (tdm_address)measured->staging->memory; /* device NULL: not to be released */
  return TDM_OK;
}

/* Pages that nobody has written are not read as others are. */
static tdm_status fill_ends(measurement *measured) {
  const tdm_memory *source = &measured->ends[0];
  const tdm_memory *target = &measured->ends[1];
  double ns;
  if (measured->to->host_addressable) memset((void *)target->address, 1, measured->most_bytes);
  if (measured->from->host_addressable) {
    memset((void *)source->address, 1, measured->most_bytes);
  } else if (measured->to->host_addressable) {
    const tdm_copy back = {.from_device = measured->to,
                           .to_device = measured->from,
                           .from = {.base = 0},
                           .to = {.base = 1},
                           .bytes = measured->most_bytes};
    TDM_TRY(timed_copy(measured, back, target->address, source->address, &ns));
  }
  return copy_over(measured, measured->most_bytes, &ns);
}

/* ---- A link -------------------------------------------------------------------------------- */

/* As in a plan, where the device that the bytes come from wrote them just before, and the one that
 * they go to read the last ones: so they are in the caches of its cores, not of others. */
static tdm_status use_end(measurement *measured, size_t end, size_t bytes) {
  tdm_device *device = end == 0 ? measured->from : measured->to;
  if (!device->host_addressable) return TDM_OK;
  const tdm_copy copy = {.from_device = device,
                         .to_device = device,
                         .from = {.base = 0},
                         .to = {.base = 1},
                         .bytes = bytes};
  const tdm_address memory = measured->ends[end].address;
  const tdm_address other = measured->others[end].address;
  double ns;
  return end == 0 ? timed_copy(measured, copy, other, memory, &ns)
                  : timed_copy(measured, copy, memory, other, &ns);
}

static tdm_status measure_size(measurement *measured, size_t index) {
  const size_t bytes = measured->options.least_bytes << index;
  tdm_link_sample *sample = &measured->samples[measured->sample_count];
  TDM_TRY(use_end(measured, 1, bytes));
  TDM_TRY(use_end(measured, 0, bytes));
  TDM_TRY(copy_over(measured, bytes, &sample->ns));
  sample->bytes = (double)bytes;
  measured->spent_ns[index] += (uint64_t)sample->ns;
  ++measured->sample_count;
  return TDM_OK;
}

static void shuffle(uint8_t *order, size_t count, uint64_t *random) {
  for (size_t i = count; i > 1; --i) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    const size_t k = (size_t)(*random >> 33) % i;
    const uint8_t swapped = order[i - 1];
    order[i - 1] = order[k];
    order[k] = swapped;
  }
}

/* Sizes take turns, so that a bad moment of the machine falls on all of them a little; in another
 * order each time, so that none always finds the caches as the largest left them. */
static tdm_status measure(measurement *measured) {
  const tdm_links_calibration *options = &measured->options;
  uint8_t order[TDM_LINK_MOST_KNOTS];
  size_t sizes = 0;
  for (; sizes < TDM_LINK_MOST_KNOTS; ++sizes) {
    if (options->least_bytes << sizes > measured->most_bytes) break;
    order[sizes] = (uint8_t)sizes;
  }
  const uint64_t share_ns = options->budget_ns / (sizes > 0 ? sizes : 1);
  uint64_t random = 1;
  for (uint32_t turn = 0; turn < options->copies; ++turn) {
    shuffle(order, sizes, &random);
    for (size_t i = 0; i < sizes; ++i) {
      if (turn >= LEAST_COPIES && measured->spent_ns[order[i]] > share_ns) continue;
      TDM_TRY(measure_size(measured, order[i]));
    }
  }
  return TDM_OK;
}

static tdm_status calibrate_link(measurement *measured, tdm_link_set *set, bool pinned) {
  tdm_link_estimate *estimate = tdm_link_set_at(set, measured->from, measured->to, pinned);
  if (estimate == NULL) return TDM_OK;
  measured->sample_count = 0;
  memset(measured->spent_ns, 0, sizeof(measured->spent_ns));
  measured->most_bytes = measured->options.most_bytes;
  tdm_status status = TDM_OK;
  if (pinned) {
    status =
        take_pinned(measured, measured->from->host_addressable ? measured->to : measured->from);
    /* Refused, or a cap too small for two sizes: the pool has told. */
    if (measured->staging == NULL) return status == TDM_OUT_OF_MEMORY ? TDM_OK : status;
  }
  for (size_t i = 0; i < 2 && status == TDM_OK; ++i)
    status = allocate_end(measured, i, pinned);
  if (status == TDM_OK) status = fill_ends(measured);
  if (status == TDM_OK) status = measure(measured);
  release_ends(measured);
  if (status == TDM_OK) status = tdm_link_fit(measured->samples, measured->sample_count, estimate);
  if (status == TDM_OK) ++set->known_count;
  return status;
}

static tdm_status calibrate_all(measurement *measured, tdm_link_set *set) {
  const size_t count = tdm_device_count(measured->context);
  for (size_t i = 0; i < count * count; ++i) {
    measured->from = tdm_context_device(measured->context, i / count);
    measured->to = tdm_context_device(measured->context, i % count);
    for (int pinned = 0; pinned < 2; ++pinned) {
      const tdm_status status = calibrate_link(measured, set, pinned == 1);
      if (status == TDM_OK) continue;
      return tdm_fail_within(status, "calibrating the link from %s to %s", measured->from->name,
                             measured->to->name);
    }
  }
  return TDM_OK;
}

/* ---- All of them --------------------------------------------------------------------------- */

static tdm_status read_options(const tdm_links_calibration *given, tdm_links_calibration *out) {
  *out = given == NULL ? (tdm_links_calibration){0} : *given;
  if (out->least_bytes == 0) out->least_bytes = 1024;
  if (out->most_bytes == 0) out->most_bytes = (size_t)64 << 20;
  if (out->copies == 0) out->copies = DEFAULT_COPIES;
  if (out->budget_ns == 0) out->budget_ns = 100000000;
  if (out->most_bytes / 2 < out->least_bytes || out->copies < LEAST_COPIES ||
      out->copies > TDM_LINK_MOST_SAMPLES_OF_SIZE) {
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "links cannot be calibrated by %u copies of %zu to %zu "
                    "bytes",
                    out->copies, out->least_bytes, out->most_bytes);
  }
  return TDM_OK;
}

tdm_status tdm_links_calibrate(tdm_context *context, const tdm_links_calibration *options,
                               size_t *out_known_count) {
  *out_known_count = 0;
  tdm_links_calibration known;
  TDM_TRY(read_options(options, &known));
  TDM_TRY(tdm_context_start(context));
  const tdm_allocator *allocator = tdm_context_allocator(context);
  measurement *measured = tdm_allocate(allocator, sizeof(*measured), "calibrating links");
  if (measured == NULL) return TDM_OUT_OF_MEMORY;
  measured->context = context;
  measured->options = known;
  tdm_link_set set;
  tdm_status status = tdm_link_set_init(&set, tdm_context_links(context));
  if (status == TDM_OK) status = calibrate_all(measured, &set);
  if (status == TDM_OK) {
    tdm_link_set_publish(&set);
    *out_known_count = set.known_count;
  }
  tdm_link_set_deinit(&set);
  tdm_release(allocator, measured, sizeof(*measured));
  return status;
}
