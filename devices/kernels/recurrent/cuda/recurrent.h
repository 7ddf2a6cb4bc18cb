/* Code that a recurrent layer and its gradient share: sizes, and the range of steps of a row. */
#ifndef TANDEM_DEVICES_KERNELS_RECURRENT_CUDA_RECURRENT_H
#define TANDEM_DEVICES_KERNELS_RECURRENT_CUDA_RECURRENT_H

#include "devices/kernels/cuda/report.h"
#include "devices/kernels/products/cuda/products.h"
#include "devices/kernels/recurrent/recurrent_sizes.h"

struct recurrent_state : recurrent_sizes {
  size_t element_bytes;
  bool trains; /* forward: gates are stored; gradient: d_x is computed */
  bool alone;  /* rows of products depend only on themselves */
};

/* Allocates the state. x (length, batch, in), y (length, batch, hidden). */
static inline recurrent_state *recurrent_state_create(const tdm_kernel_request *request,
                                                      tdm_kernel_answer *answer, const tdm_spec *x,
                                                      const tdm_spec *y, const tdm_spec *lengths) {
  recurrent_state *state = state_create<recurrent_state>(answer);
  if (!state) return NULL;
  recurrent_sizes_read(state, request, x, y, lengths);
  state->element_bytes = tdm_dtype_bytes(x->dtype);
  state->alone = request->deterministic;
  answer->workspace_bytes = aligned_bytes(report_workspace_bytes(state->batch));
  return state;
}

static inline const recurrent_state *recurrent_of(const tdm_kernel_call *call) {
  return state_of<recurrent_state>(call);
}

/* Returns the bytes of the batch's rows of `columns` elements at so many times. */
static inline size_t recurrent_bytes(const recurrent_state *state, int64_t times, int64_t columns) {
  return (size_t)(times * state->batch * columns) * state->element_bytes;
}

/* Takes bytes from a workspace. */
static inline char *recurrent_take(char **workspace, size_t bytes) {
  char *taken = *workspace;
  *workspace += aligned_bytes(bytes);
  return taken;
}

/* Enqueues the check of lengths, if there are some; takes its part of the workspace. */
static inline tdm_status recurrent_lengths_check(const tdm_kernel_call *call, const void *lengths,
                                                 char **workspace) {
  const recurrent_state *state = recurrent_of(call);
  char *firsts = recurrent_take(workspace, report_workspace_bytes(state->batch));
  if (!lengths) return TDM_OK;
  const id_list ids = {lengths, state->batch, state->wide_lengths};
  return tdm_cuda_lengths_check(call, &ids, state->length, reinterpret_cast<int64_t *>(firsts));
}

/* Enqueues to = from, or zeros where from is NULL. */
static inline tdm_status recurrent_copy(const tdm_kernel_call *call, void *to, const void *from,
                                        size_t bytes) {
  if (bytes == 0) return TDM_OK;
  if (!from) return tdm_cuda_kernel_stream_fill(kernel_stream_of(call), to, 0, bytes);
  return tdm_cuda_kernel_stream_copy(kernel_stream_of(call), to, from, bytes);
}

/* Parameters of a kernel for one step: plain values, because parameters hold no pointers inside
 * structs. */
struct recurrent_step {
  int64_t t;
  int64_t length; /* steps of rows where lengths is NULL */
  int64_t hidden;
  int64_t count; /* batch hidden */
  int32_t cell;
  bool reverse;
  bool wide_lengths;
};

static inline recurrent_step recurrent_step_of(const recurrent_state *state, int64_t t) {
  recurrent_step step = {};
  step.t = t;
  step.length = state->length;
  step.hidden = state->hidden;
  step.count = state->batch * state->hidden;
  step.cell = state->cell;
  step.reverse = state->reverse;
  step.wide_lengths = state->wide_lengths;
  return step;
}

/* Returns the number of steps of a row. Lengths outside the range were reported; one above
 * step.length is replaced by it, so that no access is out of bounds. */
static __device__ inline int64_t steps_of_row(const recurrent_step &step, const void *lengths,
                                              int64_t row) {
  if (!lengths) return step.length;
  const int64_t steps = id_at(lengths, step.wide_lengths, row);
  return steps < step.length ? steps : step.length;
}

#endif
