/* Kernels that move elements and compute nothing: select, its gradient, and the exchange of the
 * first two dimensions. They go by words of the elements' size. */
#include "devices/kernels/axis_sizes.h"
#include "devices/kernels/cuda/kernel.h"
#include "devices/kernels/moves/shape.h"

struct select_state : axis_sizes {
  int64_t count; /* elements of the result */
  int64_t index;
};

/* Prepares the kernel. whole: index of the tensor that has the dimension. */
static tdm_status prepare_select(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                 const tdm_spec *whole) {
  const tdm_select_attributes *attributes = attributes_of<tdm_select_attributes>(request);
  select_state *state = state_create<select_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->outputs[0]);
  axis_sizes_read(state, whole, attributes->dimension);
  state->index = attributes->index < 0 ? attributes->index + state->size : attributes->index;
  return TDM_OK;
}

/* ---- select ---------------------------------------------------------------------------------- */

/* Computes out (outer, inner) from x (outer, size, inner). */
template <class word>
static __global__ void select_one(const word *x, word *out, int64_t size, int64_t inner,
                                  int64_t index, int64_t count) {
  EACH_ELEMENT(i, count) {
    out[i] = x[(i / inner * size + index) * inner + i % inner];
  }
}

template <class word> static tdm_status run_select(const tdm_kernel_call *call) {
  const select_state *state = state_of<select_state>(call);
  return kernel_launch(call, "select", select_one<word>, blocks_for(state->count), BLOCK,
                       input_of<word>(call, 0), output_of<word>(call, 0), state->size, state->inner,
                       state->index, state->count);
}

static tdm_status select_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return prepare_select(request, answer, &request->inputs[0]);
}

/* Computes d_x (outer, size, inner) from d_out (outer, inner). */
template <class word>
static __global__ void select_gradient(const word *d_out, word *d_x, int64_t size, int64_t inner,
                                       int64_t index, int64_t count) {
  EACH_ELEMENT(i, count) {
    const int64_t place = i / inner;
    d_x[i] = place % size == index ? d_out[place / size * inner + i % inner] : 0;
  }
}

template <class word> static tdm_status run_select_gradient(const tdm_kernel_call *call) {
  const select_state *state = state_of<select_state>(call);
  return kernel_launch(call, "select_gradient", select_gradient<word>, blocks_for(state->count),
                       BLOCK, input_of<word>(call, 0), output_of<word>(call, 0), state->size,
                       state->inner, state->index, state->count);
}

static tdm_status select_gradient_prepare(const tdm_kernel_request *request,
                                          tdm_kernel_answer *answer) {
  return prepare_select(request, answer, &request->outputs[0]);
}

/* ---- Exchange of two dimensions -------------------------------------------------------------- */

struct exchange_state {
  int64_t count;
  int64_t rows; /* x is (outer, rows, middle, columns, inner) */
  int64_t middle;
  int64_t columns;
  int64_t inner;
};

/* Copies x (outer, rows, middle, columns, inner) to out (outer, columns, middle, rows, inner). */
template <class word>
static __global__ void exchange(const word *x, word *out, int64_t rows, int64_t middle,
                                int64_t columns, int64_t inner, int64_t count) {
  EACH_ELEMENT(i, count) {
    int64_t place = i / inner;
    const int64_t row = place % rows;
    place /= rows;
    const int64_t between = place % middle;
    place /= middle;
    const int64_t column = place % columns, outer = place / columns;
    const int64_t from = ((outer * rows + row) * middle + between) * columns + column;
    out[i] = x[from * inner + i % inner];
  }
}

static tdm_status prepare_exchange(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                   int64_t first, int64_t second) {
  const tdm_spec *x = &request->inputs[0];
  exchange_state *state = state_create<exchange_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(x);
  state->rows = x->shape.dims[first];
  state->middle = dims_product(x, first + 1, second);
  state->columns = x->shape.dims[second];
  state->inner = dims_product(x, second + 1, x->shape.rank);
  return TDM_OK;
}

template <class word> static tdm_status run_exchange(const tdm_kernel_call *call) {
  const exchange_state *state = state_of<exchange_state>(call);
  return kernel_launch(call, "exchange", exchange<word>, blocks_for(state->count), BLOCK,
                       input_of<word>(call, 0), output_of<word>(call, 0), state->rows,
                       state->middle, state->columns, state->inner, state->count);
}

static tdm_status swap_first_dimensions_prepare(const tdm_kernel_request *request,
                                                tdm_kernel_answer *answer) {
  return prepare_exchange(request, answer, 0, 1);
}

static tdm_status transpose_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_transpose_attributes *attributes = attributes_of<tdm_transpose_attributes>(request);
  return prepare_exchange(request, answer, attributes->first, attributes->second);
}

TYPED_KERNELS(shape, KERNEL_OF_EVERY(TDM_OP_SELECT, select_prepare, run_select),
              KERNEL_OF(TDM_FLOAT32, TDM_OP_SELECT_GRADIENT, select_gradient_prepare,
                        run_select_gradient<uint32_t>, 0),
              KERNEL_OF(TDM_FLOAT64, TDM_OP_SELECT_GRADIENT, select_gradient_prepare,
                        run_select_gradient<uint64_t>, 0),
              KERNEL_OF_EVERY(TDM_OP_SWAP_FIRST_DIMENSIONS, swap_first_dimensions_prepare,
                              run_exchange),
              KERNEL_OF_EVERY(TDM_OP_TRANSPOSE, transpose_prepare, run_exchange))
