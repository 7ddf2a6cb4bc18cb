/* Code that three-dimensional convolutions and pooling share: lists of three numbers, and reading
 * of volumes. */
#ifndef TANDEM_LAYERS_CONVOLUTION_VOLUME_H
#define TANDEM_LAYERS_CONVOLUTION_VOLUME_H

#include "tandem/layers/layers.h"

enum { TDM_DEPTH, TDM_HEIGHT, TDM_WIDTH, TDM_VOLUME_AXES };
#define TDM_VOLUME_RANK 5 /* n, channels, depth, height, width */

/* Converts x to a batch (n, channels, depth, height, width), a single volume to a batch of one, and
 * writes its shape. Returns false with the graph's error. */
bool tdm_volume_read(tdm_graph *graph, const char *layer, const char *name, tdm_value *x,
                     bool *out_single, tdm_shape *out_shape);
/* Removes the first dimension of y again if x was a single volume. */
tdm_value tdm_volume_finish(tdm_graph *graph, const char *name, tdm_value y, bool single);
/* Returns true if the list is not NULL; otherwise the graph has an error. */
bool tdm_volume_has_list(tdm_graph *graph, const char *layer, const char *name,
                         const int64_t *list);

/* Appends a two-dimensional transposed convolution with an existing weight, (channels, out /
 * groups, height, width), without bias. All dimensions of x except n are sizes. */
tdm_value tdm_conv_transpose_of(tdm_graph *graph, const char *name, tdm_value x, tdm_value weight,
                                const tdm_conv_transpose_options *options);

#endif
