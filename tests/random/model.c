/* The meaning of a model's numbers: extents, feeds of a run, initial parameters, and a description
 * for a reader. */
#include "tests/random/model.h"

#include <inttypes.h>

int64_t extent_dim(const extent *shape, int dimension, int64_t rows) {
  return shape->dims[dimension] < 0 ? -shape->dims[dimension] * rows : shape->dims[dimension];
}

int64_t extent_count(const extent *shape, int64_t rows) {
  int64_t count = 1;
  for (int i = 0; i < shape->rank; i++)
    count *= extent_dim(shape, i, rows);
  return count;
}

int extent_batch(const extent *shape) {
  for (int i = 0; i < shape->rank; i++)
    if (shape->dims[i] < 0) return i;
  return -1;
}

/* ---- Contents -------------------------------------------------------------------------------- */

/* Draws `count` distinct indices below `bound`, which is at most MOST_KEPT_SIZE. */
static void fill_indices(draw *stream, int64_t bound, int64_t count, double *out_values) {
  int left[MOST_KEPT_SIZE];
  for (int i = 0; i < (int)bound; i++)
    left[i] = i;
  for (int i = 0; i < (int)count; i++) {
    const int picked = draw_between(stream, i, (int)bound - 1);
    out_values[i] = left[picked];
    left[picked] = left[i];
  }
}

void model_fill_input(const random_model *it, int node, uint64_t seed, int64_t rows,
                      double *out_values) {
  const random_node *what = &it->nodes[node];
  draw stream = draw_of(seed, 1000 + (uint64_t)node);
  if (what->kind == NODE_INDICES) {
    fill_indices(&stream, what->count, extent_count(&it->values[what->first_value], 1), out_values);
    return;
  }
  for (int64_t i = 0; i < extent_count(&it->values[what->first_value], rows); i++)
    out_values[i] = what->kind == NODE_IDS ? draw_below(&stream, (int)what->count)
                                           : draw_between(&stream, -2, 2);
}

void model_fill_parameter(const random_model *it, int parameter, uint64_t seed,
                          double *out_values) {
  draw stream = draw_of(seed, 2000 + (uint64_t)parameter);
  for (int64_t i = 0; i < extent_count(&it->parameters[parameter].shape, 1); i++)
    out_values[i] = draw_one_in(&stream, 2) ? 0 : draw_between(&stream, -2, 2);
}

/* ---- What runs need -------------------------------------------------------------------------- */

int model_kept_by(const random_model *it, int keeper) {
  do
    keeper = it->value_node[it->nodes[keeper].operands[0]];
  while (it->nodes[keeper].kind != NODE_KEPT);
  return keeper;
}

/* Returns the nodes that the node reads, and those that write its kept value. */
static uint64_t needed_by(const random_model *it, int node_count, int node) {
  const random_node *what = &it->nodes[node];
  uint64_t needed = 0;
  for (int k = 0; k < what->operand_count; k++)
    needed |= 1ull << it->value_node[what->operands[k]];
  for (int i = 0; i < node_count && what->kind == NODE_KEPT; i++)
    if (it->nodes[i].kind >= NODE_KEEP && model_kept_by(it, i) == node) needed |= 1ull << i;
  return needed;
}

uint64_t model_needed(const random_model *it, int node_count, uint32_t outputs) {
  uint64_t needed = 0, before = 1;
  for (int k = 0; k < it->output_count; k++)
    if (outputs >> k & 1) needed |= 1ull << it->value_node[it->outputs[k]];
  while (needed != before) {
    before = needed;
    for (int i = 0; i < node_count; i++)
      if (needed >> i & 1) needed |= needed_by(it, node_count, i);
  }
  return needed;
}

bool model_output_is_kept(const random_model *it, int output) {
  const uint64_t needed = model_needed(it, it->node_count, 1u << output);
  for (int i = 0; i < it->node_count; i++)
    if ((needed >> i & 1) && it->nodes[i].kind == NODE_KEPT) return true;
  return false;
}

/* ---- For a reader ---------------------------------------------------------------------------- */

static const char *const KIND_NAMES[NODE_KINDS] = {
    "input",   "ids",    "indices", "kept",   "parameter", "linear",  "embedding",   "bag",
    "unary",   "binary", "where",   "concat", "split",     "reshape", "transpose",   "select",
    "observe", "sum",    "mean",    "cumsum", "extreme",   "matmul",  "interaction", "convolution",
    "pool",    "loss",   "real",    "rows",   "gradient",  "keep",    "keep_rows"};
static const char *const UNARY_NAMES[] = {"relu",  "abs",      "neg",   "square",     "cube",
                                          "clamp", "hardtanh", "relu6", "leaky_relu", "affine"};
static const char *const BINARY_NAMES[] = {"add", "sub", "mul", "maximum", "minimum"};
static const char *const RELATIONS[] = {"<", "<=", ">", ">=", "==", "!="};
static const char *const BAG_NAMES[] = {"mean", "sum", "max"};
static const char *const POOL_NAMES[] = {"max", "average"};
static const char *const REAL_NAMES[] = {
    "tanh",     "sigmoid", "gelu",       "silu", "elu", "softplus", "softmax",   "log_softmax",
    "variance", "dropout", "layer_norm", "lstm", "gru", "rnn",      "attention", "multi_head"};
