/* Fills and conversions between dtypes. Invariant: float to integer truncates and saturates, NaN
 * becomes 0, integers pass through int64; the dtypes are the same for all threads, so that their
 * branches do not diverge. */
#include "devices/conversions.h"
#include "devices/cuda/kernels/elements.h"
#include "devices/cuda/kernels/kernel.h"

struct cast_state {
  int64_t count;
  tdm_dtype from;
  tdm_dtype to;
  double value; /* of fill */
};

/* ---- One value ------------------------------------------------------------------------------- */

static __host__ __device__ inline int64_t saturate(double x, double least, double most,
                                                   int64_t top) {
  if (!(x > least)) return x <= least ? (int64_t)least : 0; /* NaN: 0 */
  return x >= most ? top : (int64_t)x;
}

#define STORE_DOUBLE(dtype, element, of_double, of_int64)                                          \
  if (to == dtype) static_cast<element *>(out)[i] = of_double;
#define STORE_INT64(dtype, element, of_double, of_int64)                                           \
  if (to == dtype) static_cast<element *>(out)[i] = of_int64;

static __host__ __device__ inline void store_double(tdm_dtype to, void *out, int64_t i, double x) {
  TDM_CONVERSIONS(STORE_DOUBLE)
}

static __device__ inline void store_int64(tdm_dtype to, void *out, int64_t i, int64_t x) {
  TDM_CONVERSIONS(STORE_INT64)
}

static __device__ inline int64_t load_int64(tdm_dtype from, const void *x, int64_t i) {
  if (from == TDM_INT64) return static_cast<const int64_t *>(x)[i];
  if (from == TDM_INT32) return static_cast<const int32_t *>(x)[i];
  return static_cast<const uint8_t *>(x)[i]; /* uint8, bool */
}

/* ---- cast ------------------------------------------------------------------------------------ */

/* x, out: (count). */
static __global__ void cast(tdm_dtype from, const void *x, tdm_dtype to, void *out, int64_t count) {
  EACH_ELEMENT(i, count) {
    if (from == TDM_FLOAT32) {
      store_double(to, out, i, static_cast<const float *>(x)[i]);
    } else if (from == TDM_FLOAT64) {
      store_double(to, out, i, static_cast<const double *>(x)[i]);
    } else {
      store_int64(to, out, i, load_int64(from, x, i));
    }
  }
}

static tdm_status cast_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  cast_state *state = state_create<cast_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->outputs[0]);
  state->from = request->inputs[0].dtype;
  state->to = request->outputs[0].dtype;
  return TDM_OK;
}

/* Words of the result have their use in fill alone. */
template <class word> static tdm_status run_cast(const tdm_kernel_call *call) {
  const cast_state *state = state_of<cast_state>(call);
  return kernel_launch(call, "cast", cast, blocks_for(state->count), BLOCK, state->from,
                       call->inputs[0], state->to, call->outputs[0], state->count);
}

/* ---- fill ------------------------------------------------------------------------------------ */

/* out: (count), every element these bits. */
template <class word> static __global__ void fill(word *out, word bits, int64_t count) {
  EACH_ELEMENT(i, count) {
    out[i] = bits;
  }
}

static tdm_status fill_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_fill_attributes *attributes = attributes_of<tdm_fill_attributes>(request);
  cast_state *state = state_create<cast_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->outputs[0]);
  state->to = request->outputs[0].dtype;
  state->value = attributes->value;
  return TDM_OK;
}

/* The bits are made on the host. */
template <class word> static tdm_status run_fill(const tdm_kernel_call *call) {
  const cast_state *state = state_of<cast_state>(call);
  union {
    double widest;
    word bits;
  } element = {};
  store_double(state->to, &element, 0, state->value);
  return kernel_launch(call, "fill", fill<word>, blocks_for(state->count), BLOCK,
                       output_of<word>(call, 0), element.bits, state->count);
}

#define CAST(dtype, word, element)                                                                 \
  KERNEL_OF(dtype, TDM_OP_CAST, cast_prepare, run_cast<word>, element)

/* Fused nodes have one real dtype, and bools. */
TYPED_KERNELS(cast, CAST(TDM_FLOAT32, uint32_t, ELEMENT_CAST),
              CAST(TDM_FLOAT64, uint64_t, ELEMENT_CAST), CAST(TDM_INT32, uint32_t, 0),
              CAST(TDM_INT64, uint64_t, 0), CAST(TDM_UINT8, uint8_t, 0),
              CAST(TDM_BOOL, uint8_t, ELEMENT_CAST),
              KERNEL_OF_ALL(TDM_OP_FILL, fill_prepare, run_fill))
