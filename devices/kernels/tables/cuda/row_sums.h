/* The gradient of a table by sorted ids. There is a key for every id that contributes, and for each
 * distinct id the sum of the rows at its positions. A block sums a piece of a segment; the pieces
 * of a segment are added. Invariant: the order of a row's sum depends only on the order of its own
 * positions. */
#ifndef TANDEM_DEVICES_KERNELS_TABLES_CUDA_ROW_SUMS_H
#define TANDEM_DEVICES_KERNELS_TABLES_CUDA_ROW_SUMS_H

#include "devices/kernels/cuda/report.h"
#include "devices/kernels/tables/cuda/segments.h"

/* ids: (count), bags: (count) or NULL, keys: (capacity); padding, strays, ids in no bag (-1) and
 * what is beyond count are no keys. */
static __global__ void make_keys(const void *ids, bool wide, const int64_t *bags, int64_t count,
                                 int64_t rows, int64_t padding, int shift, uint64_t *keys,
                                 int64_t capacity) {
  EACH_ELEMENT(i, capacity) {
    const int64_t id = i < count ? id_at(ids, wide, i) : -1;
    const bool counts = is_inside(id, rows) && id != padding && (!bags || bags[i] >= 0);
    keys[i] = counts ? (uint64_t)id << shift | (uint64_t)i : NO_KEY;
  }
}

/* ---- Segments in pieces ----------------------------------------------------------------------
 *
 *   keys    id 2 ......................... | id 7 ... | id 9 ...
 *   pieces  first   | second  | third      | first    | first        of SEGMENT_PIECE keys at most
 *   cells   0       | 1       | 2      | 3       | ...              of as many keys, all over
 *
 * In a cell begins one piece at most that is not its segment's first: the next of the segment that
 * the cell begins in. So cells number these pieces. */

static const int64_t SEGMENT_PIECE = 256;

static __device__ inline bool is_of_segment(uint64_t key, uint64_t id, int shift) {
  return key != NO_KEY && key >> shift == id;
}

