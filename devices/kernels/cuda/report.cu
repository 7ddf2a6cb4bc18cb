/* The checks of ids and targets: each block searches a piece, then one block takes the least and
 * writes the report. */
#include "devices/kernels/cuda/report.h"

/* firsts: (blocks), each block's first stray position; ids: (count). */
static __global__ void search(const void *ids, bool wide, int64_t count, legal_range range,
                              int64_t *firsts) {
  const int64_t first =
      first_wrong(count, [=](int64_t i) { return !is_legal(id_at(ids, wide, i), range); });
  if (threadIdx.x == 0) firsts[blockIdx.x] = first;
}

/* Reports the first wrong id, in one block; ids: (count), firsts: (blocks). */
static __global__ void report_first(const void *ids, bool wide, const int64_t *firsts,
                                    int64_t blocks, tdm_cuda_report *report) {
  const int64_t first = least_of(firsts, blocks);
  if (threadIdx.x != 0 || first == NOWHERE) return;
  report->value = id_at(ids, wide, first);
  report->position = first;
}

static tdm_status check(const tdm_kernel_call *call, const id_list *ids, const legal_range &range,
                        tdm_cuda_report_kind kind, int64_t *workspace) {
  const int64_t blocks = ceil_div(ids->count, REPORT_PIECE);
  tdm_cuda_report *report =
      tdm_cuda_kernel_stream_report(kernel_stream_of(call), kind, range.count);
  report->least = range.least;
  if (blocks == 0) return TDM_OK;
  TDM_TRY(kernel_launch(call, "search", search, blocks, BLOCK, ids->data, ids->wide, ids->count,
                        range, workspace));
  return kernel_launch(call, "report_first", report_first, 1, BLOCK, ids->data, ids->wide,
                       workspace, blocks, report);
}

tdm_status tdm_cuda_ids_check(const tdm_kernel_call *call, const id_list *ids, int64_t rows,
                              int64_t *workspace) {
  return check(call, ids, {0, rows, false, 0}, TDM_CUDA_REPORT_ID, workspace);
}

tdm_status tdm_cuda_indices_check(const tdm_kernel_call *call, const id_list *indices, int64_t size,
                                  int64_t *workspace) {
  return check(call, indices, {0, size, false, 0}, TDM_CUDA_REPORT_INDEX, workspace);
}

tdm_status tdm_cuda_range_check(const tdm_kernel_call *call, const id_list *ids,
                                const legal_range *range, int64_t *workspace) {
  return check(call, ids, *range, TDM_CUDA_REPORT_RANGE, workspace);
}

tdm_status tdm_cuda_targets_check(const tdm_kernel_call *call, const id_list *targets,
                                  int64_t classes, int64_t ignored, int64_t *workspace) {
  return check(call, targets, {0, classes, true, ignored}, TDM_CUDA_REPORT_TARGET, workspace);
}

/* ---- Bags ------------------------------------------------------------------------------------ */

/* firsts: (blocks), each block's first wrong offset; offsets: (count). */
static __global__ void search_offsets(const void *offsets, bool wide, int64_t count,
                                      int64_t id_count, int64_t *firsts) {
  const int64_t first = first_wrong(count, [=](int64_t i) {
    const int64_t offset = id_at(offsets, wide, i);
    const int64_t before = i == 0 ? 0 : id_at(offsets, wide, i - 1);
    return offset < before || offset > (i == 0 ? 0 : id_count);
  });
  if (threadIdx.x == 0) firsts[blockIdx.x] = first;
}

/* Reports the first wrong offset, in one block; offsets: (count), firsts: (blocks). An invalid
 * offset replaces an invalid id as the reported element. */
static __global__ void report_offset(const void *offsets, bool wide, int64_t id_count,
                                     const int64_t *firsts, int64_t blocks,
                                     tdm_cuda_report *report) {
  const int64_t first = least_of(firsts, blocks);
  if (threadIdx.x != 0 || first == NOWHERE) return;
  report->value = id_at(offsets, wide, first);
  report->position = -2 - first;
  report->least = first == 0 ? 0 : id_at(offsets, wide, first - 1);
  report->bound = (first == 0 ? 0 : id_count) - report->least + 1;
}

tdm_status tdm_cuda_bags_check(const tdm_kernel_call *call, const id_list *ids, int64_t rows,
                               const id_list *offsets, int64_t *workspace) {
  TDM_TRY(check(call, ids, {0, rows, false, 0}, TDM_CUDA_REPORT_BAG, workspace));
  const int64_t blocks = ceil_div(offsets->count, REPORT_PIECE);
  if (!offsets->data || blocks == 0) return TDM_OK;
  tdm_cuda_report *report = kernel_stream_of(call)->report;
  TDM_TRY(kernel_launch(call, "search_offsets", search_offsets, blocks, BLOCK, offsets->data,
                        offsets->wide, offsets->count, ids->count, workspace));
  return kernel_launch(call, "report_offset", report_offset, 1, BLOCK, offsets->data, offsets->wide,
                       ids->count, workspace, blocks, report);
}

tdm_status tdm_cuda_lengths_check(const tdm_kernel_call *call, const id_list *lengths,
                                  int64_t longest, int64_t *workspace) {
  return check(call, lengths, {0, longest + 1, false, 0}, TDM_CUDA_REPORT_LENGTH, workspace);
}
