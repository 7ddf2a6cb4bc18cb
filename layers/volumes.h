/* Public part of layers/: convolution and pooling in three dimensions. Included by layers/layers.h.
 * The conventions of functions that build a graph are at the top of graph/building.h.
 *
 * x is (n, channels, depth, height, width), or one volume without n. channels and depth must be
 * sizes. Arrays of three numbers are for depth, height and width; PyTorch's padding=1 is {1, 1, 1}.
 */
#ifndef TANDEM_LAYERS_VOLUMES_H
#define TANDEM_LAYERS_VOLUMES_H

#include "tandem/layers/moves.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Options of tdm_conv3d. */
typedef struct tdm_conv3d_options {
  size_t struct_size;
  int64_t stride[3]; /* Step of the kernel, 1 or more. Default {1, 1, 1}. */
  /* Number of elements added on both sides, 0 or more. Default {0, 0, 0}. */
  int64_t padding[3];
  int64_t dilation[3]; /* Distance of the kernel's elements, 1 or more. Default {1, 1, 1}. */
  int64_t groups;      /* Number of groups of channels, 1 or more. Default 1. */
  bool without_bias;   /* true: no bias. Default false. */
  /* true: PyTorch's padding="same": the result has x's size. Strides must be 1. Default false. */
  bool same;
  /* Elements that padding adds, as in tdm_pad. Default TDM_PAD_CONSTANT: zeros. */
  tdm_pad_mode padding_mode;
} tdm_conv3d_options;
static inline tdm_conv3d_options tdm_conv3d_options_default(void) {
  tdm_conv3d_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_conv3d_options);
  options.stride[0] = options.stride[1] = options.stride[2] = 1;
  options.dilation[0] = options.dilation[1] = options.dilation[2] = 1;
  options.groups = 1;
  return options;
}

/* Applies a three-dimensional convolution (torch.nn.Conv3d). Declares `name.weight` (out_channels,
 * channels / groups, kernel...) and `name.bias` (out_channels), both uniform within
 * +-1/sqrt(channels / groups times the kernel's elements).
 *
 * It is computed as a two-dimensional convolution, after the slices under the kernel have been
 * combined as channels. This takes memory of x times the kernel's depth.
 * @param out_channels 1 or more.
 * @param kernel sizes of the kernel, 1 or more.
 * @param options NULL: all defaults.
 * @return (n, out_channels, depth', height', width'). */
TDM_API tdm_value tdm_conv3d(tdm_graph *graph, const char *name, tdm_value x, int64_t out_channels,
                             const int64_t kernel[3], const tdm_conv3d_options *options);

/* Options of tdm_conv_transpose3d. */
typedef struct tdm_conv_transpose3d_options {
  size_t struct_size;
  int64_t stride[3]; /* Step of the kernel in the result, 1 or more. Default {1, 1, 1}. */
  /* Number of elements removed on both sides of the result, 0 or more. Default {0, 0, 0}. */
  int64_t padding[3];
  /* Number of elements added at the end of the result, less than stride or dilation. Default {0, 0,
   * 0}. */
  int64_t output_padding[3];
  int64_t dilation[3]; /* Distance of the kernel's elements, 1 or more. Default {1, 1, 1}. */
  int64_t groups;      /* Number of groups of channels, 1 or more. Default 1. */
  bool without_bias;   /* true: no bias. Default false. */
} tdm_conv_transpose3d_options;
static inline tdm_conv_transpose3d_options tdm_conv_transpose3d_options_default(void) {
  tdm_conv_transpose3d_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_conv_transpose3d_options);
  options.stride[0] = options.stride[1] = options.stride[2] = 1;
  options.dilation[0] = options.dilation[1] = options.dilation[2] = 1;
  options.groups = 1;
  return options;
}

/* Applies a three-dimensional transposed convolution (torch.nn.ConvTranspose3d). All dimensions but
 * n must be sizes. Declares `name.weight` (channels, out_channels / groups, kernel...) and
 * `name.bias` (out_channels), both uniform within +-1/sqrt(out_channels / groups times the kernel's
 * elements).
 * @param out_channels 1 or more.
 * @param kernel sizes of the kernel, 1 or more.
 * @param options NULL: all defaults.
 * @return (n, out_channels, depth', height', width'), with sizes as in tdm_conv_transpose2d. */
