/* Copies between tensors with strides: slices, permutations, repetitions and padding for the
 * kernels of every kind. Invariant: plain values, which can be passed to CUDA kernels unchanged.
 * Neighbouring dimensions with the same layout on both sides are merged into one, and no dimension
 * has size 1. */
#ifndef TANDEM_DEVICES_KERNELS_MOVES_STRIDED_H
#define TANDEM_DEVICES_KERNELS_MOVES_STRIDED_H

#include <string.h>

#include "devices/kernels/moves/moves.h"
#include "tandem/core/core.h"
#include "tandem/devices/kernel.h"

typedef struct tdm_strided {
  int rank; /* number of dimensions, at least 1 */
  int64_t sizes[TDM_MAX_RANK];
  int64_t from[TDM_MAX_RANK]; /* distance between neighbours of a dimension, in elements */
  int64_t to[TDM_MAX_RANK];
  int64_t from_begin; /* offset of the first element */
  int64_t to_begin;
  int64_t count; /* number of elements to copy */
} tdm_strided;

static inline int64_t tdm_between(int64_t number, int64_t least, int64_t most) {
  return number < least ? least : number > most ? most : number;
}

/* Returns how many elements begin, end and step select from `size`, as in Python's slices, and
 * where the first one is. Negative ends count from the end, and out-of-range ends are clamped. step
 * is not 0, and at least -INT64_MAX. */
static inline int64_t tdm_slice_count(int64_t size, int64_t begin, int64_t end, int64_t step,
                                      int64_t *out_first) {
  const int64_t least = step > 0 ? 0 : -1, most = step > 0 ? size : size - 1;
  begin = tdm_between(begin < 0 ? begin + size : begin, least, most);
  end = tdm_between(end < 0 ? end + size : end, least, most);
  const int64_t distance = step > 0 ? end - begin : begin - end;
  *out_first = distance > 0 ? begin : 0;
  return distance > 0 ? (distance - 1) / (step > 0 ? step : -step) + 1 : 0;
}

/* Computes the steps of a dense tensor. */
static inline void tdm_dense_steps(const tdm_shape *shape, int64_t *out_steps) {
  int64_t step = 1;
  for (int i = shape->rank - 1; i >= 0; i--) {
    out_steps[i] = step;
    step *= shape->dims[i];
  }
}

/* Appends a dimension after the existing ones. */
static inline void tdm_strided_add(tdm_strided *copy, int64_t size, int64_t from, int64_t to) {
  const int last = copy->rank - 1;
  copy->count *= size;
  if (size == 1) return;
  if (last >= 0 && copy->from[last] == from * size && copy->to[last] == to * size) {
    copy->sizes[last] *= size;
    copy->from[last] = from;
    copy->to[last] = to;
    return;
  }
  copy->sizes[copy->rank] = size;
  copy->from[copy->rank] = from;
  copy->to[copy->rank++] = to;
}

static inline tdm_strided tdm_strided_begin(void) {
  tdm_strided copy;
  memset(&copy, 0, sizeof copy);
  copy.count = 1;
  return copy;
}

static inline void tdm_strided_end(tdm_strided *copy) {
  if (copy->rank > 0) return;
  copy->rank = 1;
  copy->sizes[0] = copy->from[0] = copy->to[0] = 1;
}

/* Describes the copy of a node TDM_OP_STRIDED, into a dense y. */
static inline tdm_strided tdm_strided_of_copy(const tdm_kernel_request *request) {
  const tdm_strided_attributes *wanted = (const tdm_strided_attributes *)request->attributes;
  const tdm_shape *x = &request->inputs[0].shape, *y = &request->outputs[0].shape;
  int64_t x_steps[TDM_MAX_RANK], y_steps[TDM_MAX_RANK];
  tdm_dense_steps(x, x_steps);
  tdm_dense_steps(y, y_steps);
  tdm_strided copy = tdm_strided_begin();
  for (int i = 0; i < y->rank; i++) {
    const int64_t source = wanted->sources[i];
    int64_t first = 0;
    if (source >= 0)
      (void)tdm_slice_count(x->dims[source], wanted->begins[i], wanted->ends[i], wanted->steps[i],
                            &first);
    const int64_t step = source >= 0 && y->dims[i] > 1 ? wanted->steps[i] : 1;
    copy.from_begin += source >= 0 ? first * x_steps[source] : 0;
    tdm_strided_add(&copy, y->dims[i], source >= 0 ? x_steps[source] * step : 0, y_steps[i]);
  }
  tdm_strided_end(&copy);
  return copy;
}

/* Describes the copy of a node TDM_OP_PAD, out of a dense x. */
static inline tdm_strided tdm_strided_of_pad(const tdm_kernel_request *request) {
  const tdm_pad_attributes *wanted = (const tdm_pad_attributes *)request->attributes;
  const tdm_shape *x = &request->inputs[0].shape, *y = &request->outputs[0].shape;
  int64_t x_steps[TDM_MAX_RANK], y_steps[TDM_MAX_RANK];
  tdm_dense_steps(x, x_steps);
  tdm_dense_steps(y, y_steps);
  tdm_strided copy = tdm_strided_begin();
  for (int i = 0; i < y->rank; i++) {
    const int64_t step = x->dims[i] > 1 ? wanted->steps[i] : 1;
    const int64_t first =
        wanted->steps[i] > 0 ? wanted->before[i] : y->dims[i] - 1 - wanted->after[i];
    copy.to_begin += first * y_steps[i];
    tdm_strided_add(&copy, x->dims[i], x_steps[i], y_steps[i] * step);
  }
  tdm_strided_end(&copy);
  return copy;
}

#endif
