/* Measures links: copies of every doubling of the size, in turns, timed like copies of plans.
 * Invariant: a link's measurement owns the memory at both ends. Nothing is published before all
 * links are measured. */
#include <string.h>

#include "devices/context/context.h"
#include "devices/links/fit.h"
#include "devices/links/table.h"
#include "devices/links/trial.h"
#include "devices/staging/pool.h"
#include "devices/topology/topology.h"

enum {
  LEAST_BYTES = 1024,
  DEFAULT_MOST_BYTES = 64 << 20,
  LEAST_COPIES = 5,      /* minimum number of copies per size and state */
  MOST_COPIES = 15,      /* number of copies in the near state if they fit the budget */
  BUDGET_NS = 100000000, /* time for all copies of a link */
  ASSUMED_CACHE_BYTES = 32 << 20,
  BENDS_FROM_BYTES = 256 << 10,
  BENDS_TO_BYTES = 8 << 20,
  /* Source and target begin at different offsets of a page, as in nearly all plans. Otherwise loads
   * would wait for stores to addresses that only look equal. */
  TARGET_SHIFT_BYTES = 4096 * 37 + 64 * 17,
};

typedef struct copies {
  size_t bytes;
  double ns[TDM_LINK_STATES][MOST_COPIES];
  size_t count[TDM_LINK_STATES];
  double spent_ns;
} copies;

typedef struct measurement {
  tdm_context *context;
  tdm_device *devices[2]; /* source and destination */
  tdm_memory blocks[2];
  tdm_staging *staging; /* memory of the host's end if it is pinned; otherwise NULL */
  tdm_address at[2];
  tdm_memory between; /* memory that is touched between use and copy; bytes 0: all states are
                       * equal */
  size_t limit_bytes; /* largest size for every link */
  size_t most_bytes;  /* largest size that fits */
  uint32_t size_count;
  copies sizes[TDM_LINK_MOST_KNOTS]; /* (size_count), ascending */
} measurement;

/* ---- Memory ---------------------------------------------------------------------------------- */

static void release_memory(measurement *made) {
  tdm_memory *const memory[] = {&made->blocks[0], &made->blocks[1], &made->between};
  for (size_t i = 0; i < TDM_COUNT_OF(memory); i++) {
    if (memory[i]->device) memory[i]->device->ops->release(memory[i]->device, memory[i]);
    *memory[i] = (tdm_memory){0};
  }
  if (made->staging) tdm_pool_give_back(tdm_context_pool(made->context), made->staging, NULL, 0);
  made->staging = NULL;
}

/* Allocates pinned memory up to most_bytes within the pool's cap, or none if it is refused. */
static tdm_status take_pinned(measurement *made, tdm_device *discrete) {
  tdm_pool *pool = tdm_context_pool(made->context);
  tdm_status status = TDM_OUT_OF_MEMORY;
  for (; made->most_bytes >= 2 * LEAST_BYTES; made->most_bytes /= 2) {
    status = tdm_pool_take(pool, discrete, made->most_bytes, &made->staging);
    if (status != TDM_OUT_OF_MEMORY) break;
  }
  if (status != TDM_OK || made->staging->pinned) return status;
  tdm_pool_give_back(pool, made->staging, NULL, 0);
  made->staging = NULL;
  return TDM_OK;
}

static tdm_status allocate_end(measurement *made, size_t end) {
  tdm_device *device = made->devices[end];
  if (device->host_addressable && made->staging) {
    made->at[end] = (tdm_address)made->staging->memory;
  } else {
    TDM_TRY(
        device->ops->allocate(device, made->most_bytes + TARGET_SHIFT_BYTES, &made->blocks[end]));
    made->at[end] = made->blocks[end].address + (end == 1 ? TARGET_SHIFT_BYTES : 0);
  }
  if (device->host_addressable) memset((void *)made->at[end], 1, made->most_bytes);
  return TDM_OK;
}

/* Allocates as much as the last cache holds, if the link is between two devices of the host. */
static tdm_status allocate_between(measurement *made) {
  tdm_device *to = made->devices[1];
  if (!made->devices[0]->host_addressable || !to->host_addressable) return TDM_OK;
  size_t bytes = tdm_topology_cache_bytes(tdm_context_topology(made->context));
  if (bytes == 0) bytes = ASSUMED_CACHE_BYTES;
  if (bytes > made->limit_bytes) bytes = made->limit_bytes;
  TDM_TRY(to->ops->allocate(to, bytes, &made->between));
  memset((void *)made->between.address, 1, bytes);
  return TDM_OK;
}

/* ---- A link ---------------------------------------------------------------------------------- */

static tdm_status copy_once(const measurement *made, size_t from, size_t bytes, size_t state,
                            double *out_ns) {
  const size_t to = 1 - from;
  const tdm_link_trial trial = {.from_device = made->devices[from],
                                .to_device = made->devices[to],
                                .from = made->at[from],
                                .to = made->at[to],
                                .bytes = bytes,
                                .stale = state == TDM_LINK_STALE,
                                .between = made->between.address,
                                .between_bytes = state == TDM_LINK_NEAR ? 0 : made->between.bytes};
  return tdm_link_trial_run(&trial, out_ns);
}

