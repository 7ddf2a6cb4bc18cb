/* Calls of layers/volumes.h, blocks.h and of the layers that layers.c does not call: one each,
 * with drawn arguments. */
#include "tests/fuzz/api/api.h"
#include "tests/options.h"

static void draw_sizes(api *self, int64_t *sizes, int count) {
  for (int i = 0; i < count; i++)
    sizes[i] = api_size(self);
}

static void draw_extents(api *self, int64_t *extents, int count) {
  for (int i = 0; i < count; i++)
    extents[i] = api_extent(self);
}

static tdm_value draw_or_none(api *self, bool drawn) {
  return drawn ? api_value(self) : (tdm_value){0, 0};
}

/* ---- Volumes and images ---------------------------------------------------------------------- */

static tdm_value call_volume(api *self, const char *name, tdm_value x) {
  const int64_t out = api_size(self);
  int64_t kernel[3];
  draw_extents(self, kernel, 3);
  const uint8_t flags = fuzz_byte(&self->input);
  tdm_conv3d_options options =
      OPTIONS(tdm_conv3d_options, o.without_bias = flags & 1, o.same = flags & 2,
              o.padding_mode = (tdm_pad_mode)(flags >> 2 & 7));
  if (flags & 32) {
    draw_sizes(self, options.stride, 3);
    draw_sizes(self, options.padding, 3);
    draw_sizes(self, options.dilation, 3);
    options.groups = api_size(self);
  }
  return tdm_conv3d(self->graph, name, x, out, kernel, &options);
}

static tdm_value call_transposed(api *self, const char *name, tdm_value x) {
  const int64_t out = api_size(self);
  int64_t kernel[3];
  draw_extents(self, kernel, 3);
  const uint8_t flags = fuzz_byte(&self->input);
  tdm_conv_transpose3d_options volume =
      OPTIONS(tdm_conv_transpose3d_options, o.without_bias = flags & 1);
  if (flags & 2) {
    draw_sizes(self, volume.stride, 3);
    draw_sizes(self, volume.padding, 3);
    draw_sizes(self, volume.output_padding, 3);
    draw_sizes(self, volume.dilation, 3);
    volume.groups = api_size(self);
  }
  if (flags & 4) return tdm_conv_transpose3d(self->graph, name, x, out, kernel, &volume);
  tdm_conv_transpose_options plane =
      OPTIONS(tdm_conv_transpose_options, o.groups = OR_ONE(volume.groups),
              o.without_bias = volume.without_bias);
  for (int i = 0; i < 2; i++) {
    plane.stride[i] = volume.stride[i];
    plane.padding[i] = volume.padding[i];
    plane.output_padding[i] = volume.output_padding[i];
    plane.dilation[i] = volume.dilation[i];
  }
  return flags & 8 ? tdm_conv_transpose1d(self->graph, name, x, out, kernel[0], &plane)
                   : tdm_conv_transpose2d(self->graph, name, x, out, kernel[0], kernel[1], &plane);
}

static tdm_value call_pool(api *self, const char *name, tdm_value x) {
  tdm_graph *graph = self->graph;
  const uint8_t flags = fuzz_byte(&self->input);
  int64_t kernel[3];
  draw_extents(self, kernel, 3);
  tdm_pool3d_options volume =
      OPTIONS(tdm_pool3d_options, o.ceil = flags & 8, o.exclude_padding = flags & 16);
  tdm_pool_options plane = OPTIONS(tdm_pool_options, o.ceil = flags & 8);
  if (flags & 32) {
    draw_sizes(self, volume.stride, 3);
    draw_sizes(self, volume.padding, 3);
    draw_sizes(self, volume.dilation, 3);
    draw_sizes(self, plane.stride, 2);
    draw_sizes(self, plane.padding, 2);
  }
  tdm_value indices = {0, 0};
  tdm_value y;
  switch (flags & 7) {
  case 0:
    return tdm_max_pool3d(graph, name, x, kernel, &volume);
  case 1:
    return tdm_avg_pool3d(graph, name, x, kernel, &volume);
  case 2:
    return tdm_adaptive_avg_pool3d(graph, name, x, kernel);
  case 3:
    return tdm_adaptive_max_pool3d(graph, name, x, kernel);
  case 4:
    y = tdm_max_pool3d_with_indices(graph, name, x, kernel, &volume, &indices);
    break;
  case 5:
    y = tdm_max_pool2d_with_indices(graph, name, x, kernel[0], kernel[1], &plane, &indices);
    break;
  case 6:
    y = tdm_max_pool1d_with_indices(graph, name, x, kernel[0], &plane, &indices);
    break;
  default:
    y = flags & 64
            ? tdm_adaptive_max_pool3d_with_indices(graph, name, x, kernel, &indices)
            : tdm_adaptive_max_pool2d_with_indices(graph, name, x, kernel[0], kernel[1], &indices);
  }
  api_keep(self, indices);
  return y;
}

