/* Public part of layers/: layers, losses and optimizers with PyTorch's shapes, parameter names,
 * defaults, initial values and numerics. This header has the layers with parameters, images, and
 * some functions; it includes the others:
 *
 * - layers/arrays.h: sorting, einsum, diagonals, norms.
 * - layers/blocks.h: recurrent cells, bilinear forms, transformer layers.
 * - layers/losses.h: losses.
 * - layers/moves.h: slices, permutations, padding, indexing.
 * - layers/optimizers.h and layers/schedules.h: optimizers and learning rate schedules.
 * - layers/pointwise.h: elementwise functions and reductions.
 * - layers/products.h: matrix products and attention.
 * - layers/recurrent.h: RNN, LSTM and GRU.
 * - layers/tables.h: embedding bags.
 * - layers/volumes.h: convolutions and pooling in three dimensions.
 *
 * A layer declares parameters and appends operations to a graph. The conventions of all such
 * functions (graph, name, errors, threads) are at the top of graph/building.h. A function `_with`
 * options is the function without this ending and options that may be NULL, which selects all
 * defaults. */
#ifndef TANDEM_LAYERS_LAYERS_H
#define TANDEM_LAYERS_LAYERS_H

#include "tandem/graph/graph.h"
#include "tandem/layers/arrays.h"
#include "tandem/layers/blocks.h"
#include "tandem/layers/losses.h"
#include "tandem/layers/moves.h"
#include "tandem/layers/optimizers.h"
#include "tandem/layers/pointwise.h"
#include "tandem/layers/products.h"
#include "tandem/layers/recurrent.h"
#include "tandem/layers/schedules.h"
#include "tandem/layers/tables.h"
#include "tandem/layers/volumes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Layers with parameters ------------------------------------------------------------------ */

/* Options of tdm_embedding_with. */
typedef struct tdm_embedding_options {
  size_t struct_size;
  /* Index of a row that is initially zeros and is never trained; negative: from the end. Default
   * TDM_NO_INDEX: none. */
  int64_t padding_index;
  /* true: the gradient of the table consists of rows. Only plain sgd, adagrad without weight decay,
   * and sparse_adam accept it. If the table also has a dense gradient (tdm_tie with a linear layer,
   * or a penalty), the whole gradient is dense, as in PyTorch. Default false. */
  bool sparse;
} tdm_embedding_options;
static inline tdm_embedding_options tdm_embedding_options_default(void) {
  tdm_embedding_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_embedding_options);
  options.padding_index = TDM_NO_INDEX;
  return options;
}

/* Looks up rows of a trained table (torch.nn.Embedding). Declares `name.weight` (rows, dim),
 * normal(0, 1).
 * @param ids (...) int32 or int64, each 0 to rows - 1.
 * @param rows number of rows, 1 or more.
 * @param dim size of a row, 1 or more.
 * @return (..., dim). */
TDM_API tdm_value tdm_embedding(tdm_graph *graph, const char *name, tdm_value ids, int64_t rows,
                                int64_t dim);

/* Looks up rows of a trained table, with options. Otherwise as tdm_embedding. */
TDM_API tdm_value tdm_embedding_with(tdm_graph *graph, const char *name, tdm_value ids,
                                     int64_t rows, int64_t dim,
                                     const tdm_embedding_options *options);

/* Applies a linear layer: y = x weight^T + bias (torch.nn.Linear). Declares `name.weight`
 * (out_features, in) and `name.bias` (out_features), both uniform within +-1/sqrt(in).
 * @param x (..., in) floating; in must be a size.
 * @param out_features 1 or more.
 * @return (..., out_features). */
TDM_API tdm_value tdm_linear(tdm_graph *graph, const char *name, tdm_value x, int64_t out_features);

/* Applies a linear layer without bias: y = x weight^T. Otherwise as tdm_linear. */
TDM_API tdm_value tdm_linear_without_bias(tdm_graph *graph, const char *name, tdm_value x,
                                          int64_t out_features);

