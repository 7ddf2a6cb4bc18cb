/* The arithmetic of counters, for the kernels and for the oracle: integers below a prime, in
 * float64. */
#ifndef TANDEM_TESTS_GRAPH_RUN_COUNTERS_COUNTER_RULES_H
#define TANDEM_TESTS_GRAPH_RUN_COUNTERS_COUNTER_RULES_H

#include "tandem/core/core.h"

enum { COUNTER_MODULUS = 1048573, COUNTER_START = 1000 };

/* Returns the term of an operand (length elements) in element i of an output (out_length; 0: a
 * scalar). */
static inline uint64_t counter_take(const double *operand, int64_t length, int64_t out_length,
                                    int64_t i, int64_t k) {
  uint64_t sum = 0;
  if (out_length == 0) {
    for (int64_t j = 0; j < length; j++)
      sum += (uint64_t)operand[j] * (uint64_t)(j % 5 + 1);
  } else {
    sum = (uint64_t)operand[(i * 5) % length] + 2 * (uint64_t)operand[(i * 5 + 3) % length];
  }
  return sum * (uint64_t)(2 * k + 3);
}

static inline double counter_mix(uint64_t sum, int64_t multiplier, int64_t addend) {
  return (double)((sum % COUNTER_MODULUS * (uint64_t)multiplier + (uint64_t)addend) %
                  COUNTER_MODULUS);
}

static inline double counter_back(double d_out, double in, int64_t multiplier, int64_t k,
                                  int64_t j) {
  return (double)(((uint64_t)d_out % COUNTER_MODULUS * (uint64_t)(2 * k + 3) +
                   (uint64_t)in * (uint64_t)multiplier + (uint64_t)j) %
                  COUNTER_MODULUS);
}

static inline double counter_update(double parameter, double gradient) {
  return (double)((3 * (uint64_t)parameter + (uint64_t)gradient + 1) % COUNTER_MODULUS);
}

static inline void counter_draw_input(uint64_t seed, int input, int64_t length, double *out) {
  const tdm_random random = {seed, (uint64_t)input, 0};
  for (int64_t j = 0; j < length; j++)
    out[j] = tdm_random_uint32(&random, (uint64_t)j) % COUNTER_MODULUS;
}

#endif
