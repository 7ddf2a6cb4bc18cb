/* The table of cases, after those of NVIDIA's nvbandwidth, over the kinds of devices that there
 * are. Reading and writing differ in whose queue carries the copy: the destination's reads, the
 * source's writes. */
#include "bench/transfer/cases.h"

#include "bench/transfer/options.h"
#include "devices/context/route.h"

/* ---- Hops ------------------------------------------------------------------------------------ */

static void add_hop(group *one, tdm_device *from, tdm_device *to, bool counted) {
  if (one->hop_count == MOST_HOPS) return; /* 64 hops at once exceed the devices of any machine */
  one->hops[one->hop_count++] =
      (hop){.from = from, .to = to, .queue = tdm_direct_queue(from, to), .counted = counted};
}

/* Returns the queue of the source that copies to devices of its kind. */
static tdm_queue *writing_queue(tdm_device *from) {
  tdm_queue *peer = from->queues[TDM_QUEUE_PEER];
  return peer ? peer : from->queues[TDM_QUEUE_COMPUTE];
}

static tdm_device *device_at(const case_walk *walk, size_t index) {
  return tdm_context_device(walk->context, index);
}

static bool is_host(const case_walk *walk, size_t index) {
  const tdm_device *device = device_at(walk, index);
  return device->host_addressable && list_has(walk->devices, device->name);
}

static bool is_accelerator(const case_walk *walk, size_t index) {
  const tdm_device *device = device_at(walk, index);
  return !device->host_addressable && list_has(walk->devices, device->name);
}

/* Calls visit for each pair (i, j) of the classes that the two questions describe. */
typedef struct pair_shape {
  bool (*is_from)(const case_walk *walk, size_t index);
  bool (*is_to)(const case_walk *walk, size_t index);
  bool same_device; /* pairs (i, i), not the others; only where both are one class */
  bool same_kind;   /* only pairs of different devices of the same kind */
  bool backwards;   /* adds uncounted copies in the other direction */
  bool writes;
} pair_shape;

static bool fits(const case_walk *walk, const pair_shape *shape, size_t i, size_t j) {
  if (!shape->is_from(walk, i) || !shape->is_to(walk, j)) return false;
  if (shape->same_device) return i == j;
  if (!shape->same_kind) return true;
  return i != j && tdm_device_same_kind(device_at(walk, i), device_at(walk, j));
}

