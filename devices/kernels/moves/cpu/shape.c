/* Kernels that move elements and compute nothing: select, its gradient, and the exchange of two
 * dimensions. They go by the elements' size. */
#include <string.h>

#include "core/status.h"
#include "devices/kernels/cpu/family.h"
#include "devices/kernels/moves/shape.h"

/* The sizes of the copied data, in bytes; a tensor is (outer, size, inner). */
typedef struct shape_state {
  int64_t outer;
  int64_t size;
  int64_t index;
  size_t inner_bytes;
} shape_state;

/* ---- select ---------------------------------------------------------------------------------- */

/* Prepares the kernel. whole: index of the tensor that has the dimension. */
static tdm_status prepare_select(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                 const tdm_spec *whole) {
  const tdm_select_attributes *attributes = request->attributes;
  shape_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  const int64_t dimension = attributes->dimension;
  state->outer = dims_product(whole, 0, dimension);
  state->size = whole->shape.dims[dimension];
  state->inner_bytes =
      (size_t)dims_product(whole, dimension + 1, whole->shape.rank) * tdm_dtype_bytes(whole->dtype);
  state->index = attributes->index < 0 ? attributes->index + state->size : attributes->index;
  return TDM_OK;
}

static tdm_status select_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return prepare_select(request, answer, &request->inputs[0]);
}

static tdm_status select_execute(const tdm_kernel_call *call) {
  const shape_state *state = call->state;
  const size_t inner = state->inner_bytes;
  const char *x = (const char *)call->inputs[0] + (size_t)state->index * inner;
  char *out = call->outputs[0];
  for (int64_t i = 0; i < state->outer; i++, x += (size_t)state->size * inner, out += inner)
    memcpy(out, x, inner);
  return TDM_OK;
}

static tdm_status select_gradient_prepare(const tdm_kernel_request *request,
                                          tdm_kernel_answer *answer) {
  return prepare_select(request, answer, &request->outputs[0]);
}

static tdm_status select_gradient_execute(const tdm_kernel_call *call) {
  const shape_state *state = call->state;
  const size_t inner = state->inner_bytes;
  const size_t before = (size_t)state->index * inner;
  const size_t after = (size_t)(state->size - state->index - 1) * inner;
  const char *d_out = call->inputs[0];
  char *d_x = call->outputs[0];
  for (int64_t i = 0; i < state->outer; i++, d_out += inner, d_x += after) {
    memset(d_x, 0, before);
    d_x += before;
    memcpy(d_x, d_out, inner);
    d_x += inner;
    memset(d_x, 0, after);
  }
  return TDM_OK;
}

/* ---- Exchange of two dimensions --------------------------------------------------------------
 */

typedef struct exchange_state {
  int64_t outer; /* x is (outer, rows, middle, columns, inner) */
  int64_t rows;
  int64_t middle;
  int64_t columns;
  size_t inner_bytes;
} exchange_state;

static tdm_status prepare_exchange(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                   int first, int second) {
  const tdm_spec *x = &request->inputs[0];
  exchange_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->outer = dims_product(x, 0, first);
  state->rows = x->shape.dims[first];
  state->middle = dims_product(x, first + 1, second);
  state->columns = x->shape.dims[second];
  state->inner_bytes =
      (size_t)dims_product(x, second + 1, x->shape.rank) * tdm_dtype_bytes(x->dtype);
  return TDM_OK;
}

#define EXCHANGE_BLOCK 16 /* rows of both sides that stay in the first cache */

/* Elements of 1 to 8 bytes, in blocks: out (columns, middle, rows) = x (rows, middle, columns), of
 * which one place of the middle. */
#define EXCHANGE_ELEMENTS(type)                                                                    \
  static void exchange_##type(const type *x, type *out, int64_t rows, int64_t middle,              \
                              int64_t columns) {                                                   \
    for (int64_t i0 = 0; i0 < rows; i0 += EXCHANGE_BLOCK) {                                        \
      const int64_t i1 = lesser_of(rows, i0 + EXCHANGE_BLOCK);                                     \
      for (int64_t j = 0; j < columns; j++) {                                                      \
        for (int64_t i = i0; i < i1; i++)                                                          \
          out[j * middle * rows + i] = x[i * middle * columns + j];                                \
      }                                                                                            \
    }                                                                                              \
  }
EXCHANGE_ELEMENTS(uint8_t)
EXCHANGE_ELEMENTS(uint16_t)
EXCHANGE_ELEMENTS(uint32_t)
EXCHANGE_ELEMENTS(uint64_t)

/* Copies the rows of `inner` bytes of one index of the middle. */
static void exchange_rows(const exchange_state *state, const char *x, char *out) {
  const size_t inner = state->inner_bytes;
  const int64_t rows = state->rows, middle = state->middle, columns = state->columns;
  for (int64_t j = 0; j < columns; j++) {
    for (int64_t i = 0; i < rows; i++) {
      memcpy(out + (size_t)(j * middle * rows + i) * inner,
             x + (size_t)(i * middle * columns + j) * inner, inner);
    }
  }
}

static tdm_status exchange(const tdm_kernel_call *call) {
  const exchange_state *state = call->state;
  const size_t inner = state->inner_bytes;
  const int64_t rows = state->rows, middle = state->middle, columns = state->columns;
  for (int64_t i = 0; i < state->outer * middle; i++) {
    const int64_t slice = i / middle * middle * rows * columns, place = i % middle;
    const char *x = (const char *)call->inputs[0] + (size_t)(slice + place * columns) * inner;
    char *out = (char *)call->outputs[0] + (size_t)(slice + place * rows) * inner;
    if (inner == sizeof(uint32_t))
      exchange_uint32_t((const void *)x, (void *)out, rows, middle, columns);
    else if (inner == sizeof(uint64_t))
      exchange_uint64_t((const void *)x, (void *)out, rows, middle, columns);
    else if (inner == sizeof(uint8_t))
      exchange_uint8_t((const void *)x, (void *)out, rows, middle, columns);
    else if (inner == sizeof(uint16_t))
      exchange_uint16_t((const void *)x, (void *)out, rows, middle, columns);
    else
      exchange_rows(state, x, out);
  }
  return TDM_OK;
}

static tdm_status swap_first_dimensions_prepare(const tdm_kernel_request *request,
                                                tdm_kernel_answer *answer) {
  return prepare_exchange(request, answer, 0, 1);
}

static tdm_status transpose_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_transpose_attributes *attributes = request->attributes;
  return prepare_exchange(request, answer, (int)attributes->first, (int)attributes->second);
}

KERNELS(shape, KERNEL_OF_EVERY(TDM_OP_SELECT, select_prepare, select_execute, NULL),
        KERNEL_OF_FLOATS(TDM_OP_SELECT_GRADIENT, select_gradient_prepare, select_gradient_execute),
        KERNEL_OF_EVERY(TDM_OP_SWAP_FIRST_DIMENSIONS, swap_first_dimensions_prepare, exchange,
                        NULL),
        KERNEL_OF_EVERY(TDM_OP_TRANSPOSE, transpose_prepare, exchange, NULL))
