/* Elements picked along a dimension by indices, and added where indices say; ids as rows of zeros
 * and a one. x is seen as (outer, size, inner). Invariant: sums are made in the order of indices,
 * each by one thread; an index that names no element is reported and passed over. */
#include "devices/kernels/cuda/report.h"
#include "devices/kernels/moves/gather_sizes.h"
#include "devices/kernels/moves/moves.h"

struct gather_state {
  gather_sizes sizes;
  int64_t index_count;
  int64_t count; /* elements of the result */
};

static tdm_status prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                          const tdm_spec *x, size_t index) {
  gather_state *state = state_create<gather_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  gather_sizes_read(&state->sizes, request, x, &request->inputs[index]);
  state->index_count = count_of(&request->inputs[index]);
  state->count = count_of(&request->outputs[0]);
  answer->workspace_bytes = aligned_bytes(report_workspace_bytes(state->index_count));
  return TDM_OK;
}

static tdm_status check(const tdm_kernel_call *call, size_t index) {
  const gather_state *state = state_of<gather_state>(call);
  const id_list ids = {call->inputs[index], state->index_count, state->sizes.wide};
  return tdm_cuda_indices_check(call, &ids, state->sizes.size,
                                static_cast<int64_t *>(call->workspace));
}

/* ---- gather ---------------------------------------------------------------------------------- */

static tdm_status gather_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return prepare(request, answer, &request->inputs[0], 1);
}

/* Computes y (outer, picked, inner), `count` elements, from x (outer, size, inner) and index
 * (picked), or index like y. */
template <class word>
static __global__ void gather(const word *x, const void *index, gather_sizes sizes, word *y,
                              int64_t count) {
  EACH_ELEMENT(i, count) {
    const int64_t row = i / sizes.inner, outer = row / sizes.picked;
    const int64_t id = id_at(index, sizes.wide, sizes.whole_rows ? row % sizes.picked : i);
    y[i] = is_inside(id, sizes.size) ? x[(outer * sizes.size + id) * sizes.inner + i % sizes.inner]
                                     : 0;
  }
}

template <class word> static tdm_status run_gather(const tdm_kernel_call *call) {
  const gather_state *state = state_of<gather_state>(call);
  TDM_TRY(check(call, 1));
  return kernel_launch(call, "gather", gather<word>, blocks_for(state->count), BLOCK,
                       input_of<word>(call, 0), call->inputs[1], state->sizes,
                       output_of<word>(call, 0), state->count);
}

/* ---- scatter_add ----------------------------------------------------------------------------- */

static tdm_status scatter_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return prepare(request, answer, &request->outputs[0], 0);
}

/* Computes a column of y per thread. x (NULL: zeros), y: (outer, size, inner); index: (picked) or
 * like source; source: (outer, picked, inner). */
template <class real>
static __global__ void scatter_add(const real *x, const void *index, const real *source,
                                   gather_sizes sizes, real *y, int64_t columns) {
  EACH_ELEMENT(place, columns) {
    const int64_t outer = place / sizes.inner, column = place % sizes.inner;
    const int64_t first = outer * sizes.size * sizes.inner + column;
    for (int64_t i = 0; i < sizes.size; i++)
      y[first + i * sizes.inner] = x ? x[first + i * sizes.inner] : 0;
    for (int64_t i = 0; i < sizes.picked; i++) {
      const int64_t at = (outer * sizes.picked + i) * sizes.inner + column;
      const int64_t id = id_at(index, sizes.wide, sizes.whole_rows ? i : at);
      if (is_inside(id, sizes.size)) y[first + id * sizes.inner] += source[at];
    }
  }
}

template <class real> static tdm_status run_scatter_add(const tdm_kernel_call *call) {
  const gather_state *state = state_of<gather_state>(call);
  const int64_t columns = state->sizes.outer * state->sizes.inner;
  TDM_TRY(check(call, 0));
  return kernel_launch(call, "scatter_add", scatter_add<real>, blocks_for(columns), BLOCK,
                       input_of<real>(call, 2), call->inputs[0], input_of<real>(call, 1),
                       state->sizes, output_of<real>(call, 0), columns);
}