/* Returns the begin of the segment of keys[at]. */
static __device__ inline int64_t segment_begin(const uint64_t *keys, int64_t at, int shift) {
  const uint64_t id = keys[at] >> shift;
  int64_t low = 0, high = at;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (keys[middle] >> shift < id)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Finds the begin of the cell's piece and its segment. Returns false if there is none. keys:
 * (count). */
static __device__ inline bool find_piece(const uint64_t *keys, int64_t count, int shift,
                                         int64_t cell, int64_t *out_piece, int64_t *out_segment) {
  const int64_t first = cell * SEGMENT_PIECE;
  if (keys[first] == NO_KEY) return false;
  const int64_t segment = segment_begin(keys, first, shift);
  const int64_t before = (first - segment + SEGMENT_PIECE - 1) / SEGMENT_PIECE;
  const int64_t piece = segment + before * SEGMENT_PIECE;
  *out_piece = piece;
  *out_segment = segment;
  return before > 0 && piece < count && is_of_segment(keys[piece], keys[first] >> shift, shift);
}

/* Returns element j of the contribution of the piece at `begin`: for each position its row of d, or
 * that of its bag, times its scale. For a maximum only the elements that the position has won. */
template <class stored>
static __device__ real_of<stored> sum_piece_of(const stored *d, const int64_t *bags,
                                               const stored *scales, const int64_t *winners,
                                               const uint64_t *keys, int64_t count, int shift,
                                               int64_t begin, int64_t dim, int64_t j) {
  typedef real_of<stored> real;
  const uint64_t id = keys[begin] >> shift, places = ((uint64_t)1 << shift) - 1;
  const int64_t end = count - begin < SEGMENT_PIECE ? count : begin + SEGMENT_PIECE;
  real sum = 0;
  for (int64_t i = begin; i < end && is_of_segment(keys[i], id, shift); i++) {
    const int64_t position = (int64_t)(keys[i] & places);
    const int64_t at = (bags ? bags[position] : position) * dim + j;
    if (winners && winners[at] != position) continue;
    sum += scales ? scales[position] * d[at] : (real)d[at];
  }
  return sum;
}

/* Returns the row that receives the sum of the segment at `begin`: row `rank` of out, or row `id`
 * if ranks is NULL. */
template <class stored>
static __device__ stored *row_of_segment(const uint64_t *keys, int shift, const int64_t *ranks,
                                         int64_t begin, int64_t dim, stored *out) {
  return out + (ranks ? ranks[begin] : (int64_t)(keys[begin] >> shift)) * dim;
}

/* Sums the first piece of a segment per block, into its row. keys, ranks, bags, scales: (count); d,
 * winners, out: (..., dim); all except keys, d and out may be NULL. */
template <class stored>
static __global__ void sum_segments(const stored *d, const int64_t *bags, const stored *scales,
                                    const int64_t *winners, const uint64_t *keys, int64_t count,
                                    int shift, const int64_t *ranks, int64_t dim, stored *out) {
  EACH_OF_GRID(first, count) {
    if (!begins_segment(keys, first, shift)) continue;
    stored *row = row_of_segment(keys, shift, ranks, first, dim, out);
    EACH_OF_BLOCK(j, dim) {
      row[j] = sum_piece_of(d, bags, scales, winners, keys, count, shift, first, dim, j);
    }
  }
}

/* Sums a further piece per block; sums: (cells, dim). */
template <class stored>
static __global__ void sum_cells(const stored *d, const int64_t *bags, const stored *scales,
                                 const int64_t *winners, const uint64_t *keys, int64_t count,
                                 int shift, int64_t dim, real_of<stored> *sums, int64_t cells) {
  EACH_OF_GRID(cell, cells) {
    int64_t piece, segment;
    if (!find_piece(keys, count, shift, cell, &piece, &segment)) continue;
    EACH_OF_BLOCK(j, dim) {
      sums[cell * dim + j] =
          sum_piece_of(d, bags, scales, winners, keys, count, shift, piece, dim, j);
    }
  }
}

/* Adds all pieces except the first to the segment's row, in the block where the second piece
 * begins. */
template <class stored>
static __global__ void add_cells(const uint64_t *keys, int64_t count, int shift,
                                 const int64_t *ranks, int64_t dim, const real_of<stored> *sums,
                                 stored *out, int64_t cells) {
  typedef real_of<stored> real;
  EACH_OF_GRID(cell, cells) {
    int64_t piece, segment;
    if (!find_piece(keys, count, shift, cell, &piece, &segment)) continue;
    if (piece - segment != SEGMENT_PIECE) continue;
    const uint64_t id = keys[segment] >> shift;
    stored *row = row_of_segment(keys, shift, ranks, segment, dim, out);
    EACH_OF_BLOCK(j, dim) {
      real sum = row[j];
      for (int64_t i = piece; i < count && is_of_segment(keys[i], id, shift); i += SEGMENT_PIECE)
        sum += sums[i / SEGMENT_PIECE * dim + j];
      row[j] = sum;
    }
  }
}

/* Returns the bytes of workspace for row_sums. */
static inline size_t row_sums_bytes(int64_t count, int64_t dim, size_t element_bytes) {
  return count > SEGMENT_PIECE ? (size_t)(ceil_div(count, SEGMENT_PIECE) * dim) * element_bytes : 0;
}

/* Enqueues the sums of all segments; operands as for sum_segments, workspace: row_sums_bytes. */
template <class stored>
static tdm_status row_sums(const tdm_kernel_call *call, const segments_plan *plan,
                           const segments *sorted, const stored *d, const int64_t *bags,
                           const stored *scales, const int64_t *winners, const int64_t *ranks,
                           int64_t dim, stored *out, void *workspace) {
  const int64_t count = plan->count, cells = ceil_div(count, SEGMENT_PIECE);
  const int threads = threads_for_row(dim);
  real_of<stored> *sums = static_cast<real_of<stored> *>(workspace);
  TDM_TRY(kernel_launch(call, "sum_segments", sum_segments<stored>, blocks_of(count), threads, d,
                        bags, scales, winners, sorted->keys, count, plan->shift, ranks, dim, out));
  if (cells <= 1) return TDM_OK;
  TDM_TRY(kernel_launch(call, "sum_cells", sum_cells<stored>, blocks_of(cells), threads, d, bags,
                        scales, winners, sorted->keys, count, plan->shift, dim, sums, cells));
  return kernel_launch(call, "add_cells", add_cells<stored>, blocks_of(cells), threads,
                       sorted->keys, count, plan->shift, ranks, dim, sums, out, cells);
}

#endif
