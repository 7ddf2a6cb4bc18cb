/* Measures links: copies of every doubling of the size, in turns, timed like copies of plans.
 * Invariant: a link's measurement owns the memory at both ends. Nothing is published before all
 * links are measured. */
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "devices/context/context.h"
#include "devices/links/fit.h"
#include "devices/links/table.h"
#include "devices/links/trial.h"
#include "devices/staging/pool.h"
#include "devices/topology/topology.h"

enum {
  LEAST_COPIES = 5,
  DEFAULT_COPIES = 15,
  DISTANT_COPIES = 5, /* per size and distance; each waits for the caches to be filled */
  ASSUMED_CACHE_BYTES = 32 << 20,
  BENDS_FROM_BYTES = 256 << 10,
  BENDS_TO_BYTES = 8 << 20,
  PIECE_BYTES = 4096,
  /* Source and target begin at different offsets of a page, as in nearly all plans. Otherwise loads
   * would wait for stores to addresses that only look equal. */
  TARGET_SHIFT_BYTES = 4096 * 37 + 64 * 17,
};

/* One side of the copies. A device of the host has one block with a separate piece for each size,
 * like values in an arena. Pinned memory and other devices have one piece for all sizes. */
typedef struct link_end {
  tdm_device *device;
  tdm_memory block;
  tdm_address pinned; /* instead of it; 0: none */
  bool apart;         /* each size has its own piece */
} link_end;

typedef struct state_samples {
  tdm_link_sample samples[TDM_LINK_MOST_KNOTS * TDM_LINK_MOST_SAMPLES_OF_SIZE];
  size_t count;
} state_samples;

typedef struct measurement {
  tdm_context *context;
  tdm_links_calibration options;
  link_end ends[2];     /* from, to */
  tdm_staging *staging; /* memory of the host's end if it is pinned; otherwise NULL */
  tdm_memory between;   /* touched between use and copy; bytes 0: copies have no distances */
  double distances[TDM_LINK_DISTANCES];
  size_t most_bytes;                   /* largest size that fits */
  size_t sizes[TDM_LINK_MOST_KNOTS];   /* bytes, ascending (size_count) */
  size_t offsets[TDM_LINK_MOST_KNOTS]; /* offset of each size's piece in the block */
  size_t size_count;
  state_samples measured[TDM_LINK_STATES];
  uint64_t spent_ns[TDM_LINK_MOST_KNOTS];
} measurement;

/* ---- Memory at both ends ------------------------------------------------------------------- */

static tdm_address address_of(const measurement *measured, const link_end *end, size_t index) {
  if (end->pinned != 0) return end->pinned;
  if (!end->apart) return end->block.address;
  const size_t shift = end == &measured->ends[1] ? TARGET_SHIFT_BYTES : 0;
  return end->block.address + measured->offsets[index] + shift;
}

static void release_memory(tdm_memory *memory) {
  if (memory->device) memory->device->ops->release(memory->device, memory);
  *memory = (tdm_memory){0};
}

static void release_ends(measurement *measured) {
  for (size_t i = 0; i < 2; i++) {
    release_memory(&measured->ends[i].block);
    measured->ends[i].pinned = 0;
  }
  release_memory(&measured->between);
  if (measured->staging) {
    tdm_pool_give_back(tdm_context_pool(measured->context), measured->staging, NULL, 0);
    measured->staging = NULL;
  }
}

/* Allocates pinned memory up to most_bytes within the pool's cap, or none if it is refused. */
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

static size_t block_bytes(const measurement *measured) {
  const size_t last = measured->size_count - 1;
  return measured->offsets[last] + measured->sizes[last] + TARGET_SHIFT_BYTES;
}

static tdm_status allocate_end(measurement *measured, link_end *end, bool pinned) {
  tdm_device *device = end->device;
  end->apart = device->host_addressable && !pinned;
  if (device->host_addressable && pinned) {
    end->pinned = (tdm_address)measured->staging->memory;
    memset((void *)end->pinned, 1, measured->most_bytes);
    return TDM_OK;
  }
  if (!end->apart) return device->ops->allocate(device, measured->most_bytes, &end->block);
  TDM_TRY(device->ops->allocate(device, block_bytes(measured), &end->block));
  memset((void *)end->block.address, 1, block_bytes(measured));
  return TDM_OK;
}

/* Sets the distances: only the copy's own sides; more than a core's own caches hold; as much as the
 * last cache holds. */
