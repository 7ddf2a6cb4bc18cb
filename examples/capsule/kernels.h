/* The kernels of the capsule operations, for float32 and for float64: each of the two sources is
 * compiled twice, for CAPSULE_REAL_BITS. Uses only tandem.h. */
#ifndef EXAMPLES_CAPSULE_KERNELS_H
#define EXAMPLES_CAPSULE_KERNELS_H

#include <tandem/tandem.h>

/* ---- Attributes ------------------------------------------------------------------------------ */

/* Limits of the memory on the stack for an image: capsules above, their numbers, iterations. */
enum { MOST_ABOVE = 64, MOST_WIDTH = 1024, MOST_ITERATIONS = 8 };
typedef struct routing_attributes {
  int64_t iterations;
} routing_attributes;

typedef struct primary_attributes {
  int64_t size; /* numbers of a capsule */
} primary_attributes;

/* Margins of the loss, and the weight of classes that are not there (Sabour, Frosst, Hinton 2017,
 * equation 4). */
#define MARGIN_PRESENT 0.9
#define MARGIN_ABSENT 0.1
#define ABSENT_WEIGHT 0.5
typedef struct margin_attributes {
  int64_t rows; /* divisor of the sum; 0: the number of rows */
} margin_attributes;

/* ---- Tables: kernels of one dtype ------------------------------------------------------------ */

enum { ROUTING_KERNEL_COUNT = 4, UNIT_KERNEL_COUNT = 6 };
extern const tdm_kernel routing_kernels_float32[ROUTING_KERNEL_COUNT];
extern const tdm_kernel routing_kernels_float64[ROUTING_KERNEL_COUNT];
extern const tdm_kernel unit_kernels_float32[UNIT_KERNEL_COUNT];
extern const tdm_kernel unit_kernels_float64[UNIT_KERNEL_COUNT];

/* ---- For the sources ------------------------------------------------------------------------- */

#ifdef CAPSULE_REAL_BITS
#if CAPSULE_REAL_BITS == 32
typedef float real;
#define REAL_DTYPE TDM_FLOAT32
#define REAL(name) name##_float32
#else
typedef double real;
#define REAL_DTYPE TDM_FLOAT64
#define REAL(name) name##_float64
#endif

#define KERNEL(name, function)                                                                     \
  {                                                                                                \
    .struct_size = sizeof(tdm_kernel), .operation = name, .executes = "cpu", .dtype = REAL_DTYPE,  \
    .prepare = prepare, .execute = function                                                        \
  }

/* All of them gain from the device's threads. */
static inline tdm_status prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  answer->splits = request->team_size > 1;
  return TDM_OK;
}

/* The sum of a[i] b[i], in eight sums of every eighth term, which a vector holds. */
static inline real dot(const real *a, const real *b, int64_t count) {
  enum { LANES = 8 };
  real sums[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    for (int lane = 0; lane < LANES; lane++)
      sums[lane] += a[i + lane] * b[i + lane];
  for (int lane = 0; i < count; i++, lane++)
    sums[lane] += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

/* Adds `by` * x to to. */
static inline void add_scaled(real *to, real by, const real *x, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    to[i] += by * x[i];
}
#endif

#endif
