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
#include <string.h>

#include "core/allocate.h"
#include "devices/context/context.h"
#include "devices/links/fit.h"
#include "devices/links/table.h"
#include "devices/links/trial.h"
#include "devices/network/network.h"

enum {
  ALL = -1, /* instead of a peer: all ranks */
  LEAST_BYTES = 1 << 10,
  DEFAULT_MOST_BYTES = 16 << 20,
  GROWTH = 4,
  LEAST_SIZES = 3,
  AHEAD_BYTES = 256 << 10, /* size of the message that precedes a train */
  TRAIN_BYTES = 256 << 10, /* total of a train's messages, unless one of them is larger */
  LEAST_MESSAGES = 2,
  TRIP_FLIGHTS = 5, /* enough that both ranks keep their cores in one of them */
  SINGLE_SUMS = 16,
  LEAST_TRAINS = 3,
  MOST_TRAINS = 15,
  BOTH_TRAINS = 3,           /* trains in one direction; as many in both, alternating */
  BOTH_LENGTH = 2,           /* times a train: TCP takes some round trips to find its rate */
  SIZE_NS = 200000000,       /* time for the trains of a size, if more than the minimum fit */
  MOST_TRAIN_NS = 400000000, /* a size whose trains would take longer is skipped */
};
_Static_assert(TRAIN_BYTES / LEAST_BYTES <= TDM_RANK_TRAIN_MOST_MESSAGES, "a train has its room");

/* A shared link takes twice as long with traffic both ways. On a link that carries both directions
 * at once, short trains took 1.5 times as long at 50 Mbit/s (TCP may still have been finding its
 * rate). Messages of steps took hardly any longer. */
static const double shared_ratio = 1.6;

/* Other activity on two machines only slows messages down, so latency is the middle of the quickest
 * third. */
static const double quick_share = 1.0 / 6;

typedef enum order_kind { END, TRIPS, TRAIN, BOTH_WAYS, SUMS } order_kind;

/* A request from the leading rank to the other one, or to all others. */
typedef struct order {
  uint64_t kind;
  uint64_t bytes;
  uint64_t count; /* number of messages or sums */
  uint64_t ahead_bytes;
} order;

typedef struct job_links {
  tdm_context *context;
  tdm_network *network;
  int rank_count;
  tdm_link_estimate *pairs;      /* (rank_count, rank_count): from the lower rank to the higher */
  tdm_link_estimate *all_reduce; /* estimates of the all-reduces; stored after the pairs */
  void *memory;                  /* (most_bytes); NULL: nothing is measured */
  size_t most_bytes;
} job_links;

static tdm_link_estimate *pair_at(const job_links *job, int a, int b) {
  return &job->pairs[(size_t)a * (size_t)job->rank_count + (size_t)b];
}

static size_t pairs_bytes(const job_links *job) {
  const size_t ranks = (size_t)job->rank_count;
  return (ranks * ranks + 1) * sizeof(tdm_link_estimate);
}

static void deinit(job_links *job) {
  const tdm_allocator *allocator = tdm_context_allocator(job->context);
  if (job->memory) tdm_release(allocator, job->memory, job->most_bytes);
  if (job->pairs) tdm_release(allocator, job->pairs, pairs_bytes(job));
}

static tdm_status init(tdm_context *context, job_links *job) {
  *job = (job_links){.context = context,
                     .network = tdm_context_network(context),
                     .rank_count = tdm_context_rank_count(context)};
  job->pairs =
      tdm_allocate(tdm_context_allocator(context), pairs_bytes(job), "links between ranks");
  if (!job->pairs) return TDM_OUT_OF_MEMORY;
  job->all_reduce = pair_at(job, job->rank_count, 0);
  return TDM_OK;
}

