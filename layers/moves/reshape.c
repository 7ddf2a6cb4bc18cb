/* Reshape: a view with another shape. A name in the wanted shape is the size of x's dimension of
 * that name. If x lacks the name and another dimension is open too, it is the size that inputs give
 * the name. At most one dimension then stays open; its size follows from the element counts.
 * Invariant: `source` is filled when the graph is built, because names do not exist at run time. */
#include "graph/passes/parts.h"
#include "layers/common.h"
#include "tandem/layers/layers.h"

typedef struct reshape_rule {
  tdm_reshape_attributes wanted;
  int8_t source[TDM_MAX_RANK]; /* dimension of x with the same name; -1: none */
  int8_t merged[TDM_MAX_RANK]; /* number of dimensions of x after it that are merged with it */
  tdm_dim told; /* size of the name that stays open, for an x without elements, whose count does not
                 * determine it; TDM_INFER: unknown */
} reshape_rule;

/* Returns true if x has the dimensions that dimension i of the result consists of. */
static bool has_sources(const reshape_rule *rule, const tdm_shape *x, int i) {
  return rule->source[i] >= 0 && rule->source[i] + rule->merged[i] < x->rank;
}

/* The product of a shape's sizes, and its dimensions that are not sizes. */
typedef struct factors {
  int64_t product; /* -1: too large */
  int symbol_count;
  tdm_dim symbols[TDM_MAX_RANK];
} factors;

/* Returns the factors of all dimensions except those whose bits are set in `skipped`. */
static factors factors_of(const tdm_shape *shape, unsigned skipped) {
  factors found = {.product = 1};
  for (int i = 0; i < shape->rank; i++) {
    if ((skipped >> i & 1) != 0) continue;
    if (!tdm_dim_is_size(shape->dims[i]))
      found.symbols[found.symbol_count++] = shape->dims[i];
    else if (found.product >= 0 &&
             __builtin_mul_overflow(found.product, shape->dims[i], &found.product))
      found.product = -1;
  }
  return found;
}

static void remove_symbol(factors *from, int index) {
  from->symbols[index] = from->symbols[--from->symbol_count];
}

/* Removes names that occur in both. */
static void cancel_names(factors *a, factors *b) {
  for (int i = a->symbol_count - 1; i >= 0; i--) {
    if (!tdm_dim_is_named(a->symbols[i])) continue;
    for (int j = 0; j < b->symbol_count; j++) {
      if (b->symbols[j] != a->symbols[i]) continue;
      remove_symbol(a, i);
      remove_symbol(b, j);
      break;
    }
  }
}

static bool has_no_elements(const tdm_shape *shape) {
  for (int i = 0; i < shape->rank; i++)
    if (shape->dims[i] == 0) return true;
  return false;
}

static tdm_status does_not_fit(const tdm_shape *x, const tdm_shape *wanted) {
  char x_text[TDM_SHAPE_TEXT];
  char wanted_text[TDM_SHAPE_TEXT];
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s cannot be seen as %s: other element counts",
                  tdm_shape_text(x, x_text, sizeof x_text),
                  tdm_shape_text(wanted, wanted_text, sizeof wanted_text));
}

/* Sets dimension `open` of out to the size that makes the element counts equal, if they are
 * certain. Dimensions that out takes unchanged from x are excluded from both counts, so that the
 * size is determined also if such a dimension is 0. */