static tdm_value call_resized(api *self, const char *name, tdm_value x) {
  int64_t sizes[4];
  const uint32_t count = fuzz_below(&self->input, 5);
  draw_sizes(self, sizes, (int)count);
  if (api_bool(self)) return tdm_max_unpool(self->graph, name, x, api_value(self), sizes, count);
  const tdm_interpolation mode = (tdm_interpolation)fuzz_below(&self->input, 4);
  return tdm_interpolate(self->graph, name, x, sizes, count, mode, api_bool(self));
}

static tdm_value call_norm(api *self, const char *name, tdm_value x) {
  const uint8_t flags = fuzz_byte(&self->input);
  const double epsilon = flags & 4 ? api_real(self) : 0;
  switch (flags & 3) {
  case 0: {
    const tdm_group_norm_options options =
        OPTIONS(tdm_group_norm_options, o.epsilon = epsilon, o.without_affine = flags & 8);
    return tdm_group_norm_with(self->graph, name, x, api_size(self), &options);
  }
  case 1: {
    const tdm_instance_norm_options options =
        OPTIONS(tdm_instance_norm_options, o.epsilon = epsilon, o.affine = flags & 8,
                o.track_statistics = flags & 16, o.momentum = flags & 32 ? api_real(self) : 0.1);
    return tdm_instance_norm_with(self->graph, name, x, &options);
  }
  default: {
    const int64_t size = api_size(self);
    const double alpha = api_real(self);
    const double beta = api_real(self);
    return tdm_local_response_norm(self->graph, name, x, size, alpha, beta, api_real(self));
  }
  }
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static tdm_value call_cell(api *self, const char *name, tdm_value x) {
  const uint8_t flags = fuzz_byte(&self->input);
  const tdm_cell_options options =
      OPTIONS(tdm_cell_options, o.without_bias = flags & 4, o.relu = flags & 8);
  const tdm_value h = draw_or_none(self, flags & 16);
  const int64_t hidden = api_size(self);
  if ((flags & 3) == 0) return tdm_rnn_cell(self->graph, name, x, h, hidden, &options);
  if ((flags & 3) == 1) return tdm_gru_cell(self->graph, name, x, h, hidden, &options);
  tdm_value c = draw_or_none(self, flags & 32);
  const tdm_value y = tdm_lstm_cell(self->graph, name, x, h, c, hidden, &options, &c);
  if (tdm_value_is_valid(y)) api_keep(self, c);
  return y;
}

static tdm_value call_transformer(api *self, const char *name, tdm_value x) {
  const uint8_t flags = fuzz_byte(&self->input);
  const uint8_t more = fuzz_byte(&self->input);
  tdm_transformer_options options = OPTIONS(
      tdm_transformer_options, o.feedforward = api_extent(self),
      o.dropout = flags & 1 ? api_real(self) : 0, o.epsilon = flags & 2 ? api_real(self) : 1e-5,
      o.gelu = flags & 4, o.norm_first = flags & 8, o.batch_first = flags & 16,
      o.causal = flags & 32, o.without_bias = flags & 64);
  options.mask = draw_or_none(self, more & 1);
  options.padding = draw_or_none(self, more & 2);
  const int64_t heads = api_size(self);
  if (flags & 128) return tdm_transformer_encoder_layer(self->graph, name, x, heads, &options);
  options.memory_mask = draw_or_none(self, more & 4);
  options.memory_padding = draw_or_none(self, more & 8);
  const tdm_value memory = api_value(self);
  return tdm_transformer_decoder_layer(self->graph, name, x, memory, heads, &options);
}

static tdm_value call_bilinear(api *self, const char *name, tdm_value a) {
  const tdm_value b = api_value(self);
  const int64_t out = api_size(self);
  return api_bool(self) ? tdm_bilinear(self->graph, name, a, b, out)
                        : tdm_bilinear_without_bias(self->graph, name, a, b, out);
}

static tdm_value call_ctc(api *self, const char *name, tdm_value x) {
  const uint8_t flags = fuzz_byte(&self->input);
  const tdm_value targets = api_value(self);
  const tdm_value input_lengths = api_value(self);
  const tdm_value target_lengths = api_value(self);
  const tdm_loss_options options =
      OPTIONS(tdm_loss_options, o.reduction = (tdm_loss_reduction)(flags & 3),
              o.zero_infinity = flags & 4, o.blank = flags & 8 ? api_size(self) : 0);
  return tdm_ctc_with(self->graph, name, x, targets, input_lengths, target_lengths, &options);
}

void api_call_block(api *self, const char *name) {
  static tdm_value (*const calls[])(api *, const char *, tdm_value) = {
      call_volume, call_transposed,  call_pool,     call_resized, call_norm,
      call_cell,   call_transformer, call_bilinear, call_ctc};
  const uint32_t which = fuzz_below(&self->input, TDM_COUNT_OF(calls));
  api_keep(self, calls[which](self, name, api_value(self)));
}
