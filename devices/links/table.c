/* Stores the links. Invariant: see links.h; estimates are read and replaced under the mutex. */
#include "devices/links/table.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/hash.h"
#include "devices/context/context.h"
#include "devices/context/route.h"
#include "devices/network/network.h"
#include "devices/topology/topology.h"

struct tdm_links {
  tdm_context *context;
  size_t device_count;
  tdm_link_estimate *estimates; /* (2 * device_count ^ 2): from, to, pinned */
  tdm_link_estimate all_reduce; /* estimate of sums over the ranks of a job; modelled: not
                                 * measured */
  pthread_mutex_t mutex;        /* protects estimates */
};

static size_t estimate_count(const tdm_links *links) {
  return 2 * links->device_count * links->device_count;
}

static bool crosses(const tdm_device *from, const tdm_device *to) {
  return from->host_addressable != to->host_addressable;
}

static size_t estimate_index(const tdm_links *links, const tdm_device *from, const tdm_device *to,
                             bool pinned) {
  const size_t pair = (size_t)from->context_index * links->device_count + (size_t)to->context_index;
  return 2 * pair + (pinned && crosses(from, to) ? 1 : 0);
}

/* The assumed link between ranks, the same on every rank: 1 Gbit/s. */
static const tdm_link between_ranks = {.latency_ns = 50000, .bytes_per_ns = 0.125};

static tdm_link_estimate modelled(const tdm_device *from, const tdm_device *to) {
  if (from->rank != to->rank)
    return (tdm_link_estimate){.link = between_ranks, .origin = TDM_LINK_MODELLED};
  /* If one end is the host, the link is modelled by the discrete device. */
  const tdm_device *teller = to->host_addressable ? from : to;
  const tdm_device *other = teller == to ? from : to;
  return (tdm_link_estimate){.link = teller->ops->link(teller, other), .origin = TDM_LINK_MODELLED};
}

static void fill_modelled(const tdm_links *links, tdm_link_estimate *estimates) {
  for (size_t i = 0; i < estimate_count(links); i++) {
    const size_t pair = i / 2;
    estimates[i] = modelled(tdm_context_device(links->context, pair / links->device_count),
                            tdm_context_device(links->context, pair % links->device_count));
  }
}

tdm_status tdm_links_create(tdm_context *context, tdm_links **out_links) {
  *out_links = NULL;
  const tdm_allocator *allocator = tdm_context_allocator(context);
  tdm_links *links = tdm_allocate(allocator, sizeof *links, "the links");
  if (!links) return TDM_OUT_OF_MEMORY;
  if (pthread_mutex_init(&links->mutex, NULL) != 0) {
    tdm_release(allocator, links, sizeof *links);
    return tdm_fail(TDM_OUT_OF_MEMORY, "no mutex for the links");
  }
  links->context = context;
  links->device_count = tdm_device_count(context);
  links->estimates =
      tdm_allocate(allocator, estimate_count(links) * sizeof(tdm_link_estimate), "the links");
  if (!links->estimates) {
    tdm_links_destroy(links);
    return TDM_OUT_OF_MEMORY;
  }
  fill_modelled(links, links->estimates);
  *out_links = links;
  return TDM_OK;
}

void tdm_links_destroy(tdm_links *links) {
  if (!links) return;
  const tdm_allocator *allocator = tdm_context_allocator(links->context);
  tdm_release(allocator, links->estimates, estimate_count(links) * sizeof(tdm_link_estimate));
  (void)pthread_mutex_destroy(&links->mutex);
  tdm_release(allocator, links, sizeof *links);
}

tdm_context *tdm_links_context(const tdm_links *links) {
  return links->context;
}

void tdm_links_forget(tdm_links *links) {
  (void)pthread_mutex_lock(&links->mutex);
  fill_modelled(links, links->estimates);
  links->all_reduce = (tdm_link_estimate){.origin = TDM_LINK_MODELLED};
  (void)pthread_mutex_unlock(&links->mutex);
}

/* ---- Places ---------------------------------------------------------------------------------- */

tdm_link_estimate *tdm_links_at(tdm_links *links, const tdm_device *from, const tdm_device *to,
                                bool pinned) {
  if (from == to || !tdm_direct_queue(from, to) || (pinned && !crosses(from, to))) return NULL;
  if (from->rank != to->rank && (from != tdm_context_host_of(links->context, from->rank) ||
                                 to != tdm_context_host_of(links->context, to->rank)))
    return NULL;
  return &links->estimates[estimate_index(links, from, to, pinned)];
}

tdm_link_estimate *tdm_links_all_reduce(tdm_links *links) {
  return &links->all_reduce;
}

void tdm_links_adopt(tdm_links *links, const tdm_links *measured) {
  (void)pthread_mutex_lock(&links->mutex);
  for (size_t i = 0; i < estimate_count(links); i++) {
    if (measured->estimates[i].origin == TDM_LINK_CALIBRATED)
      links->estimates[i] = measured->estimates[i];
  }
  if (measured->all_reduce.origin == TDM_LINK_CALIBRATED) links->all_reduce = measured->all_reduce;
  (void)pthread_mutex_unlock(&links->mutex);
}

void tdm_context_link(tdm_context *context, const tdm_device *from, const tdm_device *to,
                      bool pinned, tdm_link_estimate *out_estimate) {
  tdm_links *links = tdm_context_links(context);
  if (from->rank != to->rank) { /* the link of different ranks is their machines' network */
    from = tdm_context_host_of(context, from->rank);
    to = tdm_context_host_of(context, to->rank);
  }
  (void)pthread_mutex_lock(&links->mutex);
  *out_estimate = links->estimates[estimate_index(links, from, to, pinned)];
  (void)pthread_mutex_unlock(&links->mutex);
}

bool tdm_context_all_reduce(tdm_context *context, tdm_link_estimate *out_estimate) {
  tdm_links *links = tdm_context_links(context);
  (void)pthread_mutex_lock(&links->mutex);
  const bool measured = links->all_reduce.origin == TDM_LINK_CALIBRATED;
  if (measured) *out_estimate = links->all_reduce;
  (void)pthread_mutex_unlock(&links->mutex);
  return measured;
}

/* ---- The key --------------------------------------------------------------------------------- */

static uint64_t hash_device(const tdm_context *context, const tdm_device *device, uint64_t hash) {
  hash = tdm_hash_string(device->name, hash);
  hash = tdm_hash_string(device->identity, hash);
  hash = tdm_hash_mix(hash, (uint64_t)device->node);
  const tdm_core_range *cores = tdm_context_cores(context, device);
  if (!device->host_addressable || !cores) return hash;
  return tdm_hash_mix(hash, ((uint64_t)cores->first << 32 | cores->count) * 2 + cores->units);
}

uint64_t tdm_links_key(tdm_context *context) {
  uint64_t hash = tdm_topology_key(tdm_context_topology(context));
  for (size_t i = 0; i < tdm_device_count(context); i++)
    hash = hash_device(context, tdm_context_device(context, i), hash);
  return tdm_context_rank_count(context) > 1 ? tdm_network_hash(tdm_context_network(context), hash)
                                             : hash;
}
