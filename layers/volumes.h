/* Public part of layers/: convolutions and pooling of three dimensions, x (n, channels, depth,
 * height, width), or one volume without n. Included by layers/layers.h, whose rules hold here too.
 * Lists of three numbers are of depth, height and width; PyTorch's padding=1 is
 * {1, 1, 1}. channels must be a size, and depth too. */
#ifndef TANDEM_LAYERS_VOLUMES_H
#define TANDEM_LAYERS_VOLUMES_H

#include "tandem/layers/moves.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_conv3d_options {
  size_t struct_size;
  int64_t stride[3];   /* 1 or more; default {1, 1, 1} */
  int64_t padding[3];  /* zeros on both sides */
  int64_t dilation[3]; /* 1 or more; default {1, 1, 1} */
  int64_t groups;      /* 1 or more; default 1 */
  bool without_bias;
  bool same;                 /* PyTorch's padding="same": y has x's size; strides are 1 */
  tdm_pad_mode padding_mode; /* what x is padded with; other than by zeros as tdm_pad does it */
} tdm_conv3d_options;
static inline tdm_conv3d_options tdm_conv3d_options_default(void) {
  tdm_conv3d_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_conv3d_options);
  options.stride[0] = options.stride[1] = options.stride[2] = 1;
  options.dilation[0] = options.dilation[1] = options.dilation[2] = 1;
  options.groups = 1;
  return options;
}

/* PyTorch's Conv3d: x -> (n, out_channels, depth', height', width'). name.weight (out_channels,
 * channels / groups, kernel...), name.bias (out_channels): uniform within 1/sqrt(channels / groups
 * x kernel). options may be NULL. It is a convolution of two dimensions whose channels are those of
 * as many slices as the kernel is deep, put together first: in memory that many times x. */
TDM_API tdm_value tdm_conv3d(tdm_graph *graph, const char *name, tdm_value x, int64_t out_channels,
                             const int64_t kernel[3], const tdm_conv3d_options *options);

typedef struct tdm_conv_transpose3d_options {
  size_t struct_size;
  int64_t stride[3];         /* 1 or more; default {1, 1, 1} */
  int64_t padding[3];        /* taken away on both sides of y */
  int64_t output_padding[3]; /* added behind y: less than stride or dilation */
  int64_t dilation[3];       /* 1 or more; default {1, 1, 1} */
  int64_t groups;            /* 1 or more; default 1 */
  bool without_bias;
} tdm_conv_transpose3d_options;
static inline tdm_conv_transpose3d_options tdm_conv_transpose3d_options_default(void) {
  tdm_conv_transpose3d_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_conv_transpose3d_options);
  options.stride[0] = options.stride[1] = options.stride[2] = 1;
  options.dilation[0] = options.dilation[1] = options.dilation[2] = 1;
  options.groups = 1;
  return options;
}

/* PyTorch's ConvTranspose3d, whose sizes are those of tdm_conv_transpose2d: all dimensions but n
 * must be sizes. name.weight (channels, out_channels / groups, kernel...), name.bias
 * (out_channels): uniform within 1/sqrt(out_channels / groups x kernel). options may be NULL. */
TDM_API tdm_value tdm_conv_transpose3d(tdm_graph *graph, const char *name, tdm_value x,
                                       int64_t out_channels, const int64_t kernel[3],
                                       const tdm_conv_transpose3d_options *options);

typedef struct tdm_pool3d_options {
  size_t struct_size;
  int64_t stride[3];    /* 1 or more; default TDM_DEFAULT_SIZE: the kernel */
  int64_t padding[3];   /* at most half the kernel; never the maximum */
  int64_t dilation[3];  /* of the maximum only: 1 or more; default {1, 1, 1} */
  bool ceil;            /* a last window may reach beyond the padding */
  bool exclude_padding; /* of the average only: PyTorch's count_include_pad=False */
  int64_t divisor;      /* of the average only: 1 or more; default TDM_DEFAULT_SIZE: the count of
                           the window's elements */
} tdm_pool3d_options;
static inline tdm_pool3d_options tdm_pool3d_options_default(void) {
  tdm_pool3d_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_pool3d_options);
  options.stride[0] = options.stride[1] = options.stride[2] = TDM_DEFAULT_SIZE;
  options.dilation[0] = options.dilation[1] = options.dilation[2] = 1;
  options.divisor = TDM_DEFAULT_SIZE;
  return options;
}

/* options may be NULL. */
TDM_API tdm_value tdm_max_pool3d(tdm_graph *graph, const char *name, tdm_value x,
                                 const int64_t kernel[3], const tdm_pool3d_options *options);
TDM_API tdm_value tdm_avg_pool3d(tdm_graph *graph, const char *name, tdm_value x,
                                 const int64_t kernel[3], const tdm_pool3d_options *options);
/* PyTorch's return_indices, as of tdm_max_pool2d_with_indices: (slice x height + row) x width +
 * column; height and width must be sizes. */
TDM_API tdm_value tdm_max_pool3d_with_indices(tdm_graph *graph, const char *name, tdm_value x,
                                              const int64_t kernel[3],
                                              const tdm_pool3d_options *options,
                                              tdm_value *out_indices);
TDM_API tdm_value tdm_adaptive_max_pool3d_with_indices(tdm_graph *graph, const char *name,
                                                       tdm_value x, const int64_t sizes[3],
                                                       tdm_value *out_indices);
/* Windows that share out x as evenly as may be, so that the result has those sizes. */
TDM_API tdm_value tdm_adaptive_max_pool3d(tdm_graph *graph, const char *name, tdm_value x,
                                          const int64_t sizes[3]);
TDM_API tdm_value tdm_adaptive_avg_pool3d(tdm_graph *graph, const char *name, tdm_value x,
                                          const int64_t sizes[3]);

#ifdef __cplusplus
}
#endif
#endif