/* Options of tdm_layer_norm_with. */
typedef struct tdm_layer_norm_options {
  size_t struct_size;
  /* Added to the variance, which keeps the root positive; not checked. Default 1e-5. */
  double epsilon;
  bool without_affine; /* true: no weight and no bias. Default false. */
  bool without_bias;   /* true: no bias. Default false. */
} tdm_layer_norm_options;
static inline tdm_layer_norm_options tdm_layer_norm_options_default(void) {
  tdm_layer_norm_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_layer_norm_options);
  options.epsilon = 1e-5;
  return options;
}

/* Normalizes x over its last dimensions (torch.nn.LayerNorm): y = (x - mean) / sqrt(variance +
 * epsilon) weight + bias. Declares `name.weight` (ones) and `name.bias` (zeros), of the shape of
 * these dimensions.
 *
 * This and the other normalizations subtract the mean without rounding it, so that equal elements
 * give exactly the bias. Squares of elements may exceed the range of the dtype; the difference of
 * any two elements must not.
 * @param x floating.
 * @param rank number of last dimensions to normalize over, 1 or more; they must be sizes.
 * @return of x's shape. */
TDM_API tdm_value tdm_layer_norm(tdm_graph *graph, const char *name, tdm_value x, int rank);

/* Normalizes x over its last dimensions, with options. Otherwise as tdm_layer_norm. */
TDM_API tdm_value tdm_layer_norm_with(tdm_graph *graph, const char *name, tdm_value x, int rank,
                                      const tdm_layer_norm_options *options);

/* Options of tdm_rms_norm_with. */
typedef struct tdm_rms_norm_options {
  size_t struct_size;
  /* Added to the mean square; not checked. Default TDM_DEFAULT: the machine epsilon of x's dtype.
   */
  double epsilon;
  bool without_affine; /* true: no weight. Default false. */
} tdm_rms_norm_options;
static inline tdm_rms_norm_options tdm_rms_norm_options_default(void) {
  tdm_rms_norm_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_rms_norm_options);
  options.epsilon = TDM_DEFAULT;
  return options;
}

/* Divides x by its root mean square over its last dimensions (torch.nn.RMSNorm): y = x /
 * sqrt(mean(x x) + epsilon) weight. Declares `name.weight` (ones), of the shape of these
 * dimensions.
 * @param x floating.
 * @param rank number of last dimensions, 1 or more; they must be sizes.
 * @return of x's shape. */
TDM_API tdm_value tdm_rms_norm(tdm_graph *graph, const char *name, tdm_value x, int rank);

/* Divides x by its root mean square over its last dimensions, with options. Otherwise as
 * tdm_rms_norm. */
TDM_API tdm_value tdm_rms_norm_with(tdm_graph *graph, const char *name, tdm_value x, int rank,
                                    const tdm_rms_norm_options *options);

/* Options of tdm_group_norm_with. */
typedef struct tdm_group_norm_options {
  size_t struct_size;
  /* Added to the variance, which keeps the root positive; not checked. Default 1e-5. */
  double epsilon;
  bool without_affine; /* true: no weight and no bias. Default false. */
} tdm_group_norm_options;
static inline tdm_group_norm_options tdm_group_norm_options_default(void) {
  tdm_group_norm_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_group_norm_options);
  options.epsilon = 1e-5;
  return options;
}

/* Normalizes each image over groups of neighbouring channels (torch.nn.GroupNorm): y = (x - mean) /
 * sqrt(variance + epsilon) weight + bias. Declares `name.weight` (channels), ones, and `name.bias`
 * (channels), zeros.
 * @param x (n, channels, ...) floating; all dimensions but n must be sizes.
 * @param groups number of groups; it divides channels.
 * @return of x's shape. If a group has one value only, a single image is an error, as in PyTorch,
 *     and several images give 0 before weight and bias. */
TDM_API tdm_value tdm_group_norm(tdm_graph *graph, const char *name, tdm_value x, int64_t groups);

/* Normalizes each image over groups of neighbouring channels, with options. Otherwise as
 * tdm_group_norm. */
