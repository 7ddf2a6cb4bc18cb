/* Sorting of keys and ranking of segments. The sort is Batcher's bitonic one (K. E. Batcher,
 * "Sorting networks and their applications", AFIPS 1968): pieces that fit shared memory in one
 * launch, wider exchanges in launches of their own. */
#include "devices/kernels/tables/cuda/segments.h"

#include "devices/kernels/cuda/reduce.h"

static const int64_t PIECE = 2 * BLOCK; /* keys that a block sorts by itself */
static const int64_t TILE = BLOCK;      /* keys that a block ranks, one a thread */

/* ---- Sizes ----------------------------------------------------------------------------------- */

segments_plan tdm_cuda_segments_plan(int64_t count) {
  segments_plan plan = {};
  plan.count = count;
  plan.capacity = PIECE;
  while (plan.capacity < count)
    plan.capacity *= 2;
  plan.tiles = ceil_div(count, TILE);
  while (((int64_t)1 << plan.shift) < count)
    plan.shift++;
  return plan;
}

size_t tdm_cuda_segments_bytes(const segments_plan *plan) {
  return sizeof(int64_t) * (size_t)(plan->capacity + plan->count + plan->tiles);
}

segments tdm_cuda_segments_at(const segments_plan *plan, void *workspace) {
  uint64_t *keys = static_cast<uint64_t *>(workspace);
  int64_t *ranks = reinterpret_cast<int64_t *>(keys + plan->capacity);
  return (segments){keys, ranks, ranks + plan->count};
}

/* ---- Sorting --------------------------------------------------------------------------------- */

/* Puts a pair of keys in order: ascending where bit `width` of the lower's place is clear. */
static __device__ inline void exchange(uint64_t *low, uint64_t *high, bool ascends) {
  const uint64_t a = *low, b = *high;
  if ((a > b) != ascends) return;
  *low = b;
  *high = a;
}

/* Returns the position of the lower key of thread `pair` if partners are `distance` apart. */
static __device__ inline int64_t lower_of(int64_t pair, int64_t distance) {
  return pair / distance * 2 * distance + pair % distance;
}

/* Sorts a block's piece of keys (capacity), for the widths first..last, from distance PIECE / 2
 * down. */
static __global__ void sort_piece(uint64_t *keys, int64_t first_width, int64_t last_width) {
  TDM_SHARED(uint64_t, piece, PIECE);
  const int64_t base = (int64_t)blockIdx.x * PIECE;
  EACH_OF_BLOCK(i, PIECE) {
    piece[i] = keys[base + i];
  }
  __syncthreads();
  for (int64_t width = first_width; width <= last_width; width *= 2) {
    for (int64_t distance = width < PIECE ? width / 2 : PIECE / 2; distance > 0; distance /= 2) {
      const int64_t low = lower_of(threadIdx.x, distance);
      exchange(&piece[low], &piece[low + distance], ((base + low) & width) == 0);
      __syncthreads();
    }
  }
  EACH_OF_BLOCK(i, PIECE) {
    keys[base + i] = piece[i];
  }
}

/* Executes one exchange of keys (2 pairs) whose distance exceeds a piece. */
static __global__ void exchange_wide(uint64_t *keys, int64_t pairs, int64_t width,
                                     int64_t distance) {
  EACH_ELEMENT(pair, pairs) {
    const int64_t low = lower_of(pair, distance);
    exchange(&keys[low], &keys[low + distance], (low & width) == 0);
  }
}

tdm_status tdm_cuda_segments_sort(const tdm_kernel_call *call, const segments_plan *plan,
                                  const segments *self) {
  const int64_t pieces = plan->capacity / PIECE, pairs = plan->capacity / 2;
  if (plan->count == 0) return TDM_OK;
  TDM_TRY(kernel_launch(call, "sort_piece", sort_piece, pieces, BLOCK, self->keys, 2, PIECE));
  for (int64_t width = 2 * PIECE; width <= plan->capacity; width *= 2) {
    for (int64_t distance = width / 2; distance >= PIECE; distance /= 2) {
      TDM_TRY(kernel_launch(call, "exchange_wide", exchange_wide, blocks_for(pairs), BLOCK,
                            self->keys, pairs, width, distance));
    }
    TDM_TRY(kernel_launch(call, "sort_piece", sort_piece, pieces, BLOCK, self->keys, width, width));
  }
  return TDM_OK;
}

/* ---- Ranks ----------------------------------------------------------------------------------- */

/* of_tiles: (blocks), the segments that begin in each tile of keys (count). */
static __global__ void count_segments(const uint64_t *keys, int64_t count, int shift,
                                      int64_t *of_tiles) {
  const int64_t i = (int64_t)blockIdx.x * TILE + threadIdx.x;
  const int64_t begun = block_sum<int64_t>(i < count && begins_segment(keys, i, shift));
  if (threadIdx.x == 0) of_tiles[blockIdx.x] = begun;
}

/* Replaces of_tiles (tiles) by the sums before each tile, in one block; out_count () receives the
 * total. */
static __global__ void offset_tiles(int64_t *of_tiles, int64_t tiles, int64_t *out_count) {
  int64_t before = 0;
  for (int64_t first = 0; first < tiles; first += blockDim.x) {
    const int64_t tile = first + threadIdx.x;
    int64_t total;
    const int64_t offset = block_sum_before(tile < tiles ? of_tiles[tile] : 0, &total);
    if (tile < tiles) of_tiles[tile] = before + offset;
    before += total;
  }
  if (threadIdx.x == 0 && out_count) *out_count = before;
}

/* ranks, indices: (count); see the drawing in segments.h. */
static __global__ void rank_segments(const uint64_t *keys, int64_t count, int shift,
                                     const int64_t *of_tiles, int64_t *ranks, int64_t *indices) {
  const int64_t i = (int64_t)blockIdx.x * TILE + threadIdx.x;
  const bool begins = i < count && begins_segment(keys, i, shift);
  int64_t total;
  const int64_t rank = of_tiles[blockIdx.x] + block_sum_before(begins, &total);
  if (i < count) ranks[i] = begins ? rank : -1;
  if (begins && indices) indices[rank] = (int64_t)(keys[i] >> shift);
}

tdm_status tdm_cuda_segments_rank(const tdm_kernel_call *call, const segments_plan *plan,
                                  const segments *self, int64_t *indices, int64_t *out_count) {
  TDM_TRY(kernel_launch(call, "count_segments", count_segments, plan->tiles, BLOCK, self->keys,
                        plan->count, plan->shift, self->of_tiles));
  TDM_TRY(kernel_launch(call, "offset_tiles", offset_tiles, 1, BLOCK, self->of_tiles, plan->tiles,
                        out_count));
  return kernel_launch(call, "rank_segments", rank_segments, plan->tiles, BLOCK, self->keys,
                       plan->count, plan->shift, self->of_tiles, self->ranks, indices);
}

tdm_status tdm_cuda_segments_begin_rows(const tdm_kernel_call *call, const segments_plan *plan,
                                        const segments *self, size_t row_bytes) {
  const size_t count = (size_t)plan->count;
  int64_t *indices = output_of<int64_t>(call, 1);
  TDM_TRY(
      tdm_cuda_kernel_stream_fill(kernel_stream_of(call), call->outputs[0], 0, count * row_bytes));
  TDM_TRY(tdm_cuda_kernel_stream_fill(kernel_stream_of(call), indices, 0xff,
                                      count * sizeof(int64_t))); /* -1 */
  return tdm_cuda_segments_rank(call, plan, self, indices, output_of<int64_t>(call, 2));
}
