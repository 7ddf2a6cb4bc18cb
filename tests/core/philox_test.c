/* Philox: Random123's known results, the addressing of words, and the moments of derived numbers.
 * Seeds are fixed, so the result is always the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/philox.h"
#include "tandem/core/core.h"

enum { SAMPLES = 200000 };

/* Compares with kat_vectors of Random123: philox4x32 with 10 rounds. */
static void known_answers(void **state) {
  (void)state;
  static const struct {
    uint32_t counter[4], key[2], answer[4];
  } vectors[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
    uint32_t out[4];
    tdm_philox4x32(vectors[i].counter, vectors[i].key, out);
    assert_memory_equal(out, vectors[i].answer, sizeof out);
  }
}

static void a_block_is_addressed_as_documented(void **state) {
  (void)state;
  const tdm_random random = {.seed = 0x299f31d0a4093822u, .stream = 0x0370734413198a2eu, .step = 0};
  static const uint32_t answer[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
  uint32_t out[4];
  tdm_random_block(&random, 0x85a308d3243f6a88u, out);
  assert_memory_equal(out, answer, sizeof out);
  /* The step's bits come from the top: step 1 is the highest bit of the block. */
  tdm_random next = random;
  next.step = 1;
  tdm_random_block(&next, 0x05a308d3243f6a88u, out);
  assert_memory_equal(out, answer, sizeof out);
}

static void numbers_do_not_depend_on_order(void **state) {
  (void)state;
  const tdm_random random = {.seed = 7, .stream = tdm_random_stream("rnn.weight"), .step = 3};
  enum { COUNT = 1000 };
  static uint32_t words[COUNT];
  static double normals[COUNT];
  for (int i = 0; i < COUNT; i++) {
    words[i] = tdm_random_uint32(&random, (uint64_t)i);
    normals[i] = tdm_random_normal(&random, (uint64_t)i);
  }
  for (int i = COUNT - 1; i >= 0; i--) {
    assert_int_equal(words[i], tdm_random_uint32(&random, (uint64_t)i));
    assert_memory_equal(&normals[i], &(double){tdm_random_normal(&random, (uint64_t)i)},
                        sizeof(double));
  }
  for (uint64_t block = 0; block < COUNT / 4; block++) {
    uint32_t out[4];
    tdm_random_block(&random, block, out);
    assert_memory_equal(out, &words[block * 4], sizeof out);
  }
}

static void seed_stream_and_step_all_matter(void **state) {
  (void)state;
  const tdm_random base = {.seed = 1, .stream = tdm_random_stream("a"), .step = 0};
  tdm_random others[4] = {base, base, base, base};
  others[0].seed = 2;
  others[1].seed += (uint64_t)1 << 32;
  others[2].stream = tdm_random_stream("b");
  others[3].step = 1;
  for (int other = 0; other < 4; other++) {
    int equal = 0;
    for (uint64_t i = 0; i < 1000; i++)
      equal += tdm_random_uint32(&base, i) == tdm_random_uint32(&others[other], i);
    assert_true(equal <= 1);
  }
}

/* Parameters of saved experiments are drawn again from these. */
static void streams_stay_what_they_are(void **state) {
  (void)state;
  assert_true(tdm_random_stream("embedding.weight") != tdm_random_stream("embedding.weigh"));
  assert_true(tdm_random_stream("") != tdm_random_stream("a"));
  assert_true(tdm_random_stream("a") == 0xb60ac5866c81d615u);
  assert_true(tdm_random_stream("rnn.bias") == 0x6470bbe9ac90b47du);
  assert_true(tdm_random_stream("embedding.weight") == 0x424df871d83110e8u);
  assert_true(tdm_random_stream("block2/fc.weight") == 0x9cc4d55a801f9e38u);
}

static void uniform_moments(void **state) {
  (void)state;
  const tdm_random random = {.seed = 42, .stream = tdm_random_stream("uniform"), .step = 0};
  double sum32 = 0, square32 = 0, sum64 = 0, square64 = 0, neighbours = 0;
  int buckets[16] = {0};
  for (uint64_t i = 0; i < SAMPLES; i++) {
    const float x = tdm_random_uniform_float32(&random, i);
    const double y = tdm_random_uniform_float64(&random, i);
    assert_true(x >= 0.0f && x < 1.0f && y >= 0.0 && y < 1.0);
    sum32 += x;
    square32 += (double)x * x;
    sum64 += y;
    square64 += y * y;
    neighbours += (y - 0.5) * (tdm_random_uniform_float64(&random, i + 1) - 0.5);
    buckets[(int)(x * 16.0f)]++;
  }
  /* Five standard errors: of the mean 0.289 / sqrt(n), of the mean square 0.298 / sqrt(n). */
  const double error = 5 * 0.3 / sqrt(SAMPLES);
  assert_true(fabs(sum32 / SAMPLES - 0.5) < error);
  assert_true(fabs(square32 / SAMPLES - 1.0 / 3) < error);
  assert_true(fabs(sum64 / SAMPLES - 0.5) < error);
  assert_true(fabs(square64 / SAMPLES - 1.0 / 3) < error);
  assert_true(fabs(neighbours / SAMPLES) < error);
  for (int i = 0; i < 16; i++)
    assert_true(abs(buckets[i] - SAMPLES / 16) < 5 * 109);
}

static void normal_moments(void **state) {
  (void)state;
  const tdm_random random = {.seed = 42, .stream = tdm_random_stream("normal"), .step = 0};
  double sum = 0, square = 0, cube = 0, fourth = 0, pairs = 0;
  int within_one = 0;
  for (uint64_t i = 0; i < SAMPLES; i++) {
    const double x = tdm_random_normal(&random, i);
    assert_true(isfinite(x));
    sum += x;
    square += x * x;
    cube += x * x * x;
    fourth += x * x * x * x;
    pairs += x * tdm_random_normal(&random, i ^ 1);
    within_one += fabs(x) < 1.0;
  }
  const double root = sqrt(SAMPLES);
  assert_true(fabs(sum / SAMPLES) < 5 / root);
  assert_true(fabs(square / SAMPLES - 1) < 5 * sqrt(2) / root);
  assert_true(fabs(cube / SAMPLES) < 5 * sqrt(15) / root);
  assert_true(fabs(fourth / SAMPLES - 3) < 5 * sqrt(96) / root);
  /* The cosine and the sine of one pair; each pair is seen twice. */
  assert_true(fabs(pairs / SAMPLES) < 5 * sqrt(2) / root);
  assert_true(fabs((double)within_one / SAMPLES - 0.6826895) < 5 * 0.466 / root);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_answers),
      cmocka_unit_test(a_block_is_addressed_as_documented),
      cmocka_unit_test(numbers_do_not_depend_on_order),
      cmocka_unit_test(seed_stream_and_step_all_matter),
      cmocka_unit_test(streams_stay_what_they_are),
      cmocka_unit_test(uniform_moments),
      cmocka_unit_test(normal_moments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
