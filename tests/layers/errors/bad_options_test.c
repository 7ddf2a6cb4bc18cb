/* Layers and losses refuse these before they check shapes: a value of no graph, options without a
 * size, illegal numbers. The message contains the layer's kind and name. A case is an expression
 * with a graph and a valid value x (batch, 4, 6, 6) of it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"
#include "tests/options.h"

typedef struct bad_case {
  const char *kind; /* expected in the message, with the name "it" */
  const char *says;
  tdm_value (*build)(tdm_graph *graph, tdm_value x);
} bad_case;

static const tdm_value none = {0, 0};
/* Good values of the graph of the case under way. */
static tdm_value flat;  /* (batch, 6) */
static tdm_value steps; /* (5, batch, 6) */
static tdm_value ids;   /* int (batch) */

/* One case: a function named after it. x is the good value. */
#define CASE(name, expression)                                                                     \
  static tdm_value name(tdm_graph *graph, tdm_value x) {                                           \
    (void)x;                                                                                       \
    return expression;                                                                             \
  }

/* ---- Values of no graph ---------------------------------------------------------------------- */

CASE(no_linear, tdm_linear(graph, "it", none, 3))
CASE(no_embedding, tdm_embedding(graph, "it", none, 3, 3))
CASE(no_bag, tdm_embedding_bag(graph, "it", none, 3, 3, NULL))
CASE(no_layer_norm, tdm_layer_norm(graph, "it", none, 1))
CASE(no_rms_norm, tdm_rms_norm(graph, "it", none, 1))
CASE(no_batch_norm, tdm_batch_norm(graph, "it", none))
CASE(no_conv, tdm_conv2d(graph, "it", none, 3, 3, 3, NULL))
CASE(no_pool, tdm_max_pool2d(graph, "it", none, 2, 2, NULL))
CASE(no_adaptive, tdm_adaptive_avg_pool2d(graph, "it", none, 2, 2))
CASE(no_rnn, tdm_rnn(graph, "it", none, 3, NULL, NULL))
CASE(no_dropout, tdm_dropout(graph, "it", none, 0.5))
CASE(no_sum, tdm_sum(graph, "it", none, NULL, 0, false))
CASE(no_variance, tdm_variance(graph, "it", none, NULL, 0, 1, false))
CASE(no_reshape, tdm_reshape(graph, "it", none, tdm_shape_of(1, 3)))
CASE(no_select, tdm_select(graph, "it", none, 0, 0))
CASE(no_swap, tdm_swap_first_dimensions(graph, "it", none))
CASE(no_slice, tdm_slice(graph, "it", none, 0, 0, 1, 1))
CASE(no_permute, tdm_permute(graph, "it", none, (const int[]){0}, 1))
CASE(no_flip, tdm_flip(graph, "it", none, (const int[]){0}, 1))
CASE(no_roll, tdm_roll(graph, "it", none, 1, 0))
CASE(no_triangle, tdm_triu(graph, "it", none, 0))
CASE(no_unsqueeze, tdm_unsqueeze(graph, "it", none, 0))
CASE(no_squeeze, tdm_squeeze(graph, "it", none, 0))
CASE(no_flatten, tdm_flatten(graph, "it", none, 0, 1))
CASE(no_stack, tdm_stack(graph, "it", &none, 1, 0))
CASE(no_expand, tdm_expand(graph, "it", none, tdm_shape_of(1, 2)))
CASE(no_like, tdm_expand_as(graph, "it", x, none))
CASE(no_repeat, tdm_repeat(graph, "it", none, (const int64_t[]){2}, 1))
CASE(no_pad, tdm_pad(graph, "it", none, (const int64_t[]){1, 1}, 2, TDM_PAD_CONSTANT, 0))
CASE(no_places, tdm_arange_like(graph, "it", none, 0))
CASE(no_prelu, tdm_prelu(graph, "it", none, 1))
CASE(no_glu, tdm_glu(graph, "it", none, 1))
CASE(no_gather, tdm_gather(graph, "it", x, 0, none))
CASE(no_index_select, tdm_index_select(graph, "it", none, 0, ids))
CASE(no_scatter_add, tdm_scatter_add(graph, "it", flat, 0, flat, none))
CASE(no_one_hot, tdm_one_hot(graph, "it", none, 3))
CASE(no_prod, tdm_prod(graph, "it", none, NULL, 0, false))
CASE(no_logsumexp, tdm_logsumexp(graph, "it", none, NULL, 0, false))
CASE(no_group_norm, tdm_group_norm(graph, "it", none, 2))
CASE(no_instance_norm, tdm_instance_norm(graph, "it", none))
CASE(no_response_norm, tdm_local_response_norm(graph, "it", none, 3, 1, 1, 1))
CASE(no_transposed, tdm_conv_transpose2d(graph, "it", none, 2, 2, 2, NULL))
CASE(no_interpolate,
     tdm_interpolate(graph, "it", none, (const int64_t[]){2}, 1, TDM_INTERPOLATE_NEAREST, false))