TDM_API tdm_value tdm_conv_transpose3d(tdm_graph *graph, const char *name, tdm_value x,
                                       int64_t out_channels, const int64_t kernel[3],
                                       const tdm_conv_transpose3d_options *options);

/* Options of pooling in three dimensions. */
typedef struct tdm_pool3d_options {
  size_t struct_size;
  /* Step of the window, 1 or more. Default TDM_DEFAULT_SIZE: the kernel's size in this dimension.
   */
  int64_t stride[3];
  /* Number of elements added on both sides, 0 to half of the kernel's size. They are never the
   * maximum. Default {0, 0, 0}. */
  int64_t padding[3];
  /* For the maximum only: distance of the window's elements, 1 or more. Default {1, 1, 1}. */
  int64_t dilation[3];
  /* true: the number of windows is rounded up, so that the last one may extend beyond the padding.
   * Default false. */
  bool ceil;
  /* For the average only: true: padding does not count, PyTorch's count_include_pad=False. Default
   * false. */
  bool exclude_padding;
  /* For the average only: divisor of the sums, 1 or more. Default TDM_DEFAULT_SIZE: the number of
   * elements in the window. */
  int64_t divisor;
} tdm_pool3d_options;
static inline tdm_pool3d_options tdm_pool3d_options_default(void) {
  tdm_pool3d_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_pool3d_options);
  options.stride[0] = options.stride[1] = options.stride[2] = TDM_DEFAULT_SIZE;
  options.dilation[0] = options.dilation[1] = options.dilation[2] = 1;
  options.divisor = TDM_DEFAULT_SIZE;
  return options;
}

/* Computes the maximum of each window (torch.nn.MaxPool3d).
 * @param kernel sizes of the window, 1 or more.
 * @param options NULL: all defaults.
 * @return (n, channels, depth', height', width'). */
TDM_API tdm_value tdm_max_pool3d(tdm_graph *graph, const char *name, tdm_value x,
                                 const int64_t kernel[3], const tdm_pool3d_options *options);

/* Computes the average of each window (torch.nn.AvgPool3d).
 * @param kernel sizes of the window, 1 or more.
 * @param options NULL: all defaults.
 * @return (n, channels, depth', height', width'). */
TDM_API tdm_value tdm_avg_pool3d(tdm_graph *graph, const char *name, tdm_value x,
                                 const int64_t kernel[3], const tdm_pool3d_options *options);

/* Computes the maximum of each window and its position (PyTorch's return_indices=True). Otherwise
 * as tdm_max_pool3d. height and width must be sizes.
 * @param out_indices receives int64 values of the result's shape: (slice x height + row) x width +
 *     column, the first one of equals. May be NULL. */
TDM_API tdm_value tdm_max_pool3d_with_indices(tdm_graph *graph, const char *name, tdm_value x,
                                              const int64_t kernel[3],
                                              const tdm_pool3d_options *options,
                                              tdm_value *out_indices);

/* Computes as tdm_adaptive_max_pool3d, and returns the positions of the maxima.
 * @param out_indices as in tdm_max_pool3d_with_indices; may be NULL. */
TDM_API tdm_value tdm_adaptive_max_pool3d_with_indices(tdm_graph *graph, const char *name,
                                                       tdm_value x, const int64_t sizes[3],
                                                       tdm_value *out_indices);

/* Computes maxima of windows that divide x as evenly as possible, so that the result has given
 * sizes (torch.nn.AdaptiveMaxPool3d).
 * @param sizes of the result: depth, height and width, 1 or more.
 * @return (n, channels, sizes...). */
TDM_API tdm_value tdm_adaptive_max_pool3d(tdm_graph *graph, const char *name, tdm_value x,
                                          const int64_t sizes[3]);

/* Computes averages of windows that divide x as evenly as possible, so that the result has given
 * sizes (torch.nn.AdaptiveAvgPool3d).
 * @param sizes of the result: depth, height and width, 1 or more.
 * @return (n, channels, sizes...). */
TDM_API tdm_value tdm_adaptive_avg_pool3d(tdm_graph *graph, const char *name, tdm_value x,
                                          const int64_t sizes[3]);

#ifdef __cplusplus
}
#endif
#endif
