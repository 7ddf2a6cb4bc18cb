/* Means in float64, sums of squared distances over dimensions, and their gradient. x is seen as (a,
 * b, c, d, e), the sums as (a, c, e): b and d are the groups of dimensions that are reduced.
 * Distances are taken and summed in float64. Invariant: every sum is taken in one order, which
 * depends only on the shape, not on the number of sums. */
#include "devices/kernels/cuda/reduce.h"
#include "devices/kernels/reductions/deviations.h"
#include "devices/kernels/reductions/reduction_sizes.h"

static const int64_t PIECE = 8192; /* elements of a sum that a block takes */

/* Plain numbers, which a launch copies. */
struct distances {
  int64_t a, b, c, d, e;
  int64_t pieces; /* of a sum */
  double divisor;
  int64_t squares; /* else distances themselves, for their mean */
  int64_t root;
};

static distances distances_of(const reduce_sizes *sizes, bool squares) {
  const int64_t length = sizes->sizes[1] * sizes->sizes[3];
  distances of = {};
  of.a = sizes->sizes[0];
  of.b = sizes->sizes[1];
  of.c = sizes->sizes[2];
  of.d = sizes->sizes[3];
  of.e = sizes->sizes[4];
  of.pieces = sizes->by_rows ? ceil_div(length > 0 ? length : 1, PIECE) : 1;
  of.divisor = sizes->divisor;
  of.squares = squares;
  return of;
}

static tdm_status state_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                const tdm_shape *x) {
  reduce_sizes *sizes = state_create<reduce_sizes>(answer);
  if (!sizes) return TDM_OUT_OF_MEMORY;
  TDM_TRY(reduce_sizes_read(sizes, request, x));
  const distances of = distances_of(sizes, false);
  answer->workspace_bytes = (size_t)(of.a * of.c * of.e * of.pieces) * sizeof(double);
  return TDM_OK;
}

/* Where term i of a sum lies. */
static __device__ inline int64_t place_of(const distances &of, int64_t sum, int64_t i) {
  const int64_t pair = sum / of.e;
  const int64_t first = (pair / of.c * of.b * of.c + pair % of.c) * of.d * of.e + sum % of.e;
  return first + (i / of.d * of.c * of.d + i % of.d) * of.e;
}

/* Returns the number that is subtracted: the mean, or, when a mean is computed, the first term. */
template <class stored>
static __device__ double near_of(const distances &of, const stored *x, const double *means,
                                 int64_t sum) {
  if (of.squares) return means ? means[sum] : 0;
  return of.b * of.d > 0 ? (double)x[place_of(of, sum, 0)] : 0;
}

/* The sum of terms begin <= i < end, `step` apart. */
template <class stored>
static __device__ double sum_terms(const distances &of, const stored *x, double near, int64_t sum,
                                   int64_t begin, int64_t end, int64_t step) {
  double part = 0;
  for (int64_t i = begin; i < end; i += step) {
    const double apart = (double)x[place_of(of, sum, i)] - near;
    part += of.squares ? apart * apart : apart;
  }
  return part;
}

/* A block a piece of a sum; parts: (sums, pieces). */
template <class stored>
static __global__ void sum_rows(const stored *x, const double *means, double *parts, distances of,
                                int64_t count) {
  const int64_t length = of.b * of.d;
  EACH_OF_GRID(place, count) {
    const int64_t sum = place / of.pieces, begin = place % of.pieces * PIECE;
    const int64_t end = length - begin < PIECE ? length : begin + PIECE;
    const double near = near_of(of, x, means, sum);
    const double part =
        sum_terms(of, x, near, sum, begin + (int64_t)threadIdx.x, end, (int64_t)blockDim.x);
    const double total = block_sum(part);
    if (threadIdx.x == 0) parts[place] = total;
  }
}

/* A thread a sum; parts: (sums). */
template <class stored>
static __global__ void sum_columns(const stored *x, const double *means, double *parts,
                                   distances of, int64_t sums) {
  EACH_ELEMENT(sum, sums) {
    parts[sum] = sum_terms(of, x, near_of(of, x, means, sum), sum, 0, of.b * of.d, 1);
  }
}

/* parts: (sums, pieces). */
static __device__ inline double sum_of_parts(const double *parts, int64_t pieces, int64_t sum) {
  double total = 0;
  for (int64_t i = 0; i < pieces; i++)
    total += parts[sum * pieces + i];
  return total;
}

template <class stored>
static __global__ void finish_means(const stored *x, const double *parts, stored *rounded,
                                    double *out, distances of, int64_t sums) {
  typedef real_of<stored> real;
  const double own = (double)(of.b * of.d);
  EACH_ELEMENT(sum, sums) {
    const double near = near_of(of, x, (const double *)NULL, sum);
    const double total = sum_of_parts(parts, of.pieces, sum);
    out[sum] = own == of.divisor ? near + total / own : (near * own + total) / of.divisor;
    rounded[sum] = (real)out[sum];
  }
}

/* The root of a sum whose squares leave the range of float64. */
template <class stored>
static __device__ double root_of_scaled(const distances &of, const stored *x, double near,
                                        int64_t sum) {
  double largest = 0, squares = 0;
  for (int64_t i = 0; i < of.b * of.d; i++) {
    const double apart = fabs((double)x[place_of(of, sum, i)] - near);
    if (!(apart <= largest) && largest == largest) largest = apart; /* NaN stays */
  }
  if (!(largest > 0) || largest - largest != 0) return largest;
  for (int64_t i = 0; i < of.b * of.d; i++) {
    const double apart = ((double)x[place_of(of, sum, i)] - near) / largest;
    squares += apart * apart;
  }
  return largest * sqrt(squares);
}