CASE(no_power, tdm_power(graph, "it", x, none))
CASE(no_softmax, tdm_softmax(graph, "it", none, 0))
CASE(no_cast, tdm_cast(graph, "it", none, TDM_FLOAT64))
CASE(no_add, tdm_add(graph, "it", x, none))
CASE(no_where, tdm_where(graph, "it", none, x, x))
CASE(no_first_of_where, tdm_where(graph, "it", x, none, x))
CASE(no_fill, tdm_masked_fill(graph, "it", none, none, 1))
CASE(no_compare, tdm_compare(graph, "it", none, TDM_LESS, x))
CASE(no_relu, tdm_relu(graph, "it", none))
CASE(no_pow, tdm_pow(graph, "it", none, 2))
CASE(no_max, tdm_max(graph, "it", none, 0, false, NULL))
CASE(no_cumsum, tdm_cumsum(graph, "it", none, 0))
CASE(no_matmul, tdm_matmul(graph, "it", none, x))
CASE(no_transpose, tdm_transpose(graph, "it", none, 0, 1))
CASE(no_interaction, tdm_dot_interaction(graph, "it", none, false))
CASE(no_query, tdm_attention(graph, "it", none, steps, steps, NULL))
CASE(no_key, tdm_attention(graph, "it", steps, none, steps, NULL))
CASE(no_values, tdm_attention(graph, "it", steps, steps, none, NULL))
CASE(no_heads_value, tdm_multi_head_attention(graph, "it", none, none, none, 2, NULL))
CASE(no_cross_entropy, tdm_cross_entropy(graph, "it", none, ids))
CASE(no_targets, tdm_cross_entropy(graph, "it", flat, none))
CASE(no_mse, tdm_mse(graph, "it", none, x))
CASE(no_concat, tdm_concat(graph, "it", &none, 1, 0))

static tdm_value no_split(tdm_graph *graph, tdm_value x) {
  tdm_value parts[1] = {x};
  tdm_split(graph, "it", none, 0, (const tdm_dim[]){1}, 1, parts);
  return parts[0];
}

