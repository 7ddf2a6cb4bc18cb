/* Embedding bags and their gradients. Invariant: a bag, and a row of a gradient, is summed in the
 * order of ids; ids and offsets that are not legal are reported and passed over. */
#include "devices/kernels/tables/bag_sizes.h"
#include "devices/kernels/tables/cuda/row_sums.h"
#include "devices/kernels/tables/lookup.h"

struct bag_state : bag_sizes {
  size_t ids;         /* index of the ids among the operands; offsets follow */
  segments_plan plan; /* plan for the gradients */
};

/* Memory of an execution. */
struct bag_memory {
  int64_t *begins; /* (bags + 1): where a bag begins among all ids */
  int64_t *bags;   /* (count): bag of each id, -1: none; gradients only */
  void *scales;    /* (count): weight of each id in its bag; gradients only */
  void *segments;  /* gradients only */
  void *sums;      /* row_sums_bytes; gradients only */
};

static size_t check_bytes(const bag_state *state) {
  const int64_t most = state->count > state->offset_count ? state->count : state->offset_count;
  return aligned_bytes(report_workspace_bytes(most));
}

static bag_memory memory_at(const bag_state *state, void *workspace, size_t *out_bytes) {
  bag_memory memory;
  char *at = static_cast<char *>(workspace);
  size_t bytes = check_bytes(state);
  memory.begins = reinterpret_cast<int64_t *>(at + bytes);
  bytes += aligned_bytes((size_t)(state->bags + 1) * sizeof(int64_t));
  memory.bags = reinterpret_cast<int64_t *>(at + bytes);
  bytes += aligned_bytes((size_t)state->count * sizeof(int64_t));
  memory.scales = at + bytes;
  bytes += aligned_bytes((size_t)state->count * sizeof(double));
  memory.segments = at + bytes;
  bytes += tdm_cuda_segments_bytes(&state->plan);
  memory.sums = at + bytes;
  *out_bytes = bytes + row_sums_bytes(state->count, state->dim, sizeof(double));
  return memory;
}

/* ids: the operand that they are; y: (bags, dim). */
static tdm_status embedding_bag_prepare(const tdm_kernel_request *request,
                                        tdm_kernel_answer *answer, size_t ids, const tdm_spec *y) {
  bag_state *state = state_create<bag_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  bag_sizes_read(state, request, ids, y);
  state->ids = ids;
  state->plan = tdm_cuda_segments_plan(state->count);
  (void)memory_at(state, NULL, &answer->workspace_bytes);
  return TDM_OK;
}

static tdm_status prepare_bags(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return embedding_bag_prepare(request, answer, 1, &request->outputs[0]);
}

static tdm_status prepare_gradient(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return embedding_bag_prepare(request, answer, 1, &request->inputs[0]);
}

static tdm_status prepare_scales(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return embedding_bag_prepare(request, answer, 2, &request->inputs[0]);
}

static const void *ids_of(const tdm_kernel_call *call) {
  return call->inputs[state_of<bag_state>(call)->ids];
}

/* ---- Where bags begin ------------------------------------------------------------------------ */

/* offsets: (offset_count) or NULL; begins: (count), inside the ids whatever offsets say. */
static __global__ void make_begins(const void *offsets, int64_t *begins, bag_state shape,
                                   int64_t count) {
  EACH_ELEMENT(i, count) {
    int64_t begin = i * shape.length;
    if (offsets)
      begin = i < shape.offset_count ? id_at(offsets, shape.wide_offsets, i) : shape.count;
    begins[i] = begin < 0 ? 0 : begin > shape.count ? shape.count : begin;
  }
}

