/* Calls of layers/: one each, with drawn arguments. */
#include "devices/kernels/elementwise/functions.h"
#include "tests/fuzz/api/api.h"
#include "tests/options.h"

/* ---- Element by element ---------------------------------------------------------------------- */

static tdm_value call_unary(api *self, const char *name, tdm_value x) {
  static tdm_value (*const calls[])(tdm_graph *, const char *, tdm_value) = {
#define CALL(function, reads, precision) tdm_##function,
      TDM_FUNCTIONS(CALL) /* calls each function of devices/kernels/elementwise/functions.h */
      tdm_exp,
      tdm_log,
      tdm_gelu,
      tdm_gelu_tanh,
      tdm_neg,
      tdm_square,
      tdm_relu6,
      tdm_last_step,
      tdm_swap_first_dimensions};
  return calls[fuzz_below(&self->input, TDM_COUNT_OF(calls))](self->graph, name, x);
}

static tdm_value call_binary(api *self, const char *name, tdm_value a) {
  static tdm_value (*const calls[])(tdm_graph *, const char *, tdm_value, tdm_value) = {
      tdm_add, tdm_sub, tdm_mul, tdm_div, tdm_maximum, tdm_minimum, tdm_matmul};
  const uint32_t which = fuzz_below(&self->input, TDM_COUNT_OF(calls));
  return calls[which](self->graph, name, a, api_value(self));
}

static tdm_value call_with_numbers(api *self, const char *name, tdm_value x) {
  tdm_graph *graph = self->graph;
  const uint32_t which = fuzz_below(&self->input, 11);
  const double a = api_real(self);
  const double b = api_real(self);
  switch (which) {
  case 0:
    return tdm_affine(graph, name, x, a, b);
  case 1:
    return tdm_add_scalar(graph, name, x, a);
  case 2:
    return tdm_mul_scalar(graph, name, x, a);
  case 3:
    return tdm_pow(graph, name, x, a);
  case 4:
    return tdm_clamp(graph, name, x, a, b);
  case 5:
    return tdm_hardtanh(graph, name, x, a, b);
  case 6:
    return tdm_leaky_relu(graph, name, x, a);
  case 7:
    return tdm_elu(graph, name, x, a);
  case 8:
    return tdm_softplus(graph, name, x, a, b);
  case 9:
    return tdm_dropout(graph, name, x, a);
  default:
    return tdm_cast(graph, name, x, api_dtype(self));
  }
}

static tdm_value call_choice(api *self, const char *name, tdm_value x) {
  const tdm_relation relation = (tdm_relation)fuzz_below(&self->input, 7);
  switch (fuzz_below(&self->input, 4)) {
  case 0:
    return tdm_compare(self->graph, name, x, relation, api_value(self));
  case 1:
    return tdm_compare_scalar(self->graph, name, x, relation, api_real(self));
  case 2: {
    const tdm_value a = api_value(self);
    return tdm_where(self->graph, name, x, a, api_value(self));
  }
  default: {
    const tdm_value condition = api_value(self);
    return tdm_masked_fill(self->graph, name, x, condition, api_real(self));
  }
  }
}

/* ---- Dimensions ------------------------------------------------------------------------------ */

static tdm_value call_reduction(api *self, const char *name, tdm_value x) {
  int dimensions[4];
  const uint32_t count = fuzz_below(&self->input, 5);
  for (uint32_t i = 0; i < count; i++)
    dimensions[i] = api_dimension(self);
  const bool keep = api_bool(self);
  const int *given = count ? dimensions : NULL;
  switch (fuzz_below(&self->input, 3)) {
  case 0:
    return tdm_sum(self->graph, name, x, given, count, keep);
  case 1:
    return tdm_mean(self->graph, name, x, given, count, keep);
  default:
    return tdm_variance(self->graph, name, x, given, count, api_real(self), keep);
  }
}

