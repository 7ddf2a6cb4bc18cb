/* Distances and cosine similarities along a dimension, losses based on them, and Gaussian and
 * Poisson negative log-likelihoods, composed of operations. */
#include "layers/arguments.h"
#include "layers/losses/loss.h"
#include "tandem/layers/layers.h"

static const double log_two_pi = 1.8378770664093454836;

/* ---- Distances ------------------------------------------------------------------------------- */

/* Returns the sum of a b along dimension, which is removed. */
static tdm_value dot(tdm_graph *graph, const char *name, tdm_value a, tdm_value b, int dimension) {
  return tdm_sum(graph, name, tdm_mul(graph, name, a, b), &dimension, 1, false);
}

/* Returns x broadcast to the shape of like. */
static tdm_value expanded(tdm_graph *graph, const char *name, tdm_value x, tdm_value like) {
  const tdm_shape shape = tdm_value_shape(graph, x), wanted = tdm_value_shape(graph, like);
  bool same = shape.rank == wanted.rank;
  for (int i = 0; same && i < shape.rank; i++)
    same = tdm_dim_agree(shape.dims[i], wanted.dims[i]);
  return same ? x : tdm_expand_as(graph, name, x, like);
}

/* Multiplies both values after dividing each by its norm, so that no square overflows or underflows
 * the dtype. */
tdm_value tdm_cosine_similarity(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                                int dimension, double epsilon) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_epsilon(graph, "cosine_similarity", name, epsilon)) return TDM_NO_VALUE;
  const tdm_operand operands[] = {{"a", a, false}, {"b", b, false}};
  if (!tdm_arguments_broadcast(graph, "cosine_similarity", name, operands, 2)) return TDM_NO_VALUE;
  const tdm_value like = tdm_mul(graph, name, a, b); /* only its shape is used */
  const tdm_value both[2] = {a, b};
  tdm_value directions[2];
  for (int i = 0; i < 2; i++) {
    /* elements repeated along the dimension count that often in the norm */
    const tdm_value x = expanded(graph, name, both[i], like);
    const tdm_value norm =
        tdm_root_of_squares(graph, "cosine_similarity", name, x, &dimension, 1, true);
    if (!tdm_value_is_valid(norm)) return TDM_NO_VALUE;
    directions[i] = tdm_div(graph, name, x, tdm_clamp(graph, name, norm, epsilon, INFINITY));
  }
  return dot(graph, name, directions[0], directions[1], dimension);
}

/* Returns the distance along the last dimension. */
static tdm_value distance(tdm_graph *graph, const char *name, tdm_value a, tdm_value b, double p,
                          double epsilon, bool keep) {
  const int last = -1;
  const tdm_value apart = tdm_sub(graph, name, a, b);
  return tdm_norm(graph, name, tdm_add_scalar(graph, name, apart, epsilon), p, &last, 1, keep);
}

/* Returns true if a and b are floating and can be broadcast, and at least one has a last
 * dimension. */
static bool are_vectors(tdm_graph *graph, const char *layer, const char *name, tdm_value a,
                        tdm_value b) {
  const tdm_operand operands[] = {{"a", a, false}, {"b", b, false}};
  const bool is_scalar = tdm_value_shape(graph, b).rank == 0;
  return tdm_arguments_broadcast(graph, layer, name, operands, 2) &&
         (!is_scalar || tdm_argument_has_rank(graph, layer, name, "a", a, 1, TDM_MAX_RANK));
}

static bool is_norm(tdm_graph *graph, const char *function, const char *name, double p) {
  if (p > 0.0) return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: p is %g, and must be positive", function,
                 name, p);
  return false;
}

tdm_value tdm_pairwise_distance(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                                double p, double epsilon, bool keep) {
  name = tdm_graph_name(graph, name);
  if (!is_norm(graph, "pairwise_distance", name, p)) return TDM_NO_VALUE;
  if (!isfinite(epsilon))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "pairwise_distance %s: epsilon %g must be finite", name, epsilon);
  if (!are_vectors(graph, "pairwise_distance", name, a, b)) return TDM_NO_VALUE;
  return distance(graph, name, a, b, p, epsilon, keep);
}

/* ---- Losses of distances --------------------------------------------------------------------- */