static const bad_case values_of_no_graph[] = {
    {"linear", "", no_linear},
    {"embedding", "", no_embedding},
    {"embedding_bag", "", no_bag},
    {"layer_norm", "", no_layer_norm},
    {"rms_norm", "", no_rms_norm},
    {"batch_norm", "", no_batch_norm},
    {"conv", "", no_conv},
    {"pool", "", no_pool},
    {"pool", "", no_adaptive},
    {"rnn", "", no_rnn},
    {"dropout", "", no_dropout},
    {"sum", "", no_sum},
    {"variance", "", no_variance},
    {"reshape", "", no_reshape},
    {"select", "", no_select},
    {"swap", "", no_swap},
    {"softmax", "", no_softmax},
    {"cast", "", no_cast},
    {"slice", "", no_slice},
    {"permute", "", no_permute},
    {"flip", "", no_flip},
    {"roll", "", no_roll},
    {"triu", "", no_triangle},
    {"unsqueeze", "", no_unsqueeze},
    {"squeeze", "", no_squeeze},
    {"flatten", "", no_flatten},
    {"stack", "", no_stack},
    {"expand", "", no_expand},
    {"expand_as", "", no_like},
    {"repeat", "", no_repeat},
    {"pad", "", no_pad},
    {"arange_like", "", no_places},
    {"prelu", "", no_prelu},
    {"glu", "", no_glu},
    {"gather", "", no_gather},
    {"index_select", "", no_index_select},
    {"scatter_add", "", no_scatter_add},
    {"one_hot", "", no_one_hot},
    {"prod", "", no_prod},
    {"logsumexp", "", no_logsumexp},
    {"group_norm", "", no_group_norm},
    {"instance_norm", "", no_instance_norm},
    {"local_response_norm", "", no_response_norm},
    {"conv_transpose", "", no_transposed},
    {"interpolate", "", no_interpolate},
    {"power", "", no_power},
    {"add", "", no_add},
    {"where", "", no_where},
    {"where", "", no_first_of_where},
    {"masked_fill", "", no_fill},
    {"compare", "", no_compare},
    {"relu", "", no_relu},
    {"pow", "", no_pow},
    {"max", "", no_max},
    {"cumsum", "", no_cumsum},
    {"matmul", "", no_matmul},
    {"transpose", "", no_transpose},
    {"interaction", "", no_interaction},
    {"attention", "", no_query},
    {"attention", "", no_key},
    {"attention", "", no_values},
    {"multi_head_attention", "", no_heads_value},
    {"cross_entropy", "", no_cross_entropy},
    {"cross_entropy", "", no_targets},
    {"mse", "", no_mse},
    {"concat", "", no_concat},
    {"split", "", no_split},
};

/* ---- Options of no size ---------------------------------------------------------------------- */

CASE(embedding_unsized, tdm_embedding_with(graph, "it", ids, 3, 3, UNMADE(tdm_embedding_options)))
CASE(bag_unsized, tdm_embedding_bag(graph, "it", ids, 3, 3, UNMADE(tdm_embedding_bag_options)))
CASE(rms_norm_unsized, tdm_rms_norm_with(graph, "it", x, 1, UNMADE(tdm_rms_norm_options)))
CASE(layer_norm_unsized, tdm_layer_norm_with(graph, "it", x, 1, UNMADE(tdm_layer_norm_options)))
CASE(batch_norm_unsized, tdm_batch_norm_with(graph, "it", x, UNMADE(tdm_batch_norm_options)))
CASE(conv_unsized, tdm_conv2d(graph, "it", x, 3, 3, 3, UNMADE(tdm_conv_options)))
CASE(pool_unsized, tdm_max_pool2d(graph, "it", x, 2, 2, UNMADE(tdm_pool_options)))
CASE(rnn_unsized, tdm_rnn(graph, "it", steps, 3, UNMADE(tdm_rnn_options), NULL))
CASE(attention_unsized,
     tdm_attention(graph, "it", steps, steps, steps, UNMADE(tdm_attention_options)))
CASE(heads_unsized, tdm_multi_head_attention(graph, "it", steps, steps, steps, 2,
                                             UNMADE(tdm_multi_head_attention_options)))
CASE(loss_unsized, tdm_mse_with(graph, "it", x, x, UNMADE(tdm_loss_options)))

static const bad_case options_of_no_size[] = {
    {"embedding", "tdm_embedding_options_default()", embedding_unsized},
    {"embedding_bag", "tdm_embedding_bag_options_default()", bag_unsized},
    {"layer_norm", "tdm_layer_norm_options_default()", layer_norm_unsized},
    {"rms_norm", "tdm_rms_norm_options_default()", rms_norm_unsized},
    {"batch_norm", "tdm_batch_norm_options_default()", batch_norm_unsized},
    {"conv", "tdm_conv_options_default()", conv_unsized},
    {"pool", "tdm_pool_options_default()", pool_unsized},
    {"rnn", "tdm_rnn_options_default()", rnn_unsized},
    {"attention", "tdm_attention_options_default()", attention_unsized},
    {"multi_head_attention", "tdm_multi_head_attention_options_default()", heads_unsized},
    {"mse", "tdm_loss_options_default()", loss_unsized},
};

