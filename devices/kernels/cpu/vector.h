/* Vectors of the widest registers of the instruction set at hand, in the compiler's own vector
 * types. Invariant: what happens to an element does not depend on its lane, so a short vector at
 * the end of a row gives the same bits as a full one. */
#ifndef TANDEM_DEVICES_KERNELS_CPU_VECTOR_H
#define TANDEM_DEVICES_KERNELS_CPU_VECTOR_H

#include "devices/kernels/cpu/real.h"

#if defined(__AVX512F__)
#define TDM_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define TDM_VECTOR_BYTES 32
#else
#define TDM_VECTOR_BYTES 16
#endif

enum { LANES = TDM_VECTOR_BYTES * 8 / TDM_REAL_BITS };
#define ALWAYS_INLINE static inline __attribute__((always_inline, unused))

typedef real vec __attribute__((vector_size(TDM_VECTOR_BYTES)));
typedef real_bits vec_bits __attribute__((vector_size(TDM_VECTOR_BYTES)));
typedef real vec_anywhere
    __attribute__((vector_size(TDM_VECTOR_BYTES), aligned(TDM_REAL_BITS / 8), may_alias));

ALWAYS_INLINE vec vec_set(real value) {
  return value - (vec){0}; /* x - 0 is x, also for -0 */
}

ALWAYS_INLINE vec vec_load(const real *from) {
  return *(const vec_anywhere *)from;
}

ALWAYS_INLINE void vec_store(real *to, vec value) {
  *(vec_anywhere *)to = value;
}

/* mask: all bits of a lane set, or none, as comparisons give it. */
ALWAYS_INLINE vec vec_select(vec_bits mask, vec yes, vec no) {
  return (vec)((mask & (vec_bits)yes) | (~mask & (vec_bits)no));
}

/* All bits set in the first count lanes. */
ALWAYS_INLINE vec_bits vec_mask_first(int64_t count) {
  vec_bits index;
  for (int i = 0; i < LANES; i++)
    index[i] = i;
  const real_bits limit = (real_bits)(count < LANES ? count : LANES);
  return index < (limit - (vec_bits){0});
}

/* Masked loads and stores are called by the compilers' own names: <immintrin.h> takes longer to
 * read than most kernels to compile. */
#if defined(__AVX512F__)
#define LANES_FIRST(count) ((1u << (count)) - 1u)
#elif defined(__AVX2__) && TDM_REAL_BITS == 64
typedef long long vec_mask __attribute__((vector_size(TDM_VECTOR_BYTES)));
#elif defined(__AVX2__)
typedef int vec_mask __attribute__((vector_size(TDM_VECTOR_BYTES)));
#endif

/* The first count lanes (0 <= count, LANES or more means all), zeros elsewhere; touches no memory
 * beyond them. */
ALWAYS_INLINE vec vec_load_first(const real *from, int64_t count) {
  if (count >= LANES) return vec_load(from);
#if defined(__AVX512F__) && TDM_REAL_BITS == 64
  return __builtin_ia32_loadupd512_mask((const void *)from, (vec){0}, (uint8_t)LANES_FIRST(count));
#elif defined(__AVX512F__)
  return __builtin_ia32_loadups512_mask((const void *)from, (vec){0}, (uint16_t)LANES_FIRST(count));
#elif defined(__AVX2__) && TDM_REAL_BITS == 64
  return __builtin_ia32_maskloadpd256((const void *)from, (vec_mask)vec_mask_first(count));
#elif defined(__AVX2__)
  return __builtin_ia32_maskloadps256((const void *)from, (vec_mask)vec_mask_first(count));
#else
  vec value = {0};
  for (int i = 0; i < LANES && i < count; i++)
    value[i] = from[i];
  return value;
#endif
}

ALWAYS_INLINE void vec_store_first(real *to, vec value, int64_t count) {
  if (count >= LANES) {
    vec_store(to, value);
    return;
  }
#if defined(__AVX512F__) && TDM_REAL_BITS == 64
  __builtin_ia32_storeupd512_mask((void *)to, value, (uint8_t)LANES_FIRST(count));
#elif defined(__AVX512F__)
  __builtin_ia32_storeups512_mask((void *)to, value, (uint16_t)LANES_FIRST(count));
#elif defined(__AVX2__) && TDM_REAL_BITS == 64
  __builtin_ia32_maskstorepd256((void *)to, (vec_mask)vec_mask_first(count), value);
#elif defined(__AVX2__)
  __builtin_ia32_maskstoreps256((void *)to, (vec_mask)vec_mask_first(count), value);
#else
  for (int i = 0; i < LANES && i < count; i++)
    to[i] = value[i];
#endif
}

/* Elements as they are stored: the first ones, a whole vector, or all lanes the same; and back. */
ALWAYS_INLINE vec element_load(const stored *from, int64_t count) {
  return vec_load_first(&STORED_VALUE(*from), count);
}

ALWAYS_INLINE vec element_load_whole(const stored *from) {
  return vec_load(&STORED_VALUE(*from));
}

