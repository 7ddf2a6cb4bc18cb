/* Fitting links to points that are noisy on purpose: the known truth is found. */
#include "devices/links/fit.h"

#include <math.h>
#include <string.h>

#include "tests/devices/support.h"

enum { SIZES = 17, TRIALS = 60 };

static double uniform(uint64_t *random) {
  *random = *random * 6364136223846793005u + 1442695040888963407u;
  return (double)(*random >> 33) / 2147483648.0;
}

/* Sizes 1 KiB to 64 MiB, with a uniform factor of that half width around 1. Copies of the size
 * `bad` take ten times as long; SIZES: none. */
static void make_points(tdm_link truth, double noise, size_t bad, uint64_t seed,
                        tdm_link_point *points) {
  uint64_t random = seed * 977 + 5;
  for (size_t i = 0; i < SIZES; i++) {
    const double bytes = ldexp(1024, (int)i);
    const double ns = tdm_link_line_ns(&truth, bytes) * (1 + noise * (2 * uniform(&random) - 1));
    points[i] = (tdm_link_point){.bytes = bytes, .ns = i == bad ? 10 * ns : ns};
  }
}

static void exact_points_give_the_exact_line(void **state) {
  (void)state;
  tdm_link_point points[SIZES];
  tdm_link_estimate estimate;
  make_points((tdm_link){5000, 16}, 0, SIZES, 1, points);
  tdm_link_fit(points, SIZES, &estimate);
  assert_true(fabs(estimate.link.latency_ns - 5000) < 1e-3);
  assert_true(fabs(estimate.link.bytes_per_ns - 16) < 1e-6);
  assert_int_equal(estimate.origin, TDM_LINK_CALIBRATED);
  assert_int_equal(estimate.knot_count, SIZES);
  for (int i = 0; i < 31; i++) {
    const double bytes = 100 * pow(1.7, i);
    assert_true(fabs(tdm_link_predict_ns(&estimate, bytes) / (5000 + bytes / 16) - 1) < 1e-6);
  }
}

static void quantiles(void **state) {
  (void)state;
  double odd[] = {5, 1, 3};
  assert_true(tdm_link_quantile(odd, 3, 0.5) == 3);
  assert_true(odd[0] == 1 && odd[2] == 5);
  double values[13];
  for (int i = 0; i < 13; i++)
    values[i] = 12 - i;
  assert_true(tdm_link_quantile(values, 13, 1.0 / 6) == 2);
  assert_true(tdm_link_quantile(values, 13, 1) == 12);
  assert_true(tdm_link_quantile(values, 1, 0.5) == 0);
}

/* Bytes take longer if as many go the other way. The latency does not. */
static void opposite_traffic_prolongs_the_time_of_bytes(void **state) {
  (void)state;
  tdm_link_point points[SIZES];
  tdm_link_estimate estimate;
  make_points((tdm_link){5000, 0.5}, 0, SIZES, 1, points);
  tdm_link_fit(points, SIZES, &estimate);
  assert_true(tdm_link_predict_both_ns(&estimate, 1e6) == tdm_link_predict_ns(&estimate, 1e6));
  estimate.both_ways = 2;
  for (double bytes = 1024; bytes < 1e8; bytes *= 3)
    assert_true(fabs(tdm_link_predict_both_ns(&estimate, bytes) / (5000 + 2 * bytes / 0.5) - 1) <
                1e-6);
}

/* Checks with times of a busy machine: some messages are noticed together with the previous one,
 * others when this process gets a core again. */
static void estimates_of_a_busy_machine_are_within_bounds(void **state) {
  (void)state;
  static const double times[][4] = {
      {1000, 1000, 1000, 1e12},  /* level, and then not at all */
      {1000, 4000, 16000, 1e-3}, /* rises, and then takes no time */
      {1e12, 4000, 1e-3, 64000},
      {1e14, 1e14, 1e14, 1e14},
      {1000, 1000 + 1e-12, 1000 + 2e-12, 1000 + 3e-12},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(times); i++) {
    tdm_link_point points[4];
    tdm_link_estimate estimate;
    for (size_t k = 0; k < 4; k++)
      points[k] = (tdm_link_point){1024 << 2 * k, times[i][k]};
    tdm_link_fit(points, 4, &estimate);
    bool bounded = estimate.link.latency_ns >= 0 && estimate.link.latency_ns <= TDM_LINK_MOST_NS &&
                   estimate.link.bytes_per_ns >= 0 &&
                   estimate.link.bytes_per_ns <= TDM_LINK_MOST_BYTES;
    for (uint32_t k = 0; k < estimate.knot_count; k++)
      for (size_t s = 0; s < TDM_LINK_STATES; s++)
        bounded = bounded && estimate.knots[k].ratios[s] >= TDM_LINK_LEAST_RATIO &&
                  estimate.knots[k].ratios[s] <= TDM_LINK_MOST_RATIO;
    if (!bounded) fail_msg("times %zu", i);
  }
}

