/* Links between the ranks of a job: measured by round trips of messages of every fourth size, or
 * read by rank 0 from the file of a former job on the same machines. Invariant: all ranks come to
 * the same figures, by which all plan alike: who measured or read them tells the others, and where
 * one rank fails nothing changes on any. */
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "devices/context/context.h"
#include "devices/links/fit.h"
#include "devices/links/table.h"
#include "devices/links/trial.h"
#include "devices/network/network.h"

enum {
  LEAST_BYTES = 1 << 10,
  DEFAULT_MOST_BYTES = 16 << 20,
  GROWTH = 4,
  LEAST_SIZES = 3,
  LEAST_TRIPS = 4, /* of which the first is not counted */
  SIZE_NS = 200000000,
  MOST_TRIP_NS = 400000000, /* a size whose round trip would take longer is left out */
};

/* What the rank that leads tells the other one: bytes 0 is the end. */
typedef struct order {
  uint64_t bytes;
  uint64_t trips;
} order;

typedef struct ranks_links {
  tdm_context *context;
  tdm_network *network;
  int rank_count;
  tdm_link_estimate *pairs; /* (rank_count, rank_count): from the lower rank to the higher */
  void *memory;             /* (most_bytes); NULL: nothing is measured */
  size_t most_bytes;
  tdm_link_sample samples[TDM_LINK_MOST_KNOTS * TDM_RANK_TRIAL_MOST_TRIPS];
  size_t sample_count;
} ranks_links;

static tdm_link_estimate *pair_at(const ranks_links *links, int a, int b) {
  const int low = a < b ? a : b;
  const int high = a < b ? b : a;
  return &links->pairs[(size_t)low * (size_t)links->rank_count + (size_t)high];
}

static size_t pairs_bytes(const ranks_links *links) {
  return (size_t)links->rank_count * (size_t)links->rank_count * sizeof(tdm_link_estimate);
}

static void release(ranks_links *links) {
  const tdm_allocator *allocator = tdm_context_allocator(links->context);
  if (links->memory) tdm_release(allocator, links->memory, links->most_bytes);
  if (links->pairs) tdm_release(allocator, links->pairs, pairs_bytes(links));
  tdm_release(allocator, links, sizeof(*links));
}

static ranks_links *create(tdm_context *context) {
  const tdm_allocator *allocator = tdm_context_allocator(context);
  ranks_links *links = tdm_allocate(allocator, sizeof(*links), "links between ranks");
  if (!links) return NULL;
  links->context = context;
  links->network = tdm_context_network(context);
  links->rank_count = tdm_context_rank_count(context);
  links->pairs = tdm_allocate(allocator, pairs_bytes(links), "links between ranks");
  if (links->pairs) return links;
  release(links);
  return NULL;
}

/* ---- Making them the context's --------------------------------------------------------------- */

static void set_pair(const ranks_links *links, tdm_link_set *set, const tdm_device *from,
                     const tdm_device *to) {
  const tdm_link_estimate *pair = pair_at(links, from->rank, to->rank);
  tdm_link_estimate *estimate = tdm_link_set_at(set, from, to, false);
  if (estimate && pair->origin == TDM_LINK_CALIBRATED) *estimate = *pair;
}

static tdm_status make_set(const ranks_links *links, tdm_link_set *set) {
  TDM_TRY(tdm_link_set_init(set, tdm_context_links(links->context)));
  const size_t count = tdm_device_count(links->context);
  for (size_t i = 0; i < count * count; i++) {
    const tdm_device *from = tdm_context_device(links->context, i / count);
    const tdm_device *to = tdm_context_device(links->context, i % count);
    if (from->rank != to->rank) set_pair(links, set, from, to);
  }
  return TDM_OK;
}

/* On all ranks or, where memory is short on one, on none. */
static tdm_status publish(const ranks_links *links) {
  tdm_link_set set = {NULL};
  const tdm_status made = make_set(links, &set);
  const tdm_status status = tdm_network_agree(links->network, made);
  if (status == TDM_OK) tdm_link_set_publish(&set);
  if (made == TDM_OK) tdm_link_set_deinit(&set);
  return status;
}