/* ---- Numbers that are not legal -------------------------------------------------------------- */

CASE(norm_of_rank, tdm_layer_norm(graph, "it", x, 5))
CASE(root_of_rank, tdm_rms_norm(graph, "it", x, 5))
CASE(norm_of_no_rank, tdm_layer_norm(graph, "it", x, 0))
CASE(norm_of_names, tdm_layer_norm(graph, "it", x, 4))
CASE(batch_of_vector, tdm_batch_norm(graph, "it", ids))
CASE(conv_of_matrix, tdm_conv2d(graph, "it", flat, 3, 3, 3, NULL))
CASE(conv_no_kernel, tdm_conv2d(graph, "it", x, 3, 0, 3, NULL))
CASE(conv_stride,
     tdm_conv2d(graph, "it", x, 3, 3, 3, WITH(tdm_conv_options, o.stride[0] = o.stride[1] = -1)))
CASE(conv_padding, tdm_conv2d(graph, "it", x, 3, 3, 3, WITH(tdm_conv_options, o.padding[0] = -1)))
CASE(conv_dilation, tdm_conv2d(graph, "it", x, 3, 3, 3,
                               WITH(tdm_conv_options, o.dilation[0] = o.dilation[1] = -2)))
CASE(conv_groups, tdm_conv2d(graph, "it", x, 3, 3, 3, WITH(tdm_conv_options, o.groups = 3)))
CASE(conv_large, tdm_conv2d(graph, "it", x, 3, 9, 9, NULL))
CASE(pool_of_matrix, tdm_max_pool2d(graph, "it", flat, 2, 2, NULL))
CASE(pool_no_kernel, tdm_max_pool2d(graph, "it", x, 2, 0, NULL))
CASE(pool_stride,
     tdm_max_pool2d(graph, "it", x, 2, 2, WITH(tdm_pool_options, o.stride[0] = o.stride[1] = -2)))
CASE(pool_dilation, tdm_max_pool2d(graph, "it", x, 2, 2,
                                   WITH(tdm_pool_options, o.dilation[0] = o.dilation[1] = -2)))
CASE(pool_negative, tdm_max_pool2d(graph, "it", x, 2, 2, WITH(tdm_pool_options, o.padding[0] = -1)))
CASE(pool_padding, tdm_max_pool2d(graph, "it", x, 2, 2, WITH(tdm_pool_options, o.padding[0] = 2)))
CASE(pool_large, tdm_max_pool2d(graph, "it", x, 9, 9, NULL))
CASE(pool_adaptive, tdm_adaptive_max_pool2d(graph, "it", x, 2, 0))
CASE(bag_mode, tdm_embedding_bag(graph, "it", ids, 3, 3,
                                 WITH(tdm_embedding_bag_options, o.mode = (tdm_bag_mode)7)))
CASE(padding_index,
     tdm_embedding_with(graph, "it", ids, 3, 3, WITH(tdm_embedding_options, o.padding_index = 3)))
CASE(padding_below,
     tdm_embedding_with(graph, "it", ids, 3, 3, WITH(tdm_embedding_options, o.padding_index = -4)))
