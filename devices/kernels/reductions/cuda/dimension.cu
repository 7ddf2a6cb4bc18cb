/* The largest or least element along a dimension, products, logarithms of sums of exponentials, and
 * gradients. x is seen as (outer, size, inner). Invariant: of equal elements the first counts, and
 * a NaN is beyond all. */
#include "devices/kernels/axis_sizes.h"
#include "devices/kernels/cuda/reduce.h"
#include "devices/kernels/reductions/reductions.h"

struct dimension_state : axis_sizes {
  bool least;
};

static tdm_status dimension_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                    const tdm_spec *x) {
  const tdm_dimension_attributes *attributes = attributes_of<tdm_dimension_attributes>(request);
  dimension_state *state = state_create<dimension_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  axis_sizes_read(state, x, attributes->dimension);
  state->least = attributes->least != 0;
  return TDM_OK;
}

/* ---- Extremes -------------------------------------------------------------------------------- */

/* Returns true if x comes before best. For the least, values are negated. */
template <class real> static __device__ bool is_beyond(real x, real best) {
  return x > best || (x != x && best == best);
}

struct farthest_of_two {
  template <class real> static __device__ real of(real a, real b) {
    return is_beyond(b, a) ? b : a;
  }
};

template <class real> static __device__ real extreme_of_none(bool least) {
  return least ? (real)INFINITY : (real)-INFINITY;
}

/* A row a block; x: (outer, size), values, indices: (outer). */
template <class stored>
static __global__ void extremes_of_rows(const stored *x, stored *values, int64_t *indices,
                                        int64_t outer, int64_t size, bool least) {
  typedef real_of<stored> real;
  EACH_OF_GRID(row, outer) {
    const stored *from = x + row * size;
    real best = -INFINITY;
    EACH_OF_BLOCK(i, size) {
      best = farthest_of_two::of(best, least ? -from[i] : (real)from[i]);
    }
    best = block_reduce<farthest_of_two>(best);
    int64_t first = size;
    EACH_OF_BLOCK(i, size) {
      const real value = least ? -from[i] : (real)from[i];
      if (i < first && (value == best || (value != value && best != best))) first = i;
    }
    first = block_reduce<smaller_of_two>(first);
    if (threadIdx.x == 0) {
      values[row] = size > 0 ? (real)from[first] : extreme_of_none<real>(least);
      indices[row] = first;
    }
  }
}

/* A column a thread; x: (outer, size, inner), values, indices: (outer, inner). */
template <class stored>
static __global__ void extremes_of_columns(const stored *x, stored *values, int64_t *indices,
                                           int64_t size, int64_t inner, bool least, int64_t count) {
  typedef real_of<stored> real;
  EACH_ELEMENT(place, count) {
    const stored *from = x + place / inner * size * inner + place % inner;
    int64_t best = 0;
    for (int64_t i = 1; i < size; i++) {
      const real value = from[i * inner], other = from[best * inner];
      if (is_beyond(least ? -value : value, least ? -other : other)) best = i;
    }
    values[place] = size > 0 ? (real)from[best * inner] : extreme_of_none<real>(least);
    indices[place] = best;
  }
}

template <class stored> static tdm_status run_extreme(const tdm_kernel_call *call) {
  const dimension_state *state = state_of<dimension_state>(call);
  const int64_t count = state->outer * state->inner;
  if (state->inner == 1) {
    return kernel_launch(call, "extreme", extremes_of_rows<stored>, blocks_of(count),
                         threads_for_row(state->size), input_of<stored>(call, 0),
                         output_of<stored>(call, 0), output_of<int64_t>(call, 1), state->outer,
                         state->size, state->least);
  }
  return kernel_launch(call, "extreme", extremes_of_columns<stored>, blocks_for(count), BLOCK,
                       input_of<stored>(call, 0), output_of<stored>(call, 0),
                       output_of<int64_t>(call, 1), state->size, state->inner, state->least, count);
}

static tdm_status prepare_forward(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return dimension_prepare(request, answer, &request->inputs[0]);
}

/* d_values, indices: (outer, inner), d_x: (outer, size, inner), count in all. */
template <class stored>
static __global__ void put_back(const stored *d_values, const int64_t *indices, stored *d_x,
                                int64_t size, int64_t inner, int64_t count) {
  EACH_ELEMENT(i, count) {
    const int64_t from = i / inner / size * inner + i % inner;
    d_x[i] = indices[from] == i / inner % size ? (real_of<stored>)d_values[from] : 0;
  }
}

template <class stored> static tdm_status run_extreme_gradient(const tdm_kernel_call *call) {
  const dimension_state *state = state_of<dimension_state>(call);
  const int64_t count = state->outer * state->size * state->inner;
  return kernel_launch(call, "extreme_gradient", put_back<stored>, blocks_for(count), BLOCK,
                       input_of<stored>(call, 0), input_of<int64_t>(call, 1),
                       output_of<stored>(call, 0), state->size, state->inner, count);
}

static tdm_status extreme_gradient_prepare(const tdm_kernel_request *request,
                                           tdm_kernel_answer *answer) {
  return dimension_prepare(request, answer, &request->outputs[0]);
}

/* ---- Products -------------------------------------------------------------------------------- */

/* A column a thread, in float64; x: (outer, size, inner), y: (outer, inner). */
template <class stored>
static __global__ void products(const stored *x, stored *y, int64_t size, int64_t inner,
                                int64_t columns) {
  typedef real_of<stored> real;
  EACH_ELEMENT(place, columns) {
    const int64_t first = place / inner * size * inner + place % inner;
    double product = 1;
    for (int64_t i = 0; i < size; i++)
      product *= x[first + i * inner];
    y[place] = (real)product;
  }
}

