/* Code that all families of kernels share: a source's list of kernels, the decision to split work,
 * parts, and ids. */
#ifndef TANDEM_DEVICES_KERNELS_CPU_FAMILY_H
#define TANDEM_DEVICES_KERNELS_CPU_FAMILY_H

#include "devices/kernels/kernel_list.h"
#include "devices/kernels/kernel_state.h"

/* ---- A source's kernels ------------------------------------------------------------------------
 */

/* Ends a source: its kernels, which table.c lists under that name. */
#define KERNELS(name, ...)                                                                         \
  static const tdm_kernel kernels[] = {__VA_ARGS__};                                               \
  const tdm_kernel_list tdm_cpu_##name = {kernels, TDM_COUNT_OF(kernels)};

#define KERNEL_OF(dtype, operation, prepare, execute, part)                                        \
  { sizeof(tdm_kernel), operation, "cpu", dtype, prepare, execute, kernel_state_release, part, 0 }
/* One that serves several dtypes. */
#define KERNEL_OF_FLOATS(operation, prepare, execute)                                              \
  KERNEL_OF(TDM_FLOAT32, operation, prepare, execute, NULL),                                       \
      KERNEL_OF(TDM_FLOAT64, operation, prepare, execute, NULL)
#define KERNEL_OF_INTEGERS(operation, prepare, execute)                                            \
  KERNEL_OF(TDM_INT32, operation, prepare, execute, NULL),                                         \
      KERNEL_OF(TDM_INT64, operation, prepare, execute, NULL)
#define KERNEL_OF_NUMBERS(operation, prepare, execute)                                             \
  KERNEL_OF_FLOATS(operation, prepare, execute), KERNEL_OF_INTEGERS(operation, prepare, execute)
#define KERNEL_OF_ALL(operation, prepare, execute, part)                                           \
  KERNEL_OF(TDM_FLOAT32, operation, prepare, execute, part),                                       \
      KERNEL_OF(TDM_FLOAT64, operation, prepare, execute, part),                                   \
      KERNEL_OF(TDM_INT32, operation, prepare, execute, part),                                     \
      KERNEL_OF(TDM_INT64, operation, prepare, execute, part),                                     \
      KERNEL_OF(TDM_UINT8, operation, prepare, execute, part),                                     \
      KERNEL_OF(TDM_BOOL, operation, prepare, execute, part)
/* Lists the 16-bit dtypes too, for kernels that move elements without reading their values. */
#define KERNEL_OF_EVERY(operation, prepare, execute, part)                                         \
  KERNEL_OF_ALL(operation, prepare, execute, part),                                                \
      KERNEL_OF(TDM_FLOAT16, operation, prepare, execute, part),                                   \
      KERNEL_OF(TDM_BFLOAT16, operation, prepare, execute, part)

/* ---- Parts, ids -------------------------------------------------------------------------
 */

/* Computes some elements (tdm_kernel.execute_part); it never fails. */
typedef tdm_status (*tdm_cpu_part)(const tdm_kernel_call *call, int64_t begin, int64_t end);

typedef struct tdm_cpu_parts_run {
  const tdm_kernel_call *call;
  tdm_cpu_part part;
} tdm_cpu_parts_run;

static inline void tdm_cpu_run_part(void *user, int64_t begin, int64_t end) {
  const tdm_cpu_parts_run *parts = (const tdm_cpu_parts_run *)user;
  (void)parts->part(parts->call, begin, end);
}

/* Computes all elements by parts, on the call's team if `splits`, at least grain a part. */
static inline tdm_status tdm_cpu_run_parts(const tdm_kernel_call *call, tdm_cpu_part part,
                                           bool splits, int64_t count, int64_t grain) {
  tdm_cpu_parts_run parts = {call, part};
  if (!splits) return count > 0 ? part(call, 0, count) : TDM_OK;
  tdm_team_run(call->team, count, grain, tdm_cpu_run_part, &parts);
  return TDM_OK;
}

/* Returns true if work that takes work_ns on one thread is long enough to split over the device's
 * team. */
static inline bool tdm_cpu_splits(const tdm_kernel_request *request, double work_ns) {
  return request->team_size > 1 && work_ns > 20000.0;
}

/* Ids of either width. */
typedef struct tdm_cpu_ids {
  const void *data; /* int64 if wide, else int32 */
  int64_t count;
  bool wide;
} tdm_cpu_ids;

static inline int64_t tdm_cpu_id(const tdm_cpu_ids *ids, int64_t position) {
  return ids->wide ? ((const int64_t *)ids->data)[position]
                   : ((const int32_t *)ids->data)[position];
}

/* Returns INVALID_ARGUMENT and names the first id that is not in [0, rows) ("ids 1000 at position 7
 * is outside 0 to 999"), else TDM_OK. */
tdm_status tdm_cpu_ids_check(const tdm_cpu_ids *ids, int64_t rows) TDM_WARN_UNUSED;
/* Does the same for indices of a dimension of that size ("index 5 at position 0 is outside 0 to
 * 4"). */
tdm_status tdm_cpu_indices_check(const tdm_cpu_ids *indices, int64_t size) TDM_WARN_UNUSED;
/* Returns INVALID_ARGUMENT and names the first wrong offset, unless offsets begin with 0 and ascend
 * up to ids_count at most: "offsets 2 at position 2 is outside 3 to 4". */
tdm_status tdm_cpu_offsets_check(const tdm_cpu_ids *offsets, int64_t ids_count) TDM_WARN_UNUSED;
/* Returns true if ids first <= i < first + count are in [0, rows). Sets no message. */
bool tdm_cpu_ids_inside(const tdm_cpu_ids *ids, int64_t first, int64_t count, int64_t rows);
/* Does the same for class indices, among which `ignored` is always legal. */
tdm_status tdm_cpu_targets_check(const tdm_cpu_ids *targets, int64_t classes,
                                 int64_t ignored) TDM_WARN_UNUSED;
/* Does the same for counts of steps, which must be in [0, longest]. */
tdm_status tdm_cpu_lengths_check(const tdm_cpu_ids *lengths, int64_t longest) TDM_WARN_UNUSED;

#endif