CASE(dropout_above, tdm_dropout(graph, "it", x, 1.5))
CASE(dropout_of_nan, tdm_dropout(graph, "it", x, NAN))
CASE(clamp_of_nan, tdm_clamp(graph, "it", x, NAN, 1))
CASE(softplus_zero, tdm_softplus(graph, "it", x, 0, 20))
CASE(relation, tdm_compare(graph, "it", x, (tdm_relation)9, x))
CASE(cast_to_nothing, tdm_cast(graph, "it", x, TDM_DTYPE_NONE))
CASE(sum_twice, tdm_sum(graph, "it", x, (const int[]){1, -3}, 2, false))
CASE(sum_beyond, tdm_sum(graph, "it", x, (const int[]){4}, 1, false))
CASE(cumsum_beyond, tdm_cumsum(graph, "it", x, -5))
CASE(transposed_beyond, tdm_transpose(graph, "it", x, 0, 4))
CASE(reshape_illegal, tdm_reshape(graph, "it", x, (tdm_shape){.rank = 99}))
CASE(slice_of_no_step, tdm_slice(graph, "it", x, 1, 0, 2, 0))
CASE(slice_beyond, tdm_slice(graph, "it", x, 4, 0, 2, 1))
CASE(permuted_in_part, tdm_permute(graph, "it", x, (const int[]){1, 0}, 2))
CASE(permuted_twice, tdm_permute(graph, "it", x, (const int[]){0, 1, 2, -2}, 4))
CASE(flipped_beyond, tdm_flip(graph, "it", x, (const int[]){-5}, 1))
CASE(rolled_name, tdm_roll(graph, "it", x, 1, 0))
CASE(triangle_of_vector, tdm_tril(graph, "it", ids, 0))
CASE(unsqueezed_beyond, tdm_unsqueeze(graph, "it", x, 6))
CASE(squeezed_four, tdm_squeeze(graph, "it", x, 1))
CASE(flattened_backwards, tdm_flatten(graph, "it", x, 2, 1))
CASE(stack_of_none, tdm_stack(graph, "it", &x, 0, 0))
CASE(expanded_four, tdm_expand(graph, "it", x, tdm_shape_of(4, TDM_INFER, 5, 6, 6)))
CASE(expanded_to_name, tdm_expand(graph, "it", tdm_sum(graph, "sum", x, (const int[]){0}, 1, true),
                                  tdm_shape_of(4, TDM_DIM("batch"), 4, 6, 6)))
CASE(expanded_to_less, tdm_expand(graph, "it", x, tdm_shape_of(1, 6)))
CASE(repeated_less, tdm_repeat(graph, "it", x, (const int64_t[]){2}, 1))
CASE(repeated_never, tdm_repeat(graph, "it", x, (const int64_t[]){1, -1, 1, 1}, 4))
CASE(padded_by_halves, tdm_pad(graph, "it", x, (const int64_t[]){1}, 1, TDM_PAD_CONSTANT, 0))
CASE(padded_somehow, tdm_pad(graph, "it", x, (const int64_t[]){1, 1}, 2, (tdm_pad_mode)7, 0))
CASE(reflected_beyond, tdm_pad(graph, "it", x, (const int64_t[]){6, 1}, 2, TDM_PAD_REFLECT, 0))
CASE(padded_away, tdm_pad(graph, "it", x, (const int64_t[]){-4, -3}, 2, TDM_PAD_CONSTANT, 0))
CASE(arange_astray, tdm_arange(graph, "it", TDM_INT64, 0, 5, -1))
CASE(arange_of_halves, tdm_arange(graph, "it", TDM_INT64, 0, 5, 0.5))
CASE(arange_of_bool, tdm_arange(graph, "it", TDM_BOOL, 0, 5, 1))
CASE(prelu_of_five, tdm_prelu(graph, "it", x, 5))
CASE(instance_norm_of_rows, tdm_instance_norm(graph, "it", flat))
CASE(glu_of_name, tdm_glu(graph, "it", x, 0))
CASE(gather_by_rows, tdm_gather(graph, "it", x, 0, ids))
CASE(gather_by_reals, tdm_gather(graph, "it", x, 0, x))
CASE(select_by_image, tdm_index_select(graph, "it", x, 0, x))
CASE(select_beyond, tdm_index_select(graph, "it", x, 4, ids))
CASE(scatter_by_rows, tdm_scatter_add(graph, "it", x, 1, ids, x))
CASE(one_hot_of_none, tdm_one_hot(graph, "it", ids, 0))
CASE(prod_beyond, tdm_prod(graph, "it", x, (const int[]){4}, 1, false))
CASE(logsumexp_beyond, tdm_logsumexp(graph, "it", x, (const int[]){-5}, 1, false))
CASE(three_groups, tdm_group_norm(graph, "it", x, 3))
CASE(groups_of_steps, tdm_group_norm(graph, "it", steps, 1))
CASE(response_of_none, tdm_local_response_norm(graph, "it", x, 0, 1, 1, 1))
CASE(transposed_matrix, tdm_conv_transpose2d(graph, "it", flat, 2, 2, 2, NULL))
CASE(transposed_by_more, tdm_conv_transpose2d(graph, "it", x, 2, 2, 2,
                                              WITH(tdm_conv_transpose_options,
                                                   o.output_padding[0] = o.output_padding[1] = 1)))
