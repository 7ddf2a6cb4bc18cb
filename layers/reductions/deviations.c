/* Variances, standard deviations and norms: sums of squared distances from a mean or from 0.
 * Invariant: the mean is subtracted in float64, and its own gradient is 0, because the distances
 * from it add up to 0. */
#include "devices/kernels/reductions/deviations.h"

#include <math.h>
#include <string.h>

#include "layers/common.h"
#include "tandem/layers/arrays.h"
#include "tandem/layers/layers.h"
#include "tandem/layers/moves.h"

static tdm_shape kept_shape(const tdm_shape *x, int64_t mask, bool keep) {
  tdm_shape out = {.rank = 0};
  for (int i = 0; i < x->rank; i++) {
    const bool goes = (mask >> i & 1) != 0;
    if (!goes || keep) out.dims[out.rank++] = goes ? 1 : x->dims[i];
  }
  return out;
}

/* ---- Operations ------------------------------------------------------------------------------ */

static tdm_status infer_mean(tdm_infer *infer) {
  const tdm_deviations_attributes *attributes = infer->attributes;
  TDM_TRY(tdm_expect_floating(infer, 0, "x"));
  const tdm_shape out = kept_shape(tdm_infer_shape(infer, 0), attributes->reduce.mask, true);
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &out);
  tdm_infer_set(infer, 1, TDM_FLOAT64, &out);
  return TDM_OK;
}

static tdm_status infer_deviations(tdm_infer *infer) {
  const tdm_deviations_attributes *attributes = infer->attributes;
  TDM_TRY(tdm_expect_floating(infer, 0, "x"));
  const tdm_shape *x = tdm_infer_shape(infer, 0);
  const tdm_shape means = kept_shape(x, attributes->reduce.mask, true);
  if (tdm_infer_has(infer, 1)) TDM_TRY(tdm_expect_shape(infer, 1, "mean", &means));
  const tdm_shape out = kept_shape(x, attributes->reduce.mask, attributes->reduce.keep != 0);
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &out);
  return TDM_OK;
}

static const tdm_operation deviations_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_DEVIATIONS_GRADIENT,
    .attribute_bytes = sizeof(tdm_deviations_attributes),
    .min_inputs = 3,
    .max_inputs = 4,
    .output_count = 1,
    .infer = tdm_infer_like_second,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

static tdm_status append_gradient(tdm_gradient *gradient) {
  const tdm_value operands[] = {tdm_gradient_of_output(gradient, 0),
                                tdm_gradient_input(gradient, 0), tdm_gradient_output(gradient, 0),
                                tdm_gradient_input(gradient, 1)};
  tdm_graph *graph = tdm_gradient_graph(gradient);
  tdm_gradient_set(gradient, 0,
                   tdm_append(graph, &deviations_gradient, tdm_gradient_name(gradient),
                              tdm_gradient_attributes(gradient), operands, 4, NULL));
  return tdm_graph_status(graph);
}

/* Returns the root of the sum of squares of all parts. A root of 0 has the gradient 0. */
static tdm_value root_of(tdm_graph *graph, const char *name, tdm_value squares) {
  const tdm_value is_zero = tdm_compare_scalar(graph, name, squares, TDM_EQUAL, 0);
  const tdm_value safe = tdm_masked_fill(graph, name, squares, is_zero, 1);
  return tdm_masked_fill(graph, name, tdm_sqrt(graph, name, safe), is_zero, 0);
}

static tdm_value sum_of_parts(tdm_chunked *chunked, size_t output) {
  tdm_value parts[TDM_MAX_PARTS];
  for (size_t i = 0; i < tdm_chunked_count(chunked); i++)
    parts[i] = tdm_chunked_output(chunked, output, i);
  return tdm_chunked_sum(chunked, parts);
}

/* Adds the sums of the parts, each divided by the count of the whole batch. The root comes last. */
static tdm_status chunk_deviations(tdm_chunked *chunked) {
  tdm_deviations_attributes attributes;
  memcpy(&attributes, tdm_chunked_attributes(chunked), sizeof attributes);
  const int rows = tdm_chunked_cut(chunked, 0).dimension;
  if ((attributes.reduce.mask >> rows & 1) == 0) return tdm_chunked_each(chunked, NULL);
  const tdm_shape x = tdm_chunked_shape(chunked, 0);
  const bool is_part = attributes.reduce.terms != 0; /* this node is a part of a larger one */
  const bool has_root = attributes.root != 0;
  if (!is_part) attributes.reduce.terms = 1;
  for (int i = 0; i < x.rank && !is_part; i++)
    if ((attributes.reduce.mask >> i & 1) != 0) attributes.reduce.terms *= x.dims[i];
  attributes.root = 0;
  TDM_TRY(tdm_chunked_each(chunked, &attributes));
  const tdm_value sum = sum_of_parts(chunked, 0);
  tdm_chunked_set_whole(
      chunked, 0,
      has_root ? root_of(tdm_chunked_graph(chunked), tdm_chunked_name(chunked), sum) : sum);
  return TDM_OK;
}

static tdm_status chunk_mean(tdm_chunked *chunked) {
  const tdm_deviations_attributes *attributes = tdm_chunked_attributes(chunked);
  const int rows = tdm_chunked_cut(chunked, 0).dimension;
  const bool is_whole = (attributes->reduce.mask >> rows & 1) == 0;
  TDM_TRY(chunk_deviations(chunked));
  if (!is_whole) tdm_chunked_set_whole(chunked, 1, sum_of_parts(chunked, 1));
  return TDM_OK;
}