/* Adds a constant to both squared norms, as PyTorch does, so that their product is not 0. */
static tdm_value bounded_cosine(tdm_graph *graph, const char *name, tdm_value a, tdm_value b) {
  const double apart = 1e-12;
  const tdm_value of_a = tdm_add_scalar(graph, name, dot(graph, name, a, a, -1), apart);
  const tdm_value of_b = tdm_add_scalar(graph, name, dot(graph, name, b, b, -1), apart);
  const tdm_value norms =
      tdm_mul(graph, name, tdm_sqrt(graph, name, of_a), tdm_sqrt(graph, name, of_b));
  return tdm_div(graph, name, dot(graph, name, a, b, -1), norms);
}

tdm_value tdm_cosine_embedding_with(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                                    tdm_value targets, const tdm_loss_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_loss_options chosen;
  if (!tdm_loss_options_read(graph, "cosine_embedding", name, options, TDM_LOSS_USES_MARGIN,
                             &chosen))
    return TDM_NO_VALUE;
  if (!are_vectors(graph, "cosine_embedding", name, a, b)) return TDM_NO_VALUE;
  const tdm_value cosine = bounded_cosine(graph, name, a, b);
  const tdm_operand operands[] = {{"the cosine of a and b", cosine, false},
                                  {"targets", targets, true}};
  if (!tdm_arguments_broadcast(graph, "cosine_embedding", name, operands, 2)) return TDM_NO_VALUE;
  const tdm_value unlike = tdm_loss_above_zero(
      graph, name, tdm_add_scalar(graph, name, cosine, -tdm_loss_margin(&chosen, 0.0)));
  const tdm_value elements =
      tdm_add(graph, name,
              tdm_masked_fill(graph, name, tdm_affine(graph, name, cosine, -1.0, 1.0),
                              tdm_compare_scalar(graph, name, targets, TDM_NOT_EQUAL, 1.0), 0.0),
              tdm_masked_fill(graph, name, unlike,
                              tdm_compare_scalar(graph, name, targets, TDM_NOT_EQUAL, -1.0), 0.0));
  return tdm_loss_reduce(graph, name, elements, chosen.reduction);
}

tdm_value tdm_cosine_embedding(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                               tdm_value targets) {
  return tdm_cosine_embedding_with(graph, name, a, b, targets, NULL);
}

tdm_value tdm_triplet_margin_with(tdm_graph *graph, const char *name, tdm_value anchor,
                                  tdm_value positive, tdm_value negative,
                                  const tdm_loss_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_loss_options chosen;
  const unsigned uses =
      TDM_LOSS_USES_MARGIN | TDM_LOSS_USES_P | TDM_LOSS_USES_EPSILON | TDM_LOSS_USES_SWAP;
  if (!tdm_loss_options_read(graph, "triplet_margin", name, options, uses, &chosen))
    return TDM_NO_VALUE;
  const double p = tdm_or_default(chosen.p, 2.0), epsilon = tdm_or_default(chosen.epsilon, 1e-6);
  if (!is_norm(graph, "triplet_margin", name, p)) return TDM_NO_VALUE;
  const double margin = tdm_loss_margin(&chosen, 1.0);
  if (!(margin > 0.0))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "triplet_margin %s: margin is %g, and must be positive", name, margin);
  const tdm_operand operands[] = {
      {"anchor", anchor, false}, {"positive", positive, false}, {"negative", negative, false}};
  if (!tdm_arguments_broadcast(graph, "triplet_margin", name, operands, 3) ||
      !tdm_argument_has_rank(graph, "triplet_margin", name, "anchor", anchor, 1, TDM_MAX_RANK))
    return TDM_NO_VALUE;
  const tdm_value near = distance(graph, name, anchor, positive, p, epsilon, false);
  tdm_value far = distance(graph, name, anchor, negative, p, epsilon, false);
  if (chosen.swap)
    far =
        tdm_minimum(graph, name, far, distance(graph, name, positive, negative, p, epsilon, false));
  const tdm_value lacking = tdm_add_scalar(graph, name, tdm_sub(graph, name, near, far), margin);
  return tdm_loss_reduce(graph, name, tdm_loss_above_zero(graph, name, lacking), chosen.reduction);
}

tdm_value tdm_triplet_margin(tdm_graph *graph, const char *name, tdm_value anchor,
                             tdm_value positive, tdm_value negative) {
  return tdm_triplet_margin_with(graph, name, anchor, positive, negative, NULL);
}

/* ---- Likelihoods ----------------------------------------------------------------------------- */

/* Returns the variance with a last dimension of 1 if it lacks x's last dimension: one variance per
 * row, also if broadcasting would align it otherwise. */