/* ---- Measuring a pair ------------------------------------------------------------------------ */

static tdm_status make_trips(const ranks_links *links, int peer, bool leads, const order *asked,
                             double *out_ns) {
  const tdm_rank_trial trial = {.context = links->context,
                                .peer = peer,
                                .leads = leads,
                                .memory = links->memory,
                                .bytes = (size_t)asked->bytes,
                                .trips = (uint32_t)asked->trips};
  const tdm_status status = tdm_rank_trial_run(&trial, out_ns);
  tdm_network_give_up(links->network, status); /* the peer may be waiting for a message */
  return status;
}

/* As many as fit in the time for a size, by what a message of the last size took. */
static uint64_t choose_trips(double last_ns) {
  const double trips = SIZE_NS / (2 * GROWTH * last_ns);
  if (trips <= LEAST_TRIPS) return LEAST_TRIPS;
  return trips < TDM_RANK_TRIAL_MOST_TRIPS ? (uint64_t)trips : TDM_RANK_TRIAL_MOST_TRIPS;
}

static int compare_ns(const void *a, const void *b) {
  const double left = *(const double *)a;
  const double right = *(const double *)b;
  return (left > right) - (left < right);
}

static tdm_status lead_size(ranks_links *links, int peer, const order *asked, double *out_last_ns) {
  double ns[TDM_RANK_TRIAL_MOST_TRIPS];
  int rank = tdm_context_rank(links->context);
  order told = *asked;
  TDM_TRY(tdm_network_pass(links->network, rank, peer, &told, sizeof(told)));
  TDM_TRY(make_trips(links, peer, true, asked, ns));
  /* What else runs on the two machines only makes messages slower: the quickest third counts. */
  const size_t trips = (size_t)asked->trips - 1;
  qsort(&ns[1], trips, sizeof(double), compare_ns);
  for (size_t i = 0; i < (trips + 2) / 3; i++)
    links->samples[links->sample_count++] =
        (tdm_link_sample){.bytes = (double)asked->bytes, .ns = ns[1 + i]};
  *out_last_ns = ns[1];
  return TDM_OK;
}

static tdm_status lead(ranks_links *links, int peer) {
  double last_ns = 1;
  int sizes = 0;
  links->sample_count = 0;
  tdm_status status = TDM_OK;
  for (uint64_t bytes = LEAST_BYTES; bytes <= links->most_bytes && status == TDM_OK;
       bytes *= GROWTH) {
    if (sizes++ >= LEAST_SIZES && 2 * GROWTH * last_ns > MOST_TRIP_NS) break;
    status = lead_size(links, peer, &(order){bytes, choose_trips(last_ns)}, &last_ns);
  }
  order end = {0};
  TDM_TRY(status);
  TDM_TRY(
      tdm_network_pass(links->network, tdm_context_rank(links->context), peer, &end, sizeof(end)));
  return tdm_link_fit(links->samples, links->sample_count,
                      pair_at(links, tdm_context_rank(links->context), peer));
}

static tdm_status follow(ranks_links *links, int peer) {
  double ns[TDM_RANK_TRIAL_MOST_TRIPS];
  const int rank = tdm_context_rank(links->context);
  for (;;) {
    order asked = {0};
    TDM_TRY(tdm_network_pass(links->network, peer, rank, &asked, sizeof(asked)));
    if (asked.bytes == 0) return TDM_OK;
    TDM_TRY(make_trips(links, peer, false, &asked, ns));
  }
}

/* ---- All pairs ------------------------------------------------------------------------------- */

static bool same_hosts(const ranks_links *links, int a, int b, int c, int d) {
  const tdm_network *network = links->network;
  return strcmp(tdm_network_host(network, a), tdm_network_host(network, c)) == 0 &&
         strcmp(tdm_network_host(network, b), tdm_network_host(network, d)) == 0;
}

