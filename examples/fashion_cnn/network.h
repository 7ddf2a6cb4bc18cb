/* The convolutional network. */
#ifndef EXAMPLES_FASHION_CNN_NETWORK_H
#define EXAMPLES_FASHION_CNN_NETWORK_H

#include "tandem.h"

/* As clothes_model.describe: convolutions on cpu:0, or wrapped over the devices of parallel; linear
 * layers on the accelerator. */
tdm_value network_describe(tdm_graph *graph, const char *accelerator, const char *parallel);

#endif
