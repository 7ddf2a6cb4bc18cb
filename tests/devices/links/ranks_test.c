/* Links between the ranks of a job: measured once, with the same figures on all ranks. Rank 0
 * stores them and sends them in the next job. Only one property of times is checked, which holds on
 * any machine: a message takes at least half of the time that a slow net's bandwidth requires. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/hash.h"
#include "devices/links/table.h"
#include "devices/links/trial.h"
#include "tests/graph/job.h"
#include "tests/support/faulty_allocator.h"

enum { MOST_BYTES = 64 << 10, PATH_BYTES = 512 };

static const uint64_t net_bytes_per_second = 100000000;
static const uint64_t slow_bytes_per_second = 4000000;
static char file_path[PATH_BYTES];

/* Returns a hash of all figures of the links of the context. */
static uint64_t hash_links(tdm_context *context, size_t *out_calibrated) {
  const size_t count = tdm_device_count(context);
  uint64_t hash = 1;
  *out_calibrated = 0;
  for (size_t i = 0; i < count * count; i++) {
    const tdm_device *from = tdm_context_device(context, i / count);
    const tdm_device *to = tdm_context_device(context, i % count);
    tdm_link_estimate estimate;
    tdm_context_link(context, from, to, false, &estimate);
    hash = tdm_hash_bytes(&estimate, sizeof estimate, hash);
    *out_calibrated += estimate.origin == TDM_LINK_CALIBRATED;
    if (from->rank == to->rank) assert_int_equal(estimate.origin, TDM_LINK_MODELLED);
  }
  tdm_link_estimate sum;
  const bool summed = tdm_context_all_reduce(context, &sum);
  assert_true(summed == (*out_calibrated > 0)); /* sums are measured with messages, or neither */
  return summed ? tdm_hash_bytes(&sum, sizeof sum, hash) : hash;
}

static tdm_status note_links(job_rank *rank) {
  size_t calibrated;
  rank->hash = hash_links(rank->context, &calibrated);
  rank->number = calibrated;
  tdm_link_estimate estimate;
  tdm_context_link(rank->context, tdm_context_host_of(rank->context, 0),
                   tdm_context_host_of(rank->context, 1), false, &estimate);
  rank->loss = tdm_link_predict_both_ns(&estimate, 100000);
  return TDM_OK;
}

static void assert_all_know_the_same(const job_rank *ranks, int count, size_t calibrated) {
  for (int r = 0; r < count; r++) {
    assert_true(ranks[r].hash == ranks[0].hash);
    assert_int_equal(ranks[r].number, calibrated);
  }
}

static tdm_status measure(job_rank *rank) {
  TDM_TRY(tdm_links_calibrate_ranks(rank->context, MOST_BYTES));
  tdm_link_estimate estimate;
  tdm_context_link(rank->context, tdm_context_host_of(rank->context, 0),
                   tdm_context_host_of(rank->context, rank->rank_count - 1), false, &estimate);
  assert_int_equal(estimate.origin, TDM_LINK_CALIBRATED);
  assert_int_equal(estimate.knot_count, 4); /* 1, 4, 16 and 64 KiB */
  assert_true(estimate.knots[0].bytes == 1024 && estimate.knots[3].bytes == MOST_BYTES);
  assert_true(estimate.both_ways >= 1);
  assert_true(tdm_link_predict_both_ns(&estimate, 65536) >= tdm_link_predict_ns(&estimate, 65536));
  return note_links(rank);
}

/* Measures a net that transfers a burst without delay, as large as a single message of the smaller
 * sizes. In plans many messages are consecutive. */
