/* Sums of products by an equation, as permutations, sums and batched matrix products, two operands
 * at a time. Invariant: an intermediate operand has each label once. A label is summed over as soon
 * as neither a later operand nor the result contains it. */
#include <stdio.h>
#include <string.h>

#include "layers/arguments.h"
#include "layers/common.h"
#include "tandem/layers/layers.h"

#define MOST_OPERANDS 16
#define LETTERS 52 /* A to Z, then a to z: their order in an implicit result */
#define LABELS                                                                                     \
  (LETTERS + TDM_MAX_RANK) /* then those of "...", of which the last is always there               \
                            */

/* An operand or intermediate result: dimension i has labels[i]. */
typedef struct term {
  tdm_value value;
  int rank;
  int labels[TDM_MAX_RANK];
} term;

typedef struct einsum {
  tdm_graph *graph;
  const char *name;
  const char *equation;
} einsum;

static uint64_t bit(int label) {
  return UINT64_C(1) << label;
}

static uint64_t labels_of(const term *of) {
  uint64_t found = 0;
  for (int i = 0; i < of->rank; i++)
    found |= bit(of->labels[i]);
  return found;
}

static int place_of(const term *of, int label) {
  for (int i = 0; i < of->rank; i++)
    if (of->labels[i] == label) return i;
  return -1;
}

static tdm_dim dim_of(const einsum *self, const term *of, int label) {
  return tdm_value_shape(self->graph, of->value).dims[place_of(of, label)];
}

static bool refuse(const einsum *self, const char *why) {
  tdm_graph_fail(self->graph, TDM_INVALID_ARGUMENT, "einsum %s: \"%s\": %s", self->name,
                 self->equation ? self->equation : "(NULL)", why);
  return false;
}

/* ---- The equation ---------------------------------------------------------------------------- */

static int label_of(char letter) {
  if (letter >= 'A' && letter <= 'Z') return letter - 'A';
  if (letter >= 'a' && letter <= 'z') return letter - 'a' + 26;
  return -1;
}

/* Reads letters up to a comma, an arrow or the end. Dots stand for `dotted` dimensions. */
static bool read_term(const einsum *self, const char **text, int dotted, term *out) {
  bool has_dots = false;
  out->rank = 0;
  for (; **text && **text != ',' && **text != '-'; (*text)++) {
    if (**text == ' ') continue;
    const bool dots = strncmp(*text, "...", 3) == 0;
    const int label = label_of(**text);
    if (label < 0 && !dots)
      return refuse(self, "there are letters, \"...\", commas and one \"->\"");
    if (dots && has_dots) return refuse(self, "\"...\" twice in one operand");
    const int more = dots ? dotted : 1;
    if (out->rank + more > TDM_MAX_RANK) return refuse(self, "more dimensions than a value has");
    for (int i = 0; i < more; i++)
      out->labels[out->rank++] = dots ? LABELS - dotted + i : label;
    has_dots = has_dots || dots;
    if (dots) *text += 2;
  }
  return true;
}

/* Returns the number of letters in an operand without "...". *out_dots: whether it has those. */
static int count_letters(const char *text, bool *out_dots) {
  int count = 0;
  *out_dots = false;
  for (; *text && *text != ',' && *text != '-'; text++) {
    count += label_of(*text) >= 0;
    *out_dots = *out_dots || *text == '.';
  }
  return count;
}

/* Returns true if the operand is a value of the dtype of the first one. */
static bool fits_dtype(const einsum *self, const tdm_value *values, size_t index) {
  char what[32];
  (void)snprintf(what, sizeof what, "operand %zu", index);
  return tdm_argument_has_dtype(self->graph, "einsum", self->name, what, values[index],
                                tdm_value_dtype(self->graph, values[0]));
}

/* Reads an operand and its labels. */
static bool read_operand(const einsum *self, const char **text, tdm_value value, size_t index,
                         term *out) {
  const tdm_shape shape = tdm_value_shape(self->graph, value);
  char has[TDM_SHAPE_TEXT];
  bool dots;
  const int letters = count_letters(*text, &dots);
  if (dots ? letters > shape.rank : letters != shape.rank) {
    tdm_graph_fail(self->graph, TDM_INVALID_ARGUMENT,
                   "einsum %s: \"%s\": operand %zu is %s, and has %d letters%s", self->name,
                   self->equation, index, tdm_shape_text(&shape, has, sizeof has), letters,
                   dots ? " besides \"...\"" : "");
    return false;
  }
  out->value = value;
  return read_term(self, text, shape.rank - letters, out);
}