CASE(transposed_to_nothing,
     tdm_conv_transpose2d(graph, "it", x, 2, 2, 2,
                          WITH(tdm_conv_transpose_options, o.padding[0] = o.padding[1] = 5)))
CASE(interpolated_in_part,
     tdm_interpolate(graph, "it", x, (const int64_t[]){2}, 1, TDM_INTERPOLATE_NEAREST, false))
CASE(interpolated_to_none,
     tdm_interpolate(graph, "it", x, (const int64_t[]){2, 0}, 2, TDM_INTERPOLATE_LINEAR, false))
CASE(nearest_aligned,
     tdm_interpolate(graph, "it", x, (const int64_t[]){2, 2}, 2, TDM_INTERPOLATE_NEAREST, true))
CASE(too_many_heads,
     tdm_attention(graph, "it", steps, steps, steps, WITH(tdm_attention_options, o.heads = 4)))
CASE(negative_heads,
     tdm_attention(graph, "it", steps, steps, steps, WITH(tdm_attention_options, o.heads = -1)))
CASE(attention_dropout,
     tdm_attention(graph, "it", steps, steps, steps, WITH(tdm_attention_options, o.dropout = 2)))
CASE(heads_of_images, tdm_multi_head_attention(graph, "it", x, x, x, 2, NULL))
CASE(heads_unfit, tdm_multi_head_attention(graph, "it", steps, steps, steps, 4, NULL))
CASE(reduction,
     tdm_mse_with(graph, "it", x, x, WITH(tdm_loss_options, o.reduction = (tdm_loss_reduction)9)))
CASE(mse_ignores, tdm_mse_with(graph, "it", x, x, WITH(tdm_loss_options, o.ignore_index = 0)))
CASE(mse_weighs, tdm_mse_with(graph, "it", x, x, WITH(tdm_loss_options, o.pos_weight = x)))
CASE(mse_smooths, tdm_mse_with(graph, "it", x, x, WITH(tdm_loss_options, o.label_smoothing = 0.1)))
CASE(mse_bends, tdm_mse_with(graph, "it", x, x, WITH(tdm_loss_options, o.beta = 0)))
CASE(smoothing, tdm_cross_entropy_with(graph, "it", flat, ids,
                                       WITH(tdm_loss_options, o.label_smoothing = 1.5)))
CASE(huber_beta, tdm_huber_with(graph, "it", x, x, WITH(tdm_loss_options, o.beta = -1)))
CASE(mse_margin, tdm_mse_with(graph, "it", x, x, WITH(tdm_loss_options, o.margin = 0.0)))
CASE(ranking_swaps,
     tdm_margin_ranking_with(graph, "it", x, x, x, WITH(tdm_loss_options, o.swap = true)))
CASE(cubic_margin, tdm_multi_margin_with(graph, "it", flat, ids, WITH(tdm_loss_options, o.p = 3)))
CASE(margin_of_images, tdm_multi_margin(graph, "it", x, ids))
CASE(margin_of_labels, tdm_multilabel_margin(graph, "it", flat, ids))
CASE(likely_swap,
     tdm_gaussian_nll_with(graph, "it", x, x, x, WITH(tdm_loss_options, o.swap = true)))