/* Publishes on all ranks, or on none if memory is short on one of them. */
static tdm_status publish(const job_links *job) {
  tdm_links *measured;
  const tdm_status status =
      tdm_network_agree(job->network, tdm_links_create(job->context, &measured));
  for (int i = 0; i < job->rank_count * job->rank_count && status == TDM_OK; i++) {
    const tdm_device *a = tdm_context_host_of(job->context, i / job->rank_count);
    const tdm_device *b = tdm_context_host_of(job->context, i % job->rank_count);
    if (job->pairs[i].origin != TDM_LINK_CALIBRATED) continue;
    *tdm_links_at(measured, a, b, false) = job->pairs[i];
    *tdm_links_at(measured, b, a, false) = job->pairs[i];
  }
  if (status == TDM_OK) {
    *tdm_links_all_reduce(measured) = *job->all_reduce;
    tdm_links_adopt(tdm_context_links(job->context), measured);
  }
  tdm_links_destroy(measured);
  return status;
}

/* ---- Orders ---------------------------------------------------------------------------------- */

/* out_ns (TDM_RANK_TRAIN_MOST_ROUNDS): one time per trip; otherwise only the first, the total. */
static tdm_status make(const job_links *job, int peer, bool leads, const order *asked,
                       double *out_ns) {
  const bool trips = asked->kind == TRIPS;
  const tdm_rank_train train = {.context = job->context,
                                .peer = peer,
                                .leads = leads,
                                .both_ways = asked->kind == BOTH_WAYS,
                                .memory = job->memory,
                                .ask_bytes = trips ? (size_t)asked->bytes : 0,
                                .ahead_bytes = (size_t)asked->ahead_bytes,
                                .bytes = (size_t)asked->bytes,
                                .messages = (uint32_t)asked->count,
                                .rounds = trips ? TDM_RANK_TRAIN_MOST_ROUNDS : 1};
  const tdm_rank_sums sums = {.context = job->context,
                              .memory = job->memory,
                              .ahead_bytes = (size_t)asked->ahead_bytes,
                              .bytes = (size_t)asked->bytes,
                              .count = (uint32_t)asked->count};
  const tdm_status status =
      asked->kind == SUMS ? tdm_rank_sums_run(&sums, out_ns) : tdm_rank_train_run(&train, out_ns);
  tdm_network_give_up(job->network, status); /* the peer may be waiting for a message */
  return status;
}

static tdm_status lead_one(const job_links *job, int peer, const order *asked, double *out_ns) {
  order sent = *asked;
  TDM_TRY(tdm_network_pass(job->network, tdm_context_rank(job->context), peer, &sent, sizeof sent));
  return asked->kind == END ? TDM_OK : make(job, peer, true, asked, out_ns);
}

/* Executes the orders of the leading rank. */
static tdm_status follow(const job_links *job, int leader, int peer) {
  double ns[TDM_RANK_TRAIN_MOST_ROUNDS];
  for (;;) {
    order asked = {0};
    TDM_TRY(tdm_network_pass(job->network, leader, peer, &asked, sizeof(asked)));
    if (asked.kind == END) return TDM_OK;
    TDM_TRY(make(job, leader, false, &asked, ns));
  }
}

/* ---- Leading --------------------------------------------------------------------------------- */

/* Measures the latency of a single message on an idle link, or of a single sum. */
static tdm_status lead_latency(const job_links *job, int peer, double *out_ns) {
  double ns[TRIP_FLIGHTS * TDM_RANK_TRAIN_MOST_ROUNDS];
  const bool sums = peer == ALL;
  const order asked = {.kind = sums ? SUMS : TRIPS,
                       .bytes = LEAST_BYTES,
                       .ahead_bytes = LEAST_BYTES,
                       .count = sums ? 1 : 0};
  const size_t step = sums ? 1 : TDM_RANK_TRAIN_MOST_ROUNDS;
  const size_t count = sums ? SINGLE_SUMS : TDM_COUNT_OF(ns);
  for (size_t i = 0; i < count; i += step)
    TDM_TRY(lead_one(job, peer, &asked, &ns[i]));
  *out_ns = tdm_link_quantile(ns, count, quick_share);
  return TDM_OK;
}

/* Describes a train whose messages fill TRAIN_BYTES. */
static order train_of(const job_links *job, int peer, uint64_t bytes) {
  const uint64_t fill = TRAIN_BYTES / bytes;
  return (order){.kind = peer == ALL ? SUMS : TRAIN,
                 .bytes = bytes,
                 .count = fill > LEAST_MESSAGES ? fill : LEAST_MESSAGES,
                 .ahead_bytes = job->most_bytes < AHEAD_BYTES ? job->most_bytes : AHEAD_BYTES};
}