TDM_API tdm_value tdm_group_norm_with(tdm_graph *graph, const char *name, tdm_value x,
                                      int64_t groups, const tdm_group_norm_options *options);

/* Options of tdm_instance_norm_with. */
typedef struct tdm_instance_norm_options {
  size_t struct_size;
  /* Added to the variance, which keeps the root positive; not checked. Default 1e-5. */
  double epsilon;
  bool affine; /* true: with weight and bias as in tdm_group_norm. Default false. */
  /* true: PyTorch's track_running_stats. Declares the states `name.running_mean` (zeros) and
   * `name.running_var` (ones). Runs that train normalize by their own statistics, and move the
   * states towards the mean of the images' statistics. Other runs normalize by the states.
   * `name.num_batches_tracked` stays 0, as in PyTorch. Default false. */
  bool track_statistics;
  /* Weight of the new statistics in the running ones. Default 0.1. Negative: the running statistics
   * do not change, PyTorch's None. */
  double momentum;
} tdm_instance_norm_options;
static inline tdm_instance_norm_options tdm_instance_norm_options_default(void) {
  tdm_instance_norm_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_instance_norm_options);
  options.epsilon = 1e-5;
  options.momentum = 0.1;
  return options;
}

/* Normalizes each channel of each image (torch.nn.InstanceNorm): tdm_group_norm with one group per
 * channel, and by default without weight, bias and running statistics.
 * @param x (n, channels, ...) floating; all dimensions but n must be sizes. One element per channel
 *     is an error, except in runs that normalize by running statistics.
 * @return of x's shape. */
TDM_API tdm_value tdm_instance_norm(tdm_graph *graph, const char *name, tdm_value x);

/* Normalizes each channel of each image, with options. Otherwise as tdm_instance_norm. */
TDM_API tdm_value tdm_instance_norm_with(tdm_graph *graph, const char *name, tdm_value x,
                                         const tdm_instance_norm_options *options);

/* Normalizes x over neighbouring channels (torch.nn.LocalResponseNorm): y = x / (k + alpha m)^beta.
 * m is the mean of the squares of `size` channels around each channel; channels that do not exist
 * count as 0.
 * @param x (n, channels, ...) floating; all dimensions but n must be sizes. The squares must be in
 *     the range of the dtype: float32 elements up to 1e19.
 * @param size number of channels, 1 or more.
 * @param alpha PyTorch's default is 1e-4.
 * @param beta PyTorch's default is 0.75.
 * @param k PyTorch's default is 1.
 * @return of x's shape. */
TDM_API tdm_value tdm_local_response_norm(tdm_graph *graph, const char *name, tdm_value x,
                                          int64_t size, double alpha, double beta, double k);

/* ---- Images ---------------------------------------------------------------------------------- */

/* Conventions of layers for images. Functions `2d` take x (n, channels, height, width), and their
 * options have one number for the height and one for the width, as PyTorch's tuples: its stride=2
 * is {2, 2}. Functions `1d` take x (n, channels, width) and read the first number only. channels
 * must be a size. Convolution and pooling also take one image without the dimension n, and return
 * one. Kernels, strides, paddings and dilations are at most 2^31 - 1. layers/volumes.h has the
 * functions of three dimensions.
 *
 * With kernel k, stride s, padding p and dilation d, a size z becomes floor((z + 2 p - d (k - 1) -
 * 1) / s) + 1. */

/* Options of tdm_conv2d and tdm_conv1d. */
typedef struct tdm_conv_options {
  size_t struct_size;
  int64_t stride[2]; /* Step of the kernel, 1 or more. Default {1, 1}. */
  /* Number of elements added on both sides of the height and of the width, 0 or more. Default {0,
   * 0}. */
  int64_t padding[2];
  int64_t dilation[2]; /* Distance of the kernel's elements, 1 or more. Default {1, 1}. */
  /* Number of groups of channels, 1 or more; it divides channels and out_channels. An output
   * channel reads the input channels of its group. Default 1. */
  int64_t groups;
  bool without_bias; /* true: no bias. Default false. */
  /* true: PyTorch's padding="same": the result has x's size. Strides must be 1. Default false. */
  bool same;
  /* Elements that padding adds, as in tdm_pad. Default TDM_PAD_CONSTANT: zeros. */
  tdm_pad_mode padding_mode;
} tdm_conv_options;
static inline tdm_conv_options tdm_conv_options_default(void) {
  tdm_conv_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_conv_options);
  options.stride[0] = options.stride[1] = 1;
  options.dilation[0] = options.dilation[1] = 1;
  options.groups = 1;
  return options;
}

