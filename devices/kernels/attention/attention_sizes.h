/* Sizes of attention, which the kernels of all device kinds read from a request. */
#ifndef TANDEM_DEVICES_KERNELS_ATTENTION_ATTENTION_SIZES_H
#define TANDEM_DEVICES_KERNELS_ATTENTION_ATTENTION_SIZES_H

#include "devices/kernels/attention/attention.h"
#include "devices/kernels/kernel_state.h"

typedef struct attention_sizes {
  int64_t batch;
  int64_t queries;
  int64_t keys;
  int64_t heads;
  int64_t dim;   /* elements of a head's query or key */
  int64_t width; /* elements of a head's value */
  double scale;
  double kept_scale;  /* factor of the probabilities that are not dropped */
  uint32_t threshold; /* a probability is dropped if its random word is below; 0: none is dropped */
  uint64_t stream;
  int64_t first_batch; /* index of this chunk's first batch in the whole batch */
  bool causal;
  bool mask_each;  /* each head of each batch has a separate mask */
  bool mask_hides; /* the mask is bool and hides scores; otherwise it is added to them */
} attention_sizes;

/* Reads the sizes. mask: index of the mask's operand; drops: whether the attributes' p applies. */
static inline void attention_sizes_read(attention_sizes *sizes, const tdm_kernel_request *request,
                                        const tdm_spec *q, const tdm_spec *v, size_t mask,
                                        bool drops) {
  const tdm_attention_attributes *attributes =
      (const tdm_attention_attributes *)request->attributes;
  sizes->batch = q->shape.dims[0];
  sizes->queries = q->shape.dims[1];
  sizes->keys = v->shape.dims[1];
  sizes->heads = attributes->heads;
  sizes->dim = q->shape.dims[2] / sizes->heads;
  sizes->width = v->shape.dims[2] / sizes->heads;
  sizes->scale = attributes->scale;
  sizes->causal = attributes->causal != 0;
  if (mask < request->input_count) {
    sizes->mask_each = request->inputs[mask].shape.rank == 4;
    sizes->mask_hides = request->inputs[mask].dtype == TDM_BOOL;
  }
  sizes->threshold = drops ? (uint32_t)(attributes->p * 16777216.0) : 0;
  sizes->kept_scale = attributes->p < 1 ? 1 / (1 - attributes->p) : 0;
  sizes->stream = attributes->stream;
  sizes->first_batch = attributes->chunk.offset;
}

#endif
