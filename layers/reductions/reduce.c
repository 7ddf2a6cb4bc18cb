/* Sums and means over dimensions. Invariant: a node reduces at most two groups of adjacent
 * dimensions, the limit of the kernels. More groups become several nodes, the last groups first. */
#include <math.h>
#include <string.h>

#include "layers/common.h"
#include "tandem/layers/layers.h"

#define MAX_GROUPS 2

static tdm_status infer_reduce(tdm_infer *infer) {
  const tdm_reduce_attributes *attributes = infer->attributes;
  TDM_TRY(tdm_expect_floating(infer, 0, "x"));
  const tdm_shape *x = tdm_infer_shape(infer, 0);
  if (attributes->mask >> x->rank != 0) {
    char text[TDM_SHAPE_TEXT];
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s lacks a dimension that is summed over",
                    tdm_shape_text(x, text, sizeof text));
  }
  tdm_shape out = {.rank = 0};
  for (int i = 0; i < x->rank; i++) {
    const bool goes = (attributes->mask >> i & 1) != 0;
    if (!goes || attributes->keep != 0) out.dims[out.rank++] = goes ? 1 : x->dims[i];
  }
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &out);
  return TDM_OK;
}

static tdm_status infer_gradient(tdm_infer *infer) {
  const tdm_reduce_attributes *attributes = infer->attributes;
  tdm_shape d_x = {.rank = (int32_t)attributes->rank};
  for (int i = 0; i < d_x.rank; i++)
    d_x.dims[i] = attributes->dims[i];
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &d_x);
  return TDM_OK;
}

static const tdm_operation reduce_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_REDUCE_GRADIENT,
    .attribute_bytes = sizeof(tdm_reduce_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = infer_gradient,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

static tdm_status append_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  tdm_reduce_attributes attributes;
  memcpy(&attributes, tdm_gradient_attributes(gradient), sizeof attributes);
  const tdm_shape x = tdm_value_shape(graph, tdm_gradient_input(gradient, 0));
  attributes.rank = x.rank;
  for (int i = 0; i < x.rank; i++)
    attributes.dims[i] = x.dims[i];
  const tdm_value d_out = tdm_gradient_of_output(gradient, 0);
  tdm_gradient_set(gradient, 0,
                   tdm_append(graph, &reduce_gradient, tdm_gradient_name(gradient), &attributes,
                              &d_out, 1, NULL));
  return tdm_graph_status(graph);
}

/* Adds the sums of the parts. For the mean, each part divides by the count of the whole batch. */
static tdm_status chunk_reduce(tdm_chunked *chunked) {
  tdm_reduce_attributes attributes;
  memcpy(&attributes, tdm_chunked_attributes(chunked), sizeof attributes);
  const int rows = tdm_chunked_cut(chunked, 0).dimension;
  if ((attributes.mask >> rows & 1) == 0) return tdm_chunked_each(chunked, NULL);
  const tdm_shape x = tdm_chunked_shape(chunked, 0);
  const bool is_part = attributes.terms != 0; /* this node is a part of a larger one */
  if (!is_part) attributes.terms = 1;
  for (int i = 0; i < x.rank && !is_part; i++)
    if ((attributes.mask >> i & 1) != 0) attributes.terms *= x.dims[i];
  TDM_TRY(tdm_chunked_each(chunked, &attributes));
  tdm_value parts[TDM_MAX_PARTS];
  for (size_t i = 0; i < tdm_chunked_count(chunked); i++)
    parts[i] = tdm_chunked_output(chunked, 0, i);
  tdm_chunked_set_whole(chunked, 0, tdm_chunked_sum(chunked, parts));
  return TDM_OK;
}

static const tdm_operation reduce_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_REDUCE,
    .attribute_bytes = sizeof(tdm_reduce_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = infer_reduce,
    .gradient = append_gradient,
    .chunk = chunk_reduce,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_FLOAT32,
};

TDM_RECORDS(reduce,
            {.operation = &reduce_operation,
             .functions = "tdm_sum tdm_mean tdm_norm tdm_diagonal_sum "
                          "tdm_margin_ranking tdm_hinge_embedding tdm_soft_margin tdm_multi_margin "
                          "tdm_multilabel_margin tdm_multilabel_soft_margin tdm_cosine_similarity "
                          "tdm_cosine_embedding tdm_pairwise_distance tdm_triplet_margin "
                          "tdm_gaussian_nll tdm_poisson_nll"},
            {.operation = &reduce_gradient});

/* Returns the last two groups of adjacent dimensions in mask. */
int64_t tdm_reduced_last_groups(int64_t mask, int rank) {
  int groups = 0;
  int64_t found = 0;
  for (int i = rank - 1; i >= 0; i--) {
    if ((mask >> i & 1) == 0) continue;
    const bool begins = i == rank - 1 || (mask >> (i + 1) & 1) == 0;
    if (begins && ++groups > MAX_GROUPS) break;
    found |= INT64_C(1) << i;
  }
  return found;
}

bool tdm_reduced_mask(tdm_graph *graph, const char *layer, const char *name, tdm_value x,
                      const int *dimensions, size_t count, int64_t *out_mask) {
  if (!tdm_layer_accepts(graph, layer, name, x)) return false;
  if (count > 0 && !dimensions) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: dimensions is NULL, count is %zu", layer,
                   name, count);
    return false;
  }
  const tdm_shape shape = tdm_value_shape(graph, x);
  *out_mask = count == 0 ? (INT64_C(1) << shape.rank) - 1 : 0;
  for (size_t i = 0; i < count; i++) {
    const int counted = tdm_layer_dimension(graph, layer, name, &shape, dimensions[i]);
    if (counted < 0) return false;
    if ((*out_mask >> counted & 1) != 0) {
      tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: dimension %d is named twice", layer, name,
                     dimensions[i]);
      return false;
    }
    *out_mask |= INT64_C(1) << counted;
  }
  return true;
}

static tdm_value make_reduce(tdm_graph *graph, const char *layer, const char *name, tdm_value x,
                             const int *dimensions, size_t count, bool keep, bool mean) {
  name = tdm_graph_name(graph, name);
  int64_t mask;
  if (!tdm_reduced_mask(graph, layer, name, x, dimensions, count, &mask)) return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, x);
  do { /* runs at least once, even for no dimension */
    tdm_reduce_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.mask = tdm_reduced_last_groups(mask, shape.rank);
    attributes.keep = keep;
    attributes.mean = mean;
    mask &= ~attributes.mask; /* dimensions before these keep their indices */
    x = tdm_append(graph, &reduce_operation, name, &attributes, &x, 1, NULL);
  } while (mask != 0);
  return x;
}

tdm_value tdm_sum(tdm_graph *graph, const char *name, tdm_value x, const int *dimensions,
                  size_t count, bool keep) {
  return make_reduce(graph, "sum", name, x, dimensions, count, keep, false);
}

tdm_value tdm_mean(tdm_graph *graph, const char *name, tdm_value x, const int *dimensions,
                   size_t count, bool keep) {
  return make_reduce(graph, "mean", name, x, dimensions, count, keep, true);
}
