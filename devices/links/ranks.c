/* Links between the ranks of a job: measured, or read by rank 0 from the file of a former job on
 * the same machines. Invariant: all ranks get the same figures, by which all make the same plans.
 * The rank that measured or read them sends them to the others, and if one rank fails, nothing
 * changes on any.
 *
 * Latency is measured by single round trips, and for a sum by single sums. The time of bytes is
 * measured by trains of every fourth size, after a message that is not timed: a rate-limited link
 * lets some bytes pass at once after a pause, which messages of a plan do not benefit from. Trains
 * in both directions at once show whether each direction has its own rate. */
#include <math.h>
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
  AHEAD_BYTES = 256 << 10, /* size of the message that precedes a train */
  TRAIN_BYTES = 256 << 10, /* total of a train's messages, unless one of them is larger */
  LEAST_MESSAGES = 2,
  TRIP_FLIGHTS = 5, /* enough that both ranks keep their cores in one of them */
  LEAST_TRAINS = 3,
  MOST_TRAINS = 15,
  BOTH_TRAINS = 3,           /* trains in one direction; as many in both, alternating */
  BOTH_LENGTH = 2,           /* times a train: TCP takes some round trips to find its rate */
  SIZE_NS = 200000000,       /* time for the trains of a size, if more than the minimum fit */
  MOST_TRAIN_NS = 400000000, /* a size whose trains would take longer is skipped */
};
_Static_assert(TRAIN_BYTES / LEAST_BYTES <= TDM_RANK_TRAIN_MOST_MESSAGES, "a train has its room");

typedef enum order_kind { END, TRIPS, TRAIN, BOTH_WAYS } order_kind;

/* A request from the leading rank to the other one. */
typedef struct order {
  uint64_t kind;
  uint64_t bytes;
  uint64_t count; /* number of trips or messages */
  uint64_t ahead_bytes;
} order;

typedef struct ranks_links {
  tdm_context *context;
  tdm_network *network;
  int rank_count;
  tdm_link_estimate *pairs;      /* (rank_count, rank_count): from the lower rank to the higher */
  tdm_link_estimate *all_reduce; /* after them */
  void *memory;                  /* (most_bytes); NULL: nothing is measured */
  size_t most_bytes;
  tdm_link_sample samples[TDM_LINK_MOST_KNOTS * MOST_TRAINS];
  size_t sample_count;
} ranks_links;

static tdm_link_estimate *pair_at(const ranks_links *links, int a, int b) {
  const int low = a < b ? a : b;
  const int high = a < b ? b : a;
  return &links->pairs[(size_t)low * (size_t)links->rank_count + (size_t)high];
}

static size_t pairs_bytes(const ranks_links *links) {
  const size_t ranks = (size_t)links->rank_count;
  return (ranks * ranks + 1) * sizeof(tdm_link_estimate);
}

static uint64_t ahead_bytes(const ranks_links *links) {
  return links->most_bytes < AHEAD_BYTES ? links->most_bytes : AHEAD_BYTES;
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
  if (!links->pairs) {
    release(links);
    return NULL;
  }
  links->all_reduce = links->pairs + (size_t)links->rank_count * (size_t)links->rank_count;
  return links;
}

/* ---- Publishing ------------------------------------------------------------------------------ */

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
  set->all_reduce = *links->all_reduce;
  return TDM_OK;
}

/* Publishes on all ranks, or on none if memory is short on one of them. */
static tdm_status publish(const ranks_links *links) {
  tdm_link_set set = {.estimates = NULL};
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
                                .trips = (uint32_t)asked->count};
  return tdm_rank_trial_run(&trial, out_ns);
}

static tdm_status make_train(const ranks_links *links, int peer, bool leads, const order *asked,
                             double *out_ns) {
  const tdm_rank_train train = {.context = links->context,
                                .peer = peer,
                                .leads = leads,
                                .both_ways = asked->kind == BOTH_WAYS,
                                .memory = links->memory,
                                .ahead_bytes = (size_t)asked->ahead_bytes,
                                .bytes = (size_t)asked->bytes,
                                .messages = (uint32_t)asked->count};
  return tdm_rank_train_run(&train, out_ns);
}

/* out_ns (TDM_RANK_TRIAL_MOST_TRIPS): one time per trip; for a train only the first, its total. */
static tdm_status make(const ranks_links *links, int peer, bool leads, const order *asked,
                       double *out_ns) {
  const tdm_status status =
      (asked->kind == TRIPS ? make_trips : make_train)(links, peer, leads, asked, out_ns);
  tdm_network_give_up(links->network, status); /* the peer may be waiting for a message */
  return status;
}

static tdm_status lead_one(ranks_links *links, int peer, const order *asked, double *out_ns) {
  order told = *asked;
  TDM_TRY(tdm_network_pass(links->network, tdm_context_rank(links->context), peer, &told,
                           sizeof(told)));
  return asked->kind == END ? TDM_OK : make(links, peer, true, asked, out_ns);
}

static int compare_ns(const void *a, const void *b) {
  const double left = *(const double *)a;
  const double right = *(const double *)b;
  return (left > right) - (left < right);
}