CASE(triplet_norm,
     tdm_triplet_margin_with(graph, "it", flat, flat, flat, WITH(tdm_loss_options, o.p = -2)))
CASE(triplet_epsilon,
     tdm_triplet_margin_with(graph, "it", flat, flat, flat, WITH(tdm_loss_options, o.epsilon = -1)))
CASE(distance_norm, tdm_pairwise_distance(graph, "it", flat, flat, -1, 0, false))
CASE(cosine_epsilon, tdm_cosine_similarity(graph, "it", flat, flat, 1, -1))
CASE(cosine_dimension, tdm_cosine_similarity(graph, "it", flat, flat, 2, 0))

static const bad_case numbers_that_are_not_legal[] = {
    {"layer_norm", "5", norm_of_rank},
    {"rms_norm", "5", root_of_rank},
    {"layer_norm", "0", norm_of_no_rank},
    {"layer_norm", "4", norm_of_names},
    {"batch_norm", "", batch_of_vector},
    {"conv", "", conv_of_matrix},
    {"conv", "", conv_no_kernel},
    {"conv", "", conv_stride},
    {"conv", "", conv_padding},
    {"conv", "", conv_dilation},
    {"conv", "", conv_groups},
    {"conv", "", conv_large},
    {"pool", "", pool_of_matrix},
    {"pool", "", pool_no_kernel},
    {"pool", "", pool_stride},
    {"pool", "", pool_dilation},
    {"pool", "", pool_negative},
    {"pool", "", pool_padding},
    {"pool", "", pool_large},
    {"pool", "2 x 0", pool_adaptive},
    {"embedding_bag", "mode", bag_mode},
    {"embedding", "3", padding_index},
    {"embedding", "-4", padding_below},
    {"dropout", "1.5", dropout_above},
    {"dropout", "nan", dropout_of_nan},
    {"clamp", "", clamp_of_nan},
    {"softplus", "", softplus_zero},
    {"compare", "9", relation},
    {"cast", "", cast_to_nothing},
    {"sum", "twice", sum_twice},
    {"sum", "4", sum_beyond},
    {"cumsum", "-5", cumsum_beyond},
    {"transpose", "4", transposed_beyond},
    {"reshape", "", reshape_illegal},
    {"slice", "step is 0", slice_of_no_step},
    {"slice", "4", slice_beyond},
    {"permute", "2 dimensions", permuted_in_part},
    {"permute", "twice", permuted_twice},
    {"flip", "-5", flipped_beyond},
    {"roll", "dimension 0", rolled_name},
    {"tril", "two dimensions", triangle_of_vector},
    {"unsqueeze", "6", unsqueezed_beyond},
    {"squeeze", "not 1", squeezed_four},
    {"flatten", "precedes", flattened_backwards},
    {"stack", "0 values", stack_of_none},
    {"expand", "dimension of 1", expanded_four},
    {"expand", "tdm_expand_as", expanded_to_name},
    {"expand", "lacks dimensions", expanded_to_less},
    {"repeat", "1 numbers", repeated_less},
    {"repeat", "number 1 is -1", repeated_never},
    {"pad", "1 amounts", padded_by_halves},
    {"pad", "mode 7", padded_somehow},
    {"pad", "6", reflected_beyond},
    {"pad", "-4", padded_away},
    {"arange", "-1", arange_astray},
    {"arange", "0.5", arange_of_halves},
    {"arange", "bool", arange_of_bool},
    {"prelu", "5", prelu_of_five},
    {"instance_norm", "two dimensions", instance_norm_of_rows},
    {"glu", "even", glu_of_name},
    {"gather", "4 dimensions", gather_by_rows},
    {"gather", "int32 or int64", gather_by_reals},
    {"index_select", "1 dimensions", select_by_image},
    {"index_select", "4", select_beyond},
    {"scatter_add", "4 dimensions", scatter_by_rows},
    {"one_hot", "classes is 0", one_hot_of_none},
    {"prod", "4", prod_beyond},
    {"logsumexp", "-5", logsumexp_beyond},
    {"group_norm", "groups is 3", three_groups},
    {"group_norm", "sizes but the first", groups_of_steps},
    {"local_response_norm", "size is 0", response_of_none},
    {"conv_transpose", "dimensions", transposed_matrix},
    {"conv_transpose", "output_padding", transposed_by_more},
    {"conv_transpose", "left", transposed_to_nothing},
    {"interpolate", "sizes has 1 numbers", interpolated_in_part},
    {"interpolate", "sizes is 0 at position 1", interpolated_to_none},
    {"interpolate", "linear and cubic modes", nearest_aligned},
    {"attention", "", too_many_heads},
    {"attention", "-1", negative_heads},
    {"attention", "2", attention_dropout},
    {"multi_head_attention", "2 to 3 dimensions", heads_of_images},
    {"multi_head_attention", "4", heads_unfit},
    {"mse", "9", reduction},
    {"mse", "ignore_index", mse_ignores},
    {"mse", "pos_weight", mse_weighs},
    {"mse", "label_smoothing", mse_smooths},
    {"mse", "beta", mse_bends},
    {"cross_entropy", "1.5", smoothing},
    {"huber", "-1", huber_beta},
    {"mse", "margin", mse_margin},
    {"margin_ranking", "swap", ranking_swaps},
    {"gaussian_nll", "swap", likely_swap},
    {"multi_margin", "p is 3", cubic_margin},
    {"multi_margin", "(n, classes) and (n)", margin_of_images},
    {"multilabel_margin", "(n, classes) and (n, classes)", margin_of_labels},
    {"triplet_margin", "p is -2", triplet_norm},
    {"triplet_margin", "epsilon", triplet_epsilon},
    {"pairwise_distance", "-1", distance_norm},
    {"cosine_similarity", "-1", cosine_epsilon},
    {"", "dimension 2", cosine_dimension},
};