/* Applies a two-dimensional convolution (torch.nn.Conv2d). Declares `name.weight` (out_channels,
 * channels / groups, kernel_height, kernel_width) and `name.bias` (out_channels), both uniform
 * within +-1/sqrt(channels / groups kernel_height kernel_width).
 * @code
 * tdm_conv_options options = tdm_conv_options_default();
 * options.padding[0] = options.padding[1] = 1;
 * tdm_value y = tdm_conv2d(graph, "conv", x, 64, 3, 3, &options);
 * @endcode
 * @param x (n, channels, height, width) floating.
 * @param out_channels 1 or more.
 * @param kernel_height 1 or more.
 * @param kernel_width 1 or more.
 * @param options NULL: all defaults.
 * @return (n, out_channels, height', width'). */
TDM_API tdm_value tdm_conv2d(tdm_graph *graph, const char *name, tdm_value x, int64_t out_channels,
                             int64_t kernel_height, int64_t kernel_width,
                             const tdm_conv_options *options);

/* Applies a one-dimensional convolution (torch.nn.Conv1d). Declares `name.weight` (out_channels,
 * channels / groups, kernel) and `name.bias` (out_channels), both uniform within +-1/sqrt(channels
 * / groups kernel).
 * @param x (n, channels, width) floating.
 * @param out_channels 1 or more.
 * @param kernel 1 or more.
 * @param options NULL: all defaults. Only the first of two numbers is read.
 * @return (n, out_channels, width'). */
TDM_API tdm_value tdm_conv1d(tdm_graph *graph, const char *name, tdm_value x, int64_t out_channels,
                             int64_t kernel, const tdm_conv_options *options);

/* Options of tdm_conv_transpose2d and tdm_conv_transpose1d. */
typedef struct tdm_conv_transpose_options {
  size_t struct_size;
  int64_t stride[2]; /* Step of the kernel in the result, 1 or more. Default {1, 1}. */
  /* Number of elements removed on both sides of the result, 0 or more. Default {0, 0}. */
  int64_t padding[2];
  /* Number of elements added at the end of the result, less than stride or dilation. Default {0,
   * 0}. */
  int64_t output_padding[2];
  int64_t dilation[2]; /* Distance of the kernel's elements, 1 or more. Default {1, 1}. */
  int64_t groups;      /* Number of groups of channels, 1 or more. Default 1. */
  bool without_bias;   /* true: no bias. Default false. */
} tdm_conv_transpose_options;
static inline tdm_conv_transpose_options tdm_conv_transpose_options_default(void) {
  tdm_conv_transpose_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_conv_transpose_options);
  options.stride[0] = options.stride[1] = 1;
  options.dilation[0] = options.dilation[1] = 1;
  options.groups = 1;
  return options;
}

/* Applies a two-dimensional transposed convolution (torch.nn.ConvTranspose2d). Declares
 * `name.weight` (channels, out_channels / groups, kernel_height, kernel_width) and `name.bias`
 * (out_channels), both uniform within +-1/sqrt(out_channels / groups kernel_height kernel_width).
 * @param x (n, channels, height, width) floating; height and width must be sizes.
 * @param out_channels 1 or more.
 * @param kernel_height 1 or more.
 * @param kernel_width 1 or more.
 * @param options NULL: all defaults.
 * @return (n, out_channels, height', width') with height' = (height - 1) stride - 2 padding +
 *     dilation (kernel_height - 1) + output_padding + 1, and width' likewise. */
