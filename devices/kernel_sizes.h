/* What the kernels of every kind read of a request, one struct an operation: the extents that its
 * shapes stand for, and the attributes as kernels use them. Each NAME_read fills the struct from
 * operands whose shapes the operation's rule has let through; a kind adds what is its own.
 * Invariant: plain values, which CUDA's kernels may be told as they are. */
#ifndef TANDEM_DEVICES_KERNEL_SIZES_H
#define TANDEM_DEVICES_KERNEL_SIZES_H

#include "devices/kernel_state.h"
#include "devices/kernels.h"

/* ---- One dimension, and groups of them ------------------------------------------------------- */

/* A tensor as (outer, size, inner): around one of its dimensions. */
typedef struct axis_sizes {
  int64_t outer;
  int64_t size;
  int64_t inner;
} axis_sizes;

/* Of no dimensions: (1, 1, 1). */
static inline void axis_sizes_read(axis_sizes *sizes, const tdm_spec *spec, int64_t dimension) {
  const bool scalar = spec->shape.rank == 0;
  sizes->outer = dims_product(spec, 0, scalar ? 0 : dimension);
  sizes->size = scalar ? 1 : spec->shape.dims[dimension];
  sizes->inner = dims_product(spec, dimension + 1, spec->shape.rank);
}

/* Of picking by indices: x as (outer, size, inner), what is picked as (outer, picked, inner). */
typedef struct gather_sizes {
  int64_t outer;
  int64_t size;
  int64_t inner;
  int64_t picked;
  bool whole_rows; /* index is (picked), else like what is picked */
  bool wide;       /* indices are int64 */
} gather_sizes;

static inline void gather_sizes_read(gather_sizes *sizes, const tdm_kernel_request *request,
                                     const tdm_spec *x, const tdm_spec *index) {
  const tdm_gather_attributes *attributes = (const tdm_gather_attributes *)request->attributes;
  axis_sizes axis;
  axis_sizes_read(&axis, x, attributes->dimension);
  sizes->outer = axis.outer;
  sizes->size = axis.size;
  sizes->inner = axis.inner;
  sizes->whole_rows = attributes->whole_rows != 0;
  sizes->picked = index->shape.dims[sizes->whole_rows ? 0 : attributes->dimension];
  sizes->wide = index->dtype == TDM_INT64;
}

/* x as (a, b, c, d, e), its sums as (a, c, e): b and d are the groups of dimensions that go. */
typedef struct reduce_sizes {
  int64_t sizes[5]; /* a, b, c, d, e */
  double divisor;
} reduce_sizes;

/* UNSUPPORTED where more than two groups go. */
static inline tdm_status reduce_sizes_read(reduce_sizes *sizes, const tdm_kernel_request *request,
                                           const tdm_shape *x) {
  const tdm_reduce_attributes *attributes = (const tdm_reduce_attributes *)request->attributes;
  for (int i = 0; i < 5; i++)
    sizes->sizes[i] = 1;
  int group = 4; /* from the last dimension on: even groups stay */
  for (int i = x->rank - 1; i >= 0; i--) {
    const bool goes = (attributes->mask >> i & 1) != 0;
    if (goes == (group % 2 == 0)) group--;
    if (group < 0)
      return tdm_fail(TDM_UNSUPPORTED, "more than two groups of dimensions are summed over");
    sizes->sizes[group] *= x->dims[i];
  }
  const int64_t all = sizes->sizes[1] * sizes->sizes[3];
  const int64_t terms = attributes->terms != 0 ? attributes->terms : all;
  sizes->divisor = attributes->mean != 0 ? (double)terms : 1;
  return TDM_OK;
}

/* ---- Normalization --------------------------------------------------------------------------- */

/* x as (n, channels, inner). */
typedef struct batch_norm_sizes {
  int64_t n;
  int64_t channels;
  int64_t inner;
  double epsilon;
  double momentum;
} batch_norm_sizes;

