/* Fitting links to copies that are noisy on purpose: the truth is known, and comes back within the
 * uncertainty that the fit itself states. */
#include "devices/links/fit.h"

#include <math.h>
#include <string.h>

#include "tests/devices/support.h"

enum { SIZES = 17, COPIES = 15, MOST = SIZES * COPIES, TRIALS = 60 };

typedef struct noise {
  double relative;        /* half width of a uniform factor around 1 */
  uint64_t outlier_every; /* one of this many copies takes 2 to 50 times as long; 0: none */
  size_t bad_size;        /* all copies of this size take ten times as long; SIZES: none */
} noise;

static double uniform(uint64_t *random) {
  *random = *random * 6364136223846793005u + 1442695040888963407u;
  return (double)(*random >> 33) / 2147483648.0;
}

/* Sizes 1 KiB to 64 MiB. */
static void make_samples(tdm_link truth, noise kind, uint64_t seed, tdm_link_sample *samples) {
  uint64_t random = seed * 977 + 5;
  for (size_t i = 0; i < MOST; i++) {
    const double bytes = ldexp(1024, (int)(i % SIZES));
    double ns = truth.latency_ns + bytes / truth.bytes_per_ns;
    ns *= 1 + kind.relative * (2 * uniform(&random) - 1);
    const bool outlier =
        kind.outlier_every > 0 && uniform(&random) * (double)kind.outlier_every < 1;
    if (outlier) ns *= 2 + 48 * uniform(&random);
    if (i % SIZES == kind.bad_size) ns *= 10;
    samples[i] = (tdm_link_sample){.bytes = bytes, .ns = ns};
  }
}

static void exact_copies_give_the_exact_line(void **state) {
  (void)state;
  tdm_link_sample samples[MOST];
  tdm_link_estimate estimate;
  make_samples((tdm_link){5000, 16}, (noise){.bad_size = SIZES}, 1, samples);
  assert_ok(tdm_link_fit(samples, MOST, &estimate));
  assert_true(fabs(estimate.link.latency_ns - 5000) < 1e-3);
  assert_true(fabs(estimate.link.bytes_per_ns - 16) < 1e-6);
  assert_true(estimate.latency_error_ns < 1e-3);
  assert_true(estimate.ns_per_byte_error < 1e-9);
  assert_true(estimate.deviation < 1e-9);
  assert_int_equal(estimate.origin, TDM_LINK_CALIBRATED);
  assert_int_equal(estimate.knot_count, SIZES);
  for (int i = 0; i < 31; i++) {
    const double bytes = 100 * pow(1.7, i);
    assert_true(fabs(tdm_link_predict_ns(&estimate, bytes) / (5000 + bytes / 16) - 1) < 1e-6);
  }
}

/* The time of each message of a train, and a latency that only a single message has. */
static void a_message_by_itself_takes_its_latency_longer(void **state) {
  (void)state;
  tdm_link_sample samples[MOST];
  tdm_link_estimate estimate;
  make_samples((tdm_link){5000, 0.5}, (noise){.bad_size = SIZES}, 1, samples);
  assert_ok(tdm_link_fit(samples, MOST, &estimate));
  tdm_link_set_latency(&estimate, (tdm_link_latency){60000, 700});
  assert_true(fabs(estimate.link.latency_ns - 60000) < 1e-3);
  assert_true(estimate.latency_error_ns == 700);
  for (double bytes = 1024; bytes < 1e8; bytes *= 3)
    assert_true(fabs(tdm_link_predict_ns(&estimate, bytes) / (60000 + bytes / 0.5) - 1) < 1e-6);
}

