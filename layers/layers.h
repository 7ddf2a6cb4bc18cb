/* Public part of layers/: layers, losses and optimizers, with PyTorch's shapes, parameter names,
 * defaults, initialisation and numerics. A layer declares parameters and appends operations
 * (graph/graph.h); it knows no device. All functions: one thread (the graph's); an invalid value
 * in gives an invalid value out, the first error sticks to the graph. */
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

/* ---- Layers with parameters ----------------------------------------------------------------- */

typedef struct tdm_embedding_options {
  size_t struct_size;
  /* Index of a row that starts as zeros and is never trained; negative: from the end. Default
   * TDM_NO_INDEX: none. */
  int64_t padding_index;
  /* Gradients as rows: for plain sgd and adagrad, and sparse_adam, only. Where the table also has a
   * dense one (tdm_tie with a linear layer, a penalty), all of it is dense, as PyTorch's. */
  bool sparse;
} tdm_embedding_options;
static inline tdm_embedding_options tdm_embedding_options_default(void) {
  tdm_embedding_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_embedding_options);
  options.padding_index = TDM_NO_INDEX;
  return options;
}

/* ids int32 or int64 (...) -> (..., dim). name.weight (rows, dim), normal(0, 1). */
TDM_API tdm_value tdm_embedding(tdm_graph *graph, const char *name, tdm_value ids, int64_t rows,
                                int64_t dim);
TDM_API tdm_value tdm_embedding_with(tdm_graph *graph, const char *name, tdm_value ids,
                                     int64_t rows, int64_t dim,
                                     const tdm_embedding_options *options);

/* x (..., in) -> (..., out). name.weight (out, in), name.bias (out): uniform within 1/sqrt(in). */
TDM_API tdm_value tdm_linear(tdm_graph *graph, const char *name, tdm_value x, int64_t out_features);
TDM_API tdm_value tdm_linear_without_bias(tdm_graph *graph, const char *name, tdm_value x,
                                          int64_t out_features);

typedef struct tdm_layer_norm_options {
  size_t struct_size;
  double epsilon;      /* default 1e-5 */
  bool without_affine; /* no weight and no bias */
  bool without_bias;
} tdm_layer_norm_options;
static inline tdm_layer_norm_options tdm_layer_norm_options_default(void) {
  tdm_layer_norm_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_layer_norm_options);
  options.epsilon = 1e-5;
  return options;
}

/* Normalizes the last `rank` dimensions of x, which are sizes: (x - mean) / sqrt(variance +
 * epsilon) weight + bias. name.weight (ones), name.bias (zeros), of their shape.
 *
 * This and the other normalizations subtract the mean with all its digits, so that equal elements
 * become the bias exactly, and take elements whose squares leave the range of the dtype; the
 * difference of any two elements must be in it. */
TDM_API tdm_value tdm_layer_norm(tdm_graph *graph, const char *name, tdm_value x, int rank);
TDM_API tdm_value tdm_layer_norm_with(tdm_graph *graph, const char *name, tdm_value x, int rank,
                                      const tdm_layer_norm_options *options);

typedef struct tdm_rms_norm_options {
  size_t struct_size;
  double epsilon;      /* default TDM_DEFAULT: the machine epsilon of x's dtype */
  bool without_affine; /* no weight */
} tdm_rms_norm_options;
static inline tdm_rms_norm_options tdm_rms_norm_options_default(void) {
  tdm_rms_norm_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_rms_norm_options);
  options.epsilon = TDM_DEFAULT;
  return options;
}

/* Divides by the root of the mean square over the last `rank` dimensions of x, which are sizes:
 * x / sqrt(mean(x x) + epsilon) weight. name.weight (ones), of their shape. */
TDM_API tdm_value tdm_rms_norm(tdm_graph *graph, const char *name, tdm_value x, int rank);
TDM_API tdm_value tdm_rms_norm_with(tdm_graph *graph, const char *name, tdm_value x, int rank,
                                    const tdm_rms_norm_options *options);