template <class stored>
static __global__ void finish_deviations(const stored *x, const double *means, const double *parts,
                                         stored *out, distances of, int64_t sums) {
  typedef real_of<stored> real;
  const double least = 1e-290; /* of squares that have all their digits */
  EACH_ELEMENT(sum, sums) {
    const double total = sum_of_parts(parts, of.pieces, sum);
    const bool is_exact = total > least && total < (double)INFINITY;
    const double near = near_of(of, x, means, sum);
    if (of.root == 0)
      out[sum] = (real)(total / of.divisor);
    else
      out[sum] =
          (real)((is_exact ? sqrt(total) : root_of_scaled(of, x, near, sum)) / sqrt(of.divisor));
  }
}

template <class stored>
static tdm_status run_sums(const tdm_kernel_call *call, const distances &of, const double *means,
                           bool by_rows) {
  const int64_t sums = of.a * of.c * of.e, count = sums * of.pieces;
  const stored *x = input_of<stored>(call, 0);
  double *parts = static_cast<double *>(call->workspace);
  if (by_rows)
    return kernel_launch(call, "deviation_rows", sum_rows<stored>, blocks_of(count),
                         threads_for_row(of.pieces > 1 ? PIECE : of.b * of.d), x, means, parts, of,
                         count);
  return kernel_launch(call, "deviation_columns", sum_columns<stored>, blocks_for(sums), BLOCK, x,
                       means, parts, of, sums);
}

template <class stored> static tdm_status run_mean(const tdm_kernel_call *call) {
  const reduce_sizes *state = state_of<reduce_sizes>(call);
  const distances of = distances_of(state, false);
  const int64_t sums = of.a * of.c * of.e;
  TDM_TRY(run_sums<stored>(call, of, NULL, state->by_rows));
  return kernel_launch(call, "precise_mean", finish_means<stored>, blocks_for(sums), BLOCK,
                       input_of<stored>(call, 0), static_cast<const double *>(call->workspace),
                       output_of<stored>(call, 0), output_of<double>(call, 1), of, sums);
}

static distances deviations_of(const tdm_kernel_call *call) {
  const tdm_deviations_attributes *attributes = attributes_of<tdm_deviations_attributes>(call);
  distances of = distances_of(state_of<reduce_sizes>(call), true);
  of.divisor = deviations_divisor(attributes, of.divisor);
  of.root = attributes->root;
  return of;
}

template <class stored> static tdm_status run_deviations(const tdm_kernel_call *call) {
  const distances of = deviations_of(call);
  const int64_t sums = of.a * of.c * of.e;
  const double *means = input_of<double>(call, 1);
  TDM_TRY(run_sums<stored>(call, of, means, state_of<reduce_sizes>(call)->by_rows));
  return kernel_launch(call, "deviations", finish_deviations<stored>, blocks_for(sums), BLOCK,
                       input_of<stored>(call, 0), means,
                       static_cast<const double *>(call->workspace), output_of<stored>(call, 0), of,
                       sums);
}

static tdm_status forward_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return state_prepare(request, answer, &request->inputs[0].shape);
}

/* ---- Gradient -------------------------------------------------------------------------------- */

/* d_out, out, means: (a, c, e), means may be NULL; x, d_x: (a, b, c, d, e). */
template <class stored>
static __global__ void gradient(const stored *d_out, const stored *x, const stored *out,
                                const double *means, stored *d_x, distances of, int64_t count) {
  typedef real_of<stored> real;
  EACH_ELEMENT(i, count) {
    const int64_t rest = i / of.e / of.d;
    const int64_t sum = (rest / of.c / of.b * of.c + rest % of.c) * of.e + i % of.e;
    const double apart = (double)x[i] - (means ? means[sum] : 0);
    const double d = (double)d_out[sum] / of.divisor, size = (double)out[sum];
    d_x[i] = (real)(of.root == 0 ? 2 * apart * d : size == 0 ? 0 : apart / size * d);
  }
}

template <class stored> static tdm_status run_gradient(const tdm_kernel_call *call) {
  const distances of = deviations_of(call);
  const int64_t count = of.a * of.b * of.c * of.d * of.e;
  return kernel_launch(call, "deviations_gradient", gradient<stored>, blocks_for(count), BLOCK,
                       input_of<stored>(call, 0), input_of<stored>(call, 1),
                       input_of<stored>(call, 2), input_of<double>(call, 3),
                       output_of<stored>(call, 0), of, count);
}

static tdm_status gradient_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  TDM_TRY(state_prepare(request, answer, &request->inputs[1].shape));
  answer->workspace_bytes = 0;
  return TDM_OK;
}

KERNELS(deviations, KERNEL(TDM_OP_PRECISE_MEAN, forward_prepare, run_mean<stored>),
        KERNEL(TDM_OP_DEVIATIONS, forward_prepare, run_deviations<stored>),
        KERNEL(TDM_OP_DEVIATIONS_GRADIENT, gradient_prepare, run_gradient<stored>))