/* Measures the latency of a single message on an idle link. */
static tdm_status lead_trips(ranks_links *links, int peer, tdm_link_latency *out_latency) {
  const order asked = {.kind = TRIPS, .bytes = LEAST_BYTES, .count = TDM_RANK_TRIAL_MOST_TRIPS};
  for (int flight = 0; flight < TRIP_FLIGHTS; flight++) {
    double ns[TDM_RANK_TRIAL_MOST_TRIPS];
    TDM_TRY(lead_one(links, peer, &asked, ns));
    tdm_link_note_flight(&ns[1], TDM_RANK_TRIAL_MOST_TRIPS - 1, out_latency);
  }
  return TDM_OK;
}

/* Describes a train whose messages fill TRAIN_BYTES. */
static order train_of(const ranks_links *links, uint64_t bytes) {
  const uint64_t fill = TRAIN_BYTES / bytes;
  return (order){.kind = TRAIN,
                 .bytes = bytes,
                 .count = fill > LEAST_MESSAGES ? fill : LEAST_MESSAGES,
                 .ahead_bytes = ahead_bytes(links)};
}

/* Returns how many trains fit into the time, judging by the first. */
static size_t choose_trains(double first_ns) {
  return (size_t)fmax(LEAST_TRAINS, fmin(MOST_TRAINS, SIZE_NS / first_ns));
}

/* Returns the time per message from the middle third. A train seems too fast if this rank noticed
 * late that the preceding message had arrived, and other activity makes trains slower. */
static double keep_middle(ranks_links *links, const order *asked, double *ns, size_t count) {
  qsort(ns, count, sizeof(double), compare_ns);
  for (size_t i = count / 3; i < count - count / 3; i++)
    links->samples[links->sample_count++] =
        (tdm_link_sample){.bytes = (double)asked->bytes, .ns = ns[i] / (double)asked->count};
  return ns[count / 2] / (double)asked->count;
}

/* Returns true if there is a next size, given that a message of the previous size took last_ns. */
static bool has_next(const ranks_links *links, uint64_t bytes, int sizes, double last_ns) {
  if (bytes > links->most_bytes) return false;
  return sizes < LEAST_SIZES || LEAST_MESSAGES * GROWTH * last_ns <= MOST_TRAIN_NS;
}

static tdm_status lead_size(ranks_links *links, int peer, uint64_t bytes, double *out_ns) {
  double ns[MOST_TRAINS];
  const order asked = train_of(links, bytes);
  size_t count = 0, wanted = MOST_TRAINS;
  while (count < wanted) {
    TDM_TRY(lead_one(links, peer, &asked, &ns[count++]));
    if (count == 1) wanted = choose_trains(ns[0]);
  }
  *out_ns = keep_middle(links, &asked, ns, count);
  return TDM_OK;
}

static tdm_status lead_sizes(ranks_links *links, int peer, uint64_t *out_largest) {
  double last_ns = 1;
  int sizes = 0;
  links->sample_count = 0;
  for (uint64_t bytes = LEAST_BYTES; has_next(links, bytes, sizes++, last_ns); bytes *= GROWTH) {
    TDM_TRY(lead_size(links, peer, bytes, &last_ns));
    *out_largest = bytes;
  }
  return TDM_OK;
}

/* Measures trains of the largest messages in one direction and in both, in turns, so that other
 * activity affects both equally. */
static tdm_status lead_both_ways(ranks_links *links, int peer, uint64_t largest,
                                 double *out_alone_ns, double *out_both_ns) {
  double alone_ns[BOTH_TRAINS], both_ns[BOTH_TRAINS];
  const uint64_t half = links->most_bytes / 2;
  order asked = train_of(links, largest < half ? largest : half);
  if (asked.ahead_bytes > half) asked.ahead_bytes = half;
  asked.count *= BOTH_LENGTH;
  if (asked.count > TDM_RANK_TRAIN_MOST_MESSAGES) asked.count = TDM_RANK_TRAIN_MOST_MESSAGES;
  for (size_t i = 0; i < BOTH_TRAINS; i++) {
    asked.kind = TRAIN;
    TDM_TRY(lead_one(links, peer, &asked, &alone_ns[i]));
    asked.kind = BOTH_WAYS;
    TDM_TRY(lead_one(links, peer, &asked, &both_ns[i]));
  }
  qsort(alone_ns, BOTH_TRAINS, sizeof(double), compare_ns);
  qsort(both_ns, BOTH_TRAINS, sizeof(double), compare_ns);
  *out_alone_ns = alone_ns[BOTH_TRAINS / 2];
  *out_both_ns = both_ns[BOTH_TRAINS / 2];
  return TDM_OK;
}

static tdm_status lead(ranks_links *links, int peer) {
  double alone_ns = 0, both_ns = 0;
  tdm_link_latency latency = {0};
  uint64_t largest = LEAST_BYTES;
  tdm_link_estimate *pair = pair_at(links, tdm_context_rank(links->context), peer);
  TDM_TRY(lead_trips(links, peer, &latency));
  TDM_TRY(lead_sizes(links, peer, &largest));
  TDM_TRY(lead_both_ways(links, peer, largest, &alone_ns, &both_ns));
  TDM_TRY(lead_one(links, peer, &(order){.kind = END}, NULL));
  TDM_TRY(tdm_link_fit(links->samples, links->sample_count, pair));
  tdm_link_set_latency(pair, latency);
  tdm_link_set_both_ways(pair, alone_ns, both_ns);
  return TDM_OK;
}