typedef struct tdm_group_norm_options {
  size_t struct_size;
  double epsilon;      /* default 1e-5 */
  bool without_affine; /* no weight and no bias */
} tdm_group_norm_options;
static inline tdm_group_norm_options tdm_group_norm_options_default(void) {
  tdm_group_norm_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_group_norm_options);
  options.epsilon = 1e-5;
  return options;
}

/* Normalizes x (n, channels, ...), all sizes but n, over each of `groups` groups of neighbouring
 * channels of an image: (x - mean) / sqrt(variance + epsilon) weight + bias. name.weight (channels,
 * ones), name.bias (channels, zeros). options may be NULL. One value per group is refused for one
 * image, as PyTorch refuses it, and normalized to 0 for several. */
TDM_API tdm_value tdm_group_norm(tdm_graph *graph, const char *name, tdm_value x, int64_t groups);
TDM_API tdm_value tdm_group_norm_with(tdm_graph *graph, const char *name, tdm_value x,
                                      int64_t groups, const tdm_group_norm_options *options);

typedef struct tdm_instance_norm_options {
  size_t struct_size;
  double epsilon; /* default 1e-5 */
  bool affine;    /* with weight and bias, as tdm_group_norm has them */
  /* PyTorch's track_running_stats: the mean of the images' statistics moves name.running_mean
   * (zeros at first) and name.running_var (ones) when a run trains; others normalize by these. As
   * there, name.num_batches_tracked stays 0. */
  bool track_statistics;
  double momentum; /* of these; default 0.1; negative: they stay as they are, PyTorch's None */
} tdm_instance_norm_options;
static inline tdm_instance_norm_options tdm_instance_norm_options_default(void) {
  tdm_instance_norm_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_instance_norm_options);
  options.epsilon = 1e-5;
  options.momentum = 0.1;
  return options;
}

/* The same over each channel of an image; without weight and bias, and without running statistics,
 * unless options say so, as PyTorch's. Images of one element per channel are refused, except in
 * runs that normalize by running statistics. */
TDM_API tdm_value tdm_instance_norm(tdm_graph *graph, const char *name, tdm_value x);
TDM_API tdm_value tdm_instance_norm_with(tdm_graph *graph, const char *name, tdm_value x,
                                         const tdm_instance_norm_options *options);

/* x / (k + alpha mean of the squares of `size` channels around)^beta, channels beyond the first and
 * the last being 0: x (n, channels, ...), all sizes but n. PyTorch's defaults are 1e-4, 0.75, 1.
 * The squares must be in the range of the dtype: of float32, elements up to 1e19. */
TDM_API tdm_value tdm_local_response_norm(tdm_graph *graph, const char *name, tdm_value x,
                                          int64_t size, double alpha, double beta, double k);

/* ---- Images ---------------------------------------------------------------------------------- */
/* No kernel, stride, padding or dilation is beyond 2^31 - 1.
 * 2d: x (n, channels, height, width), and options have a number for the height and one for the
 * width, PyTorch's tuples: its stride=2 is {2, 2}. 1d: x (n, channels, width), and only the first
 * number is read. channels must be a size. Convolutions
 * and pooling also take one image, without n, and answer one. layers/volumes.h has those of three
 * dimensions. */

typedef struct tdm_conv_options {
  size_t struct_size;
  int64_t stride[2];   /* 1 or more; default {1, 1} */
  int64_t padding[2];  /* zeros on both sides, of the height and of the width; default {0, 0} */
  int64_t dilation[2]; /* 1 or more; default {1, 1} */
  int64_t groups;      /* 1 or more; default 1 */
  bool without_bias;
  bool same;                 /* PyTorch's padding="same": y has x's size; strides are 1 */
  tdm_pad_mode padding_mode; /* what x is padded with; other than by zeros as tdm_pad does it */
} tdm_conv_options;
static inline tdm_conv_options tdm_conv_options_default(void) {
  tdm_conv_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_conv_options);
  options.stride[0] = options.stride[1] = 1;
  options.dilation[0] = options.dilation[1] = 1;
  options.groups = 1;
  return options;
}

