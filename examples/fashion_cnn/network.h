/* The convolutional network. */
#ifndef EXAMPLES_FASHION_CNN_NETWORK_H
#define EXAMPLES_FASHION_CNN_NETWORK_H

#include <tandem/tandem.h>

/* How large a network is. */
typedef struct fashion_network_sizes {
  int64_t image;       /* height and width, a multiple of 4 */
  int64_t channels[2]; /* numbers of output channels of the convolutions */
  int64_t hidden;      /* width of the first linear layer */
  int64_t classes;
} fashion_network_sizes;

/* images (batch, 1, image, image), classes (batch) -> the loss; *out_scores gets the scores (batch,
 * classes). Convolutions live on cpu:0, or are wrapped over the devices of parallel; linear layers
 * live on the accelerator; either may be NULL. */
tdm_value fashion_network_describe(tdm_graph *graph, const fashion_network_sizes *sizes,
                                   tdm_value images, tdm_value classes, const char *accelerator,
                                   const char *parallel, tdm_value *out_scores);

#endif
