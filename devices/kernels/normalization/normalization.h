/* Operations: normalization. Part of devices/kernels.h, which describes the notation. */
#ifndef TANDEM_DEVICES_KERNELS_NORMALIZATION_NORMALIZATION_H
#define TANDEM_DEVICES_KERNELS_NORMALIZATION_NORMALIZATION_H

#include <stdint.h>

/* Means that gradients read are float64 for every F: a mean that is large beside the deviation is
 * subtracted with all its digits. */

/* x F (..., normalized), [weight F (normalized)], [bias F (normalized)] -> y F like x, mean float64
 * (...), inverse F (...): y = (x - mean) inverse weight + bias over the last `rank` dimensions,
 * inverse = 1 / sqrt(variance + epsilon) (Ba, Kiros, Hinton, "Layer normalization", 2016). If
 * `uncentered`, mean is 0, and the variance is that from 0 (Zhang, Sennrich, "Root mean square
 * layer normalization", 2019). */
#define TDM_OP_LAYER_NORM "layer_norm"
/* d_y, x, mean, inverse, [weight] -> d_x. */
#define TDM_OP_LAYER_NORM_GRADIENT "layer_norm_gradient"
/* d_y, x, mean, inverse -> d_weight (normalized), d_bias (normalized). Always both. */
#define TDM_OP_LAYER_NORM_PARAMETER_GRADIENT "layer_norm_parameter_gradient"
typedef struct tdm_layer_norm_attributes {
  double epsilon;
  int64_t rank;       /* number of last dimensions that are normalized */
  int64_t uncentered; /* 0 or 1 */
  int64_t is_grouped; /* 0 or 1: x is (n, groups, values), and one value at n = 1 is refused */
} tdm_layer_norm_attributes;

/* x F (n, channels, ...), running_mean F (channels), running_var F (channels), [weight F
 * (channels)], [bias F (channels)] -> y F: (x - running_mean) / sqrt(running_var + epsilon) weight
 * + bias (Ioffe, Szegedy, "Batch normalization", 2015). */
#define TDM_OP_BATCH_NORM "batch_norm"
/* The same operands, of which the running ones are not read -> y, mean float64 (channels), inverse
 * F (channels), variance F (channels), computed from the batch. The variance is divided by the
 * count of elements for y and inverse, and by one less in the output. Without elements they are 0,
 * 1 / sqrt(epsilon), 0. */
#define TDM_OP_BATCH_NORM_TRAINING "batch_norm_training"
/* d_y, x, mean, inverse, [weight] -> d_x, d_weight (channels), d_bias (channels). Both with
 * `instances`: each channel of an image by itself, with (n, channels) for (channels), and neither
 * weight nor bias (Ulyanov, Vedaldi, Lempitsky, "Instance normalization", 2016). */
#define TDM_OP_BATCH_NORM_GRADIENT "batch_norm_gradient"
/* running_mean F (channels), running_var, batches int64 (), mean float64 (channels), variance ->
 * =running_mean,
 * =running_var, =batches: moved by momentum toward the batch's; momentum below 0: their average
 * over all batches. With `instances` batches stay. */
#define TDM_OP_BATCH_NORM_STATISTICS "batch_norm_statistics"
typedef struct tdm_batch_norm_attributes {
  double epsilon;
  double momentum;
  int64_t instances; /* 0 or 1 */
} tdm_batch_norm_attributes;

#endif