/* Derives the result's labels of an equation without an arrow: those of "...", then each letter
 * that occurs once. */
static bool imply_result(const einsum *self, const term *operands, size_t count, term *out) {
  int times[LABELS] = {0};
  for (size_t k = 0; k < count; k++)
    for (int i = 0; i < operands[k].rank; i++)
      times[operands[k].labels[i]]++;
  out->rank = 0;
  for (int i = 0; i < LABELS; i++) {
    const int label = (i + LETTERS) % LABELS; /* dots first */
    const bool stands = label < LETTERS ? times[label] == 1 : times[label] > 0;
    if (stands && out->rank == TDM_MAX_RANK)
      return refuse(self, "more dimensions than a value has");
    if (stands) out->labels[out->rank++] = label;
  }
  return true;
}

/* Returns true if each label of the result occurs in an operand, and only once in the result. */
static bool check_result(const einsum *self, const term *operands, size_t count,
                         const term *result) {
  uint64_t known = 0, seen = 0;
  for (size_t k = 0; k < count; k++)
    known |= labels_of(&operands[k]);
  for (int i = 0; i < result->rank; i++) {
    const uint64_t label = bit(result->labels[i]);
    if ((known & label) == 0) return refuse(self, "the result has a letter that no operand has");
    if ((seen & label) != 0) return refuse(self, "the result has a letter twice");
    seen |= label;
  }
  return true;
}

static bool read_equation(const einsum *self, const tdm_value *values, size_t count, term *operands,
                          term *out_result) {
  const char *text = self->equation;
  int dotted = 0;
  for (size_t k = 0; k < count; k++) {
    if (!fits_dtype(self, values, k)) return false;
    if (k > 0 && *text++ != ',') return refuse(self, "it has fewer operands than are given");
    if (!read_operand(self, &text, values[k], k, &operands[k])) return false;
    for (int i = 0; i < operands[k].rank; i++)
      if (operands[k].labels[i] >= LETTERS && LABELS - operands[k].labels[i] > dotted)
        dotted = LABELS - operands[k].labels[i];
  }
  if (*text == ',') return refuse(self, "it has more operands than are given");
  if (!*text) return imply_result(self, operands, count, out_result);
  if (strncmp(text, "->", 2) != 0) return refuse(self, "a \"-\" that is no arrow");
  text += 2;
  if (!read_term(self, &text, dotted, out_result)) return false;
  if (*text) return refuse(self, "characters follow the result");
  return check_result(self, operands, count, out_result);
}

/* ---- One operand ----------------------------------------------------------------------------- */

static void remove_label(term *of, int place) {
  of->rank--;
  memmove(of->labels + place, of->labels + place + 1,
          (size_t)(of->rank - place) * sizeof *of->labels);
}

/* Takes the diagonal of each letter that occurs twice. The diagonal becomes the last dimension. */
static bool take_diagonals(const einsum *self, term *of) {
  for (int i = 0; i < of->rank; i++)
    for (int k = i + 1; k < of->rank; k++) {
      const int label = of->labels[i];
      if (of->labels[k] != label) continue;
      const tdm_shape shape = tdm_value_shape(self->graph, of->value);
      if (!tdm_dim_is_size(shape.dims[i]) || shape.dims[i] != shape.dims[k])
        return refuse(self, "dimensions of a letter that occurs twice must have the same size");
      of->value = tdm_diagonal(self->graph, self->name, of->value, 0, i, k);
      if (!tdm_value_is_valid(of->value)) return false;
      remove_label(of, k);
      remove_label(of, i);
      of->labels[of->rank++] = label;
      i = -1; /* start again */
      break;
    }
  return true;
}

static bool refuse_dtype(const einsum *self, tdm_dtype dtype, const char *legal) {
  char text[96];
  (void)snprintf(text, sizeof text, "operands are %s, expected %s", tdm_dtype_name(dtype), legal);
  return refuse(self, text);
}

/* Returns true if the dtype of the operands supports sums, which integers do not. */
static bool has_sums(const einsum *self, tdm_value x) {
  const tdm_dtype dtype = tdm_value_dtype(self->graph, x);
  return tdm_dtype_is_floating(dtype) || dtype == TDM_DTYPE_NONE ||
         refuse_dtype(self, dtype, "floating ones, since it sums");
}