static void assert_recovers(tdm_link truth, double noise, size_t bad, double widest) {
  for (size_t trial = 0; trial < TRIALS; trial++) {
    tdm_link_point points[SIZES];
    tdm_link_estimate estimate;
    make_points(truth, noise, bad, trial, points);
    tdm_link_fit(points, SIZES, &estimate);
    assert_true(fabs(estimate.link.latency_ns / truth.latency_ns - 1) < widest);
    assert_true(fabs(estimate.link.bytes_per_ns / truth.bytes_per_ns - 1) < widest);
    for (double bytes = 1024; bytes < 1e8; bytes *= 3)
      assert_true(fabs(tdm_link_predict_ns(&estimate, bytes) / tdm_link_line_ns(&truth, bytes) -
                       1) < widest);
  }
}

static void noisy_and_disturbed_sizes_give_the_truth(void **state) {
  (void)state;
  assert_recovers((tdm_link){5000, 16}, 0.02, SIZES, 0.06);
  assert_recovers((tdm_link){20000, 2}, 0.05, SIZES, 0.15);
  assert_recovers((tdm_link){5000, 16}, 0.02, 12, 0.1);
  assert_recovers((tdm_link){5000, 16}, 0.02, 5, 0.1);
}

static void a_bend_is_kept_in_the_prediction(void **state) {
  (void)state;
  tdm_link_point points[SIZES];
  tdm_link_estimate estimate;
  make_points((tdm_link){1000, 20}, 0.02, 3, 1, points);
  for (size_t i = 0; i < SIZES; i++) /* beyond a cache copies are three times as slow */
    if (points[i].bytes > 4e6) points[i].ns *= 3;
  tdm_link_fit(points, SIZES, &estimate);
  for (size_t i = 0; i < SIZES; i++) {
    const double bytes = points[i].bytes;
    const double truth = (1000 + bytes / 20) * (bytes > 4e6 ? 3 : 1);
    assert_true(fabs(tdm_link_predict_ns(&estimate, bytes) / truth - 1) < 0.1);
  }
}

static void states_are_kept_in_the_prediction(void **state) {
  (void)state;
  tdm_link_point points[SIZES];
  tdm_link_estimate estimate;
  make_points((tdm_link){1000, 20}, 0, SIZES, 1, points);
  tdm_link_fit(points, SIZES, &estimate);
  for (size_t k = 1; k < TDM_LINK_STATES; k++) { /* twice and four times as slow */
    for (size_t i = 0; i < SIZES; i++)
      points[i].ns *= 2;
    tdm_link_fit_state(points, k, &estimate);
  }
  const double near_ns = tdm_link_predict_ns(&estimate, 3e6);
  assert_true(tdm_link_predict_after_ns(&estimate, 3e6, 1e9, false) == near_ns); /* no caches */
  estimate.far_bytes = 32e6;
  const double far[][2] = {{0, 1}, {1e6, 1}, {sqrt(32) * 1e6, 1.5}, {32e6, 2}, {1e12, 2}};
  for (size_t i = 0; i < TDM_COUNT_OF(far); i++) {
    const double ns = tdm_link_predict_after_ns(&estimate, 3e6, far[i][0], false);
    assert_true(fabs(ns / (far[i][1] * near_ns) - 1) < 1e-3);
  }
  const double stale[][2] = {{0, 1}, {8e6, 1}, {16e6, 2.5}, {32e6, 4}, {1e12, 4}};
  for (size_t i = 0; i < TDM_COUNT_OF(stale); i++) {
    const double ns = tdm_link_predict_after_ns(&estimate, 3e6, stale[i][0], true);
    assert_true(fabs(ns / (stale[i][1] * near_ns) - 1) < 1e-3);
  }
}

static void links_without_latency_or_limit_are_fitted(void **state) {
  (void)state;
  tdm_link_estimate estimate;
  tdm_link_fit((tdm_link_point[]){{1000, 50}, {2000, 50}, {4000, 50}}, 3, &estimate);
  assert_true(fabs(estimate.link.latency_ns - 50) < 1e-9);
  assert_true(estimate.link.bytes_per_ns == 0); /* no limit that shows */
  tdm_link_fit((tdm_link_point[]){{1000, 100}, {2000, 200}, {4000, 400}}, 3, &estimate);
  assert_true(estimate.link.latency_ns < 1e-9);
  assert_true(fabs(estimate.link.bytes_per_ns - 10) < 1e-9);
  tdm_link_fit((tdm_link_point[]){{1000, 400}, {2000, 200}, {4000, 100}}, 3, &estimate);
  assert_true(estimate.link.latency_ns >= 0 && estimate.link.bytes_per_ns >= 0);
  tdm_link_point many[TDM_LINK_MOST_KNOTS];
  for (size_t i = 0; i < TDM_COUNT_OF(many); i++)
    many[i] = (tdm_link_point){.bytes = 1 + (double)i, .ns = 5};
  tdm_link_fit(many, TDM_LINK_MOST_KNOTS, &estimate);
  assert_int_equal(estimate.knot_count, TDM_LINK_MOST_KNOTS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exact_points_give_the_exact_line),
      cmocka_unit_test(quantiles),
      cmocka_unit_test(opposite_traffic_prolongs_the_time_of_bytes),
      cmocka_unit_test(estimates_of_a_busy_machine_are_within_bounds),
      cmocka_unit_test(noisy_and_disturbed_sizes_give_the_truth),
      cmocka_unit_test(a_bend_is_kept_in_the_prediction),
      cmocka_unit_test(states_are_kept_in_the_prediction),
      cmocka_unit_test(links_without_latency_or_limit_are_fitted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
