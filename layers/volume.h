/* What convolutions and pooling of three dimensions share: lists of three numbers, and how a volume
 * is read. */
#ifndef TANDEM_LAYERS_VOLUME_H
#define TANDEM_LAYERS_VOLUME_H

#include "tandem/layers/layers.h"

enum { TDM_DEPTH, TDM_HEIGHT, TDM_WIDTH, TDM_VOLUME_AXES };
#define TDM_VOLUME_RANK 5 /* n, channels, depth, height, width */

/* x (n, channels, depth, height, width), one volume as a batch of itself, and its shape; false with
 * the graph's error. */
bool tdm_volume_read(tdm_graph *graph, const char *layer, const char *name, tdm_value *x,
                     bool *out_single, tdm_shape *out_shape);
/* y without its first dimension again, if x was one volume. */
tdm_value tdm_volume_finish(tdm_graph *graph, const char *name, tdm_value y, bool single);
/* Is the list there? If not, the graph's error says so. */
bool tdm_volume_has_list(tdm_graph *graph, const char *layer, const char *name,
                         const int64_t *list);

/* A transposed convolution of two dimensions with a weight that is there, (channels, out / groups,
 * height, width), without bias; all dimensions of x but n are sizes. */
tdm_value tdm_conv_transpose_of(tdm_graph *graph, const char *name, tdm_value x, tdm_value weight,
                                const tdm_conv_transpose_options *options);

#endif