static tdm_value of_rows(tdm_graph *graph, const char *name, tdm_value x, tdm_value variance) {
  const tdm_shape has = tdm_value_shape(graph, variance);
  tdm_shape rows = tdm_value_shape(graph, x);
  if (rows.rank < 1 || has.rank != rows.rank - 1) return variance;
  rows.rank--;
  rows.dims[rows.rank] = 0;
  return tdm_shape_equal(&has, &rows) ? tdm_unsqueeze(graph, name, variance, -1) : variance;
}

tdm_value tdm_gaussian_nll_with(tdm_graph *graph, const char *name, tdm_value x, tdm_value targets,
                                tdm_value variance, const tdm_loss_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_loss_options chosen;
  const unsigned uses = TDM_LOSS_USES_EPSILON | TDM_LOSS_USES_FULL;
  if (!tdm_loss_options_read(graph, "gaussian_nll", name, options, uses, &chosen))
    return TDM_NO_VALUE;
  const double least = tdm_or_default(chosen.epsilon, 1e-6);
  variance = of_rows(graph, name, x, variance);
  const tdm_operand operands[] = {
      {"x", x, false}, {"targets", targets, false}, {"variance", variance, false}};
  if (!tdm_arguments_broadcast(graph, "gaussian_nll", name, operands, 3)) return TDM_NO_VALUE;
  const tdm_value is_less = tdm_compare_scalar(graph, name, variance, TDM_LESS, least);
  const tdm_value spread = tdm_masked_fill(graph, name, variance, is_less, least);
  const tdm_value squares = tdm_square(graph, name, tdm_sub(graph, name, x, targets));
  const tdm_value sum =
      tdm_add(graph, name, tdm_log(graph, name, spread), tdm_div(graph, name, squares, spread));
  const tdm_value elements =
      tdm_affine(graph, name, sum, 0.5, chosen.full ? 0.5 * log_two_pi : 0.0);
  return tdm_loss_reduce(graph, name, elements, chosen.reduction);
}

tdm_value tdm_gaussian_nll(tdm_graph *graph, const char *name, tdm_value x, tdm_value targets,
                           tdm_value variance) {
  return tdm_gaussian_nll_with(graph, name, x, targets, variance, NULL);
}

/* Returns Stirling's approximation for targets above 1, and 0 for others, whose logarithm is never
 * computed. */
static tdm_value stirling(tdm_graph *graph, const char *name, tdm_value targets) {
  const tdm_value safe = tdm_clamp(graph, name, targets, 1.0, INFINITY);
  const tdm_value logarithm = tdm_log(graph, name, safe);
  const tdm_value most = tdm_sub(graph, name, tdm_mul(graph, name, safe, logarithm), safe);
  const tdm_value rest = tdm_affine(graph, name, logarithm, 0.5, 0.5 * log_two_pi);
  return tdm_masked_fill(graph, name, tdm_add(graph, name, most, rest),
                         tdm_compare_scalar(graph, name, targets, TDM_LESS_EQUAL, 1.0), 0.0);
}

tdm_value tdm_poisson_nll_with(tdm_graph *graph, const char *name, tdm_value x, tdm_value targets,
                               const tdm_loss_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_loss_options chosen;
  const unsigned uses = TDM_LOSS_USES_EPSILON | TDM_LOSS_USES_FULL | TDM_LOSS_USES_LINEAR_INPUT;
  if (!tdm_loss_options_read(graph, "poisson_nll", name, options, uses, &chosen))
    return TDM_NO_VALUE;
  const double epsilon = tdm_or_default(chosen.epsilon, 1e-8);
  const tdm_operand operands[] = {{"x", x, false}, {"targets", targets, false}};
  if (!tdm_arguments_broadcast(graph, "poisson_nll", name, operands, 2)) return TDM_NO_VALUE;
  const tdm_value rate = chosen.linear_input ? x : tdm_exp(graph, name, x);
  const tdm_value logarithm =
      chosen.linear_input ? tdm_log(graph, name, tdm_add_scalar(graph, name, x, epsilon)) : x;
  tdm_value elements = tdm_sub(graph, name, rate, tdm_mul(graph, name, targets, logarithm));
  if (chosen.full) elements = tdm_add(graph, name, elements, stirling(graph, name, targets));
  return tdm_loss_reduce(graph, name, elements, chosen.reduction);
}

tdm_value tdm_poisson_nll(tdm_graph *graph, const char *name, tdm_value x, tdm_value targets) {
  return tdm_poisson_nll_with(graph, name, x, targets, NULL);
}