/* x -> (n, out_channels, height', width'). name.weight (out_channels, channels / groups,
 * kernel_height, kernel_width), name.bias (out_channels): uniform within 1/sqrt(channels / groups x
 * kernel). options may be NULL. */
TDM_API tdm_value tdm_conv2d(tdm_graph *graph, const char *name, tdm_value x, int64_t out_channels,
                             int64_t kernel_height, int64_t kernel_width,
                             const tdm_conv_options *options);
TDM_API tdm_value tdm_conv1d(tdm_graph *graph, const char *name, tdm_value x, int64_t out_channels,
                             int64_t kernel, const tdm_conv_options *options);

typedef struct tdm_conv_transpose_options {
  size_t struct_size;
  int64_t stride[2];         /* 1 or more; default {1, 1} */
  int64_t padding[2];        /* taken away on both sides of y */
  int64_t output_padding[2]; /* added behind y: less than stride or dilation */
  int64_t dilation[2];       /* 1 or more; default {1, 1} */
  int64_t groups;            /* 1 or more; default 1 */
  bool without_bias;
} tdm_conv_transpose_options;
static inline tdm_conv_transpose_options tdm_conv_transpose_options_default(void) {
  tdm_conv_transpose_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_conv_transpose_options);
  options.stride[0] = options.stride[1] = 1;
  options.dilation[0] = options.dilation[1] = 1;
  options.groups = 1;
  return options;
}

/* PyTorch's ConvTranspose: x -> (n, out_channels, (height - 1) stride - 2 padding + dilation
 * (kernel
 * - 1) + output_padding + 1, width'); height and width must be sizes. name.weight (channels,
 * out_channels / groups, kernel_height, kernel_width), name.bias (out_channels): uniform within
 * 1/sqrt(out_channels / groups x kernel). options may be NULL. */
TDM_API tdm_value tdm_conv_transpose2d(tdm_graph *graph, const char *name, tdm_value x,
                                       int64_t out_channels, int64_t kernel_height,
                                       int64_t kernel_width,
                                       const tdm_conv_transpose_options *options);
TDM_API tdm_value tdm_conv_transpose1d(tdm_graph *graph, const char *name, tdm_value x,
                                       int64_t out_channels, int64_t kernel,
                                       const tdm_conv_transpose_options *options);

typedef enum tdm_interpolation {
  TDM_INTERPOLATE_NEAREST, /* PyTorch's "nearest": of the place below */
  TDM_INTERPOLATE_LINEAR,  /* "linear", "bilinear" and "trilinear", by the count of sizes */
  TDM_INTERPOLATE_CUBIC    /* "bicubic": of two sizes */
} tdm_interpolation;

/* PyTorch's interpolate: x (n, channels, ...) with its `count` last dimensions, which are sizes, as
 * large as sizes say. align_corners: not of the nearest; the first and last elements stay where
 * they are, instead of the borders. */
TDM_API tdm_value tdm_interpolate(tdm_graph *graph, const char *name, tdm_value x,
                                  const int64_t *sizes, size_t count, tdm_interpolation mode,
                                  bool align_corners);

typedef struct tdm_pool_options {
  size_t struct_size;
  int64_t stride[2];    /* 1 or more; default TDM_DEFAULT_SIZE: the kernel, of each dimension */
  int64_t padding[2];   /* at most half the kernel; never the maximum */
  int64_t dilation[2];  /* of the maximum only: 1 or more; default {1, 1} */
  bool ceil;            /* a last window may reach beyond the padding */
  bool exclude_padding; /* of the average only: PyTorch's count_include_pad=False */
  int64_t divisor;      /* of the average only: 1 or more; default TDM_DEFAULT_SIZE: the count of
                           the window's elements */
} tdm_pool_options;
static inline tdm_pool_options tdm_pool_options_default(void) {
  tdm_pool_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_pool_options);
  options.stride[0] = options.stride[1] = TDM_DEFAULT_SIZE;
  options.dilation[0] = options.dilation[1] = 1;
  options.divisor = TDM_DEFAULT_SIZE;
  return options;
}

