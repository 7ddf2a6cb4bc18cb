/* Sizes of bags of rows, which the kernels of all device kinds read from a request. */
#ifndef TANDEM_DEVICES_KERNELS_TABLES_BAG_SIZES_H
#define TANDEM_DEVICES_KERNELS_TABLES_BAG_SIZES_H

#include "devices/kernels/kernel_state.h"
#include "devices/kernels/tables/lookup.h"

typedef struct bag_sizes {
  int64_t bags;
  int64_t count;  /* ids of all bags */
  int64_t length; /* ids of each bag if there are no offsets */
  int64_t offset_count;
  int64_t rows; /* rows of the table */
  int64_t dim;
  int64_t padding;
  bool mean;
  bool wide_ids; /* int64 */
  bool wide_offsets;
} bag_sizes;

/* ids: the index of the operand that holds the ids; offsets are the next operand. y: (bags, dim).
 */
static inline void bag_sizes_read(bag_sizes *sizes, const tdm_kernel_request *request, size_t ids,
                                  const tdm_spec *y) {
  const tdm_embedding_bag_attributes *attributes =
      (const tdm_embedding_bag_attributes *)request->attributes;
  const tdm_spec *list = &request->inputs[ids], *offsets = &request->inputs[ids + 1];
  sizes->bags = y->shape.dims[0];
  sizes->dim = y->shape.dims[1];
  sizes->count = count_of(list);
  sizes->length = list->shape.rank == 2 ? list->shape.dims[1] : 0;
  sizes->rows = attributes->rows;
  sizes->padding = attributes->padding_index;
  sizes->mean = attributes->mean != 0;
  sizes->wide_ids = list->dtype == TDM_INT64;
  if (offsets->dtype == TDM_DTYPE_NONE) return;
  sizes->offset_count = count_of(offsets);
  sizes->wide_offsets = offsets->dtype == TDM_INT64;
}

#endif