static tdm_status choose_distances(measurement *measured) {
  tdm_device *to = measured->ends[1].device;
  memset(measured->distances, 0, sizeof(measured->distances));
  if (!measured->ends[0].device->host_addressable || !to->host_addressable) return TDM_OK;
  size_t cache_bytes = tdm_topology_cache_bytes(tdm_context_topology(measured->context));
  if (cache_bytes == 0) cache_bytes = ASSUMED_CACHE_BYTES;
  size_t most_bytes = cache_bytes;
  if (most_bytes > measured->options.most_touched_bytes) {
    most_bytes = measured->options.most_touched_bytes;
  }
  measured->distances[2] = (double)most_bytes;
  measured->distances[1] = measured->distances[2] / 4;
  measured->distances[0] = measured->distances[2] / 32;
  TDM_TRY(to->ops->allocate(to, most_bytes, &measured->between));
  memset((void *)measured->between.address, 1, most_bytes);
  return TDM_OK;
}

/* Writes the source, because reading pages that were never written is faster. */
static tdm_status fill_source(measurement *measured) {
  const link_end *from = &measured->ends[0];
  const link_end *to = &measured->ends[1];
  if (from->device->host_addressable || !to->device->host_addressable) return TDM_OK;
  const size_t last = measured->size_count - 1;
  const tdm_link_trial back = {.from_device = to->device,
                               .to_device = from->device,
                               .from = address_of(measured, to, last),
                               .to = address_of(measured, from, last),
                               .bytes = measured->sizes[last]};
  double ns;
  return tdm_link_trial_run(&back, &ns);
}

/* Chooses every doubling, and also the middle between sizes near the ends of caches. */
static void choose_sizes(measurement *measured) {
  size_t offset = 0;
  size_t count = 0;
  for (size_t bytes = measured->options.least_bytes; bytes <= measured->most_bytes; bytes *= 2) {
    const size_t between[2] = {bytes, bytes + bytes / 2};
    const bool bends = bytes >= BENDS_FROM_BYTES && bytes < BENDS_TO_BYTES;
    for (size_t i = 0; i < (bends ? 2 : 1) && count < TDM_LINK_MOST_KNOTS; i++) {
      if (between[i] > measured->most_bytes) continue;
      measured->sizes[count] = between[i];
      measured->offsets[count++] = offset;
      offset += (between[i] + PIECE_BYTES - 1) / PIECE_BYTES * PIECE_BYTES;
    }
  }
  measured->size_count = count;
}

static tdm_status prepare_ends(measurement *measured, bool pinned) {
  choose_sizes(measured);
  for (size_t i = 0; i < 2; i++)
    TDM_TRY(allocate_end(measured, &measured->ends[i], pinned));
  TDM_TRY(choose_distances(measured));
  return fill_source(measured);
}

/* ---- A link -------------------------------------------------------------------------------- */

static tdm_status measure_size(measurement *measured, size_t index, size_t state) {
  const link_end *from = &measured->ends[0];
  const link_end *to = &measured->ends[1];
  const bool stale = state == TDM_LINK_STALE;
  state_samples *samples = &measured->measured[state];
  tdm_link_sample *sample = &samples->samples[samples->count];
  tdm_link_trial trial = {.from_device = from->device,
                          .to_device = to->device,
                          .from = address_of(measured, from, index),
                          .to = address_of(measured, to, index),
                          .bytes = measured->sizes[index],
                          .stale = stale,
                          .between = measured->between.address};
  if (state > 0) {
    trial.between_bytes = (size_t)measured->distances[stale ? TDM_LINK_DISTANCES - 1 : state];
  }
  TDM_TRY(tdm_link_trial_run(&trial, &sample->ns));
  sample->bytes = (double)trial.bytes;
  measured->spent_ns[index] += (uint64_t)sample->ns;
  samples->count++;
  return TDM_OK;
}

/* Returns true if a copy of this size exceeds the last cache, so that all states cost the same. */
static bool is_beyond_caches(const measurement *measured, size_t index) {
  return (double)measured->sizes[index] >= measured->distances[TDM_LINK_DISTANCES - 1] / 2;
}

/* Makes one copy of a size in every requested state. */
static tdm_status measure_states(measurement *measured, size_t index, bool distant) {
  TDM_TRY(measure_size(measured, index, 0));
  const state_samples *near = &measured->measured[0];
  for (size_t state = 1; distant && state < TDM_LINK_STATES; state++) {
    if (is_beyond_caches(measured, index)) {
      state_samples *samples = &measured->measured[state];
      samples->samples[samples->count++] = near->samples[near->count - 1];
    } else {
      TDM_TRY(measure_size(measured, index, state));
    }
  }
  return TDM_OK;
}

