/* Bags of ids, as the kernels of the embedding bag read them: positions begin <= i < end of all
 * ids, of one length or by offsets. Invariant: bags are contiguous and do not overlap. */
#ifndef TANDEM_DEVICES_KERNELS_TABLES_CPU_BAGS_H
#define TANDEM_DEVICES_KERNELS_TABLES_CPU_BAGS_H

#include "devices/kernels/cpu/real.h"
#include "devices/kernels/tables/bag_sizes.h"
#include "devices/kernels/tables/cpu/sorted_ids.h"

typedef struct bag_state {
  bag_sizes sizes;
  tdm_cpu_sorting sorting; /* sort of the ids for the sparse gradient */
  bool splits;
} bag_state;

typedef struct bag_list {
  const bag_state *state;
  tdm_cpu_ids ids;
  tdm_cpu_ids offsets; /* data NULL: bags of one length */
} bag_list;

static inline int64_t bag_begin(const bag_list *list, int64_t bag) {
  return list->offsets.data ? tdm_cpu_id(&list->offsets, bag) : bag * list->state->sizes.length;
}

static inline int64_t bag_end(const bag_list *list, int64_t bag) {
  if (list->offsets.data && bag + 1 == list->offsets.count) return list->ids.count;
  return bag_begin(list, bag + 1);
}

/* Returns the number of ids of a bag without padding. */
static inline int64_t bag_size(const bag_list *list, int64_t bag) {
  const int64_t begin = bag_begin(list, bag), end = bag_end(list, bag);
  int64_t size = end - begin;
  if (list->state->sizes.padding < 0) return size;
  for (int64_t i = begin; i < end; i++)
    size -= tdm_cpu_id(&list->ids, i) == list->state->sizes.padding;
  return size;
}

/* Allocates the state of a kernel whose operands `ids` and `ids + 1` are ids and offsets, and y
 * (bags, dim). */
static inline bag_state *bag_state_create(const tdm_kernel_request *request,
                                          tdm_kernel_answer *answer, size_t ids,
                                          const tdm_spec *y) {
  bag_state *state = kernel_state_create(answer, sizeof *state);
  if (state) bag_sizes_read(&state->sizes, request, ids, y);
  return state;
}

/* Reads the operands of a call and checks its offsets. */
static inline tdm_status bag_list_take(const tdm_kernel_call *call, size_t ids, bag_list *out) {
  const bag_state *state = call->state;
  out->state = state;
  out->ids = (tdm_cpu_ids){call->inputs[ids], state->sizes.count, state->sizes.wide_ids};
  out->offsets = (tdm_cpu_ids){NULL, 0, false};
  if (!call->inputs[ids + 1]) return TDM_OK;
  out->offsets =
      (tdm_cpu_ids){call->inputs[ids + 1], state->sizes.offset_count, state->sizes.wide_offsets};
  return tdm_cpu_offsets_check(&out->offsets, state->sizes.count);
}

/* Does the same and checks the ids. */
static inline tdm_status bag_list_read(const tdm_kernel_call *call, size_t ids, bag_list *out) {
  const tdm_status status = bag_list_take(call, ids, out);
  return status != TDM_OK ? status : tdm_cpu_ids_check(&out->ids, out->state->sizes.rows);
}

/* Returns true if the ids of bags begin <= bag < end, at least one bag, are in the table. */
static inline bool bag_list_inside(const bag_list *list, int64_t begin, int64_t end) {
  const int64_t first = bag_begin(list, begin);
  return tdm_cpu_ids_inside(&list->ids, first, bag_end(list, end - 1) - first,
                            list->state->sizes.rows);
}

#endif