/* Sizes that are faster than the line keep their ratio. */
static void what_is_not_straight_stays_so_with_another_latency(void **state) {
  (void)state;
  tdm_link_sample samples[] = {
      {1000, 2000}, {2000, 3000}, {4000, 8000}, {8000, 9000}, {16000, 17000}};
  tdm_link_estimate estimate;
  assert_ok(tdm_link_fit(samples, 5, &estimate));
  const double each_ns = estimate.link.latency_ns;
  double before[5];
  for (int i = 0; i < 5; i++)
    before[i] = tdm_link_predict_ns(&estimate, estimate.knots[i].bytes);
  tdm_link_set_latency(&estimate, (tdm_link_latency){50000, 0});
  for (int i = 0; i < 5; i++)
    assert_true(fabs(tdm_link_predict_ns(&estimate, estimate.knots[i].bytes) -
                     fmax(before[i] - each_ns, 0) - 50000) < 1e-6);
}

/* Changes the latency of the maximum number of sizes, and nothing after them. */
static void every_size_has_another_latency(void **state) {
  (void)state;
  tdm_link_estimate estimates[2], behind;
  memset(estimates, 0x5a, sizeof estimates);
  memcpy(&behind, &estimates[1], sizeof behind);
  estimates[0] = (tdm_link_estimate){.link = {5000, 0.5}, .knot_count = TDM_LINK_MOST_KNOTS};
  for (int i = 0; i < TDM_LINK_MOST_KNOTS; i++) {
    tdm_link_knot *knot = &estimates[0].knots[i];
    knot->bytes = 1024 * (i + 1);
    for (int k = 0; k < TDM_LINK_STATES; k++)
      knot->ratios[k] = 1;
  }
  tdm_link_set_latency(&estimates[0], (tdm_link_latency){60000, 0});
  for (int i = 0; i < TDM_LINK_MOST_KNOTS; i++) {
    const double bytes = estimates[0].knots[i].bytes;
    assert_true(fabs(tdm_link_predict_ns(&estimates[0], bytes) / (60000 + bytes / 0.5) - 1) < 1e-6);
  }
  assert_memory_equal(&estimates[1], &behind, sizeof behind);
}

/* A rank lost its core in all flights except one, and in that one for some trips. */
static void a_messages_latency_is_that_of_the_quickest_flight(void **state) {
  (void)state;
  enum { FLIGHTS = 5, TRIPS = 9 };
  for (int quick = 0; quick < FLIGHTS; quick++) {
    tdm_link_latency latency = {0};
    for (int flight = 0; flight < FLIGHTS; flight++) {
      double ns[TRIPS];
      for (int trip = 0; trip < TRIPS; trip++)
        ns[trip] = flight == quick ? 10000 + 100 * ((trip * 5) % TRIPS) : 125000 + flight;
      if (flight == quick) ns[0] = ns[1] = 9e6;
      tdm_link_note_flight(ns, TRIPS, &latency);
    }
    /* Its trips but the first two take 100 to 800 ns more than 10 us; the first two of these would
     * be those of 0 and 500. */
    assert_true(latency.ns == 10200 && latency.error_ns == 200);
  }
}

/* Bytes take longer if as many go the other way. The latency does not. */
static void what_goes_both_ways_takes_its_bytes_longer(void **state) {
  (void)state;
  tdm_link_sample samples[MOST];
  tdm_link_estimate estimate;
  make_samples((tdm_link){5000, 0.5}, (noise){.bad_size = SIZES}, 1, samples);
  assert_ok(tdm_link_fit(samples, MOST, &estimate));
  assert_true(estimate.both_ways == 0);
  assert_true(tdm_link_predict_both_ns(&estimate, 1e6) == tdm_link_predict_ns(&estimate, 1e6));
  tdm_link_set_both_ways(&estimate, 3e6, 6e6);
  assert_true(estimate.both_ways == 2);
  for (double bytes = 1024; bytes < 1e8; bytes *= 3)
    assert_true(fabs(tdm_link_predict_both_ns(&estimate, bytes) / (5000 + 2 * bytes / 0.5) - 1) <
                1e-6);
  tdm_link_set_both_ways(&estimate, 1e6, 1.6e6);
  assert_true(estimate.both_ways == 1.6);
  tdm_link_set_both_ways(&estimate, 1e6, 1.5e6); /* which links that carry both were seen to take */
  assert_true(estimate.both_ways == 1);
  tdm_link_set_both_ways(&estimate, 3e6, 2e6); /* by chance; never faster than one direction */
  assert_true(estimate.both_ways == 1);
  tdm_link_set_both_ways(&estimate, 1, 1e12);
  assert_true(estimate.both_ways == TDM_LINK_MOST_RATIO);
}