TDM_API tdm_value tdm_conv_transpose2d(tdm_graph *graph, const char *name, tdm_value x,
                                       int64_t out_channels, int64_t kernel_height,
                                       int64_t kernel_width,
                                       const tdm_conv_transpose_options *options);

/* Applies a one-dimensional transposed convolution (torch.nn.ConvTranspose1d). Declares
 * `name.weight` (channels, out_channels / groups, kernel) and `name.bias` (out_channels). Otherwise
 * as tdm_conv_transpose2d.
 * @param x (n, channels, width) floating; width must be a size.
 * @param out_channels 1 or more.
 * @param kernel 1 or more.
 * @param options NULL: all defaults. Only the first of two numbers is read.
 * @return (n, out_channels, width'). */
TDM_API tdm_value tdm_conv_transpose1d(tdm_graph *graph, const char *name, tdm_value x,
                                       int64_t out_channels, int64_t kernel,
                                       const tdm_conv_transpose_options *options);

/* How tdm_interpolate computes elements between those of x. */
typedef enum tdm_interpolation {
  TDM_INTERPOLATE_NEAREST, /* PyTorch's "nearest": the element at the position rounded down. */
  TDM_INTERPOLATE_LINEAR,  /* "linear", "bilinear" or "trilinear", by the number of sizes. */
  TDM_INTERPOLATE_CUBIC    /* "bicubic"; requires two sizes. */
} tdm_interpolation;

/* Resizes the last dimensions of x (torch.nn.functional.interpolate).
 * @param x (n, channels, ...) floating; the last `count` dimensions must be sizes.
 * @param sizes (count): new sizes of these dimensions, 1 or more each.
 * @param count 1 to 3.
 * @param mode how elements are computed.
 * @param align_corners true: the centres of the first and last elements stay where they are,
 *     instead of their outer borders. Not allowed with TDM_INTERPOLATE_NEAREST.
 * @return (n, channels, sizes...). */
TDM_API tdm_value tdm_interpolate(tdm_graph *graph, const char *name, tdm_value x,
                                  const int64_t *sizes, size_t count, tdm_interpolation mode,
                                  bool align_corners);

/* Options of pooling. */
typedef struct tdm_pool_options {
  size_t struct_size;
  /* Step of the window, 1 or more. Default TDM_DEFAULT_SIZE: the kernel's size in this dimension.
   */
  int64_t stride[2];
  /* Number of elements added on both sides, 0 to half of the kernel's size. They are never the
   * maximum. Default {0, 0}. */
  int64_t padding[2];
  /* For the maximum only: distance of the window's elements, 1 or more. Default {1, 1}. */
  int64_t dilation[2];
  /* true: the number of windows is rounded up, so that the last one may extend beyond the padding.
   * Default false. */
  bool ceil;
  /* For the average only: true: padding does not count, PyTorch's count_include_pad=False. Default
   * false. */
  bool exclude_padding;
  /* For the average only: divisor of the sums, 1 or more. Default TDM_DEFAULT_SIZE: the number of
   * elements in the window. */
  int64_t divisor;
} tdm_pool_options;
static inline tdm_pool_options tdm_pool_options_default(void) {
  tdm_pool_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_pool_options);
  options.stride[0] = options.stride[1] = TDM_DEFAULT_SIZE;
  options.dilation[0] = options.dilation[1] = 1;
  options.divisor = TDM_DEFAULT_SIZE;
  return options;
}

/* Computes the maximum of each window (torch.nn.MaxPool2d). INVALID_ARGUMENT if dilation leaves a
 * window without an element of x.
 * @param x (n, channels, height, width) floating.
 * @param kernel_height height of the window, 1 or more.
 * @param kernel_width width of the window, 1 or more.
 * @param options NULL: all defaults.
 * @return (n, channels, height', width'). */
TDM_API tdm_value tdm_max_pool2d(tdm_graph *graph, const char *name, tdm_value x,
                                 int64_t kernel_height, int64_t kernel_width,
                                 const tdm_pool_options *options);

