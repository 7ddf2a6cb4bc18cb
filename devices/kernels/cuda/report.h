/* Finds the first invalid element, and reports it. Invariant: the report does not depend on the
 * order of threads. */
#ifndef TANDEM_DEVICES_KERNELS_CUDA_REPORT_H
#define TANDEM_DEVICES_KERNELS_CUDA_REPORT_H

#include "devices/kernels/cuda/reduce.h"

static const int64_t REPORT_PIECE = 4096; /* elements that a block looks at */
static const int64_t NOWHERE = INT64_MAX;

/* Returns the bytes of workspace for a search over count elements. */
static inline size_t report_workspace_bytes(int64_t count) {
  return (size_t)ceil_div(count, REPORT_PIECE) * sizeof(int64_t);
}

/* Ids of either width. */
struct id_list {
  const void *data; /* int64 if wide, else int32 */
  int64_t count;
  bool wide;
};

/* Enqueues a check that every id lies in [0, rows); workspace: report_workspace_bytes. The kernels
 * that follow run all the same, and pass over ids outside. */
tdm_status tdm_cuda_ids_check(const tdm_kernel_call *call, const id_list *ids, int64_t rows,
                              int64_t *workspace);
/* Does the same for indices of a dimension of that size. */
tdm_status tdm_cuda_indices_check(const tdm_kernel_call *call, const id_list *indices, int64_t size,
                                  int64_t *workspace);
/* Where values may lie: [least, least + count), or at the ignored one. */
struct legal_range {
  int64_t least;
  int64_t count;
  bool ignores;
  int64_t ignored;
};
/* Enqueues a check that every id lies in the range; workspace: report_workspace_bytes. */
tdm_status tdm_cuda_range_check(const tdm_kernel_call *call, const id_list *ids,
                                const legal_range *range, int64_t *workspace);
/* Does the same for ids in bags, and checks that offsets (data NULL: there are none) begin with 0
 * and ascend up to their number; workspace: report_workspace_bytes of the larger count. */
tdm_status tdm_cuda_bags_check(const tdm_kernel_call *call, const id_list *ids, int64_t rows,
                               const id_list *offsets, int64_t *workspace);
/* Does the same for class indices, among which `ignored` is always legal. */
tdm_status tdm_cuda_targets_check(const tdm_kernel_call *call, const id_list *targets,
                                  int64_t classes, int64_t ignored, int64_t *workspace);
/* Does the same for counts of steps, which must be in [0, longest]. */
tdm_status tdm_cuda_lengths_check(const tdm_kernel_call *call, const id_list *lengths,
                                  int64_t longest, int64_t *workspace);

static __device__ inline bool is_inside(int64_t id, int64_t rows) {
  return (uint64_t)id < (uint64_t)rows;
}
static __device__ inline bool is_legal(int64_t id, const legal_range &range) {
  return (uint64_t)id - (uint64_t)range.least < (uint64_t)range.count ||
         (range.ignores && id == range.ignored);
}

/* Returns, to every thread, the first position in this block's piece of [0, count) where
 * wrong(position), or NOWHERE. */
template <class predicate> static __device__ int64_t first_wrong(int64_t count, predicate wrong) {
  const int64_t begin = (int64_t)blockIdx.x * REPORT_PIECE;
  const int64_t end = count - begin < REPORT_PIECE ? count : begin + REPORT_PIECE;
  int64_t first = NOWHERE;
  for (int64_t i = begin + threadIdx.x; i < end && first == NOWHERE; i += blockDim.x)
    if (wrong(i)) first = i;
  return block_reduce<smaller_of_two>(first);
}

/* Returns, to every thread of the one block, the least of firsts (count). */
static __device__ inline int64_t least_of(const int64_t *firsts, int64_t count) {
  int64_t first = NOWHERE;
  EACH_OF_BLOCK(i, count) {
    first = smaller_of_two::of(first, firsts[i]);
  }
  return block_reduce<smaller_of_two>(first);
}

#endif