static tdm_value call_along(api *self, const char *name, tdm_value x) {
  tdm_graph *graph = self->graph;
  tdm_value indices = {0, 0};
  const int dimension = api_dimension(self);
  const bool keep = api_bool(self);
  switch (fuzz_below(&self->input, 9)) {
  case 0: {
    const tdm_value found = tdm_max(graph, name, x, dimension, keep, &indices);
    api_keep(self, indices);
    return found;
  }
  case 1:
    return tdm_min(graph, name, x, dimension, keep, NULL);
  case 2:
    return tdm_argmax(graph, name, x, dimension, keep);
  case 3:
    return tdm_argmin(graph, name, x, dimension, keep);
  case 4:
    return tdm_cumsum(graph, name, x, dimension);
  case 5:
    return tdm_softmax(graph, name, x, dimension);
  case 6:
    return tdm_log_softmax(graph, name, x, dimension);
  case 7:
    return tdm_select(graph, name, x, dimension, api_size(self));
  default:
    return tdm_transpose(graph, name, x, dimension, api_dimension(self));
  }
}

static tdm_value call_reshape(api *self, const char *name, tdm_value x) {
  tdm_shape shape = api_shape(self, true);
  if (api_bool(self) && shape.rank > 0) shape.dims[shape.rank - 1] = TDM_INFER;
  return tdm_reshape(self->graph, name, x, shape);
}

/* ---- Images ---------------------------------------------------------------------------------- */

static tdm_value call_convolution(api *self, const char *name, tdm_value x) {
  const int64_t out = api_size(self);
  const int64_t height = api_extent(self);
  const int64_t width = api_extent(self);
  tdm_conv_options options = tdm_conv_options_default();
  const bool plain = api_bool(self);
  for (int i = 0; i < 2 && !plain; i++) {
    options.stride[i] = api_size(self);
    options.padding[i] = api_size(self);
    options.dilation[i] = api_size(self);
  }
  if (!plain) options.groups = api_size(self);
  options.without_bias = api_bool(self);
  return api_bool(self) ? tdm_conv2d(self->graph, name, x, out, height, width, &options)
                        : tdm_conv1d(self->graph, name, x, out, width, &options);
}

static tdm_value call_pool(api *self, const char *name, tdm_value x) {
  tdm_graph *graph = self->graph;
  const uint8_t flags = fuzz_byte(&self->input);
  const int64_t height = api_extent(self);
  const int64_t width = api_extent(self);
  tdm_pool_options options =
      OPTIONS(tdm_pool_options, o.ceil = flags & 8, o.exclude_padding = flags & 16);
  for (int i = 0; i < 2 && flags & 32; i++) {
    options.stride[i] = api_size(self);
    options.padding[i] = api_size(self);
    options.dilation[i] = api_size(self);
  }
  if (flags & 64) options.divisor = api_size(self);
  switch (flags & 7) {
  case 0:
    return tdm_max_pool2d(graph, name, x, height, width, &options);
  case 1:
    return tdm_max_pool1d(graph, name, x, width, &options);
  case 2:
    return tdm_avg_pool2d(graph, name, x, height, width, &options);
  case 3:
    return tdm_avg_pool1d(graph, name, x, width, &options);
  case 4:
    return tdm_adaptive_max_pool2d(graph, name, x, height, width);
  case 5:
    return tdm_adaptive_max_pool1d(graph, name, x, width);
  case 6:
    return tdm_adaptive_avg_pool2d(graph, name, x, height, width);
  default:
    return tdm_adaptive_avg_pool1d(graph, name, x, width);
  }
}

/* ---- Layers with parameters ------------------------------------------------------------------ */

static tdm_value call_linear(api *self, const char *name, tdm_value x) {
  const int64_t out = api_size(self);
  return api_bool(self) ? tdm_linear(self->graph, name, x, out)
                        : tdm_linear_without_bias(self->graph, name, x, out);
}

