/* Functions of two numbers, element by element, of operands that are broadcast to one shape.
 * Invariant: an element of the result depends on one element of each operand alone; operands of one
 * shape need no place to be found. */
#include "devices/cuda/kernels/broadcast.h"

static const int OPERANDS = 2;

struct binary_state {
  broadcast_state shape;
  bool wide; /* elements of 8 bytes */
};

static tdm_status prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  binary_state *state = state_create<binary_state>(answer);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  broadcast_prepare(request, OPERANDS, &state->shape);
  state->wide = tdm_dtype_bytes(request->outputs[0].dtype) == 8;
  return TDM_OK;
}

/* ---- Formulas -------------------------------------------------------------------------------- */

struct sum {
  template <class number> static __device__ number of(number a, number b) {
    return a + b;
  }
};

struct difference {
  template <class real> static __device__ real of(real a, real b) {
    return a - b;
  }
};

struct product {
  template <class real> static __device__ real of(real a, real b) {
    return a * b;
  }
};

struct quotient {
  template <class real> static __device__ real of(real a, real b) {
    return a / b;
  }
};

/* A NaN of either operand is the result. */
struct larger {
  template <class real> static __device__ real of(real a, real b) {
    return a > b || a != a ? a : b;
  }
};

struct smaller {
  template <class real> static __device__ real of(real a, real b) {
    return a < b || a != a ? a : b;
  }
};

struct share_of_larger {
  template <class real> static __device__ real of(real a, real b) {
    return a < b ? (real)0 : a == b ? (real)0.5 : (real)1;
  }
};

/* ---- Kernels --------------------------------------------------------------------------------- */

/* a, b, out: (count). */
template <class number, class formula>
static __global__ void of_one_shape(const number *a, const number *b, number *out, int64_t count) {
  EACH_ELEMENT(i, count) {
    out[i] = formula::of(a[i], b[i]);
  }
}

/* out: (sizes), count in all; a and b lack the dimensions that they repeat. */
template <class number, class formula>
static __global__ void broadcast(const number *a, const number *b, number *out, int64_t count,
                                 uint32_t a_repeats, uint32_t b_repeats, BROADCAST_PARAMETERS) {
  const int64_t sizes[TDM_MAX_RANK] = BROADCAST_SIZES;
  const uint32_t repeats[OPERANDS] = {a_repeats, b_repeats};
  EACH_ELEMENT(i, count) {
    int64_t at[OPERANDS];
    find_places<OPERANDS>(i, rank, sizes, repeats, at);
    out[i] = formula::of(a[at[0]], b[at[1]]);
  }
}

static const binary_state *state_of(const tdm_kernel_call *call) {
  return static_cast<const binary_state *>(call->state);
}

template <class number, class formula>
static tdm_status run(const tdm_kernel_call *call, const char *name) {
  const broadcast_state *shape = &state_of(call)->shape;
  const number *a = input_of<number>(call, 0), *b = input_of<number>(call, 1);
  number *out = output_of<number>(call, 0);
  const int64_t blocks = blocks_for(shape->count);
  if (shape->plain) {
    return kernel_launch(call, name, of_one_shape<number, formula>, blocks, BLOCK, a, b, out,
                         shape->count);
  }
  return kernel_launch(call, name, broadcast<number, formula>, blocks, BLOCK, a, b, out,
                       shape->count, shape->repeats[0], shape->repeats[1],
                       BROADCAST_ARGUMENTS(shape->broadcast));
}

#define KERNEL(name, formula, wide_number, number)                                                 \
  tdm_status tdm_cuda_##name##_prepare(const tdm_kernel_request *request,                          \
                                       tdm_kernel_answer *answer) {                                \
    return prepare(request, answer);                                                               \
  }                                                                                                \
  tdm_status tdm_cuda_##name##_execute(const tdm_kernel_call *call) {                              \
    return state_of(call)->wide ? run<wide_number, formula>(call, #name)                           \
                                : run<number, formula>(call, #name);                               \
  }

KERNEL(add, sum, double, float)
/* Wraps on overflow, as unsigned sums do. */
KERNEL(add_integers, sum, uint64_t, uint32_t)
KERNEL(sub, difference, double, float)
KERNEL(mul, product, double, float)
KERNEL(div, quotient, double, float)
KERNEL(maximum, larger, double, float)
KERNEL(minimum, smaller, double, float)
KERNEL(maximum_share, share_of_larger, double, float)