static tdm_status measure_slow(job_rank *rank) {
  TDM_TRY(measure(rank));
  tdm_link_estimate estimate;
  tdm_context_link(rank->context, tdm_context_host_of(rank->context, 0),
                   tdm_context_host_of(rank->context, 1), false, &estimate);
  tdm_link_estimate sum = {.knot_count = 0};
  if (!tdm_context_all_reduce(rank->context, &sum) || sum.knot_count != 4)
    return tdm_fail(TDM_INTERNAL, "sums of %u sizes were measured", sum.knot_count);
  for (double bytes = 1024; bytes <= MOST_BYTES; bytes *= 4) {
    const double least_ns = 0.49 * bytes / (double)slow_bytes_per_second * 1e9;
    const double message_ns = tdm_link_predict_ns(&estimate, bytes);
    const double sum_ns = tdm_link_predict_ns(&sum, bytes);
    if (message_ns < least_ns || sum_ns < least_ns)
      return tdm_fail(TDM_INTERNAL, "%.0f bytes: %.0f ns, summed %.0f, which takes %.0f at least",
                      bytes, message_ns, sum_ns, least_ns);
  }
  return TDM_OK;
}

static void a_burst_that_passes_at_once_is_not_taken_for_the_link(void **state) {
  (void)state;
  job_rank ranks[JOB_MOST_RANKS];
  job_must(&(job_options){.rank_count = 2,
                          .net = {.seed = 5,
                                  .bytes_per_second = slow_bytes_per_second,
                                  .burst_bytes = MOST_BYTES / 2}},
           measure_slow, ranks);
  assert_all_know_the_same(ranks, 2, 2);
}

static void all_ranks_have_what_one_measured(void **state) {
  (void)state;
  for (int count = 2; count <= 4; count++) {
    for (int devices = 1; devices <= 2; devices++) {
      job_rank ranks[JOB_MOST_RANKS];
      job_must(&(job_options){.rank_count = count,
                              .cpu_devices = devices,
                              .sim_devices = 1,
                              .net = {.seed = 5, .bytes_per_second = net_bytes_per_second}},
               measure, ranks);
      const int of_rank = devices + 1; /* links of all devices are those of their hosts */
      assert_all_know_the_same(ranks, count, (size_t)(count * (count - 1) * of_rank * of_rank));
    }
  }
}

/* Checks that consecutive round trips together take no longer than the given time. */
static tdm_status make_round_trips(job_rank *rank) {
  enum { TRIPS = 3, BYTES = 16 << 10 }; /* 4 ms each way at the least */
  static char memory[2][BYTES];
  TDM_TRY(tdm_context_start(rank->context));
  const tdm_rank_train train = {.context = rank->context,
                                .peer = 1 - rank->rank,
                                .leads = rank->rank == 0,
                                .memory = memory[rank->rank],
                                .ask_bytes = BYTES,
                                .ahead_bytes = BYTES,
                                .rounds = TRIPS};
  double half_ns[TRIPS] = {0};
  memset(memory[rank->rank], 'a' + rank->rank, BYTES);
  const uint64_t begin_ns = tdm_time_ns();
  TDM_TRY(tdm_rank_train_run(&train, half_ns));
  const double all_ns = (double)(tdm_time_ns() - begin_ns);
  for (int i = 0; i < BYTES; i++) /* the one's bytes, sent back by the other */
    if (memory[rank->rank][i] != 'a') return tdm_fail(TDM_INTERNAL, "byte %d is another", i);
  double sum_ns = 0;
  for (int i = 0; i < TRIPS && train.leads; i++)
    sum_ns += 2 * half_ns[i];
  if (sum_ns <= all_ns) return TDM_OK;
  return tdm_fail(TDM_INTERNAL, "trips of %.0f ns in all overlap in %.0f ns", sum_ns, all_ns);
}

static void a_round_trip_waits_for_the_one_before(void **state) {
  (void)state;
  job_rank ranks[JOB_MOST_RANKS];
  job_must(&(job_options){.rank_count = 2,
                          .net = {.seed = 5, .bytes_per_second = slow_bytes_per_second}},
           make_round_trips, ranks);
}