static void shuffle(uint8_t *order, size_t count, uint64_t *random) {
  for (size_t i = count; i > 1; i--) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    const size_t k = (size_t)(*random >> 33) % i;
    const uint8_t swapped = order[i - 1];
    order[i - 1] = order[k];
    order[k] = swapped;
  }
}

/* Measures sizes and states in turns, so that a disturbance affects each a little. The order
 * differs each time, so that no size always finds the caches as the largest one left them. */
static tdm_status measure(measurement *measured) {
  const tdm_links_calibration *options = &measured->options;
  const size_t sizes = measured->size_count;
  uint8_t order[TDM_LINK_MOST_KNOTS];
  for (size_t i = 0; i < sizes; i++)
    order[i] = (uint8_t)i;
  const uint64_t share_ns = options->budget_ns / (sizes > 0 ? sizes : 1);
  uint64_t random = 1;
  for (uint32_t turn = 0; turn < options->copies; turn++) {
    const bool distant = measured->between.bytes > 0 && turn < DISTANT_COPIES;
    shuffle(order, sizes, &random);
    for (size_t i = 0; i < sizes; i++) {
      if (turn >= LEAST_COPIES && measured->spent_ns[order[i]] > share_ns) continue;
      TDM_TRY(measure_states(measured, order[i], distant));
    }
  }
  return TDM_OK;
}

static tdm_status fit(measurement *measured, tdm_link_estimate *estimate) {
  state_samples *near = &measured->measured[0];
  TDM_TRY(tdm_link_fit(near->samples, near->count, estimate));
  memcpy(estimate->distances, measured->distances, sizeof(estimate->distances));
  for (size_t i = 1; i < TDM_LINK_STATES && estimate->distances[0] > 0; i++) {
    state_samples *other = &measured->measured[i];
    TDM_TRY(tdm_link_fit_state(other->samples, other->count, i, estimate));
  }
  return TDM_OK;
}

static tdm_status calibrate_link(measurement *measured, tdm_link_set *set, bool pinned) {
  tdm_device *from = measured->ends[0].device;
  tdm_device *to = measured->ends[1].device;
  tdm_link_estimate *estimate = tdm_link_set_at(set, from, to, pinned);
  if (!estimate) return TDM_OK;
  for (size_t i = 0; i < TDM_LINK_STATES; i++)
    measured->measured[i].count = 0;
  memset(measured->spent_ns, 0, sizeof(measured->spent_ns));
  measured->most_bytes = measured->options.most_bytes;
  tdm_status status = TDM_OK;
  if (pinned) {
    status = take_pinned(measured, from->host_addressable ? to : from);
    /* Refused, or a cap too small for two sizes: the pool has logged it. */
    if (!measured->staging) return status == TDM_OUT_OF_MEMORY ? TDM_OK : status;
  }
  if (status == TDM_OK) status = prepare_ends(measured, pinned);
  if (status == TDM_OK) status = measure(measured);
  release_ends(measured);
  if (status == TDM_OK) status = fit(measured, estimate);
  if (status == TDM_OK) set->known_count++;
  return status;
}

static tdm_status calibrate_all(measurement *measured, tdm_link_set *set) {
  const size_t count = tdm_device_count(measured->context);
  for (size_t i = 0; i < count * count; i++) {
    tdm_device *from = tdm_context_device(measured->context, i / count);
    tdm_device *to = tdm_context_device(measured->context, i % count);
    if (from->described || to->described) continue;
    measured->ends[0].device = from;
    measured->ends[1].device = to;
    for (int pinned = 0; pinned < 2; pinned++) {
      const tdm_status status = calibrate_link(measured, set, pinned == 1);
      if (status == TDM_OK) continue;
      return tdm_fail_within(status, "calibrating the link from %s to %s", from->name, to->name);
    }
  }
  return TDM_OK;
}

/* ---- All links ----------------------------------------------------------------------------- */

static tdm_status read_options(const tdm_links_calibration *given, tdm_links_calibration *out) {
  *out = !given ? (tdm_links_calibration){0} : *given;
  if (out->least_bytes == 0) out->least_bytes = 1024;
  if (out->most_bytes == 0) out->most_bytes = (size_t)64 << 20;
  if (out->copies == 0) out->copies = DEFAULT_COPIES;
  if (out->budget_ns == 0) out->budget_ns = 100000000;
  if (out->most_touched_bytes == 0) out->most_touched_bytes = (size_t)64 << 20;
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
  if (!measured) return TDM_OUT_OF_MEMORY;
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
