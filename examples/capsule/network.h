/* The capsule network. */
#ifndef EXAMPLES_CAPSULE_NETWORK_H
#define EXAMPLES_CAPSULE_NETWORK_H

#include <tandem/tandem.h>

/* How large a network is. */
typedef struct capsule_network_sizes {
  int64_t kernel;   /* height and width, of both convolutions */
  int64_t channels; /* number of channels of the first convolution */
  int64_t types;    /* number of types of primary capsules */
  int64_t classes;
} capsule_network_sizes;

/* images (batch, 1, height, width), classes (batch) -> the margin loss; *out_scores gets the
 * lengths (batch, classes). Convolutions live on the accelerator and capsules on cpu:0, or
 * everything is wrapped over the devices of parallel; either may be NULL. */
tdm_value capsule_network_describe(tdm_graph *graph, const capsule_network_sizes *sizes,
                                   tdm_value images, tdm_value classes, const char *accelerator,
                                   const char *parallel, tdm_value *out_scores);

#endif