static tdm_status follow(ranks_links *links, int peer) {
  double ns[TDM_RANK_TRIAL_MOST_TRIPS];
  const int rank = tdm_context_rank(links->context);
  for (;;) {
    order asked = {0};
    TDM_TRY(tdm_network_pass(links->network, peer, rank, &asked, sizeof(asked)));
    if (asked.kind == END) return TDM_OK;
    TDM_TRY(make(links, peer, false, &asked, ns));
  }
}

/* ---- Sums over all ranks --------------------------------------------------------------------- */

static tdm_status sum_once(const ranks_links *links, const order *asked, double *out_ns) {
  const tdm_rank_sums sums = {.context = links->context,
                              .memory = links->memory,
                              .ahead_bytes = (size_t)asked->ahead_bytes,
                              .bytes = (size_t)asked->bytes,
                              .count = (uint32_t)asked->count};
  const tdm_status status = tdm_rank_sums_run(&sums, out_ns);
  tdm_network_give_up(links->network, status);
  return status;
}

/* Rank 0 determines how often. */
static tdm_status sum_size(ranks_links *links, const order *asked, double *out_last_ns) {
  double ns[MOST_TRAINS];
  uint64_t wanted = MOST_TRAINS;
  size_t count = 0;
  while (count < wanted) {
    TDM_TRY(sum_once(links, asked, &ns[count++]));
    if (count > 1) continue;
    wanted = choose_trains(ns[0]);
    TDM_TRY(tdm_network_pass(links->network, 0, -1, &wanted, sizeof(wanted)));
  }
  *out_last_ns = keep_middle(links, asked, ns, count);
  return TDM_OK;
}

/* Measures a single sum, after one that synchronizes all ranks. */
static tdm_status sum_alone(const ranks_links *links, tdm_link_latency *out_latency) {
  double ns[TDM_RANK_TRIAL_MOST_TRIPS];
  const order asked = {.bytes = LEAST_BYTES, .count = 1, .ahead_bytes = LEAST_BYTES};
  for (size_t i = 0; i < TDM_RANK_TRIAL_MOST_TRIPS; i++)
    TDM_TRY(sum_once(links, &asked, &ns[i]));
  tdm_link_note_flight(ns, TDM_RANK_TRIAL_MOST_TRIPS, out_latency);
  return TDM_OK;
}

static tdm_status measure_sums(ranks_links *links) {
  double last_ns = 1;
  int sizes = 0;
  links->sample_count = 0;
  tdm_link_latency latency = {0};
  memset(links->memory, 0, links->most_bytes);
  TDM_TRY(sum_alone(links, &latency));
  for (uint64_t bytes = LEAST_BYTES;; bytes *= GROWTH) {
    uint64_t more = has_next(links, bytes, sizes++, last_ns);
    TDM_TRY(tdm_network_pass(links->network, 0, -1, &more, sizeof(more)));
    if (!more) break;
    const order asked = train_of(links, bytes);
    TDM_TRY(sum_size(links, &asked, &last_ns));
  }
  tdm_status status = TDM_OK;
  if (tdm_context_rank(links->context) == 0)
    status = tdm_link_fit(links->samples, links->sample_count, links->all_reduce);
  if (status == TDM_OK) tdm_link_set_latency(links->all_reduce, latency);
  TDM_TRY(tdm_network_agree(links->network, status));
  return tdm_network_pass(links->network, 0, -1, links->all_reduce, sizeof(*links->all_reduce));
}

/* ---- All pairs ------------------------------------------------------------------------------- */

static bool same_hosts(const ranks_links *links, int a, int b, int c, int d) {
  const tdm_network *network = links->network;
  return strcmp(tdm_network_host(network, a), tdm_network_host(network, c)) == 0 &&
         strcmp(tdm_network_host(network, b), tdm_network_host(network, d)) == 0;
}

/* Returns a pair of ranks before (a, b) on the same two machines, or NULL if there is none. */
static const tdm_link_estimate *find_alike(const ranks_links *links, int a, int b) {
  for (int c = 0; c <= a; c++)
    for (int d = c + 1; d < (c == a ? b : links->rank_count); d++)
      if (same_hosts(links, a, b, c, d) || same_hosts(links, a, b, d, c))
        return pair_at(links, c, d);
  return NULL;
}

/* Measures one pair at a time, so that pairs do not disturb each other. All ranks take part. */
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
  TDM_TRY(measure_sums(links));
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

/* ---- Distributing rank 0's links ------------------------------------------------------------- */

/* Uses what rank 0 has read. If its file has different links for devices of one pair of ranks,
 * which is not written here, those of the ranks' first devices are used. */
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
  any |= tdm_context_all_reduce(context, links->all_reduce);
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