/* A train is sent by the requested rank to the requesting one; with both ways, also back. */
static tdm_status carry_trains(job_rank *rank) {
  enum { BYTES = 64, AHEAD_BYTES = 32, MESSAGES = TDM_RANK_TRAIN_MOST_MESSAGES };
  TDM_TRY(tdm_context_start(rank->context));
  for (int both = 0; both < 2; both++) {
    char memory[2 * BYTES];
    memset(memory, 'a' + rank->rank, sizeof memory);
    const tdm_rank_train train = {.context = rank->context,
                                  .peer = 1 - rank->rank,
                                  .leads = rank->rank == 0,
                                  .both_ways = both == 1,
                                  .memory = memory,
                                  .ahead_bytes = AHEAD_BYTES,
                                  .bytes = BYTES,
                                  .messages = MESSAGES,
                                  .rounds = 1};
    double ns = 0;
    const tdm_simnet_traffic before = tdm_simnet_sent(rank->net, rank->rank, train.peer);
    TDM_TRY(tdm_rank_train_run(&train, &ns));
    const tdm_simnet_traffic after = tdm_simnet_sent(rank->net, rank->rank, train.peer);
    const bool sends = !train.leads || train.both_ways, receives = train.leads || train.both_ways;
    const int begin = train.both_ways ? BYTES : 0; /* begin of the received bytes */
    for (int i = 0; i < 2 * BYTES; i++) {
      const bool came = receives && i >= begin && i < begin + BYTES;
      if (memory[i] != 'a' + (came ? train.peer : rank->rank))
        return tdm_fail(TDM_INTERNAL, "rank %d has %c at %d, both ways: %d", rank->rank, memory[i],
                        i, both);
    }
    const uint64_t wanted = (train.leads ? 1 : 0) + (sends ? 1 + MESSAGES : 0);
    if (after.messages - before.messages != wanted)
      return tdm_fail(TDM_INTERNAL, "rank %d has sent %d messages", rank->rank,
                      (int)(after.messages - before.messages));
    if (train.leads && ns <= 1) return tdm_fail(TDM_INTERNAL, "a train takes %g ns", ns);
  }
  return TDM_OK;
}

static void trains_come_to_who_asks(void **state) {
  (void)state;
  job_rank ranks[JOB_MOST_RANKS];
  job_must(&(job_options){.rank_count = 2}, carry_trains, ranks);
}

/* The maximum number of sums; a sanitizer checks their arrays. */
static tdm_status make_most_sums(job_rank *rank) {
  float memory[2] = {0};
  TDM_TRY(tdm_context_start(rank->context));
  const tdm_rank_sums sums = {.context = rank->context,
                              .memory = memory,
                              .ahead_bytes = sizeof memory,
                              .bytes = sizeof memory,
                              .count = TDM_RANK_TRAIN_MOST_MESSAGES};
  double ns = 0;
  return tdm_rank_sums_run(&sums, &ns);
}

static void the_most_sums_can_be_made(void **state) {
  (void)state;
  job_rank ranks[JOB_MOST_RANKS];
  job_must(&(job_options){.rank_count = 2}, make_most_sums, ranks);
}

/* Times one sum after another with half as many numbers. */
static tdm_status time_a_sum(job_rank *rank) {
  float memory[3] = {1, 1, 1};
  TDM_TRY(tdm_context_start(rank->context));
  const tdm_rank_sums sums = {.context = rank->context,
                              .memory = memory,
                              .ahead_bytes = sizeof memory[0],
                              .bytes = 2 * sizeof memory[0],
                              .count = 1};
  double ns = 0;
  TDM_TRY(tdm_rank_sums_run(&sums, &ns));
  if (memory[0] != 4 || memory[1] != 2 || memory[2] != 1)
    return tdm_fail(TDM_INTERNAL, "sums are %g, %g, %g", memory[0], memory[1], memory[2]);
  return ns > 1 ? TDM_OK : tdm_fail(TDM_INTERNAL, "a sum takes %g ns", ns);
}