/* A window that dilation leaves without any element of x is INVALID_ARGUMENT. options may be NULL.
 */
TDM_API tdm_value tdm_max_pool2d(tdm_graph *graph, const char *name, tdm_value x,
                                 int64_t kernel_height, int64_t kernel_width,
                                 const tdm_pool_options *options);
TDM_API tdm_value tdm_max_pool1d(tdm_graph *graph, const char *name, tdm_value x, int64_t kernel,
                                 const tdm_pool_options *options);
TDM_API tdm_value tdm_avg_pool2d(tdm_graph *graph, const char *name, tdm_value x,
                                 int64_t kernel_height, int64_t kernel_width,
                                 const tdm_pool_options *options);
TDM_API tdm_value tdm_avg_pool1d(tdm_graph *graph, const char *name, tdm_value x, int64_t kernel,
                                 const tdm_pool_options *options);
/* PyTorch's return_indices: where each maximum is in its plane, row x width + column, the first of
 * equals, as int64 like y; out_indices may be NULL. */
TDM_API tdm_value tdm_max_pool2d_with_indices(tdm_graph *graph, const char *name, tdm_value x,
                                              int64_t kernel_height, int64_t kernel_width,
                                              const tdm_pool_options *options,
                                              tdm_value *out_indices);
TDM_API tdm_value tdm_max_pool1d_with_indices(tdm_graph *graph, const char *name, tdm_value x,
                                              int64_t kernel, const tdm_pool_options *options,
                                              tdm_value *out_indices);
/* PyTorch's MaxUnpool1d, 2d and 3d: x (n, channels, ...), or without n, with its `count` last
 * dimensions as large as sizes say, 1 to 3; each element stands where indices, like x, name it in
 * its plane, and zeros elsewhere. PyTorch's own size, without output_size, is (size - 1) stride - 2
 * padding + kernel. Where several are named to one place, it is their mean, with that gradient: of
 * maxima of windows that overlap the maximum. All dimensions but n must be sizes, no window's count
 * 0. An index beyond the plane fails the run. */
TDM_API tdm_value tdm_max_unpool(tdm_graph *graph, const char *name, tdm_value x, tdm_value indices,
                                 const int64_t *sizes, size_t count);
/* Windows that share out x as evenly as may be, so that the result has that size. */
TDM_API tdm_value tdm_adaptive_max_pool2d(tdm_graph *graph, const char *name, tdm_value x,
                                          int64_t height, int64_t width);
TDM_API tdm_value tdm_adaptive_max_pool1d(tdm_graph *graph, const char *name, tdm_value x,
                                          int64_t width);
TDM_API tdm_value tdm_adaptive_max_pool2d_with_indices(tdm_graph *graph, const char *name,
                                                       tdm_value x, int64_t height, int64_t width,
                                                       tdm_value *out_indices);
TDM_API tdm_value tdm_adaptive_max_pool1d_with_indices(tdm_graph *graph, const char *name,
                                                       tdm_value x, int64_t width,
                                                       tdm_value *out_indices);
TDM_API tdm_value tdm_adaptive_avg_pool2d(tdm_graph *graph, const char *name, tdm_value x,
                                          int64_t height, int64_t width);
TDM_API tdm_value tdm_adaptive_avg_pool1d(tdm_graph *graph, const char *name, tdm_value x,
                                          int64_t width);