static tdm_status settle(const reshape_rule *rule, const tdm_shape *x, tdm_shape *out, int open) {
  unsigned of_x = 0, of_out = open < 0 ? 0 : 1U << open;
  for (int i = 0; i < out->rank; i++) {
    if (!has_sources(rule, x, i)) continue;
    const unsigned sources = ((2U << rule->merged[i]) - 1) << rule->source[i];
    if ((of_x & sources) != 0) continue;
    of_x |= sources;
    of_out |= 1U << i;
  }
  if (open < 0 && has_no_elements(x) && has_no_elements(out)) return TDM_OK;
  factors have = factors_of(x, of_x), want = factors_of(out, of_out);
  cancel_names(&have, &want);
  if (have.product < 0 || want.product < 0) return does_not_fit(x, out);
  const bool certain = have.symbol_count == 0 && want.symbol_count == 0;
  if (open < 0) return certain && have.product != want.product ? does_not_fit(x, out) : TDM_OK;
  if (certain && have.product == 0 && want.product == 0 && tdm_dim_is_size(rule->told)) {
    out->dims[open] = rule->told;
  } else if (certain) {
    if (want.product == 0 || have.product % want.product != 0) return does_not_fit(x, out);
    out->dims[open] = have.product / want.product;
  } else if (have.symbol_count == 1 && want.symbol_count == 0 && have.product == want.product) {
    if (out->dims[open] == TDM_INFER || tdm_dim_is_named(have.symbols[0]))
      out->dims[open] = have.symbols[0];
  } else if (out->dims[open] == TDM_INFER) {
    out->dims[open] = TDM_DIM_UNKNOWN;
  }
  return TDM_OK;
}

/* Returns true if the dimension is neither a size nor taken from x. */
static bool is_open(const reshape_rule *rule, int dimension) {
  return !tdm_dim_is_size(rule->wanted.dims[dimension]) && rule->source[dimension] < 0;
}

/* Replaces open names by sizes until one is left. The name of the batch, which may be split, is
 * replaced last. */
static void bind_names(void *attributes, const tdm_bound_names *names) {
  reshape_rule *rule = attributes;
  int open_count = 0;
  for (int i = 0; i < rule->wanted.rank; i++)
    open_count += is_open(rule, i);
  for (int of_batch = 0; of_batch < 2; of_batch++)
    for (int i = 0; i < rule->wanted.rank && open_count > 1; i++) {
      const tdm_dim name = rule->wanted.dims[i];
      if (!is_open(rule, i) || !tdm_dim_is_named(name) || (name == names->batch) != of_batch)
        continue;
      rule->wanted.dims[i] = names->size_of(names->user, name);
      open_count -= !is_open(rule, i);
    }
  for (int i = 0; i < rule->wanted.rank; i++)
    if (is_open(rule, i) && tdm_dim_is_named(rule->wanted.dims[i]))
      rule->told = names->size_of(names->user, rule->wanted.dims[i]);
}

/* Writes the product of the sources' sizes. A single source also keeps its name. */
static tdm_status dimension_of(const reshape_rule *rule, const tdm_shape *x, int i,
                               tdm_dim *out_dimension) {
  *out_dimension = x->dims[rule->source[i]];
  for (int k = 1; k <= rule->merged[i]; k++) {
    const tdm_dim next = x->dims[rule->source[i] + k];
    const bool known = tdm_dim_is_size(*out_dimension) && tdm_dim_is_size(next);
    if (!known)
      *out_dimension = TDM_DIM_UNKNOWN;
    else if (__builtin_mul_overflow(*out_dimension, next, out_dimension))
      return tdm_fail(TDM_INVALID_ARGUMENT, "dimension %d is too large", i);
  }
  return TDM_OK;
}

static tdm_status infer_reshape(tdm_infer *infer) {
  const reshape_rule *rule = infer->attributes;
  const tdm_shape *x = tdm_infer_shape(infer, 0);
  tdm_shape out = {.rank = (int32_t)rule->wanted.rank};
  int open = -1, open_count = 0;
  for (int i = 0; i < out.rank; i++) {
    out.dims[i] = rule->wanted.dims[i];
    if (has_sources(rule, x, i)) TDM_TRY(dimension_of(rule, x, i, &out.dims[i]));
    if (!is_open(rule, i)) continue;
    open = i;
    open_count++;
  }
  for (int i = 0; open_count > 1 && i < out.rank; i++)
    if (out.dims[i] == TDM_INFER) out.dims[i] = TDM_DIM_UNKNOWN;
  if (open_count <= 1) TDM_TRY(settle(rule, x, &out, open));
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &out);
  return TDM_OK;
}

static tdm_status append_gradient(tdm_gradient *gradient);