/* Returns the time per message: the median of as many trains as fit into the time, judging by the
 * first. A train seems too fast if this rank noticed late that the preceding message had arrived,
 * and other activity makes trains slower. */
static tdm_status lead_size(const job_links *job, int peer, uint64_t bytes, double *out_ns) {
  double ns[MOST_TRAINS];
  const order asked = train_of(job, peer, bytes);
  size_t count = 0, wanted = MOST_TRAINS;
  while (count < wanted) {
    TDM_TRY(lead_one(job, peer, &asked, &ns[count++]));
    if (count == 1) wanted = (size_t)fmax(LEAST_TRAINS, fmin(MOST_TRAINS, SIZE_NS / ns[0]));
  }
  *out_ns = tdm_link_quantile(ns, count, 0.5) / (double)asked.count;
  return TDM_OK;
}

/* Measures every fourth size, and at least LEAST_SIZES, until a train would take long. */
static tdm_status lead_sizes(const job_links *job, int peer, tdm_link_point *points,
                             uint32_t *out_count) {
  uint32_t count = 0;
  double ns = 1;
  for (uint64_t bytes = LEAST_BYTES; bytes <= job->most_bytes; bytes *= GROWTH) {
    if (count >= LEAST_SIZES && LEAST_MESSAGES * GROWTH * ns > MOST_TRAIN_NS) break;
    TDM_TRY(lead_size(job, peer, bytes, &ns));
    points[count++] = (tdm_link_point){.bytes = (double)bytes, .ns = ns};
  }
  *out_count = count;
  return TDM_OK;
}

/* Measures trains of the largest messages in one direction and in both, in turns, so that other
 * activity affects both equally. */
static tdm_status lead_both_ways(const job_links *job, int peer, uint64_t largest,
                                 double *out_ratio) {
  double ns[2][BOTH_TRAINS];
  const uint64_t half = job->most_bytes / 2;
  order asked = train_of(job, peer, largest < half ? largest : half);
  if (asked.ahead_bytes > half) asked.ahead_bytes = half;
  asked.count *= BOTH_LENGTH;
  if (asked.count > TDM_RANK_TRAIN_MOST_MESSAGES) asked.count = TDM_RANK_TRAIN_MOST_MESSAGES;
  for (size_t i = 0; i < (size_t)2 * BOTH_TRAINS; i++) {
    asked.kind = i % 2 == 0 ? TRAIN : BOTH_WAYS;
    TDM_TRY(lead_one(job, peer, &asked, &ns[i % 2][i / 2]));
  }
  const double ratio =
      tdm_link_quantile(ns[1], BOTH_TRAINS, 0.5) / tdm_link_quantile(ns[0], BOTH_TRAINS, 0.5);
  *out_ratio = ratio < shared_ratio ? 1 : fmin(ratio, TDM_LINK_MOST_RATIO);
  return TDM_OK;
}

/* Fits the time of a single message: its latency, and the time that its bytes took in trains. */
static void fit_single(tdm_link_point *points, uint32_t count, double latency_ns,
                       tdm_link_estimate *out_estimate) {
  tdm_link_fit(points, count, out_estimate);
  const double each_ns = out_estimate->link.latency_ns;
  for (uint32_t i = 0; i < count; i++)
    points[i].ns = latency_ns + fmax(0, points[i].ns - each_ns);
  tdm_link_fit(points, count, out_estimate);
}

static tdm_status lead(const job_links *job, int peer, tdm_link_estimate *out_estimate) {
  tdm_link_point points[TDM_LINK_MOST_KNOTS];
  uint32_t count = 0;
  double latency_ns = 0, both_ways = 0;
  TDM_TRY(lead_latency(job, peer, &latency_ns));
  TDM_TRY(lead_sizes(job, peer, points, &count));
  if (peer != ALL)
    TDM_TRY(lead_both_ways(job, peer, (uint64_t)points[count - 1].bytes, &both_ways));
  TDM_TRY(lead_one(job, peer, &(order){.kind = END}, NULL));
  fit_single(points, count, latency_ns, out_estimate);
  out_estimate->both_ways = both_ways;
  return TDM_OK;
}