static bool has_products(const einsum *self, tdm_value x) {
  const tdm_dtype dtype = tdm_value_dtype(self->graph, x);
  return tdm_dtype_is_floating(dtype) || dtype == TDM_INT32 || dtype == TDM_INT64 ||
         dtype == TDM_DTYPE_NONE || refuse_dtype(self, dtype, "floating ones, int32 or int64");
}

/* Sums over all labels except those in `kept`. */
static void sum_others(const einsum *self, term *of, uint64_t kept) {
  int summed[TDM_MAX_RANK];
  size_t count = 0;
  for (int i = 0; i < of->rank; i++)
    if ((kept & bit(of->labels[i])) == 0) summed[count++] = i;
  if (count == 0) return;
  of->value = has_sums(self, of->value)
                  ? tdm_sum(self->graph, self->name, of->value, summed, count, false)
                  : TDM_NO_VALUE;
  for (size_t i = count; i-- > 0;)
    remove_label(of, summed[i]);
}

/* Removes dimensions of 1 in which `with` is larger; they are broadcast. */
static void drop_ones(const einsum *self, term *of, const term *with) {
  for (int i = of->rank - 1; i >= 0; i--) {
    const int label = of->labels[i];
    if (place_of(with, label) < 0 || dim_of(self, of, label) != 1 || dim_of(self, with, label) == 1)
      continue;
    of->value = tdm_squeeze(self->graph, self->name, of->value, i);
    remove_label(of, i);
  }
}

/* ---- Two operands ---------------------------------------------------------------------------- */

/* Labels that are merged into one dimension; no labels: a dimension of 1. */
typedef struct label_group {
  int count;
  int labels[TDM_MAX_RANK];
} label_group;

typedef struct layout {
  int count;
  label_group groups[2 * TDM_MAX_RANK];
} layout;

static void add_group(layout *to, const int *labels, int count) {
  label_group *group = &to->groups[to->count++];
  group->count = count;
  for (int i = 0; i < count; i++)
    group->labels[i] = labels[i];
}

static void add_each(layout *to, const int *labels, int count) {
  for (int i = 0; i < count; i++)
    add_group(to, labels + i, 1);
}

static void add_ones(layout *to, int count) {
  for (int i = 0; i < count; i++)
    add_group(to, NULL, 0);
}

static bool is_plain(const layout *of) {
  for (int g = 0; g < of->count; g++)
    if (of->groups[g].count != 1) return false;
  return true;
}

/* Returns the value with its dimensions in the layout's order, each group merged into one. */
static tdm_value arrange(const einsum *self, const term *of, const layout *wanted) {
  const tdm_shape has = tdm_value_shape(self->graph, of->value);
  int order[TDM_MAX_RANK], count = 0;
  tdm_shape shape = {.rank = wanted->count};
  int8_t sources[TDM_MAX_RANK];
  for (int g = 0; g < wanted->count; g++) {
    const label_group *group = &wanted->groups[g];
    shape.dims[g] = 1;
    sources[g] = (int8_t)(group->count == 1 ? count : -1);
    for (int i = 0; i < group->count; i++) {
      order[count++] = place_of(of, group->labels[i]);
      const tdm_dim dim = has.dims[order[count - 1]];
      const bool sizes = group->count > 1 && tdm_dim_is_size(dim) && shape.dims[g] != TDM_INFER;
      shape.dims[g] = group->count == 1 ? dim : sizes ? shape.dims[g] * dim : TDM_INFER;
    }
  }
  const tdm_value ordered = tdm_permute(self->graph, self->name, of->value, order, (size_t)count);
  return is_plain(wanted) || !tdm_value_is_valid(ordered)
             ? ordered
             : tdm_reshape_from(self->graph, self->name, ordered, shape, sources);
}

/* Splits the product's merged dimensions again. A dimension of a single label keeps its place in
 * y. */
static tdm_value take_apart(const einsum *self, tdm_value y, const layout *has, const term *a,
                            const term *b, term *out) {
  tdm_shape shape = {.rank = 0};
  int8_t sources[TDM_MAX_RANK];
  out->rank = 0;
  for (int g = 0; g < has->count; g++)
    for (int i = 0; i < has->groups[g].count; i++) {
      const int label = has->groups[g].labels[i];
      sources[shape.rank] = (int8_t)(has->groups[g].count == 1 ? g : -1);
      shape.dims[shape.rank++] = dim_of(self, place_of(a, label) >= 0 ? a : b, label);
      out->labels[out->rank++] = label;
    }
  out->value = y;
  if (!is_plain(has) && tdm_value_is_valid(y))
    out->value = tdm_reshape_from(self->graph, self->name, y, shape, sources);
  return out->value;
}

