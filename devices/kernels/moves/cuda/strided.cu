/* Copies by strides (devices/kernels/moves/strided.h): slices, permutations, repetitions, and
 * padding. Invariant: elements are only moved, by words of their size. */
#include "devices/kernels/elementwise/cuda/convert.h"
#include "devices/kernels/moves/moves.h"
#include "devices/kernels/moves/strided.h"

struct strided_state {
  tdm_strided copy;
  tdm_dtype dtype;
  int64_t filled; /* elements of the padded result */
  double value;
};

static strided_state *prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                              const tdm_strided &copy) {
  strided_state *state = state_create<strided_state>(answer);
  if (!state) return NULL;
  state->copy = copy;
  state->dtype = request->outputs[0].dtype;
  state->filled = count_of(&request->outputs[0]);
  return state;
}

static tdm_status strided_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return prepare(request, answer, tdm_strided_of_copy(request)) ? TDM_OK : TDM_OUT_OF_MEMORY;
}

static tdm_status pad_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  strided_state *state = prepare(request, answer, tdm_strided_of_pad(request));
  if (!state) return TDM_OUT_OF_MEMORY;
  state->value = attributes_of<tdm_pad_attributes>(request)->value;
  return TDM_OK;
}

/* ---- Copying --------------------------------------------------------------------------------- */

/* Copies x to out, both of shape (copy.sizes) with separate strides. */
template <class word> static __global__ void strided(const word *x, word *out, tdm_strided copy) {
  EACH_ELEMENT(i, copy.count) {
    int64_t from = copy.from_begin, to = copy.to_begin, rest = i;
    for (int d = copy.rank - 1; d >= 0; d--) {
      const int64_t outer = d > 0 ? rest / copy.sizes[d] : 0;
      const int64_t place = rest - outer * copy.sizes[d];
      from += place * copy.from[d];
      to += place * copy.to[d];
      rest = outer;
    }
    out[to] = x[from];
  }
}

template <class word> static tdm_status run_strided(const tdm_kernel_call *call) {
  const strided_state *state = state_of<strided_state>(call);
  return kernel_launch(call, "strided", strided<word>, blocks_for(state->copy.count), BLOCK,
                       input_of<word>(call, 0), output_of<word>(call, 0), state->copy);
}

/* ---- Padding --------------------------------------------------------------------------------- */

/* Sets every element of out (count) to these bits. */
template <class word> static __global__ void fill_padding(word *out, word bits, int64_t count) {
  EACH_ELEMENT(i, count) {
    out[i] = bits;
  }
}

template <class word> static tdm_status run_pad(const tdm_kernel_call *call) {
  const strided_state *state = state_of<strided_state>(call);
  TDM_TRY(kernel_launch(call, "fill_padding", fill_padding<word>, blocks_for(state->filled), BLOCK,
                        output_of<word>(call, 0), word_of<word>(state->dtype, state->value),
                        state->filled));
  return run_strided<word>(call);
}

/* ---- Numbers in a row ------------------------------------------------------------------------ */

struct arange_state {
  int64_t count;
  double start;
  double step;
};

static tdm_status arange_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_arange_attributes *attributes = attributes_of<tdm_arange_attributes>(request);
  arange_state *state = state_create<arange_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->outputs[0]);
  state->start = attributes->start;
  state->step = attributes->step;
  return TDM_OK;
}

/* Computes out (count). wide: double or int64, which represents every element exactly. */
template <class number, class wide>
static __global__ void arange(number *out, wide start, wide step, int64_t count) {
  EACH_ELEMENT(i, count) {
    out[i] = (number)(start + (wide)i * step);
  }
}

template <class number, class wide> static tdm_status run_arange(const tdm_kernel_call *call) {
  const arange_state *state = state_of<arange_state>(call);
  return kernel_launch(call, "arange", arange<number, wide>, blocks_for(state->count), BLOCK,
                       output_of<number>(call, 0), (wide)state->start, (wide)state->step,
                       state->count);
}

TYPED_KERNELS(
    strided, KERNEL_OF_EVERY(TDM_OP_STRIDED, strided_prepare, run_strided),
    KERNEL_OF_EVERY(TDM_OP_PAD, pad_prepare, run_pad),
    KERNEL_OF(TDM_FLOAT32, TDM_OP_ARANGE, arange_prepare, (run_arange<float, double>), 0),
    KERNEL_OF(TDM_FLOAT64, TDM_OP_ARANGE, arange_prepare, (run_arange<double, double>), 0),
    KERNEL_OF(TDM_INT32, TDM_OP_ARANGE, arange_prepare, (run_arange<int32_t, int64_t>), 0),
    KERNEL_OF(TDM_INT64, TDM_OP_ARANGE, arange_prepare, (run_arange<int64_t, int64_t>), 0))