/* ---- Each of them ---------------------------------------------------------------------------- */

/* Prints the difference, so that all cases are reported at once; returns false then. */
static bool is_refused(tdm_context *context, const bad_case *bad) {
  tdm_graph *graph = tdm_graph_create(context);
  assert_non_null(graph);
  const tdm_value x =
      tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(4, TDM_DIM("batch"), 4, 6, 6));
  flat = tdm_input(graph, "flat", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 6));
  steps = tdm_input(graph, "steps", TDM_FLOAT32, tdm_shape_of(3, 5, TDM_DIM("batch"), 6));
  ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  assert_int_equal(tdm_graph_status(graph), TDM_OK);
  const tdm_value made = bad->build(graph, x);
  const char *message = tdm_last_message();
  const bool refused =
      !tdm_value_is_valid(made) && tdm_graph_status(graph) == TDM_INVALID_ARGUMENT &&
      strstr(message, bad->kind) && strstr(message, "it") && strstr(message, bad->says);
  if (!refused)
    print_error("%s, %s: status %d, \"%s\"\n", bad->kind, bad->says, (int)tdm_graph_status(graph),
                message);
  tdm_graph_release(graph);
  return refused;
}

static void expect_all_refused(const bad_case *cases, size_t count) {
  tdm_context *context = tdm_context_create(NULL);
  assert_non_null(context);
  size_t refused = 0;
  for (size_t i = 0; i < count; i++)
    refused += is_refused(context, &cases[i]);
  assert_int_equal(refused, count);
  tdm_context_release(context);
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void test_values_of_no_graph(void **state) {
  (void)state;
  expect_all_refused(values_of_no_graph, COUNT(values_of_no_graph));
}

static void test_options_of_no_size(void **state) {
  (void)state;
  expect_all_refused(options_of_no_size, COUNT(options_of_no_size));
}

static void test_numbers_that_are_not_legal(void **state) {
  (void)state;
  expect_all_refused(numbers_that_are_not_legal, COUNT(numbers_that_are_not_legal));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values_of_no_graph),
      cmocka_unit_test(test_options_of_no_size),
      cmocka_unit_test(test_numbers_that_are_not_legal),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