static bool is_bounded(const tdm_link_estimate *estimate) {
  bool bounded =
      estimate->link.latency_ns >= 0 && estimate->link.latency_ns <= TDM_LINK_MOST_NS &&
      estimate->link.bytes_per_ns >= 0 && estimate->link.bytes_per_ns <= TDM_LINK_MOST_BYTES &&
      estimate->latency_error_ns <= TDM_LINK_MOST_NS &&
      estimate->ns_per_byte_error <= TDM_LINK_MOST_NS && estimate->deviation <= TDM_LINK_MOST_RATIO;
  for (uint32_t i = 0; i < estimate->knot_count; i++)
    for (size_t state = 0; state < TDM_LINK_STATES; state++)
      bounded = bounded && estimate->knots[i].ratios[state] >= TDM_LINK_LEAST_RATIO &&
                estimate->knots[i].ratios[state] <= TDM_LINK_MOST_RATIO;
  return bounded;
}

/* On a busy machine messages take any time: some are noticed with the one ahead, at once, others
 * when this process has a core again. */
static void what_a_busy_machine_measures_is_within_bounds(void **state) {
  (void)state;
  static const double times[][4] = {
      {1000, 1000, 1000, 1e12},  /* level, and then not at all */
      {1000, 4000, 16000, 1e-3}, /* rises, and then takes no time */
      {1e12, 4000, 1e-3, 64000},
      {1e14, 1e14, 1e14, 1e14},
      {1000, 1000 + 1e-12, 1000 + 2e-12, 1000 + 3e-12},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(times); i++) {
    tdm_link_sample samples[4];
    tdm_link_estimate estimate;
    for (size_t k = 0; k < 4; k++)
      samples[k] = (tdm_link_sample){1024 << 2 * k, times[i][k]};
    assert_ok(tdm_link_fit(samples, 4, &estimate));
    assert_true(is_bounded(&estimate));
    for (double latency_ns = 0.5; latency_ns < 1e14; latency_ns *= 1000) {
      tdm_link_estimate changed = estimate;
      tdm_link_set_latency(&changed, (tdm_link_latency){latency_ns, latency_ns});
      if (!is_bounded(&changed)) fail_msg("times %zu, with a latency of %g ns", i, latency_ns);
    }
  }
}

/* Expects that most of TRIALS have the truth within the stated, useful uncertainty. */
static void assert_recovers(tdm_link truth, noise kind, double widest) {
  size_t right = 0;
  for (size_t trial = 0; trial < TRIALS; trial++) {
    tdm_link_sample samples[MOST];
    tdm_link_estimate estimate;
    make_samples(truth, kind, trial, samples);
    assert_ok(tdm_link_fit(samples, MOST, &estimate));
    assert_true(estimate.link.bytes_per_ns > 0);
    const double slope = 1 / estimate.link.bytes_per_ns;
    right += fabs(estimate.link.latency_ns - truth.latency_ns) <= estimate.latency_error_ns &&
             fabs(slope - 1 / truth.bytes_per_ns) <= estimate.ns_per_byte_error;
    assert_true(estimate.latency_error_ns < widest * truth.latency_ns);
    assert_true(estimate.ns_per_byte_error < widest * slope);
    assert_true(
        fabs(tdm_link_predict_ns(&estimate, 3e6) / (truth.latency_ns + 3e6 / truth.bytes_per_ns) -
             1) < widest);
  }
  if (right < TRIALS * 9 / 10) fail_msg("right in %zu of %d", right, TRIALS);
}