static void the_last_sum_ends_the_time(void **state) {
  (void)state;
  job_rank ranks[JOB_MOST_RANKS];
  job_must(&(job_options){.rank_count = 2}, time_a_sum, ranks);
}

/* Measures a net whose rate delays every message and sum, also the smallest. */
static tdm_status measure_latencies(job_rank *rank) {
  TDM_TRY(measure(rank));
  tdm_link_estimate estimate, sum;
  tdm_context_link(rank->context, tdm_context_host_of(rank->context, 0),
                   tdm_context_host_of(rank->context, 1), false, &estimate);
  if (!tdm_context_all_reduce(rank->context, &sum)) return tdm_fail(TDM_INTERNAL, "no sum");
  const double least_ns = 0.49 * 1024 / (double)slow_bytes_per_second * 1e9;
  if (estimate.link.latency_ns >= least_ns && sum.link.latency_ns >= least_ns) return TDM_OK;
  return tdm_fail(TDM_INTERNAL, "%.0f and %.0f ns, which take %.0f at least",
                  estimate.link.latency_ns, sum.link.latency_ns, least_ns);
}

static void a_latency_is_that_of_a_message_and_of_a_sum(void **state) {
  (void)state;
  job_rank ranks[JOB_MOST_RANKS];
  job_must(&(job_options){.rank_count = 2,
                          .net = {.seed = 5, .bytes_per_second = slow_bytes_per_second}},
           measure_latencies, ranks);
}

/* ---- Refused measurements
 * --------------------------------------------------------------------- */

/* The rank that lacks memory, and the allocation before measuring that fails. */
typedef struct shortage {
  tdm_faulty_allocator *faulty; /* allocator of rank 1 */
  uint64_t allocation;
} shortage;

static tdm_status measure_in_short_memory(job_rank *rank) {
  const shortage *memory = rank->user;
  if (rank->rank == 1) tdm_faulty_allocator_arm(memory->faulty, memory->allocation, false);
  const tdm_status status = tdm_links_calibrate_ranks(rank->context, MOST_BYTES);
  if (rank->rank == 1) tdm_faulty_allocator_arm(memory->faulty, 0, false);
  if (status != TDM_OUT_OF_MEMORY || !strstr(tdm_last_message(), "rank 1: out of memory"))
    return tdm_fail(TDM_INTERNAL, "%s: %s", tdm_status_name(status), tdm_last_message());
  return note_links(rank);
}

static void memory_that_is_short_is_told_to_all(void **state) {
  (void)state;
  tdm_allocator allocators[2] = {tdm_allocator_default()};
  shortage memory = {.faulty = tdm_faulty_allocator_create()};
  allocators[1] = tdm_faulty_allocator_view(memory.faulty);
  for (memory.allocation = 1; memory.allocation <= 3; memory.allocation++) {
    job_rank ranks[JOB_MOST_RANKS];
    job_must(&(job_options){.rank_count = 2, .allocators = allocators, .user = &memory},
             measure_in_short_memory, ranks);
    assert_all_know_the_same(ranks, 2, 0);
    assert_int_equal(tdm_faulty_allocator_outstanding_bytes(memory.faulty), 0);
  }
  tdm_faulty_allocator_destroy(memory.faulty);
}

/* ---- The file -------------------------------------------------------------------------------- */

static tdm_status calibrate(job_rank *rank) {
  TDM_TRY(tdm_context_calibrate(rank->context, NULL));
  return note_links(rank);
}