/* The role of each label of two operands in a product. */
typedef struct product {
  int batch[TDM_MAX_RANK], left[TDM_MAX_RANK], inner[TDM_MAX_RANK], right[TDM_MAX_RANK];
  int batch_count, left_count, inner_count, right_count;
} product;

static product sort_labels(const term *a, const term *b, uint64_t needed) {
  product found = {.batch_count = 0};
  for (int i = 0; i < a->rank; i++) {
    const int label = a->labels[i];
    if (place_of(b, label) < 0)
      found.left[found.left_count++] = label;
    else if ((needed & bit(label)) != 0)
      found.batch[found.batch_count++] = label;
    else
      found.inner[found.inner_count++] = label;
  }
  for (int i = 0; i < b->rank; i++)
    if (place_of(a, b->labels[i]) < 0) found.right[found.right_count++] = b->labels[i];
  return found;
}

static int count_unsized(const einsum *self, const term *of, const int *labels, int count) {
  int unsized = 0;
  for (int i = 0; i < count; i++)
    unsized += !tdm_dim_is_size(dim_of(self, of, labels[i]));
  return unsized;
}

/* Returns how many of these labels have no fixed size. A merged dimension can be split again only
 * if at most one has none. */
static int count_open(const einsum *self, const term *of, const int *labels, int count) {
  return count > 1 ? count_unsized(self, of, labels, count) : 0;
}

/* Returns true if the dimensions of y, and at most `most` in between, fit into a value; otherwise
 * false with the graph's error. */
static bool fits(const einsum *self, const product *labels, int most) {
  const int of_y = labels->batch_count + labels->left_count + labels->right_count;
  return (of_y <= TDM_MAX_RANK && most <= TDM_MAX_RANK) ||
         refuse(self, "more dimensions under way than a value has");
}

/* Multiplies element by element, if no label is summed over. */
static bool multiply(const einsum *self, const product *labels, const term *a, const term *b,
                     term *out) {
  layout of_a = {0}, of_b = {0}, of_y = {0};
  if (!fits(self, labels, 0)) return false;
  add_each(&of_a, labels->batch, labels->batch_count);
  of_b = of_y = of_a;
  add_each(&of_a, labels->left, labels->left_count);
  add_ones(&of_a, labels->right_count);
  add_ones(&of_b, labels->left_count);
  add_each(&of_b, labels->right, labels->right_count);
  add_each(&of_y, labels->left, labels->left_count);
  add_each(&of_y, labels->right, labels->right_count);
  const tdm_value x = arrange(self, a, &of_a), z = arrange(self, b, &of_b);
  if (!tdm_value_is_valid(x) || !tdm_value_is_valid(z)) return false;
  const tdm_value y = tdm_mul(self->graph, self->name, x, z);
  return tdm_value_is_valid(take_apart(self, y, &of_y, a, b, out));
}

/* Multiplies matrices. The labels of a side are merged into one dimension, except:
 * - if the operands share only labels that are summed over, the left labels are the rows of batched
 *   products with one matrix, so that a batch among them may be split;
 * - if more than one label has no fixed size, all of a side except its last become batch
 *   dimensions, along which the other operand is broadcast. */
static bool multiply_matrices(const einsum *self, const product *labels, const term *a,
                              const term *b, term *out) {
  const int open_left = count_open(self, a, labels->left, labels->left_count);
  const int open_right = count_open(self, b, labels->right, labels->right_count);
  const bool by_rows = labels->batch_count == 0 && open_right <= 1;
  const bool leads = labels->left_count > 1 && (by_rows || open_left + open_right > 1);
  const int lead = leads ? labels->left_count - 1 : 0;
  const int lead_right = open_right > 1 ? labels->right_count - 1 : 0;
  if (!fits(self, labels, labels->batch_count + lead + lead_right + 2)) return false;
  layout of_a = {0}, of_b = {0}, of_y = {0};
  add_each(&of_a, labels->batch, labels->batch_count);
  of_b = of_y = of_a;
  add_each(&of_a, labels->left, lead);
  add_ones(&of_a, lead_right);
  add_group(&of_a, labels->left + lead, labels->left_count - lead);
  add_group(&of_a, labels->inner, labels->inner_count);
  if (!by_rows) add_ones(&of_b, lead);
  add_each(&of_b, labels->right, lead_right);
  add_group(&of_b, labels->inner, labels->inner_count);
  add_group(&of_b, labels->right + lead_right, labels->right_count - lead_right);
  add_each(&of_y, labels->left, lead);
  add_each(&of_y, labels->right, lead_right);
  add_group(&of_y, labels->left + lead, labels->left_count - lead);
  add_group(&of_y, labels->right + lead_right, labels->right_count - lead_right);
  const tdm_value x = arrange(self, a, &of_a), z = arrange(self, b, &of_b);
  if (!tdm_value_is_valid(x) || !tdm_value_is_valid(z)) return false;
  const tdm_value y = tdm_matmul(self->graph, self->name, x, z);
  return tdm_value_is_valid(take_apart(self, y, &of_y, a, b, out));
}