static const char *const ROWS_NAMES[ROWS_KINDS] = {
    "flip",   "sort",      "gather",       "shift",    "places",  "instance", "window", "pool",
    "centre", "less_most", "less_log_sum", "scale",    "softmax", "cumsum",   "sum",    "mean",
    "most",   "norm",      "largest",      "variance", "log_sum", "stack",    "repeat", "slice"};
static const char *const LOSS_NAMES[] = {"mse", "l1", "smooth_l1", "huber"};

static void print_extent(const extent *shape, FILE *out) {
  fputc('(', out);
  for (int i = 0; i < shape->rank; i++) {
    if (i > 0) fputs(", ", out);
    if (shape->dims[i] < BATCH) fprintf(out, "%" PRId64 " ", -shape->dims[i]);
    if (shape->dims[i] < 0) fputs("batch", out);
    if (shape->dims[i] >= 0) fprintf(out, "%" PRId64, shape->dims[i]);
  }
  fputc(')', out);
}

static void print_details(const random_model *it, const random_node *what, FILE *out) {
  switch (what->kind) {
  case NODE_UNARY:
    fprintf(out, " %s", UNARY_NAMES[what->which]);
    if (what->numbers[0] != 0 || what->numbers[1] != 0)
      fprintf(out, " %g %g", what->numbers[0], what->numbers[1]);
    break;
  case NODE_BINARY:
    fprintf(out, " %s", BINARY_NAMES[what->which]);
    break;
  case NODE_WHERE:
    fprintf(out, " third %s fourth", RELATIONS[what->which]);
    break;
  case NODE_BAG:
    fprintf(out, " %s", BAG_NAMES[what->which]);
    break;
  case NODE_POOL:
    fprintf(out, " %s", POOL_NAMES[what->which]);
    break;
  case NODE_REAL:
    fprintf(out, " %s", REAL_NAMES[what->which]);
    break;
  case NODE_ROWS:
    fprintf(out, " %s dimension %d", ROWS_NAMES[what->which], what->dimension);
    break;
  case NODE_LOSS:
    fprintf(out, " %s", LOSS_NAMES[what->which]);
    break;
  case NODE_SELECT:
    fprintf(out, " index %" PRId64, what->count);
    break;
  case NODE_TRANSPOSE:
    fprintf(out, " with %d", what->other);
    break;
  default:
    break;
  }
  if (what->kind >= NODE_CONCAT && what->kind < NODE_MATMUL)
    fprintf(out, " dimension %d", what->dimension);
  if (what->kind == NODE_EMBEDDING || what->kind == NODE_BAG)
    fprintf(out, " padding row %" PRId64, what->padding_row);
  if (what->flag) fputs(" flag", out);
  if (what->tied) fputs(" tied", out);
  if (what->target >= 0) fprintf(out, " of %s", it->parameters[what->target].name);
  if (what->kind != NODE_CONVOLUTION && what->kind != NODE_POOL) return;
  for (int i = 0; i < 2; i++)
    fprintf(out, " kernel %d stride %d padding %d dilation %d", (int)what->kernel[i],
            (int)what->stride[i], (int)what->padding[i], (int)what->dilation[i]);
  if (what->kind == NODE_CONVOLUTION) fprintf(out, " groups %d", (int)what->groups);
}

static const char *const OPTIMIZER_NAMES[OPTIMIZER_KINDS] = {"sgd",     "adam",  "adagrad",
                                                             "rmsprop", "nadam", "adafactor"};

static void print_groups(const random_model *it, FILE *out) {
  for (int g = 0; g < it->group_count; g++) {
    const random_group *group = &it->groups[g];
    fprintf(out, "  optimizer %d: %s, momentum %g, weight decay %g, rate %g%s%s", g,
            OPTIMIZER_NAMES[it->optimizer], group->momentum, group->weight_decay, group->rate,
            group->nesterov ? ", nesterov" : "", group->maximize ? ", maximize" : "");
    if (it->clip_norm > 0) fprintf(out, ", clip %g", it->clip_norm);
    for (int i = 0; i < it->parameter_count && g > 0; i++)
      if (it->parameters[i].group == g) fprintf(out, " %s", it->parameters[i].name);
    fputc('\n', out);
  }
}

void model_print(const random_model *it, FILE *out) {
  fprintf(out, "seed %" PRIu64 "%s: %s\n", it->seed, it->wider ? ", wider" : "",
          it->wide ? "float64" : "float32");
  if (it->fixed_rows > 0) fprintf(out, "  always %" PRId64 " rows\n", it->fixed_rows);
  if (it->average_decay != 0) fprintf(out, "  averages by %g\n", it->average_decay);
  print_groups(it, out);
  for (int i = 0; i < it->node_count; i++) {
    const random_node *what = &it->nodes[i];
    fprintf(out, "  n%d %s", i, KIND_NAMES[what->kind]);
    print_details(it, what, out);
    for (int k = 0; k < what->operand_count; k++)
      fprintf(out, " v%d", what->operands[k]);
    for (int k = 0; k < what->parameter_count; k++) {
      fprintf(out, " %s ", it->parameters[what->parameters[k]].name);
      print_extent(&it->parameters[what->parameters[k]].shape, out);
    }
    fputs(" ->", out);
    for (int k = 0; k < what->value_count; k++) {
      fprintf(out, " v%d ", what->first_value + k);
      print_extent(&it->values[what->first_value + k], out);
    }
    fputc('\n', out);
  }
  fputs("  outputs", out);
  for (int i = 0; i < it->output_count; i++)
    fprintf(out, " v%d", it->outputs[i]);
  fprintf(out, ", loss v%d\n", it->loss);
}