/* Computes the maximum of each window (torch.nn.MaxPool1d). Otherwise as tdm_max_pool2d.
 * @param x (n, channels, width) floating.
 * @param kernel width of the window, 1 or more.
 * @param options NULL: all defaults. Only the first of two numbers is read.
 * @return (n, channels, width'). */
TDM_API tdm_value tdm_max_pool1d(tdm_graph *graph, const char *name, tdm_value x, int64_t kernel,
                                 const tdm_pool_options *options);

/* Computes the average of each window (torch.nn.AvgPool2d).
 * @param x (n, channels, height, width) floating.
 * @param kernel_height height of the window, 1 or more.
 * @param kernel_width width of the window, 1 or more.
 * @param options NULL: all defaults.
 * @return (n, channels, height', width'). */
TDM_API tdm_value tdm_avg_pool2d(tdm_graph *graph, const char *name, tdm_value x,
                                 int64_t kernel_height, int64_t kernel_width,
                                 const tdm_pool_options *options);

/* Computes the average of each window (torch.nn.AvgPool1d).
 * @param x (n, channels, width) floating.
 * @param kernel width of the window, 1 or more.
 * @param options NULL: all defaults. Only the first of two numbers is read.
 * @return (n, channels, width'). */
TDM_API tdm_value tdm_avg_pool1d(tdm_graph *graph, const char *name, tdm_value x, int64_t kernel,
                                 const tdm_pool_options *options);

/* Computes the maximum of each window and its position (PyTorch's return_indices=True). Otherwise
 * as tdm_max_pool2d.
 * @param out_indices receives int64 values of the result's shape: row x width + column of the
 *     maximum in its plane, the first one of equals. May be NULL. */
TDM_API tdm_value tdm_max_pool2d_with_indices(tdm_graph *graph, const char *name, tdm_value x,
                                              int64_t kernel_height, int64_t kernel_width,
                                              const tdm_pool_options *options,
                                              tdm_value *out_indices);

/* Computes the maximum of each window and its position. Otherwise as tdm_max_pool1d.
 * @param out_indices receives int64 values of the result's shape: the position of the maximum, the
 *     first one of equals. May be NULL. */
TDM_API tdm_value tdm_max_pool1d_with_indices(tdm_graph *graph, const char *name, tdm_value x,
                                              int64_t kernel, const tdm_pool_options *options,
                                              tdm_value *out_indices);

/* Places the elements of x at given positions, with zeros elsewhere (torch.nn.MaxUnpool1d, 2d and
 * 3d).
 * @code
 * const int64_t sizes[] = {28, 28};
 * tdm_value indices;
 * tdm_value pooled = tdm_max_pool2d_with_indices(graph, "pool", x, 2, 2, NULL, &indices);
 * tdm_value y = tdm_max_unpool(graph, "unpool", pooled, indices, sizes, 2);
 * @endcode
 * @param x (n, channels, ...) floating, or without n; all dimensions but n must be sizes, and those
 *     that are pooled must not be 0.
 * @param indices of x's shape: the position of each element in its plane, as
 *     tdm_max_pool2d_with_indices returns it. An index outside of the plane fails the run. If
 *     several elements have one position, the result there is their mean, with the gradient of a
 *     mean; for maxima of overlapping windows this is the maximum.
 * @param sizes (count): sizes of the last dimensions of the result. Without PyTorch's output_size
 *     they are (size - 1) stride - 2 padding + kernel.
 * @param count 1 to 3.
 * @return (n, channels, sizes...). */
TDM_API tdm_value tdm_max_unpool(tdm_graph *graph, const char *name, tdm_value x, tdm_value indices,
                                 const int64_t *sizes, size_t count);

/* Computes maxima of windows that divide x as evenly as possible, so that the result has a given
 * size (torch.nn.AdaptiveMaxPool2d).
 * @param x (n, channels, height, width) floating.
 * @param height height of the result, 1 or more.
 * @param width width of the result, 1 or more.
 * @return (n, channels, height, width). */
TDM_API tdm_value tdm_adaptive_max_pool2d(tdm_graph *graph, const char *name, tdm_value x,
                                          int64_t height, int64_t width);