static void noisy_copies_give_the_truth_within_the_uncertainty(void **state) {
  (void)state;
  assert_recovers((tdm_link){5000, 16}, (noise){.relative = 0.1, .bad_size = SIZES}, 0.15);
  assert_recovers((tdm_link){800, 50}, (noise){.relative = 0.3, .bad_size = SIZES}, 0.5);
  assert_recovers((tdm_link){20000, 2}, (noise){.relative = 0.05, .bad_size = SIZES}, 0.1);
}

static void outliers_do_not_move_it(void **state) {
  (void)state;
  assert_recovers((tdm_link){5000, 16},
                  (noise){.relative = 0.1, .outlier_every = 5, .bad_size = SIZES}, 0.2);
  assert_recovers((tdm_link){5000, 16},
                  (noise){.relative = 0.1, .outlier_every = 10, .bad_size = 12}, 0.3);
}

/* Noisy copies, some outliers and one size measured under load. All results are compared with
 * recorded ones, with a tolerance only for the rounding of logarithms. */
static void a_fit_is_as_recorded(void **state) {
  (void)state;
  enum { FIGURES = 9 };
  static const double expected[FIGURES + SIZES] = {4847.34711695,
                                                   16.6493264063,
                                                   500.896996216,
                                                   0.004419094076,
                                                   0.0497683498673,
                                                   5237.55932315,
                                                   1.95898132164,
                                                   183785.184257,
                                                   59659340956.7,
                                                   1.07120896513,
                                                   1.07120896513,
                                                   1,
                                                   0.994780875963,
                                                   0.994780875963,
                                                   1.04976834987,
                                                   1.04976834987,
                                                   1,
                                                   1,
                                                   1.01898160118,
                                                   1.05433200839,
                                                   1.01898160118,
                                                   0.969158651282,
                                                   0.969158651282,
                                                   1.05926158727,
                                                   1.05926158727,
                                                   0.993287760606};
  tdm_link_sample samples[MOST];
  tdm_link_estimate estimate;
  make_samples((tdm_link){5000, 16}, (noise){.relative = 0.2, .outlier_every = 6, .bad_size = 9}, 3,
               samples);
  assert_ok(tdm_link_fit(samples, MOST, &estimate));
  make_samples((tdm_link){9000, 7}, (noise){.relative = 0.2, .outlier_every = 6, .bad_size = 3}, 4,
               samples);
  assert_ok(tdm_link_fit_state(samples, MOST, TDM_LINK_STALE, &estimate));
  assert_int_equal(estimate.knot_count, SIZES);
  double found[FIGURES + SIZES] = {estimate.link.latency_ns,  estimate.link.bytes_per_ns,
                                   estimate.latency_error_ns, estimate.ns_per_byte_error,
                                   estimate.deviation,        tdm_link_predict_ns(&estimate, 700)};
  for (size_t i = 0; i < SIZES; i++) {
    assert_true(estimate.knots[i].bytes == ldexp(1024, (int)i));
    found[FIGURES + i] = estimate.knots[i].ratios[0];
  }
  found[6] = estimate.knots[5].ratios[TDM_LINK_STALE];
  found[7] = tdm_link_predict_ns(&estimate, 3e6);
  found[8] = tdm_link_predict_ns(&estimate, 1e12);
  for (size_t i = 0; i < FIGURES + SIZES; i++)
    if (fabs(found[i] - expected[i]) > 1e-9 * fabs(expected[i]))
      fail_msg("figure %zu is %.12g, not %.12g", i, found[i], expected[i]);
}

/* The wider of the two sides of the line. */
static void uncertainties_are_as_recorded(void **state) {
  (void)state;
  enum { FITS = 6 };
  static const double expected[FITS][2] = {
      {431.448518792, 0.00360852063519}, {480.360094361, 0.00495731402331},
      {383.773863244, 0.00356516365175}, {446.17568255, 0.00342156972322},
      {572.23709127, 0.00566456557035},  {327.701590628, 0.00377148308196}};
  for (size_t i = 0; i < FITS; i++) {
    tdm_link_sample samples[MOST];
    tdm_link_estimate estimate;
    make_samples((tdm_link){5000, 16}, (noise){.relative = 0.2, .bad_size = SIZES}, 40 + i,
                 samples);
    assert_ok(tdm_link_fit(samples, MOST, &estimate));
    if (fabs(estimate.latency_error_ns - expected[i][0]) > 1e-9 * expected[i][0] ||
        fabs(estimate.ns_per_byte_error - expected[i][1]) > 1e-9 * expected[i][1])
      fail_msg("fit %zu: %.12g, %.12g", i, estimate.latency_error_ns, estimate.ns_per_byte_error);
  }
}