static tdm_status visit_pairs(const case_walk *walk, const pair_shape *shape) {
  const size_t count = tdm_device_count(walk->context);
  for (size_t i = 0; i < count; i++) {
    for (size_t j = 0; j < count; j++) {
      if (!fits(walk, shape, i, j)) continue;
      group one = {.hop_count = 0};
      add_hop(&one, device_at(walk, i), device_at(walk, j), true);
      if (shape->writes) one.hops[0].queue = writing_queue(device_at(walk, i));
      if (shape->backwards) add_hop(&one, device_at(walk, j), device_at(walk, i), false);
      TDM_TRY(walk->visit(walk->user, &one));
    }
  }
  return TDM_OK;
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

static tdm_status host_to_device(const case_walk *walk) {
  return visit_pairs(walk, &(pair_shape){.is_from = is_host, .is_to = is_accelerator});
}

static tdm_status device_to_host(const case_walk *walk) {
  return visit_pairs(walk, &(pair_shape){.is_from = is_accelerator, .is_to = is_host});
}

static tdm_status host_to_device_bidirectional(const case_walk *walk) {
  return visit_pairs(walk,
                     &(pair_shape){.is_from = is_host, .is_to = is_accelerator, .backwards = true});
}

static tdm_status device_to_host_bidirectional(const case_walk *walk) {
  return visit_pairs(walk,
                     &(pair_shape){.is_from = is_accelerator, .is_to = is_host, .backwards = true});
}

static tdm_status device_to_device_read(const case_walk *walk) {
  return visit_pairs(
      walk, &(pair_shape){.is_from = is_accelerator, .is_to = is_accelerator, .same_kind = true});
}

static tdm_status device_to_device_write(const case_walk *walk) {
  return visit_pairs(walk, &(pair_shape){.is_from = is_accelerator,
                                         .is_to = is_accelerator,
                                         .same_kind = true,
                                         .writes = true});
}

static tdm_status device_to_device_bidirectional(const case_walk *walk) {
  return visit_pairs(walk, &(pair_shape){.is_from = is_accelerator,
                                         .is_to = is_accelerator,
                                         .same_kind = true,
                                         .backwards = true});
}

static tdm_status device_local_copy(const case_walk *walk) {
  return visit_pairs(
      walk, &(pair_shape){.is_from = is_accelerator, .is_to = is_accelerator, .same_device = true});
}

static tdm_status host_to_host(const case_walk *walk) {
  return visit_pairs(walk, &(pair_shape){.is_from = is_host, .is_to = is_host});
}

/* ---- Concurrent copies ----------------------------------------------------------------------- */

/* One group for each cpu device, with every accelerator. A single one is the pair again: left out.
 */
static tdm_status visit_host_and_all(const case_walk *walk, bool up, bool down, bool count_up) {
  const size_t count = tdm_device_count(walk->context);
  for (size_t i = 0; i < count; i++) {
    if (!is_host(walk, i)) continue;
    group one = {.hop_count = 0};
    size_t accelerators = 0;
    for (size_t j = 0; j < count; j++) {
      if (!is_accelerator(walk, j)) continue;
      accelerators++;
      if (up) add_hop(&one, device_at(walk, i), device_at(walk, j), count_up);
      if (down) add_hop(&one, device_at(walk, j), device_at(walk, i), !count_up);
    }
    if (accelerators > 1) TDM_TRY(walk->visit(walk->user, &one));
  }
  return TDM_OK;
}

static tdm_status host_to_all(const case_walk *walk) {
  return visit_host_and_all(walk, true, false, true);
}

static tdm_status all_to_host(const case_walk *walk) {
  return visit_host_and_all(walk, false, true, false);
}

static tdm_status host_to_all_bidirectional(const case_walk *walk) {
  return visit_host_and_all(walk, true, true, true);
}

static tdm_status all_to_host_bidirectional(const case_walk *walk) {
  return visit_host_and_all(walk, true, true, false);
}

/* Visits a group of each accelerator with all others of its kind, if there are at least two. */
static tdm_status visit_one_and_all(const case_walk *walk, bool from_one) {
  const size_t count = tdm_device_count(walk->context);
  for (size_t i = 0; i < count; i++) {
    if (!is_accelerator(walk, i)) continue;
    group one = {.hop_count = 0};
    for (size_t j = 0; j < count; j++) {
      if (j == i || !is_accelerator(walk, j)) continue;
      if (!tdm_device_same_kind(device_at(walk, i), device_at(walk, j))) continue;
      add_hop(&one, device_at(walk, from_one ? i : j), device_at(walk, from_one ? j : i), true);
    }
    if (one.hop_count > 1) TDM_TRY(walk->visit(walk->user, &one));
  }
  return TDM_OK;
}

static tdm_status one_to_all(const case_walk *walk) {
  return visit_one_and_all(walk, true);
}

static tdm_status all_to_one(const case_walk *walk) {
  return visit_one_and_all(walk, false);
}

/* ---- The table ------------------------------------------------------------------------------- */

const transfer_case transfer_cases[] = {
    {"host_to_device", "uploads", true, false, host_to_device},
    {"device_to_host", "downloads", true, false, device_to_host},
    {"host_to_device_bidirectional", "uploads, while the other direction is busy", true, false,
     host_to_device_bidirectional},
    {"device_to_host_bidirectional", "downloads, while the other direction is busy", true, false,
     device_to_host_bidirectional},
    {"host_to_all", "uploads to all devices at once", true, false, host_to_all},
    {"all_to_host", "downloads from all devices at once", true, false, all_to_host},
    {"host_to_all_bidirectional", "uploads to all devices at once, downloads beside them", true,
     false, host_to_all_bidirectional},
    {"all_to_host_bidirectional", "downloads from all devices at once, uploads beside them", true,
     false, all_to_host_bidirectional},
    {"device_to_device_read", "between devices of a kind, by the destination", false, false,
     device_to_device_read},
    {"device_to_device_write", "between devices of a kind, by the source", false, false,
     device_to_device_write},
    {"device_to_device_bidirectional", "between devices of a kind, the other direction busy", false,
     false, device_to_device_bidirectional},
    {"one_to_all", "from one device to all others of its kind at once", false, false, one_to_all},
    {"all_to_one", "to one device from all others of its kind at once", false, false, all_to_one},
    {"device_local_copy", "inside one device", false, false, device_local_copy},
    {"host_to_host", "between cpu devices, and inside each", false, false, host_to_host},
    {"host_to_device_latency", "one small upload, from submitting it to seeing it done", true, true,
     host_to_device},
    {"device_to_host_latency", "one small download, from submitting it to seeing it done", true,
     true, device_to_host},
    {"device_to_device_latency", "one small copy between devices, until it is seen done", false,
     true, device_to_device_read},
};
const size_t transfer_case_count = TDM_COUNT_OF(transfer_cases);