/* ---- All pairs ------------------------------------------------------------------------------- */

/* Measures messages between two ranks, or sums over all ranks. All ranks take part, so that no
 * others disturb it. */
static tdm_status measure(const job_links *job, int leader, int peer, tdm_link_estimate *estimate) {
  const int rank = tdm_context_rank(job->context);
  tdm_status status = TDM_OK;
  if (rank == leader)
    status = lead(job, peer, estimate);
  else if (peer == ALL || rank == peer)
    status = follow(job, leader, peer);
  TDM_TRY(tdm_network_agree(job->network, status));
  return tdm_network_pass(job->network, leader, ALL, estimate, sizeof *estimate);
}

static bool same_hosts(const job_links *job, int a, int b, int c, int d) {
  const tdm_network *network = job->network;
  return strcmp(tdm_network_host(network, a), tdm_network_host(network, c)) == 0 &&
         strcmp(tdm_network_host(network, b), tdm_network_host(network, d)) == 0;
}

/* Returns a pair of ranks before (a, b) on the same two machines, or NULL if there is none. */
static const tdm_link_estimate *find_alike(const job_links *job, int a, int b) {
  for (int c = 0; c <= a; c++)
    for (int d = c + 1; d < (c == a ? b : job->rank_count); d++)
      if (same_hosts(job, a, b, c, d) || same_hosts(job, a, b, d, c)) return pair_at(job, c, d);
  return NULL;
}

static tdm_status measure_all(const job_links *job) {
  for (int a = 0; a < job->rank_count; a++) {
    for (int b = a + 1; b < job->rank_count; b++) {
      const tdm_link_estimate *alike = find_alike(job, a, b);
      if (alike)
        *pair_at(job, a, b) = *alike;
      else
        TDM_TRY(measure(job, a, b, pair_at(job, a, b)));
    }
  }
  TDM_TRY(measure(job, 0, ALL, job->all_reduce));
  return publish(job);
}

static tdm_status prepare(tdm_context *context, size_t most_bytes, job_links *job) {
  TDM_TRY(init(context, job));
  job->most_bytes = most_bytes > 0 ? most_bytes : DEFAULT_MOST_BYTES;
  job->memory = tdm_allocate(tdm_context_allocator(context), job->most_bytes, "calibrating links");
  return job->memory ? tdm_context_start(context) : TDM_OUT_OF_MEMORY;
}

tdm_status tdm_links_calibrate_ranks(tdm_context *context, size_t most_bytes) {
  job_links job;
  tdm_status status =
      tdm_network_agree(tdm_context_network(context), prepare(context, most_bytes, &job));
  if (status == TDM_OK) status = measure_all(&job);
  deinit(&job);
  return status == TDM_OK ? TDM_OK : tdm_fail_within(status, "calibrating links between ranks");
}

/* ---- Sending rank 0's links ------------------------------------------------------------------ */

/* Moves what rank 0 has read from its links to the job's. */
static bool take_read(job_links *job) {
  bool any = tdm_context_all_reduce(job->context, job->all_reduce);
  for (int a = 0; a < job->rank_count; a++) {
    for (int b = a + 1; b < job->rank_count; b++) {
      tdm_context_link(job->context, tdm_context_host_of(job->context, a),
                       tdm_context_host_of(job->context, b), false, pair_at(job, a, b));
      any |= pair_at(job, a, b)->origin == TDM_LINK_CALIBRATED;
    }
  }
  tdm_links_forget(tdm_context_links(job->context));
  return any;
}

tdm_status tdm_links_send(tdm_context *context, tdm_status read) {
  job_links job;
  const tdm_status made = init(context, &job);
  tdm_status status = tdm_network_agree(job.network, made == TDM_OK ? read : made);
  uint64_t any = status == TDM_OK && tdm_context_rank(context) == 0 && take_read(&job);
  if (status == TDM_OK) status = tdm_network_pass(job.network, 0, ALL, &any, sizeof any);
  if (status == TDM_OK && any)
    status = tdm_network_pass(job.network, 0, ALL, job.pairs, pairs_bytes(&job));
  if (status == TDM_OK && any) status = publish(&job);
  deinit(&job);
  return status;
}