/* A pair before (a, b) of ranks on the same two machines; NULL: there is none. */
static const tdm_link_estimate *find_alike(const ranks_links *links, int a, int b) {
  for (int c = 0; c <= a; c++)
    for (int d = c + 1; d < (c == a ? b : links->rank_count); d++)
      if (same_hosts(links, a, b, c, d) || same_hosts(links, a, b, d, c))
        return pair_at(links, c, d);
  return NULL;
}

/* One pair at a time, so that none disturbs another; all ranks take part. */
static tdm_status measure_pair(ranks_links *links, int a, int b) {
  const int rank = tdm_context_rank(links->context);
  tdm_status status = TDM_OK;
  if (rank == a) status = lead(links, b);
  if (rank == b) status = follow(links, a);
  TDM_TRY(tdm_network_agree(links->network, status));
  return tdm_network_pass(links->network, a, -1, pair_at(links, a, b), sizeof(tdm_link_estimate));
}

static tdm_status measure_all(ranks_links *links) {
  for (int a = 0; a < links->rank_count; a++) {
    for (int b = a + 1; b < links->rank_count; b++) {
      const tdm_link_estimate *alike = find_alike(links, a, b);
      if (alike) {
        *pair_at(links, a, b) = *alike;
        continue;
      }
      TDM_TRY(measure_pair(links, a, b));
    }
  }
  return publish(links);
}

static tdm_status prepare(tdm_context *context, size_t most_bytes, ranks_links **out_links) {
  ranks_links *links = *out_links = create(context);
  if (!links) return TDM_OUT_OF_MEMORY;
  links->most_bytes = most_bytes > 0 ? most_bytes : DEFAULT_MOST_BYTES;
  links->memory =
      tdm_allocate(tdm_context_allocator(context), links->most_bytes, "calibrating links");
  if (!links->memory) return TDM_OUT_OF_MEMORY;
  if (most_bytes > 0 && most_bytes < LEAST_BYTES * GROWTH)
    return tdm_fail(TDM_INVALID_ARGUMENT, "links are measured by two sizes at least");
  return tdm_context_start(context);
}

tdm_status tdm_links_calibrate_ranks(tdm_context *context, size_t most_bytes) {
  ranks_links *links = NULL;
  tdm_status status =
      tdm_network_agree(tdm_context_network(context), prepare(context, most_bytes, &links));
  if (status == TDM_OK) status = measure_all(links);
  if (links) release(links);
  return status == TDM_OK ? TDM_OK : tdm_fail_within(status, "calibrating links between ranks");
}

/* ---- Telling --------------------------------------------------------------------------------- */

/* What rank 0 has read. Links of its file that differ among devices of one pair of ranks, which it
 * does not write, are those of the ranks' first devices. */
static bool take_read(ranks_links *links) {
  tdm_context *context = links->context;
  bool any = false;
  for (int a = 0; a < links->rank_count; a++) {
    for (int b = a + 1; b < links->rank_count; b++) {
      tdm_link_estimate *pair = pair_at(links, a, b);
      tdm_context_link(context, tdm_context_host_of(context, a), tdm_context_host_of(context, b),
                       false, pair);
      any |= pair->origin == TDM_LINK_CALIBRATED;
    }
  }
  tdm_links_forget(tdm_context_links(context));
  return any;
}

tdm_status tdm_links_tell(tdm_context *context, tdm_status read) {
  ranks_links *links = create(context);
  tdm_status status =
      tdm_network_agree(tdm_context_network(context), links ? read : TDM_OUT_OF_MEMORY);
  uint64_t any = status == TDM_OK && tdm_context_rank(context) == 0 && take_read(links);
  if (status == TDM_OK) status = tdm_network_pass(links->network, 0, -1, &any, sizeof(any));
  if (status == TDM_OK && any) {
    status = tdm_network_pass(links->network, 0, -1, links->pairs, pairs_bytes(links));
    if (status == TDM_OK) status = publish(links);
  }
  if (links) release(links);
  return status;
}