ALWAYS_INLINE vec element_all(stored value) {
  return vec_set(widened(value));
}

ALWAYS_INLINE void element_store(stored *to, vec value, int64_t count) {
  vec_store_first(&STORED_VALUE(*to), value, count);
}

/* The first count lanes of value, `other` elsewhere. */
ALWAYS_INLINE vec vec_keep_first(vec value, int64_t count, real other) {
  return vec_select(vec_mask_first(count), value, vec_set(other));
}

/* In pairs, halves first: one fixed order. The first halves of the widest vectors are added as
 * vectors, of which compilers make better code than of so many lanes. */
ALWAYS_INLINE real vec_sum(vec value) {
#if TDM_VECTOR_BYTES == 64
  typedef real half_vec __attribute__((vector_size(TDM_VECTOR_BYTES / 2)));
  union {
    vec whole;
    half_vec halves[2];
  } both = {.whole = value};
  half_vec sums = both.halves[0] + both.halves[1];
  const int first = LANES / 4;
#else
  vec sums = value;
  const int first = LANES / 2;
#endif
  for (int half = first; half > 0; half /= 2) {
    for (int i = 0; i < half; i++)
      sums[i] += sums[i + half];
  }
  return sums[0];
}

/* A sum of many vectors, lane by lane, in levels: SUM_STEP terms are summed before their sum is
 * added to the level above, so that rounding errors grow with the logarithm of the count. */
#define SUM_STEP 32
#define SUM_LEVELS 3
typedef struct vec_sums {
  vec levels[SUM_LEVELS];
} vec_sums;

/* number: how many were added before. */
ALWAYS_INLINE void vec_sums_add(vec_sums *sums, int64_t number, vec value) {
  sums->levels[0] += value;
  if ((number + 1) % SUM_STEP != 0) return;
  sums->levels[1] += sums->levels[0];
  sums->levels[0] = (vec){0};
  if ((number + 1) % (SUM_STEP * SUM_STEP) != 0) return;
  sums->levels[2] += sums->levels[1];
  sums->levels[1] = (vec){0};
}

ALWAYS_INLINE vec vec_sums_total(const vec_sums *sums) {
  return sums->levels[2] + (sums->levels[1] + sums->levels[0]);
}

ALWAYS_INLINE real vec_max(vec value) {
  real most = value[0];
  for (int i = 1; i < LANES; i++)
    most = value[i] > most ? value[i] : most;
  return most;
}

/* Lanes of a pair of rows exchanged so that blocks of `step` lanes off the diagonal change places:
 * one stage of a transposition. */
ALWAYS_INLINE void vec_exchange(vec *upper, vec *lower, int step) {
  vec_bits first = {0}, second = {0};
  for (int i = 0; i < LANES; i++) {
    first[i] = (i & step) == 0 ? i : LANES + i - step;
    second[i] = (i & step) == 0 ? i + step : LANES + i;
  }
#if defined(__clang__)
  const vec a = *upper, b = *lower;
  for (int i = 0; i < LANES; i++) {
    (*upper)[i] = first[i] < LANES ? a[first[i]] : b[first[i] - LANES];
    (*lower)[i] = second[i] < LANES ? a[second[i]] : b[second[i] - LANES];
  }
#else
  const vec changed = __builtin_shuffle(*upper, *lower, first);
  *lower = __builtin_shuffle(*upper, *lower, second);
  *upper = changed;
#endif
}

/* Transposes a square of LANES rows in registers. */
ALWAYS_INLINE void vec_transpose(vec rows[LANES]) {
#pragma GCC unroll 4
  for (int step = 1; step < LANES; step *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
      if ((i & step) == 0) vec_exchange(&rows[i], &rows[i + step], step);
  }
}

/* Copies a row of count elements; rows are often too short for a call to memcpy. */
ALWAYS_INLINE void row_copy(stored *to, const stored *from, int64_t count) {
  for (int64_t i = 0; i < count; i += LANES)
    element_store(to + i, element_load(from + i, count - i), count - i);
}

ALWAYS_INLINE void row_zero(stored *to, int64_t count) {
  for (int64_t i = 0; i < count; i += LANES)
    element_store(to + i, (vec){0}, count - i);
}

/* Copies a row in whole vectors, which is faster. Overwrites up to one vector after the row. */
ALWAYS_INLINE void row_copy_loose(real *to, const real *from, int64_t count) {
  for (int64_t i = 0; i < count; i += LANES)
    vec_store(to + i, vec_load_first(from + i, count - i));
}

ALWAYS_INLINE void row_zero_loose(real *to, int64_t count) {
  for (int64_t i = 0; i < count; i += LANES)
    vec_store(to + i, (vec){0});
}

/* to += from */
ALWAYS_INLINE void row_add(stored *to, const stored *from, int64_t count) {
  for (int64_t i = 0; i < count; i += LANES) {
    const vec sum = element_load(to + i, count - i) + element_load(from + i, count - i);
    element_store(to + i, sum, count - i);
  }
}

#endif
