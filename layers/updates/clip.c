/* Clips gradients by value, as torch.nn.utils.clip_grad_value_, then by norm, as
 * torch.nn.utils.clip_grad_norm_: the sum of squares of each gradient, their total, one factor, and
 * each gradient times it. Gradients are negated if the optimizer maximizes. Invariant: sums are
 * added in the order of the parameters, so the factor does not depend on their devices. */
#include "layers/updates/clip.h"

#include <stdint.h>

#include "layers/common.h"
#include "tandem/layers/layers.h"

#define SUM_OPERANDS 16

static const tdm_shape scalar = {.rank = 0};

/* The dtype of the first output selects the kernel. The second output is the sum that consumers
 * read. */
static tdm_status infer_squares(tdm_infer *infer) {
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &scalar);
  tdm_infer_set(infer, 1, TDM_FLOAT64, &scalar);
  return TDM_OK;
}

static tdm_status infer_factor(tdm_infer *infer) {
  tdm_infer_set(infer, 0, TDM_FLOAT32, &scalar);
  tdm_infer_set(infer, 1, TDM_FLOAT64, &scalar);
  return TDM_OK;
}

static const tdm_operation sum_of_squares = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_SUM_OF_SQUARES,
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 2,
    .infer = infer_squares,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_FLOAT32,
};

static const tdm_operation accumulate = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_ACCUMULATE,
    .min_inputs = 1,
    .max_inputs = SUM_OPERANDS,
    .takes_list = true,
    .output_count = 1,
    .infer = tdm_infer_like_first,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_WIDEST,
};

static const tdm_operation clip_factor = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_CLIP_FACTOR,
    .attribute_bytes = sizeof(tdm_clip_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 2,
    .infer = infer_factor,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

static const tdm_operation scale = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_SCALE,
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = tdm_infer_like_first,
    .elementwise = true,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

TDM_RECORDS(clip, {.operation = &sum_of_squares}, {.operation = &accumulate},
            {.operation = &clip_factor}, {.operation = &scale});

static tdm_value as_dtype(tdm_graph *graph, const char *name, tdm_value x, tdm_dtype dtype) {
  return tdm_value_dtype(graph, x) == dtype ? x : tdm_cast(graph, name, x, dtype);
}

/* Returns the gradient of a parameter (the rows of a sparse one), clipped to the optimizer's
 * clip_value. */
static tdm_value clipped_by_value(tdm_update *update, size_t index) {
  const double most = tdm_update_optimizer(update)->clip_value;
  const tdm_value gradient = tdm_update_gradient(update, index);
  if (isinf(most)) return gradient;
  return tdm_clamp(tdm_update_graph(update), tdm_update_name(update, index), gradient, -most, most);
}

/* Partial sums by level, like the digits of a number: level l has sums of 16^l parameters. The tree
 * adds in order and needs no memory on the heap. */
typedef struct sum_tree {
  tdm_graph *graph;
  tdm_value levels[16][SUM_OPERANDS]; /* 16^16 gradients */
  size_t counts[16];
} sum_tree;

static tdm_value sum(sum_tree *tree, size_t level) {
  const size_t count = tree->counts[level];
  tree->counts[level] = 0;
  if (count == 1) return tree->levels[level][0];
  return tdm_append(tree->graph, &accumulate, "clip_norm", NULL, tree->levels[level], count, NULL);
}

static void add(sum_tree *tree, size_t level, tdm_value value) {
  while (tree->counts[level] == SUM_OPERANDS) {
    const tdm_value carry = sum(tree, level);
    tree->levels[level][tree->counts[level]++] = value;
    value = carry;
    level++;
  }
  tree->levels[level][tree->counts[level]++] = value;
}

/* Returns the total of all levels. Higher levels have the earlier parameters, so they come first in
 * the sum. */
static tdm_value finish(sum_tree *tree) {
  tdm_value rest = {0, 0};
  for (size_t level = 0; level < 16; level++) {
    if (tree->counts[level] == 0) continue;
    const tdm_value value = sum(tree, level);
    const tdm_value both[] = {value, rest};
    rest = tdm_value_is_valid(rest)
               ? tdm_append(tree->graph, &accumulate, "clip_norm", NULL, both, 2, NULL)
               : value;
  }
  return rest;
}

tdm_status tdm_clip_begin(tdm_update *update, tdm_clip *out_clip) {
  *out_clip = (tdm_clip){{{0, 0}, {0, 0}}};
  const double max_norm = tdm_update_optimizer(update)->clip_norm;
  if (isinf(max_norm) || tdm_update_count(update) == 0) return TDM_OK;
  sum_tree tree = {.graph = tdm_update_graph(update)};
  for (size_t i = 0; i < tdm_update_count(update); i++) {
    const tdm_value gradient = clipped_by_value(update, i);
    const char *name = tdm_update_name(update, i);
    tdm_value squares[2];
    tdm_append(tree.graph, &sum_of_squares, name, NULL, &gradient, 1, squares);
    add(&tree, 0, squares[1]);
  }
  const tdm_value total = finish(&tree);
  const tdm_clip_attributes attributes = {.max_norm = max_norm};
  tdm_append(tree.graph, &clip_factor, "clip_norm", &attributes, &total, 1, out_clip->factors);
  for (int i = 0; i < 2 && tdm_update_optimizer(update)->maximize; i++)
    out_clip->factors[i] = tdm_neg(tree.graph, "clip_norm", out_clip->factors[i]);
  return tdm_graph_status(tree.graph);
}

/* Returns the clipped gradient. If the optimizer maximizes, the factor is negative; without a
 * factor the gradient is negated. */
tdm_value tdm_clip_gradient(tdm_update *update, const tdm_clip *clip, size_t index) {
  const tdm_value gradient = clipped_by_value(update, index);
  tdm_graph *graph = tdm_update_graph(update);
  const char *name = tdm_update_name(update, index);
  if (!tdm_value_is_valid(clip->factors[0]))
    return tdm_update_optimizer(update)->maximize ? tdm_neg(graph, name, gradient) : gradient;
  const tdm_dtype dtype = tdm_value_dtype(graph, gradient);
  const tdm_value factor = clip->factors[dtype == TDM_FLOAT64];
  const tdm_value operands[] = {gradient, as_dtype(graph, name, factor, dtype)};
  return tdm_append(graph, &scale, name, NULL, operands, 2, NULL);
}