static void the_next_job_reads_what_rank_0_kept(void **state) {
  (void)state;
  (void)setenv("TANDEM_LINKS", file_path, 1);
  job_rank measured[JOB_MOST_RANKS], read[JOB_MOST_RANKS];
  const job_options options = {.rank_count = 2, .cpu_devices = 2};
  job_must(&options, calibrate, measured);
  assert_all_know_the_same(measured, 2, 8);
  job_must(&options, note_links, read);
  assert_all_know_the_same(read, 2, 8);
  assert_true(fabs(read[0].loss / measured[0].loss - 1) < 1e-6); /* a file rounds numbers */

  const job_options more = {.rank_count = 3, .cpu_devices = 2};
  job_must(&more, note_links, read); /* the file is not used on other machines */
  assert_all_know_the_same(read, 3, 0);
  (void)unlink(file_path);
  job_must(&options, note_links, read);
  assert_all_know_the_same(read, 2, 0);
  (void)unsetenv("TANDEM_LINKS");
}

static tdm_status calibrate_nowhere(job_rank *rank) {
  assert_int_equal(tdm_context_calibrate(rank->context, "/no/such/folder/links.json"), TDM_IO);
  assert_non_null(strstr(tdm_last_message(), "rank 0"));
  return note_links(rank);
}

static void a_file_that_cannot_be_written_is_told_to_all(void **state) {
  (void)state;
  job_rank ranks[JOB_MOST_RANKS];
  job_must(&(job_options){.rank_count = 2}, calibrate_nowhere, ranks);
  assert_all_know_the_same(ranks, 2, 2);
}

/* ---- Ranks that are lost --------------------------------------------------------------------- */

/* The last rank fails at its post of that number. These ranks have no control channel. So a rank
 * that fails ends like a lost one; otherwise a rank that has completed an exchange would wait for
 * its next message. */
static tdm_status measure_without_one(job_rank *rank) {
  const uint64_t *after = rank->user;
  const int last = rank->rank_count - 1;
  if (rank->rank == last)
    tdm_simnet_kill_at(rank->net, last, tdm_simnet_posts(rank->net, last) + *after);
  const tdm_status status = tdm_links_calibrate_ranks(rank->context, MOST_BYTES);
  if (status != TDM_OK) tdm_simnet_kill(rank->net, rank->rank);
  TDM_TRY(note_links(rank));
  rank->loss = status;
  return TDM_OK;
}

static void a_rank_that_is_lost_leaves_links_as_they_were(void **state) {
  (void)state;
  int failed = 0;
  for (uint64_t after = 1; after < 400; after += after < 20 ? 1 : 20) {
    job_rank ranks[JOB_MOST_RANKS];
    job_run(&(job_options){.rank_count = 3, .user = &after}, measure_without_one, ranks);
    for (int r = 0; r < 3; r++) {
      if (ranks[r].status != TDM_OK) fail_msg("rank %d: %s", r, ranks[r].message);
      if (ranks[r].loss == TDM_OK) continue;
      failed++;
      assert_int_equal((int)ranks[r].loss, TDM_UNAVAILABLE);
      assert_int_equal(ranks[r].number, 0);
    }
  }
  assert_true(failed > 3 * 8);
}

int main(void) {
  const char *folder = getenv("TEST_TMPDIR");
  (void)snprintf(file_path, sizeof file_path, "%s/ranks-%d.json", folder ? folder : "/tmp",
                 (int)getpid());
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_ranks_have_what_one_measured),
      cmocka_unit_test(a_burst_that_passes_at_once_is_not_taken_for_the_link),
      cmocka_unit_test(a_round_trip_waits_for_the_one_before),
      cmocka_unit_test(trains_come_to_who_asks),
      cmocka_unit_test(the_most_sums_can_be_made),
      cmocka_unit_test(the_last_sum_ends_the_time),
      cmocka_unit_test(a_latency_is_that_of_a_message_and_of_a_sum),
      cmocka_unit_test(memory_that_is_short_is_told_to_all),
      cmocka_unit_test(the_next_job_reads_what_rank_0_kept),
      cmocka_unit_test(a_file_that_cannot_be_written_is_told_to_all),
      cmocka_unit_test(a_rank_that_is_lost_leaves_links_as_they_were),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