static inline void batch_norm_sizes_read(batch_norm_sizes *sizes, const tdm_kernel_request *request,
                                         const tdm_spec *x) {
  const tdm_batch_norm_attributes *attributes =
      (const tdm_batch_norm_attributes *)request->attributes;
  sizes->n = x->shape.dims[0];
  sizes->channels = x->shape.rank > 1 ? x->shape.dims[1] : x->shape.dims[0];
  sizes->inner = dims_product(x, 2, x->shape.rank);
  sizes->epsilon = attributes->epsilon;
  sizes->momentum = attributes->momentum;
}

/* x as (rows, count). */
typedef struct layer_norm_sizes {
  int64_t rows;
  int64_t count;
  double epsilon;
  bool centered; /* else every mean is 0 */
} layer_norm_sizes;

static inline void layer_norm_sizes_read(layer_norm_sizes *sizes, const tdm_kernel_request *request,
                                         const tdm_spec *x) {
  const tdm_layer_norm_attributes *attributes =
      (const tdm_layer_norm_attributes *)request->attributes;
  const int64_t first = x->shape.rank - attributes->rank;
  sizes->rows = dims_product(x, 0, first);
  sizes->count = dims_product(x, first, x->shape.rank);
  sizes->epsilon = attributes->epsilon;
  sizes->centered = attributes->uncentered == 0;
}

/* ---- Images ---------------------------------------------------------------------------------- */

/* Height and width of (n, channels, height, width); of (n, channels, width) the height is 1. */
static inline void plane_sizes_read(int64_t sizes[2], const tdm_spec *spec) {
  const int rank = spec->shape.rank;
  sizes[0] = rank < 4 ? 1 : spec->shape.dims[rank - 2];
  sizes[1] = spec->shape.dims[rank - 1];
}

typedef struct convolution_sizes {
  int64_t images;
  int64_t groups;
  int64_t in;  /* channels of a group */
  int64_t out; /* of a group */
  int64_t size[2];
  int64_t out_size[2];
  int64_t kernel[2];
  int64_t stride[2];
  int64_t padding[2];
  int64_t dilation[2];
} convolution_sizes;

/* x, weight and y as for the convolution. */
static inline void convolution_sizes_read(convolution_sizes *sizes,
                                          const tdm_kernel_request *request, const tdm_spec *x,
                                          const tdm_spec *weight, const tdm_spec *y) {
  const tdm_convolution_attributes *attributes =
      (const tdm_convolution_attributes *)request->attributes;
  sizes->images = x->shape.dims[0];
  sizes->groups = attributes->groups;
  sizes->in = x->shape.dims[1] / sizes->groups;
  sizes->out = weight->shape.dims[0] / sizes->groups;
  plane_sizes_read(sizes->size, x);
  plane_sizes_read(sizes->out_size, y);
  plane_sizes_read(sizes->kernel, weight);
  for (int axis = 0; axis < 2; axis++) {
    sizes->stride[axis] = attributes->stride[axis];
    sizes->padding[axis] = attributes->padding[axis];
    sizes->dilation[axis] = attributes->dilation[axis];
  }
}

/* ---- Products -------------------------------------------------------------------------------- */

typedef struct interaction_sizes {
  int64_t batch;
  int64_t vectors;
  int64_t dim;
  int64_t pairs;
  int64_t self; /* 1: a vector's product with itself too */
} interaction_sizes;

static inline void interaction_sizes_read(interaction_sizes *sizes,
                                          const tdm_kernel_request *request, const tdm_spec *x) {
  sizes->batch = x->shape.dims[0];
  sizes->vectors = x->shape.dims[1];
  sizes->dim = x->shape.dims[2];
  sizes->self = ((const tdm_dot_interaction_attributes *)request->attributes)->self;
  sizes->pairs = sizes->vectors * (sizes->vectors - 1) / 2 + sizes->self * sizes->vectors;
}