static const tdm_operation precise_mean = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_PRECISE_MEAN,
    .attribute_bytes = sizeof(tdm_deviations_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 2,
    .infer = infer_mean,
    .chunk = chunk_mean,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_FLOAT32,
};

static const tdm_operation deviations = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_DEVIATIONS,
    .attribute_bytes = sizeof(tdm_deviations_attributes),
    .min_inputs = 1,
    .max_inputs = 2,
    .output_count = 1,
    .infer = infer_deviations,
    .gradient = append_gradient,
    .chunk = chunk_deviations,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_FLOAT32,
};

TDM_RECORDS(deviations,
            {.operation = &deviations,
             .functions = "tdm_variance tdm_std tdm_norm tdm_normalize tdm_cosine_similarity "
                          "tdm_pairwise_distance tdm_triplet_margin"},
            {.operation = &precise_mean}, {.operation = &deviations_gradient});

/* ---- Functions ------------------------------------------------------------------------------- */

/* A statistic of x over the dimensions of the mask. */
typedef struct spread {
  int64_t mask;
  double correction;
  bool centered; /* around the mean, divided by count - correction; else around 0, not divided */
  bool root;
  bool keep;
} spread;

static tdm_value append_deviations(tdm_graph *graph, const char *name, tdm_value x,
                                   const spread *of) {
  tdm_deviations_attributes attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.reduce.mask = of->mask;
  attributes.reduce.keep = 1;
  attributes.reduce.mean = of->centered;
  tdm_value means[2] = {TDM_NO_VALUE, TDM_NO_VALUE};
  if (of->centered) tdm_append(graph, &precise_mean, name, &attributes, &x, 1, means);
  attributes.reduce.keep = of->keep;
  attributes.correction = of->correction;
  attributes.root = of->root;
  const tdm_value operands[] = {x, means[1]};
  return tdm_append(graph, &deviations, name, &attributes, operands, 2, NULL);
}

/* Appends the statistic after moving the reduced dimensions to the end, for masks that kernels do
 * not support. */
static tdm_value append_moved(tdm_graph *graph, const char *name, tdm_value x, spread of) {
  const int rank = tdm_value_shape(graph, x).rank;
  const int64_t mask = of.mask;
  int order[TDM_MAX_RANK], kept = 0, place = 0;
  for (int gone = 0; gone < 2; gone++) {
    for (int i = 0; i < rank; i++)
      if ((mask >> i & 1) == gone) order[place++] = i;
    if (gone == 0) kept = place;
  }
  const bool keep = of.keep;
  of.keep = false;
  of.mask = ((INT64_C(1) << (rank - kept)) - 1) << kept;
  x = tdm_permute(graph, name, x, order, (size_t)rank);
  if (tdm_value_is_valid(x)) x = append_deviations(graph, name, x, &of);
  for (int i = 0; i < rank && keep && tdm_value_is_valid(x); i++)
    if ((mask >> i & 1) != 0) x = tdm_unsqueeze(graph, name, x, i);
  return x;
}

static tdm_value spread_of(tdm_graph *graph, const char *layer, const char *name, tdm_value x,
                           const int *dimensions, size_t count, spread of) {
  if (!tdm_reduced_mask(graph, layer, name, x, dimensions, count, &of.mask)) return TDM_NO_VALUE;
  const int rank = tdm_value_shape(graph, x).rank;
  return tdm_reduced_last_groups(of.mask, rank) == of.mask ? append_deviations(graph, name, x, &of)
                                                           : append_moved(graph, name, x, of);
}

tdm_value tdm_root_of_squares(tdm_graph *graph, const char *layer, const char *name, tdm_value x,
                              const int *dimensions, size_t count, bool keep) {
  return spread_of(graph, layer, name, x, dimensions, count, (spread){.root = true, .keep = keep});
}

/* Returns true if there are more elements than the correction, as far as sizes are fixed; otherwise
 * false with an error. */
static bool has_elements(tdm_graph *graph, const char *layer, const char *name, tdm_value x,
                         int64_t mask, double correction) {
  const tdm_shape shape = tdm_value_shape(graph, x);
  double n = 1;
  for (int i = 0; i < shape.rank; i++) {
    if ((mask >> i & 1) == 0) continue;
    if (!tdm_dim_is_size(shape.dims[i])) return true;
    n *= (double)shape.dims[i];
  }
  if (correction == 0 || n > correction) return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                 "%s %s: %g elements, expected more than the correction of %g", layer, name, n,
                 correction);
  return false;
}

static tdm_value around_mean(tdm_graph *graph, const char *layer, const char *name, tdm_value x,
                             const int *dimensions, size_t count, double correction, bool keep,
                             bool root) {
  name = tdm_graph_name(graph, name);
  int64_t mask;
  if (!tdm_layer_accepts(graph, layer, name, x)) return TDM_NO_VALUE;
  if (!isfinite(correction))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: correction is %g, expected a number",
                          layer, name, correction);
  if (!tdm_reduced_mask(graph, layer, name, x, dimensions, count, &mask) ||
      !has_elements(graph, layer, name, x, mask, correction))
    return TDM_NO_VALUE;
  return spread_of(
      graph, layer, name, x, dimensions, count,
      (spread){.correction = correction, .centered = true, .root = root, .keep = keep});
}

tdm_value tdm_variance(tdm_graph *graph, const char *name, tdm_value x, const int *dimensions,
                       size_t count, double correction, bool keep) {
  return around_mean(graph, "variance", name, x, dimensions, count, correction, keep, false);
}

tdm_value tdm_std(tdm_graph *graph, const char *name, tdm_value x, const int *dimensions,
                  size_t count, double correction, bool keep) {
  return around_mean(graph, "std", name, x, dimensions, count, correction, keep, true);
}