/* Computes maxima of windows that divide x (n, channels, width') as evenly as possible, so that the
 * result is (n, channels, width). */
TDM_API tdm_value tdm_adaptive_max_pool1d(tdm_graph *graph, const char *name, tdm_value x,
                                          int64_t width);

/* Computes as tdm_adaptive_max_pool2d, and returns the positions of the maxima.
 * @param out_indices as in tdm_max_pool2d_with_indices; may be NULL. */
TDM_API tdm_value tdm_adaptive_max_pool2d_with_indices(tdm_graph *graph, const char *name,
                                                       tdm_value x, int64_t height, int64_t width,
                                                       tdm_value *out_indices);

/* Computes as tdm_adaptive_max_pool1d, and returns the positions of the maxima.
 * @param out_indices as in tdm_max_pool1d_with_indices; may be NULL. */
TDM_API tdm_value tdm_adaptive_max_pool1d_with_indices(tdm_graph *graph, const char *name,
                                                       tdm_value x, int64_t width,
                                                       tdm_value *out_indices);

/* Computes averages of windows that divide x as evenly as possible, so that the result has a given
 * size (torch.nn.AdaptiveAvgPool2d).
 * @param x (n, channels, height, width) floating.
 * @param height height of the result, 1 or more.
 * @param width width of the result, 1 or more.
 * @return (n, channels, height, width). */
TDM_API tdm_value tdm_adaptive_avg_pool2d(tdm_graph *graph, const char *name, tdm_value x,
                                          int64_t height, int64_t width);

/* Computes averages of windows that divide x (n, channels, width') as evenly as possible, so that
 * the result is (n, channels, width). */
TDM_API tdm_value tdm_adaptive_avg_pool1d(tdm_graph *graph, const char *name, tdm_value x,
                                          int64_t width);

/* Options of tdm_batch_norm_with. */
typedef struct tdm_batch_norm_options {
  size_t struct_size;
  /* Added to the variance, which keeps the root positive; not checked. Default 1e-5. */
  double epsilon;
  /* Weight of a batch's statistics in the running ones. Default 0.1. Negative: running statistics
   * are the averages of all batches. */
  double momentum;
  bool without_affine; /* true: no weight and no bias. Default false. */
  /* true: no running statistics; every run normalizes by its own batch. Default false. */
  bool without_statistics;
} tdm_batch_norm_options;
static inline tdm_batch_norm_options tdm_batch_norm_options_default(void) {
  tdm_batch_norm_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_batch_norm_options);
  options.epsilon = 1e-5;
  options.momentum = 0.1;
  return options;
}

/* Normalizes each channel over the batch (torch.nn.BatchNorm1d, 2d and 3d): y = (x - mean) /
 * sqrt(variance + epsilon) weight + bias.
 *
 * Declares the parameters `name.weight` (channels), ones, and `name.bias` (channels), zeros, and
 * the states `name.running_mean` (zeros), `name.running_var` (ones) and `name.num_batches_tracked`
 * (int64). Runs that train normalize by the statistics of their batch, and move the states when
 * they update. Other runs normalize by the states.
 *
 * - In a parallel region every replica normalizes its chunk by the chunk's own statistics; those of
 *   the first replica move the states.
 * - Every micro-batch is normalized by its own statistics; all of them move the states, one after
 *   the other, and are counted.
 * - A batch without elements is counted, but moves nothing.
 * - One value per channel (one row, or one image of one pixel) has no variance. A run that trains
 *   fails with INVALID_ARGUMENT if a batch, a micro-batch or a replica's chunk has only that. This
 *   holds also for sizes that are known only when it runs.
 * @param x (n, channels), (n, channels, width), (n, channels, height, width) or (n, channels,
 *     depth, height, width), floating; channels must be a size.
 * @return of x's shape. */
TDM_API tdm_value tdm_batch_norm(tdm_graph *graph, const char *name, tdm_value x);