static void a_bend_is_kept_in_the_prediction(void **state) {
  (void)state;
  tdm_link_sample samples[MOST];
  tdm_link_estimate estimate;
  make_samples((tdm_link){1000, 20}, (noise){.relative = 0.02, .bad_size = 3}, 1, samples);
  for (size_t i = 0; i < MOST; i++) /* beyond a cache copies are three times as slow */
    if (samples[i].bytes > 4e6) samples[i].ns *= 3;
  assert_ok(tdm_link_fit(samples, MOST, &estimate));
  for (size_t i = 0; i < SIZES; i++) {
    const double bytes = ldexp(1024, (int)i);
    const double truth = (1000 + bytes / 20) * (bytes > 4e6 ? 3 : 1);
    assert_true(fabs(tdm_link_predict_ns(&estimate, bytes) / truth - 1) < 0.1);
  }
}

static void distance_is_kept_in_the_prediction(void **state) {
  (void)state;
  tdm_link_sample samples[MOST];
  tdm_link_estimate estimate;
  make_samples((tdm_link){1000, 20}, (noise){.bad_size = SIZES}, 1, samples);
  assert_ok(tdm_link_fit(samples, MOST, &estimate));
  for (size_t k = 1; k < TDM_LINK_STATES; k++) {
    make_samples((tdm_link){1000, 20}, (noise){.bad_size = SIZES}, 1, samples);
    for (size_t i = 0; i < MOST; i++) /* twice, four, eight times as slow */
      samples[i].ns *= 1 << k;
    assert_ok(tdm_link_fit_state(samples, MOST, k, &estimate));
  }
  const double near_ns = tdm_link_predict_ns(&estimate, 3e6);
  assert_true(tdm_link_predict_after_ns(&estimate, 3e6, 1e9, false) ==
              near_ns); /* none is known yet */
  const double distances[TDM_LINK_DISTANCES] = {1e6, 1e8, 1e10};
  memcpy(estimate.distances, distances, sizeof(distances));
  const double touched[][2] = {{0, 1},   {1e6, 1},  {1e7, 1.5}, {1e8, 2},
                               {1e9, 3}, {1e10, 4}, {1e12, 4}};
  for (size_t i = 0; i < TDM_COUNT_OF(touched); i++) {
    const double ns = tdm_link_predict_after_ns(&estimate, 3e6, touched[i][0], false);
    assert_true(fabs(ns / (touched[i][1] * near_ns) - 1) < 1e-3);
  }
  const double stale[][2] = {{0, 1}, {1e8, 1}, {1e9, 4.5}, {1e10, 8}, {1e12, 8}};
  for (size_t i = 0; i < TDM_COUNT_OF(stale); i++) {
    const double ns = tdm_link_predict_after_ns(&estimate, 3e6, stale[i][0], true);
    assert_true(fabs(ns / (stale[i][1] * near_ns) - 1) < 1e-3);
  }
  assert_status(tdm_link_fit_state(samples, MOST, TDM_LINK_STATES, &estimate),
                TDM_INVALID_ARGUMENT);
  tdm_link_sample others[2] = {{1000, 50}, {2000, 60}};
  assert_status(tdm_link_fit_state(others, 2, 1, &estimate), TDM_INVALID_ARGUMENT);
  assert_message("of other sizes");
}