/* Returns true if labels of both operands have equal sizes. Dimensions of 1 were removed before. */
static bool check_sizes(const einsum *self, const term *a, const term *b) {
  for (int i = 0; i < a->rank; i++) {
    if (place_of(b, a->labels[i]) < 0) continue;
    const tdm_dim left = dim_of(self, a, a->labels[i]), right = dim_of(self, b, a->labels[i]);
    if (tdm_dim_agree(left, right)) continue;
    char has[24], other[24];
    tdm_graph_fail(self->graph, TDM_INVALID_ARGUMENT,
                   "einsum %s: \"%s\": a dimension of one letter is %s in an operand and %s in "
                   "another",
                   self->name, self->equation, tdm_dim_text(left, has), tdm_dim_text(right, other));
    return false;
  }
  return true;
}

static bool join(const einsum *self, term *a, term *b, uint64_t needed, term *out) {
  drop_ones(self, a, b);
  drop_ones(self, b, a);
  if (!tdm_value_is_valid(a->value) || !tdm_value_is_valid(b->value) ||
      !has_products(self, a->value) || !check_sizes(self, a, b))
    return false;
  sum_others(self, a, needed | labels_of(b));
  sum_others(self, b, needed | labels_of(a));
  if (!tdm_value_is_valid(a->value) || !tdm_value_is_valid(b->value)) return false;
  product labels = sort_labels(a, b, needed);
  if (labels.batch_count == 0 && count_unsized(self, a, labels.left, labels.left_count) == 0 &&
      count_unsized(self, b, labels.right, labels.right_count) > 0) { /* the batch goes left */
    term *const first = a;
    a = b;
    b = first;
    labels = sort_labels(a, b, needed);
  }
  if (labels.inner_count == 0) return multiply(self, &labels, a, b, out);
  return has_sums(self, a->value) && multiply_matrices(self, &labels, a, b, out);
}

/* ---- All of them ----------------------------------------------------------------------------- */

tdm_value tdm_einsum(tdm_graph *graph, const char *name, const char *equation,
                     const tdm_value *values, size_t count) {
  name = tdm_graph_name(graph, name);
  const einsum self = {graph, name, equation};
  term operands[MOST_OPERANDS], result;
  if (!equation || !values || count < 1 || count > MOST_OPERANDS) {
    refuse(&self, "an equation and 1 to 16 operands are needed");
    return TDM_NO_VALUE;
  }
  if (!read_equation(&self, values, count, operands, &result)) return TDM_NO_VALUE;
  uint64_t needed[MOST_OPERANDS]; /* labels still used after each operand */
  needed[count - 1] = labels_of(&result);
  for (size_t k = count - 1; k-- > 0;)
    needed[k] = needed[k + 1] | labels_of(&operands[k + 1]);
  for (size_t k = 0; k < count; k++)
    if (!take_diagonals(&self, &operands[k])) return TDM_NO_VALUE;
  term all = operands[0];
  for (size_t k = 1; k < count; k++) {
    term joined;
    if (!join(&self, &all, &operands[k], needed[k], &joined)) return TDM_NO_VALUE;
    all = joined;
  }
  sum_others(&self, &all, needed[count - 1]);
  int order[TDM_MAX_RANK];
  for (int i = 0; i < result.rank; i++)
    order[i] = place_of(&all, result.labels[i]);
  return tdm_value_is_valid(all.value)
             ? tdm_permute(graph, name, all.value, order, (size_t)result.rank)
             : TDM_NO_VALUE;
}