/* Normalizes each channel over the batch, with options. Otherwise as tdm_batch_norm. */
TDM_API tdm_value tdm_batch_norm_with(tdm_graph *graph, const char *name, tdm_value x,
                                      const tdm_batch_norm_options *options);

/* ---- Functions ------------------------------------------------------------------------------- */

/* Elementwise functions are in layers/pointwise.h. */

/* Sets random elements to 0 (torch.nn.Dropout). In runs that train, an element becomes 0 with
 * probability p, and x / (1 - p) otherwise. Other runs return x.
 *
 * Which elements become 0 depends on the session's seed, the training step, the path of name and
 * the element's position only. So it does not depend on devices, replicas or the number of threads.
 * @param x floating.
 * @param p probability, 0 to 1. */
TDM_API tdm_value tdm_dropout(tdm_graph *graph, const char *name, tdm_value x, double p);

/* Computes sums of x along dimensions.
 * @code
 * const int dimensions[] = {-1};
 * tdm_value sums = tdm_sum(graph, "sums", x, dimensions, 1, false);
 * @endcode
 * @param x floating.
 * @param dimensions (count): the dimensions to sum over; negative: from the end.
 * @param count 0: all dimensions.
 * @param keep true: these dimensions remain with size 1. false: they are removed. */
TDM_API tdm_value tdm_sum(tdm_graph *graph, const char *name, tdm_value x, const int *dimensions,
                          size_t count, bool keep);

/* Computes means of x along dimensions. The parameters are those of tdm_sum. */
TDM_API tdm_value tdm_mean(tdm_graph *graph, const char *name, tdm_value x, const int *dimensions,
                           size_t count, bool keep);

/* Computes variances of x along dimensions: sum((x - mean)^2) / (n - correction), where n is the
 * number of elements. Equal elements have the variance 0. A variance that exceeds the range of the
 * dtype is infinite; tdm_std is not.
 * @param dimensions (count): as in tdm_sum.
 * @param count 0: all dimensions.
 * @param correction less than the number of elements; PyTorch's default is 1.
 * @param keep as in tdm_sum. */
TDM_API tdm_value tdm_variance(tdm_graph *graph, const char *name, tdm_value x,
                               const int *dimensions, size_t count, double correction, bool keep);

/* Returns the elements of x, in row-major order, in another shape (torch.reshape).
 * @code
 * tdm_value y = tdm_reshape(graph, "y", x, tdm_shape_of(2, TDM_DIM("batch"), TDM_INFER));
 * @endcode
 * @param shape sizes, names, and at most one TDM_INFER. A name stands for the size of x's dimension
 *     of that name, or else of an input's. So (length x batch, features) can become (length, batch,
 *     features) again. One name that x lacks is computed from the number of elements if all other
 *     dimensions are known, and is an input's if x has no elements. */
TDM_API tdm_value tdm_reshape(tdm_graph *graph, const char *name, tdm_value x, tdm_shape shape);

/* Returns x at one index along dimension, without this dimension: x[index] for dimension 0
 * (torch.select).
 * @param dimension negative: from the end.
 * @param index negative: from the end. */
TDM_API tdm_value tdm_select(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                             int64_t index);

/* Returns the last step of x (length, batch, ...): tdm_select of dimension 0 at index -1. */
TDM_API tdm_value tdm_last_step(tdm_graph *graph, const char *name, tdm_value x);

/* Returns x (a, b, ...) as (b, a, ...). */
TDM_API tdm_value tdm_swap_first_dimensions(tdm_graph *graph, const char *name, tdm_value x);

/* Computes e^x / sum(e^x) along dimension (torch.softmax). x is floating. */
TDM_API tdm_value tdm_softmax(tdm_graph *graph, const char *name, tdm_value x, int dimension);

/* Computes x - log(sum(e^x)) along dimension (torch.log_softmax). x is floating. */
TDM_API tdm_value tdm_log_softmax(tdm_graph *graph, const char *name, tdm_value x, int dimension);

/* Converts x to another dtype. Gradients flow between floating dtypes. */
TDM_API tdm_value tdm_cast(tdm_graph *graph, const char *name, tdm_value x, tdm_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