static tdm_value call_embedding(api *self, const char *name, tdm_value ids) {
  const int64_t rows = api_size(self);
  const int64_t dim = api_size(self);
  const uint8_t flags = fuzz_byte(&self->input);
  if (flags & 1) {
    const tdm_embedding_options options =
        OPTIONS(tdm_embedding_options, o.padding_index = flags & 2 ? api_size(self) : TDM_NO_INDEX,
                o.sparse = flags & 4);
    return tdm_embedding_with(self->graph, name, ids, rows, dim, &options);
  }
  const tdm_embedding_bag_options options = OPTIONS(
      tdm_embedding_bag_options, o.mode = (tdm_bag_mode)(flags >> 1 & 3),
      o.offsets = flags & 8 ? api_value(self) : o.offsets, o.include_last_offset = flags & 16,
      o.scales = flags & 32 ? api_value(self) : o.scales,
      o.padding_index = flags & 64 ? api_size(self) : TDM_NO_INDEX, o.sparse = flags & 128);
  return tdm_embedding_bag(self->graph, name, ids, rows, dim, &options);
}

static tdm_value call_norm(api *self, const char *name, tdm_value x) {
  const uint8_t flags = fuzz_byte(&self->input);
  if (flags & 1) {
    const tdm_layer_norm_options options =
        OPTIONS(tdm_layer_norm_options, o.epsilon = flags & 2 ? api_real(self) : 1e-5,
                o.without_affine = flags & 4);
    if (flags & 8) {
      const tdm_rms_norm_options of_root =
          OPTIONS(tdm_rms_norm_options, o.epsilon = options.epsilon,
                  o.without_affine = options.without_affine);
      return tdm_rms_norm_with(self->graph, name, x, api_dimension(self), &of_root);
    }
    return tdm_layer_norm_with(self->graph, name, x, api_dimension(self), &options);
  }
  const tdm_batch_norm_options options =
      OPTIONS(tdm_batch_norm_options, o.epsilon = flags & 2 ? api_real(self) : 1e-5,
              o.momentum = flags & 8 ? api_real(self) : 0.1, o.without_affine = flags & 4,
              o.without_statistics = flags & 16);
  return tdm_batch_norm_with(self->graph, name, x, &options);
}

static tdm_value call_recurrent(api *self, const char *name, tdm_value x) {
  const uint8_t flags = fuzz_byte(&self->input);
  const uint8_t more = fuzz_byte(&self->input);
  const int64_t hidden = api_size(self);
  const tdm_rnn_options options = OPTIONS(
      tdm_rnn_options, o.layers = (int)(more & 3), o.relu = flags & 4, o.batch_first = flags & 8,
      o.h0 = flags & 16 ? api_value(self) : (tdm_value){0, 0},
      o.c0 = more & 4 ? api_value(self) : (tdm_value){0, 0},
      o.lengths = flags & 32 ? api_value(self) : (tdm_value){0, 0}, o.bidirectional = flags & 64,
      o.without_bias = flags & 128, o.dropout = more & 8 ? api_real(self) : 0);
  tdm_value states, cells;
  tdm_value y;
  if ((flags & 3) == 0)
    y = tdm_rnn(self->graph, name, x, hidden, &options, &states);
  else if ((flags & 3) == 1)
    y = tdm_gru(self->graph, name, x, hidden, &options, &states);
  else
    y = tdm_lstm(self->graph, name, x, hidden, &options, &states, &cells);
  if (tdm_value_is_valid(y)) api_keep(self, states);
  return y;
}