/* ---- one_hot --------------------------------------------------------------------------------- */

struct one_hot_state {
  int64_t ids;
  int64_t classes;
  bool wide;
};

static tdm_status one_hot_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  one_hot_state *state = state_create<one_hot_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->ids = count_of(&request->inputs[0]);
  state->classes = last_dim_of(&request->outputs[0]);
  state->wide = request->inputs[0].dtype == TDM_INT64;
  answer->workspace_bytes = aligned_bytes(report_workspace_bytes(state->ids));
  return TDM_OK;
}

/* ids: (count / classes), out: (count / classes, classes). */
static __global__ void one_hot(const void *ids, bool wide, int64_t classes, int64_t *out,
                               int64_t count) {
  EACH_ELEMENT(i, count) {
    out[i] = id_at(ids, wide, i / classes) == i % classes ? 1 : 0;
  }
}

static tdm_status one_hot_run(const tdm_kernel_call *call) {
  const one_hot_state *state = state_of<one_hot_state>(call);
  const id_list ids = {call->inputs[0], state->ids, state->wide};
  const int64_t count = state->ids * state->classes;
  TDM_TRY(tdm_cuda_ids_check(call, &ids, state->classes, static_cast<int64_t *>(call->workspace)));
  return kernel_launch(call, "one_hot", one_hot, blocks_for(count), BLOCK, call->inputs[0],
                       state->wide, state->classes, output_of<int64_t>(call, 0), count);
}

/* ---- check_argument -------------------------------------------------------------------------- */

struct check_state {
  int64_t count;
  legal_range range;
  bool wide;
};

static tdm_status check_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_check_attributes *attributes =
      static_cast<const tdm_check_attributes *>(request->attributes);
  check_state *state = state_create<check_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  int64_t most = attributes->most;
  if (request->inputs[1].dtype != TDM_DTYPE_NONE)
    most += request->inputs[1].shape.dims[attributes->dimension];
  state->count = count_of(&request->inputs[0]);
  state->range = {attributes->least, most - attributes->least + 1, attributes->has_ignored != 0,
                  attributes->ignored};
  state->wide = request->inputs[0].dtype == TDM_INT64;
  answer->workspace_bytes = aligned_bytes(report_workspace_bytes(state->count));
  return TDM_OK;
}

static tdm_status check_run(const tdm_kernel_call *call) {
  const check_state *state = state_of<check_state>(call);
  const id_list ids = {call->inputs[0], state->count, state->wide};
  const size_t bytes = (size_t)state->count * (state->wide ? sizeof(int64_t) : sizeof(int32_t));
  TDM_TRY(tdm_cuda_range_check(call, &ids, &state->range, static_cast<int64_t *>(call->workspace)));
  if (bytes == 0) return TDM_OK;
  return tdm_cuda_kernel_stream_copy(kernel_stream_of(call), call->outputs[0], call->inputs[0],
                                     bytes);
}

TYPED_KERNELS(
    gather, KERNEL_OF_EVERY(TDM_OP_GATHER, gather_prepare, run_gather),
    KERNEL_OF(TDM_FLOAT32, TDM_OP_SCATTER_ADD, scatter_prepare, run_scatter_add<float>, 0),
    KERNEL_OF(TDM_FLOAT64, TDM_OP_SCATTER_ADD, scatter_prepare, run_scatter_add<double>, 0),
    KERNEL_OF(TDM_INT32, TDM_OP_SCATTER_ADD, scatter_prepare, run_scatter_add<uint32_t>,
              0), /* integers wrap */
    KERNEL_OF(TDM_INT64, TDM_OP_SCATTER_ADD, scatter_prepare, run_scatter_add<uint64_t>, 0),
    KERNEL_OF(TDM_INT64, TDM_OP_ONE_HOT, one_hot_prepare, one_hot_run, 0),
    KERNEL_OF(TDM_INT32, TDM_OP_CHECK, check_prepare, check_run, 0),
    KERNEL_OF(TDM_INT64, TDM_OP_CHECK, check_prepare, check_run, 0))
