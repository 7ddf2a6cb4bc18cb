/* Philox4x32-10 as inline functions, so that CPU kernels vectorize them and CUDA kernels compile
 * the same text. Invariant: a number is a pure function of (seed, stream, step, index). */
#ifndef TANDEM_CORE_PHILOX_H
#define TANDEM_CORE_PHILOX_H

#include <stdint.h>

#if defined(__CUDACC__)
#define TDM_PHILOX_FUNCTION static __host__ __device__ inline
#else
#define TDM_PHILOX_FUNCTION static inline
#endif

/* Applies one round to a block's four words. */
TDM_PHILOX_FUNCTION void tdm_philox_round(uint32_t *c0, uint32_t *c1, uint32_t *c2, uint32_t *c3,
                                          uint32_t k0, uint32_t k1) {
  const uint64_t product0 = (uint64_t)0xD2511F53u * *c0;
  const uint64_t product1 = (uint64_t)0xCD9E8D57u * *c2;
  *c0 = (uint32_t)(product1 >> 32) ^ *c1 ^ k0;
  *c1 = (uint32_t)product1;
  *c2 = (uint32_t)(product0 >> 32) ^ *c3 ^ k1;
  *c3 = (uint32_t)product0;
}

/* Advances the key by Weyl sequences: the golden ratio, and sqrt(3) - 1. */
TDM_PHILOX_FUNCTION void tdm_philox_next_key(uint32_t *k0, uint32_t *k1) {
  *k0 += 0x9E3779B9u;
  *k1 += 0xBB67AE85u;
}

/* Applies the bijection: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3",
 * SC 2011, section 3.3, with 10 rounds. */
TDM_PHILOX_FUNCTION void tdm_philox4x32(const uint32_t counter[4], const uint32_t key[2],
                                        uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++) {
    tdm_philox_round(&c0, &c1, &c2, &c3, k0, k1);
    tdm_philox_next_key(&k0, &k1);
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

TDM_PHILOX_FUNCTION uint32_t tdm_philox_reverse_bits(uint32_t word) {
  word = (word >> 1 & 0x55555555u) | (word & 0x55555555u) << 1;
  word = (word >> 2 & 0x33333333u) | (word & 0x33333333u) << 2;
  word = (word >> 4 & 0x0F0F0F0Fu) | (word & 0x0F0F0F0Fu) << 4;
  word = (word >> 8 & 0x00FF00FFu) | (word & 0x00FF00FFu) << 8;
  return word >> 16 | word << 16;
}

/* Computes a block of four words. It is addressed by
 *   key     = (seed low, seed high)
 *   counter = (block low, block high ^ reversed bits of step, stream low, stream high)
 * The block grows from the lowest bit of its 64 and the step from the highest. No two (block, step)
 * of a stream collide while their bits together fit into 64: with 2^32 steps up to 2^34 words a
 * step, with 2^24 steps up to 2^42. */
TDM_PHILOX_FUNCTION void tdm_philox_block(uint64_t seed, uint64_t stream, uint32_t step,
                                          uint64_t block, uint32_t out[4]) {
  const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  const uint32_t counter[4] = {(uint32_t)block,
                               (uint32_t)(block >> 32) ^ tdm_philox_reverse_bits(step),
                               (uint32_t)stream, (uint32_t)(stream >> 32)};
  tdm_philox4x32(counter, key, out);
}

/* Returns a number in [0, 1) in steps of 2^-24, all of which are floats. */
TDM_PHILOX_FUNCTION float tdm_philox_float32(uint32_t word) {
  return (float)(word >> 8) * (1.0f / 16777216.0f);
}

/* Returns a number in [0, 1) in steps of 2^-53. */
TDM_PHILOX_FUNCTION double tdm_philox_float64(uint32_t low, uint32_t high) {
  return (double)(((uint64_t)high << 32 | low) >> 11) * (1.0 / 9007199254740992.0);
}

#endif