static const tdm_operation reshape_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_RESHAPE,
    .attribute_bytes = sizeof(reshape_rule),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .is_view = true,
    .infer = infer_reshape,
    .bind = bind_names,
    .gradient = append_gradient,
    .chunk = tdm_chunk_view,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

TDM_RECORDS(reshape, {.operation = &reshape_operation,
                      .functions = "tdm_reshape tdm_unsqueeze tdm_squeeze "
                                   "tdm_flatten tdm_stack"});

/* Reshapes the gradient to the shape of x, which is fixed when a plan is made; until then it may
 * contain names. */
static tdm_status append_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_shape x = tdm_value_shape(graph, tdm_gradient_input(gradient, 0));
  reshape_rule back = {.wanted.rank = x.rank, .told = TDM_INFER};
  for (int i = 0; i < TDM_MAX_RANK; i++) {
    back.wanted.dims[i] = x.dims[i];
    back.source[i] = -1;
  }
  const tdm_value d_out = tdm_gradient_of_output(gradient, 0);
  tdm_gradient_set(
      gradient, 0,
      tdm_append(graph, &reshape_operation, tdm_gradient_name(gradient), &back, &d_out, 1, NULL));
  return tdm_graph_status(graph);
}

static int8_t find_dimension(const tdm_shape *x, tdm_dim name) {
  for (int i = 0; i < x->rank; i++)
    if (x->dims[i] == name) return (int8_t)i;
  return -1;
}

tdm_value tdm_reshape(tdm_graph *graph, const char *name, tdm_value x, tdm_shape shape) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "reshape", name, x)) return TDM_NO_VALUE;
  char text[TDM_SHAPE_TEXT];
  if (!tdm_shape_is_valid(&shape))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "reshape %s: its shape is not legal", name);
  const tdm_shape has = tdm_value_shape(graph, x);
  reshape_rule rule = {.wanted.rank = shape.rank, .told = TDM_INFER};
  int nameless_count = 0; /* open dimensions without a name */
  int same = 0;           /* leading dimensions of equal size in both */
  for (int i = 0; i < TDM_MAX_RANK; i++) {
    rule.wanted.dims[i] = i < shape.rank ? shape.dims[i] : 0;
    rule.source[i] = -1;
    same += same == i && i < shape.rank && i < has.rank && shape.dims[i] == has.dims[i];
    if (i < shape.rank && shape.dims[i] == 0 && same > i) rule.source[i] = (int8_t)i;
    if (i >= shape.rank || tdm_dim_is_size(shape.dims[i])) continue;
    if (tdm_dim_is_named(shape.dims[i])) rule.source[i] = find_dimension(&has, shape.dims[i]);
    nameless_count += rule.source[i] < 0 && !tdm_dim_is_named(shape.dims[i]);
  }
  if (nameless_count > 1)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "reshape %s: %s leaves %d dimensions open: one may be -1, or more names "
                          "that inputs have",
                          name, tdm_shape_text(&shape, text, sizeof text), nameless_count);
  return tdm_append(graph, &reshape_operation, name, &rule, &x, 1, NULL);
}

tdm_value tdm_reshape_merged(tdm_graph *graph, const char *name, tdm_value x, tdm_shape shape,
                             const int8_t *sources, const int8_t *merged) {
  reshape_rule rule = {.wanted.rank = shape.rank, .told = TDM_INFER};
  for (int i = 0; i < TDM_MAX_RANK; i++) {
    rule.wanted.dims[i] = i < shape.rank ? shape.dims[i] : 0;
    rule.source[i] = i < shape.rank ? sources[i] : -1;
    rule.merged[i] = i < shape.rank && merged ? merged[i] : 0;
  }
  return tdm_append(graph, &reshape_operation, name, &rule, &x, 1, NULL);
}

tdm_value tdm_reshape_from(tdm_graph *graph, const char *name, tdm_value x, tdm_shape shape,
                           const int8_t *sources) {
  return tdm_reshape_merged(graph, name, x, shape, sources, NULL);
}