/* Chooses every doubling, and also the middle between sizes near the ends of caches. */
static void choose_sizes(measurement *made) {
  made->size_count = 0;
  for (size_t bytes = LEAST_BYTES; bytes <= made->most_bytes; bytes *= 2) {
    const bool bends = bytes >= BENDS_FROM_BYTES && bytes < BENDS_TO_BYTES;
    made->sizes[made->size_count++] = (copies){.bytes = bytes};
    if (bends && bytes + bytes / 2 <= made->most_bytes)
      made->sizes[made->size_count++] = (copies){.bytes = bytes + bytes / 2};
  }
}

/* Copies in every state. Copies that exceed the last cache cost the same in all of them. */
static tdm_status measure_size(const measurement *made, copies *size, bool all_states) {
  const bool is_beyond = size->bytes >= made->between.bytes / 2;
  for (size_t state = 0; state < (all_states && !is_beyond ? TDM_LINK_STATES : 1); state++) {
    double *ns = &size->ns[state][size->count[state]++];
    TDM_TRY(copy_once(made, 0, size->bytes, state, ns));
    size->spent_ns += *ns;
  }
  return TDM_OK;
}

/* Sizes are measured in turns, so that a disturbance affects each a little. Memory is written
 * before it is read, because reading pages that were never written is faster. */
static tdm_status measure(measurement *made) {
  double ns;
  if (!made->devices[0]->host_addressable && made->devices[1]->host_addressable)
    TDM_TRY(copy_once(made, 1, made->most_bytes, TDM_LINK_NEAR, &ns));
  for (uint32_t turn = 0; turn < MOST_COPIES; turn++) {
    for (uint32_t i = 0; i < made->size_count; i++) {
      copies *size = &made->sizes[i];
      if (turn >= LEAST_COPIES && size->spent_ns > (double)BUDGET_NS / made->size_count) continue;
      TDM_TRY(measure_size(made, size, turn < LEAST_COPIES));
    }
  }
  return TDM_OK;
}

static void fit(measurement *made, tdm_link_estimate *out_estimate) {
  tdm_link_point points[TDM_LINK_MOST_KNOTS];
  for (size_t state = 0; state < TDM_LINK_STATES; state++) {
    for (uint32_t i = 0; i < made->size_count; i++) {
      copies *size = &made->sizes[i];
      if (size->count[state] == 0) continue; /* keep the point of the near state */
      points[i] =
          (tdm_link_point){.bytes = (double)size->bytes,
                           .ns = tdm_link_quantile(size->ns[state], size->count[state], 0.5)};
    }
    if (state == TDM_LINK_NEAR)
      tdm_link_fit(points, made->size_count, out_estimate);
    else
      tdm_link_fit_state(points, state, out_estimate);
  }
}

static tdm_status calibrate_link(measurement *made, tdm_links *measured, bool pinned) {
  tdm_device *from = made->devices[0];
  tdm_link_estimate *estimate = tdm_links_at(measured, from, made->devices[1], pinned);
  if (!estimate) return TDM_OK;
  made->most_bytes = made->limit_bytes;
  tdm_status status = TDM_OK;
  if (pinned) {
    status = take_pinned(made, from->host_addressable ? made->devices[1] : from);
    /* Refused, or a cap too small for two sizes: the pool has logged it. */
    if (!made->staging) return status == TDM_OUT_OF_MEMORY ? TDM_OK : status;
  }
  choose_sizes(made);
  for (size_t end = 0; end < 2 && status == TDM_OK; end++)
    status = allocate_end(made, end);
  if (status == TDM_OK) status = allocate_between(made);
  if (status == TDM_OK) status = measure(made);
  const double far_bytes = (double)made->between.bytes;
  release_memory(made);
  if (status == TDM_OK) fit(made, estimate);
  estimate->far_bytes = far_bytes;
  return status;
}

static tdm_status calibrate_all(measurement *made, tdm_links *measured) {
  const size_t count = tdm_device_count(made->context);
  for (size_t i = 0; i < 2 * count * count; i++) {
    tdm_device *from = made->devices[0] = tdm_context_device(made->context, i / 2 / count);
    tdm_device *to = made->devices[1] = tdm_context_device(made->context, i / 2 % count);
    if (from->described || to->described) continue;
    const tdm_status status = calibrate_link(made, measured, i % 2 == 1);
    if (status != TDM_OK)
      return tdm_fail_within(status, "calibrating the link from %s to %s", from->name, to->name);
  }
  return TDM_OK;
}

tdm_status tdm_links_calibrate(tdm_context *context, size_t most_bytes) {
  measurement made = {.context = context,
                      .limit_bytes = most_bytes > 0 ? most_bytes : DEFAULT_MOST_BYTES};
  TDM_TRY(tdm_context_start(context));
  tdm_links *measured;
  tdm_status status = tdm_links_create(context, &measured);
  if (status == TDM_OK) status = calibrate_all(&made, measured);
  if (status == TDM_OK) tdm_links_adopt(tdm_context_links(context), measured);
  tdm_links_destroy(measured);
  return status;
}