static tdm_value call_attention(api *self, const char *name, tdm_value query) {
  const uint8_t flags = fuzz_byte(&self->input);
  const tdm_value key = api_value(self);
  const tdm_value value = api_value(self);
  const int64_t heads = api_size(self);
  const tdm_value none = {0, 0};
  if (flags & 1) {
    const tdm_multi_head_attention_options options = OPTIONS(
        tdm_multi_head_attention_options, o.batch_first = flags & 2, o.without_bias = flags & 4,
        o.causal = flags & 8, o.padding = flags & 16 ? api_value(self) : none,
        o.dropout = flags & 32 ? api_real(self) : 0, o.mask = flags & 64 ? api_value(self) : none);
    return tdm_multi_head_attention(self->graph, name, query, key, value, heads, &options);
  }
  const tdm_attention_options options = OPTIONS(
      tdm_attention_options, o.heads = heads, o.causal = flags & 8,
      o.padding = flags & 16 ? api_value(self) : none,
      o.scale = flags & 2 ? api_real(self) : TDM_DEFAULT,
      o.dropout = flags & 32 ? api_real(self) : 0, o.mask = flags & 64 ? api_value(self) : none);
  return tdm_attention(self->graph, name, query, key, value, &options);
}

/* ---- Losses ---------------------------------------------------------------------------------- */

static tdm_value call_loss(api *self, const char *name, tdm_value x) {
  static tdm_value (*const calls[])(tdm_graph *, const char *, tdm_value, tdm_value,
                                    const tdm_loss_options *) = {tdm_cross_entropy_with,
                                                                 tdm_nll_with,
                                                                 tdm_binary_cross_entropy_with,
                                                                 tdm_kl_div_with,
                                                                 tdm_mse_with,
                                                                 tdm_l1_with,
                                                                 tdm_smooth_l1_with,
                                                                 tdm_huber_with,
                                                                 tdm_hinge_embedding_with,
                                                                 tdm_soft_margin_with,
                                                                 tdm_multi_margin_with,
                                                                 tdm_multilabel_margin_with,
                                                                 tdm_multilabel_soft_margin_with,
                                                                 tdm_poisson_nll_with};
  static tdm_value (*const of_three[])(tdm_graph *, const char *, tdm_value, tdm_value, tdm_value,
                                       const tdm_loss_options *) = {
      tdm_margin_ranking_with, tdm_cosine_embedding_with, tdm_triplet_margin_with,
      tdm_gaussian_nll_with};
  const uint8_t flags = fuzz_byte(&self->input);
  const tdm_value none = {0, 0};
  const tdm_value targets = api_value(self);
  tdm_loss_options options = tdm_loss_options_default();
  if (flags & 8) {
    const uint8_t more = fuzz_byte(&self->input);
    options.reduction = (tdm_loss_reduction)(more & 3);
    if (more & 4) options.ignore_index = api_size(self);
    options.weight = more & 8 ? api_value(self) : none;
    options.pos_weight = more & 16 ? api_value(self) : none;
    options.label_smoothing = more & 32 ? api_real(self) : 0;
    if (more & 64) options.beta = api_real(self);
    options.log_target = more & 128;
  }
  if (flags & 16) {
    const uint8_t more = fuzz_byte(&self->input);
    const tdm_value third = api_value(self);
    if (more & 8) options.margin = api_real(self);
    if (more & 16) options.p = api_real(self);
    if (more & 32) options.epsilon = api_real(self);
    options.swap = more & 64;
    options.full = options.linear_input = more & 128;
    return of_three[more & 3](self->graph, name, x, targets, third, &options);
  }
  const size_t which = (flags & 7) + (flags & 32 ? 8 : 0);
  return calls[which < TDM_COUNT_OF(calls) ? which : 0](self->graph, name, x, targets, &options);
}

void api_call_layer(api *self, const char *name) {
  static tdm_value (*const calls[])(api *, const char *, tdm_value) = {
      call_unary,     call_binary,  call_with_numbers, call_choice,      call_reduction,
      call_along,     call_reshape, call_pool,         call_convolution, call_linear,
      call_embedding, call_norm,    call_recurrent,    call_attention,   call_loss,
  };
  const uint32_t which = fuzz_below(&self->input, TDM_COUNT_OF(calls) + 1);
  const tdm_value x = api_value(self);
  if (which < TDM_COUNT_OF(calls))
    api_keep(self, calls[which](self, name, x));
  else
    api_keep(self, tdm_dot_interaction(self->graph, name, x, api_bool(self)));
}