template <class stored> static tdm_status run_prod(const tdm_kernel_call *call) {
  const dimension_state *state = state_of<dimension_state>(call);
  const int64_t columns = state->outer * state->inner;
  return kernel_launch(call, "prod", products<stored>, blocks_for(columns), BLOCK,
                       input_of<stored>(call, 0), output_of<stored>(call, 0), state->size,
                       state->inner, columns);
}

/* Computes a column per thread: d_y times the product of the other elements. That is the product of
 * all elements divided by x, as PyTorch computes it, so that a product that is not finite has
 * PyTorch's gradient. d_y: (outer, inner), x, d_x: (outer, size, inner). */
template <class stored>
static __global__ void products_of_others(const stored *d_y, const stored *x, stored *d_x,
                                          int64_t size, int64_t inner, int64_t columns) {
  typedef real_of<stored> real;
  EACH_ELEMENT(place, columns) {
    const int64_t first = place / inner * size * inner + place % inner;
    double product = 1; /* of all elements except zeros */
    int64_t zeros = 0;
    for (int64_t i = 0; i < size; i++) {
      const double value = x[first + i * inner];
      product *= value == 0 ? 1 : value;
      zeros += value == 0;
    }
    const double d = d_y[place];
    for (int64_t i = 0; i < size; i++) {
      const double value = x[first + i * inner];
      const bool is_only_zero = zeros == 1 && value == 0;
      const double others = zeros == 0 ? product / value : is_only_zero ? product : 0 * product;
      d_x[first + i * inner] = (real)(d * others);
    }
  }
}

template <class stored> static tdm_status run_prod_gradient(const tdm_kernel_call *call) {
  const dimension_state *state = state_of<dimension_state>(call);
  const int64_t columns = state->outer * state->inner;
  return kernel_launch(call, "prod_gradient", products_of_others<stored>, blocks_for(columns),
                       BLOCK, input_of<stored>(call, 0), input_of<stored>(call, 1),
                       output_of<stored>(call, 0), state->size, state->inner, columns);
}

static tdm_status prod_gradient_prepare(const tdm_kernel_request *request,
                                        tdm_kernel_answer *answer) {
  return dimension_prepare(request, answer, &request->inputs[1]);
}

/* ---- Logarithms of sums of exponentials ------------------------------------------------------ */

/* Returns the number to subtract before exponentials are taken: the largest, or 0 if that is
 * infinite or NaN. */
template <class real> static __device__ real finite_shift(real most) {
  return most - most == 0 ? most : 0;
}

/* A row a block; x: (outer, size), y: (outer). */
template <class stored>
static __global__ void logsumexp_of_rows(const stored *x, stored *y, int64_t outer, int64_t size) {
  typedef real_of<stored> real;
  EACH_OF_GRID(row, outer) {
    const stored *from = x + row * size;
    real most = -INFINITY, part = 0;
    EACH_OF_BLOCK(i, size) {
      most = larger_of_two::of(most, (real)from[i]);
    }
    const real shift = finite_shift(block_reduce<larger_of_two>(most));
    EACH_OF_BLOCK(i, size) {
      part += exp(from[i] - shift);
    }
    const real sum = block_sum(part);
    if (threadIdx.x == 0) y[row] = log(sum) + shift;
  }
}

/* A column a thread; x: (outer, size, inner), y: (outer, inner). */
template <class stored>
static __global__ void logsumexp_of_columns(const stored *x, stored *y, int64_t size, int64_t inner,
                                            int64_t columns) {
  typedef real_of<stored> real;
  EACH_ELEMENT(place, columns) {
    const stored *from = x + place / inner * size * inner + place % inner;
    real most = -INFINITY;
    for (int64_t i = 0; i < size; i++)
      most = larger_of_two::of(most, (real)from[i * inner]);
    const real shift = finite_shift(most);
    levelled_sum<real> sum = {};
    for (int64_t i = 0; i < size; i++)
      sum.add(i, exp(from[i * inner] - shift));
    y[place] = log(sum.total()) + shift;
  }
}

template <class stored> static tdm_status run_logsumexp(const tdm_kernel_call *call) {
  const dimension_state *state = state_of<dimension_state>(call);
  const int64_t count = state->outer * state->inner;
  if (state->inner == 1) {
    return kernel_launch(call, "logsumexp", logsumexp_of_rows<stored>, blocks_of(count),
                         threads_for_row(state->size), input_of<stored>(call, 0),
                         output_of<stored>(call, 0), state->outer, state->size);
  }
  return kernel_launch(call, "logsumexp", logsumexp_of_columns<stored>, blocks_for(count), BLOCK,
                       input_of<stored>(call, 0), output_of<stored>(call, 0), state->size,
                       state->inner, count);
}

KERNELS(dimension, KERNEL(TDM_OP_EXTREME, prepare_forward, run_extreme<stored>),
        KERNEL(TDM_OP_EXTREME_GRADIENT, extreme_gradient_prepare, run_extreme_gradient<stored>),
        KERNEL(TDM_OP_PROD, prepare_forward, run_prod<stored>),
        KERNEL(TDM_OP_PROD_GRADIENT, prod_gradient_prepare, run_prod_gradient<stored>),
        KERNEL(TDM_OP_LOGSUMEXP, prepare_forward, run_logsumexp<stored>))