typedef struct tdm_batch_norm_options {
  size_t struct_size;
  double epsilon;          /* default 1e-5 */
  double momentum;         /* default 0.1; negative: running statistics are averages over all
                              batches */
  bool without_affine;     /* no weight and no bias */
  bool without_statistics; /* every run normalizes by its own batch */
} tdm_batch_norm_options;
static inline tdm_batch_norm_options tdm_batch_norm_options_default(void) {
  tdm_batch_norm_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_batch_norm_options);
  options.epsilon = 1e-5;
  options.momentum = 0.1;
  return options;
}

/* PyTorch's BatchNorm1d, 2d and 3d: x (n, channels), (n, channels, width), (n, channels, height,
 * width) or (n, channels, depth, height, width). Runs that train normalize by the batch, and move
 * name.running_mean (zeros at first), name.running_var (ones) and name.num_batches_tracked (int64)
 * when they update; others normalize by these. name.weight (ones), name.bias (zeros). In a parallel
 * region every replica takes its own chunk's statistics, and the first one's are kept; so does
 * every micro-batch, and all of them are kept and counted, one after the other. A batch without
 * elements is counted, and moves nothing. One value per channel (one row, or one image of one
 * pixel) has no variance: a run that trains is refused with INVALID_ARGUMENT where a batch, a
 * micro-batch or a replica's chunk is that, also if the size of the batch is known only when it
 * runs. */
TDM_API tdm_value tdm_batch_norm(tdm_graph *graph, const char *name, tdm_value x);
TDM_API tdm_value tdm_batch_norm_with(tdm_graph *graph, const char *name, tdm_value x,
                                      const tdm_batch_norm_options *options);

/* ---- Functions ------------------------------------------------------------------------------- */
/* Those that work element by element are layers/pointwise.h's. */

/* In runs that train: 0 with probability p, else x / (1 - p); in others x itself. Which elements go
 * depends on the session's seed, the step, the path of name and an element's place, so not on
 * devices, replicas or teams. */
TDM_API tdm_value tdm_dropout(tdm_graph *graph, const char *name, tdm_value x, double p);
/* Over `count` dimensions of x (negative: from the end; count 0: all of them), which stay as 1 if
 * keep, else go. */
TDM_API tdm_value tdm_sum(tdm_graph *graph, const char *name, tdm_value x, const int *dimensions,
                          size_t count, bool keep);
TDM_API tdm_value tdm_mean(tdm_graph *graph, const char *name, tdm_value x, const int *dimensions,
                           size_t count, bool keep);
/* The mean of the squared distances from the mean, over n - correction instead of n elements;
 * PyTorch's default correction is 1. Equal elements have the variance 0. A variance beyond the
 * range of the dtype is infinite; tdm_std is not. */
TDM_API tdm_value tdm_variance(tdm_graph *graph, const char *name, tdm_value x,
                               const int *dimensions, size_t count, double correction, bool keep);
/* shape: sizes, names, and at most one TDM_INFER. A name is the size of x's dimension of that name,
 * or else of an input's that is fed, so that (length x batch, features) can be seen as (length,
 * batch, features) again. One name that x lacks, where all else is known, follows from its
 * elements; where these are none, it is an input's. */
TDM_API tdm_value tdm_reshape(tdm_graph *graph, const char *name, tdm_value x, tdm_shape shape);
/* x without dimension (negative: from the end), at index (negative: from the end). */
TDM_API tdm_value tdm_select(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                             int64_t index);
/* The last step of (length, batch, ...): tdm_select of dimension 0 at -1. */
TDM_API tdm_value tdm_last_step(tdm_graph *graph, const char *name, tdm_value x);
/* (a, b, ...) -> (b, a, ...). */
TDM_API tdm_value tdm_swap_first_dimensions(tdm_graph *graph, const char *name, tdm_value x);
TDM_API tdm_value tdm_softmax(tdm_graph *graph, const char *name, tdm_value x, int dimension);
TDM_API tdm_value tdm_log_softmax(tdm_graph *graph, const char *name, tdm_value x, int dimension);
/* x as dtype; differentiable between floating dtypes. */
TDM_API tdm_value tdm_cast(tdm_graph *graph, const char *name, tdm_value x, tdm_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