typedef struct attention_sizes {
  int64_t batch;
  int64_t queries;
  int64_t keys;
  int64_t heads;
  int64_t dim;   /* of a head's queries and keys */
  int64_t width; /* of a head's values */
  double scale;
  double kept_scale;  /* of what is not dropped */
  uint32_t threshold; /* of dropping; 0: nothing is dropped */
  uint64_t stream;
  int64_t first_batch; /* where this chunk begins in the whole batch */
  bool causal;
  bool mask_each;  /* every head of every batch has a mask of its own */
  bool mask_hides; /* the mask is bool; else it is added */
} attention_sizes;

/* mask: the operand of that number; drops: by the attributes' p. */
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

typedef struct recurrent_sizes {
  int64_t length;
  int64_t batch;
  int64_t in;
  int64_t hidden;
  int64_t columns; /* of the weights' products: G hidden */
  int32_t cell;    /* tdm_cell */
  bool reverse;
  bool wide_lengths; /* int64 */
} recurrent_sizes;

/* x (length, batch, in), y (length, batch, hidden). */
static inline void recurrent_sizes_read(recurrent_sizes *sizes, const tdm_kernel_request *request,
                                        const tdm_spec *x, const tdm_spec *y,
                                        const tdm_spec *lengths) {
  const tdm_recurrent_attributes *attributes =
      (const tdm_recurrent_attributes *)request->attributes;
  sizes->length = x->shape.dims[0];
  sizes->batch = x->shape.dims[1];
  sizes->in = x->shape.dims[2];
  sizes->hidden = y->shape.dims[2];
  sizes->cell = attributes->cell;
  sizes->columns = tdm_cell_gates(sizes->cell) * sizes->hidden;
  sizes->reverse = attributes->reverse != 0;
  sizes->wide_lengths = lengths->dtype == TDM_INT64;
}

/* The time of the step that is done after `done` others. */
static inline int64_t recurrent_time(const recurrent_sizes *sizes, int64_t done) {
  return sizes->reverse ? sizes->length - 1 - done : done;
}

/* ---- Updates --------------------------------------------------------------------------------- */

/* What an optimizer's kernel goes over: `count` elements, or at most `count` rows of `dim`. */
typedef struct update_sizes {
  int64_t count;
  int64_t dim;
} update_sizes;

static inline void update_sizes_read(update_sizes *sizes, const tdm_kernel_request *request) {
  sizes->count = count_of(&request->inputs[0]);
}

/* Of a sparse gradient: parameter (rows, dim), rows (n, dim), indices (n), ... */
static inline void update_rows_sizes_read(update_sizes *sizes, const tdm_kernel_request *request) {
  sizes->count = count_of(&request->inputs[2]);
  sizes->dim = last_dim_of(&request->inputs[0]);
}

/* ---- Ids and classes ------------------------------------------------------------------------- */

typedef struct bag_sizes {
  int64_t bags;
  int64_t count;  /* ids of all bags */
  int64_t length; /* of every bag, where there are no offsets */
  int64_t offset_count;
  int64_t rows; /* of the table */
  int64_t dim;
  int64_t padding;
  bool mean;
  bool wide_ids; /* int64 */
  bool wide_offsets;
} bag_sizes;

/* ids: the operand that they are, offsets the one behind it; y: (bags, dim). */
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

/* The loss of rows that have a class index each. */
typedef struct class_loss_sizes {
  int64_t rows;
  int64_t classes;
  int64_t ignored;
  int32_t reduction; /* tdm_reduction */
  bool wide_targets; /* int64 */
} class_loss_sizes;

static inline void class_loss_sizes_read(class_loss_sizes *sizes, const tdm_kernel_request *request,
                                         const tdm_spec *targets, int64_t classes) {
  const tdm_loss_attributes *attributes = (const tdm_loss_attributes *)request->attributes;
  sizes->rows = count_of(targets);
  sizes->classes = classes;
  sizes->ignored = attributes->ignore_index;
  sizes->reduction = attributes->reduction;
  sizes->wide_targets = targets->dtype == TDM_INT64;
}

#endif