/* Begins every kernel: checks ids and offsets, and computes where bags begin. */
static tdm_status embedding_bag_begin(const tdm_kernel_call *call, bag_memory *out) {
  const bag_state *state = state_of<bag_state>(call);
  const void *offset_data = call->inputs[state->ids + 1];
  const id_list ids = {ids_of(call), state->count, state->wide_ids};
  const id_list offsets = {offset_data, state->offset_count, state->wide_offsets};
  size_t bytes;
  *out = memory_at(state, call->workspace, &bytes);
  TDM_TRY(tdm_cuda_bags_check(call, &ids, state->rows, &offsets,
                              static_cast<int64_t *>(call->workspace)));
  return kernel_launch(call, "make_begins", make_begins, blocks_for(state->bags + 1), BLOCK,
                       offset_data, out->begins, *state, state->bags + 1);
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* Computes a bag per block. weight: (rows, dim), ids, scales (or NULL): (count), y: (bags, dim). */
template <class stored>
static __global__ void sum_bags(const stored *weight, const void *ids, const stored *scales,
                                const int64_t *begins, stored *y, bag_state shape) {
  typedef real_of<stored> real;
  const int64_t dim = shape.dim;
  EACH_OF_GRID(bag, shape.bags) {
    EACH_OF_BLOCK(j, dim) {
      real sum = 0;
      int64_t size = 0;
      for (int64_t i = begins[bag]; i < begins[bag + 1]; i++) {
        const int64_t id = id_at(ids, shape.wide_ids, i);
        if (!is_inside(id, shape.rows) || id == shape.padding) continue;
        sum += scales ? scales[i] * weight[id * dim + j] : (real)weight[id * dim + j];
        size++;
      }
      y[bag * dim + j] = shape.mean && size > 0 ? sum / (real)size : sum;
    }
  }
}

template <class stored> static tdm_status run_sum(const tdm_kernel_call *call) {
  const bag_state *state = state_of<bag_state>(call);
  bag_memory memory;
  TDM_TRY(embedding_bag_begin(call, &memory));
  return kernel_launch(call, "sum_bags", sum_bags<stored>, blocks_of(state->bags),
                       threads_for_row(state->dim), input_of<stored>(call, 0), ids_of(call),
                       input_of<stored>(call, 3), memory.begins, output_of<stored>(call, 0),
                       *state);
}

/* Computes the maximum of each bag; winners: (bags, dim). */
template <class stored>
static __global__ void largest_of_bags(const stored *weight, const void *ids, const int64_t *begins,
                                       stored *y, int64_t *winners, bag_state shape) {
  typedef real_of<stored> real;
  const int64_t dim = shape.dim;
  EACH_OF_GRID(bag, shape.bags) {
    EACH_OF_BLOCK(j, dim) {
      real most = 0;
      int64_t winner = -1;
      for (int64_t i = begins[bag]; i < begins[bag + 1]; i++) {
        const int64_t id = id_at(ids, shape.wide_ids, i);
        if (!is_inside(id, shape.rows) || id == shape.padding) continue;
        const real value = weight[id * dim + j];
        if (winner >= 0 && !(value > most)) continue;
        most = value;
        winner = i;
      }
      y[bag * dim + j] = most;
      winners[bag * dim + j] = winner;
    }
  }
}

template <class stored> static tdm_status run_max(const tdm_kernel_call *call) {
  const bag_state *state = state_of<bag_state>(call);
  bag_memory memory;
  TDM_TRY(embedding_bag_begin(call, &memory));
  return kernel_launch(call, "largest_of_bags", largest_of_bags<stored>, blocks_of(state->bags),
                       threads_for_row(state->dim), input_of<stored>(call, 0), ids_of(call),
                       memory.begins, output_of<stored>(call, 0), output_of<int64_t>(call, 1),
                       *state);
}

/* ---- Gradients of the table ------------------------------------------------------------------ */

/* Writes, for each id, its bag and its scale; one thread per bag. given: (count) or NULL; bags,
 * scales: (count). */
template <class stored>
static __global__ void make_sources(const void *ids, const stored *given, const int64_t *begins,
                                    int64_t *bags, stored *scales, bag_state shape) {
  typedef real_of<stored> real;
  EACH_ELEMENT(bag, shape.bags) {
    int64_t size = 0;
    for (int64_t i = begins[bag]; i < begins[bag + 1]; i++)
      size += id_at(ids, shape.wide_ids, i) != shape.padding;
    for (int64_t i = begins[bag]; i < begins[bag + 1]; i++) {
      bags[i] = bag;
      scales[i] = given ? (real)given[i] : shape.mean && size > 0 ? 1 / (real)size : 1;
    }
  }
}

/* Checks ids and sorts the keys of d_y, ids, [offsets], [scales]; row_sums follows. */
template <class stored>
static tdm_status sort_ids(const tdm_kernel_call *call, bag_memory *memory, segments *out) {
  const bag_state *state = state_of<bag_state>(call);
  const segments_plan *plan = &state->plan;
  TDM_TRY(embedding_bag_begin(call, memory));
  TDM_TRY(tdm_cuda_kernel_stream_fill(kernel_stream_of(call), memory->bags, 0xff,
                                      (size_t)state->count * sizeof(int64_t))); /* -1 */
  TDM_TRY(kernel_launch(call, "make_sources", make_sources<stored>, blocks_for(state->bags), BLOCK,
                        ids_of(call), input_of<stored>(call, 3), memory->begins, memory->bags,
                        static_cast<stored *>(memory->scales), *state));
  *out = tdm_cuda_segments_at(plan, memory->segments);
  TDM_TRY(kernel_launch(call, "make_keys", make_keys, blocks_for(plan->capacity), BLOCK,
                        ids_of(call), state->wide_ids, memory->bags, state->count, state->rows,
                        state->padding, plan->shift, out->keys, plan->capacity));
  return tdm_cuda_segments_sort(call, plan, out);
}

template <class stored>
static tdm_status sum_rows(const tdm_kernel_call *call, const bag_memory *memory,
                           const segments *sorted, const int64_t *winners, const int64_t *ranks) {
  const bag_state *state = state_of<bag_state>(call);
  return row_sums(call, &state->plan, sorted, input_of<stored>(call, 0),
                  static_cast<const int64_t *>(memory->bags),
                  static_cast<const stored *>(memory->scales), winners, ranks, state->dim,
                  output_of<stored>(call, 0), memory->sums);
}

template <class stored> static tdm_status run_gradient(const tdm_kernel_call *call) {
  const bag_state *state = state_of<bag_state>(call);
  bag_memory memory;
  segments sorted;
  TDM_TRY(sort_ids<stored>(call, &memory, &sorted));
  TDM_TRY(tdm_cuda_kernel_stream_fill(kernel_stream_of(call), call->outputs[0], 0,
                                      (size_t)(state->rows * state->dim) * sizeof(stored)));
  return sum_rows<stored>(call, &memory, &sorted, input_of<int64_t>(call, 4), NULL);
}

/* Outputs: rows (count, dim), indices (count), count (). */
template <class stored> static tdm_status run_sparse(const tdm_kernel_call *call) {
  const bag_state *state = state_of<bag_state>(call);
  bag_memory memory;
  segments sorted;
  TDM_TRY(sort_ids<stored>(call, &memory, &sorted));
  TDM_TRY(tdm_cuda_segments_begin_rows(call, &state->plan, &sorted,
                                       (size_t)state->dim * sizeof(stored)));
  return sum_rows<stored>(call, &memory, &sorted, NULL, sorted.ranks);
}

/* ---- Gradient of the scales ------------------------------------------------------------------ */

/* Computes the gradient of one scale per block of one warp. d_y: (bags, dim), weight: (rows, dim),
 * d_scales: (count). */
template <class stored>
static __global__ void multiply_rows(const stored *d_y, const stored *weight, const void *ids,
                                     const int64_t *bags, stored *d_scales, bag_state shape) {
  typedef real_of<stored> real;
  const int64_t dim = shape.dim;
  EACH_OF_GRID(i, shape.count) {
    const int64_t id = id_at(ids, shape.wide_ids, i), bag = bags[i];
    const bool counts = is_inside(id, shape.rows) && id != shape.padding && bag >= 0;
    real part = 0;
    EACH_OF_BLOCK(j, counts ? dim : 0) {
      part += d_y[bag * dim + j] * weight[id * dim + j];
    }
    const real sum = warp_reduce<sum_of_two>(part);
    if (threadIdx.x == 0) d_scales[i] = sum;
  }
}

/* Computes d_scales from d_y, weight, ids, [offsets]. */
template <class stored> static tdm_status run_scales(const tdm_kernel_call *call) {
  const bag_state *state = state_of<bag_state>(call);
  const stored *no_scales = NULL;
  bag_memory memory;
  TDM_TRY(embedding_bag_begin(call, &memory));
  TDM_TRY(tdm_cuda_kernel_stream_fill(kernel_stream_of(call), memory.bags, 0xff,
                                      (size_t)state->count * sizeof(int64_t))); /* -1 */
  TDM_TRY(kernel_launch(call, "make_sources", make_sources<stored>, blocks_for(state->bags), BLOCK,
                        ids_of(call), no_scales, memory.begins, memory.bags,
                        static_cast<stored *>(memory.scales), *state));
  return kernel_launch(call, "multiply_rows", multiply_rows<stored>, blocks_of(state->count), WARP,
                       input_of<stored>(call, 0), input_of<stored>(call, 1), ids_of(call),
                       memory.bags, output_of<stored>(call, 0), *state);
}

KERNELS(embedding_bag, KERNEL(TDM_OP_EMBEDDING_BAG, prepare_bags, run_sum<stored>),
        KERNEL(TDM_OP_EMBEDDING_BAG_MAX, prepare_bags, run_max<stored>),
        KERNEL(TDM_OP_EMBEDDING_BAG_GRADIENT, prepare_gradient, run_gradient<stored>),
        KERNEL(TDM_OP_EMBEDDING_BAG_SPARSE_GRADIENT, prepare_gradient, run_sparse<stored>),
        KERNEL(TDM_OP_EMBEDDING_BAG_SCALES_GRADIENT, prepare_scales, run_scales<stored>))