static void links_without_one_of_the_two_are_fitted(void **state) {
  (void)state;
  tdm_link_estimate estimate;
  tdm_link_sample level[3] = {{1000, 50}, {2000, 50}, {4000, 50}};
  assert_ok(tdm_link_fit(level, 3, &estimate));
  assert_true(fabs(estimate.link.latency_ns - 50) < 1e-9);
  assert_true(estimate.link.bytes_per_ns == 0); /* no limit that shows */
  tdm_link_sample steep[3] = {{1000, 100}, {2000, 200}, {4000, 400}};
  assert_ok(tdm_link_fit(steep, 3, &estimate));
  assert_true(estimate.link.latency_ns < 1e-9);
  assert_true(fabs(estimate.link.bytes_per_ns - 10) < 1e-9);
  tdm_link_sample falling[3] = {{1000, 400}, {2000, 200}, {4000, 100}}; /* never negative */
  assert_ok(tdm_link_fit(falling, 3, &estimate));
  assert_true(estimate.link.latency_ns >= 0 && estimate.link.bytes_per_ns >= 0);
}

static void what_cannot_be_fitted_is_refused(void **state) {
  (void)state;
  tdm_link_estimate estimate;
  tdm_link_sample one_size[2] = {{1000, 50}, {1000, 60}};
  assert_status(tdm_link_fit(one_size, 2, &estimate), TDM_INVALID_ARGUMENT);
  assert_message("1 size");
  assert_status(tdm_link_fit(one_size, 0, &estimate), TDM_INVALID_ARGUMENT);
  tdm_link_sample no_time[2] = {{1000, 50}, {2000, 0}};
  assert_status(tdm_link_fit(no_time, 2, &estimate), TDM_INVALID_ARGUMENT);
  tdm_link_sample endless[2] = {{1000, 50}, {2000, INFINITY}};
  assert_status(tdm_link_fit(endless, 2, &estimate), TDM_INVALID_ARGUMENT);
  tdm_link_sample many[TDM_LINK_MOST_KNOTS + 1];
  for (size_t i = 0; i < TDM_COUNT_OF(many); i++)
    many[i] = (tdm_link_sample){.bytes = 1 + (double)i, .ns = 5};
  assert_status(tdm_link_fit(many, TDM_COUNT_OF(many), &estimate), TDM_INVALID_ARGUMENT);
  assert_ok(tdm_link_fit(many, TDM_LINK_MOST_KNOTS, &estimate));
  assert_int_equal(estimate.knot_count, TDM_LINK_MOST_KNOTS);
  tdm_link_sample alike[TDM_LINK_MOST_SAMPLES_OF_SIZE + 2];
  for (size_t i = 0; i < TDM_COUNT_OF(alike); i++)
    alike[i] = (tdm_link_sample){.bytes = i == 0 ? 5 : 9, .ns = 5};
  assert_status(tdm_link_fit(alike, TDM_COUNT_OF(alike), &estimate), TDM_INVALID_ARGUMENT);
  assert_message("sizes of 64 copies at most");
  assert_ok(tdm_link_fit(alike, TDM_COUNT_OF(alike) - 1, &estimate));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exact_copies_give_the_exact_line),
      cmocka_unit_test(a_message_by_itself_takes_its_latency_longer),
      cmocka_unit_test(what_is_not_straight_stays_so_with_another_latency),
      cmocka_unit_test(what_goes_both_ways_takes_its_bytes_longer),
      cmocka_unit_test(every_size_has_another_latency),
      cmocka_unit_test(a_messages_latency_is_that_of_the_quickest_flight),
      cmocka_unit_test(what_a_busy_machine_measures_is_within_bounds),
      cmocka_unit_test(noisy_copies_give_the_truth_within_the_uncertainty),
      cmocka_unit_test(outliers_do_not_move_it),
      cmocka_unit_test(a_fit_is_as_recorded),
      cmocka_unit_test(uncertainties_are_as_recorded),
      cmocka_unit_test(a_bend_is_kept_in_the_prediction),
      cmocka_unit_test(distance_is_kept_in_the_prediction),
      cmocka_unit_test(links_without_one_of_the_two_are_fitted),
      cmocka_unit_test(what_cannot_be_fitted_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
