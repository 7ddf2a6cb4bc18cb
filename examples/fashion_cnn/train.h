/* The network, its training and its evaluation. One thread. */
#ifndef EXAMPLES_FASHION_CNN_TRAIN_H
#define EXAMPLES_FASHION_CNN_TRAIN_H

#include "examples/fashion_cnn/data.h"
#include "examples/fashion_cnn/options.h"

typedef struct network {
  tdm_context *context; /* borrowed */
  tdm_graph *graph;
  tdm_session *session;
} network;

typedef struct evaluation {
  int64_t image_count;
  int64_t correct_count;
  int64_t found[CLASS_COUNT]; /* correct ones of each class */
  int64_t there[CLASS_COUNT]; /* all of each class */
} evaluation;

static inline double evaluation_accuracy(const evaluation *measured) {
  return measured->image_count ? (double)measured->correct_count / (double)measured->image_count
                               : 0;
}

/* Released by network_release, also after a failure. */
tdm_status network_create(tdm_context *context, const options *given, network *out_network);
void network_release(network *released);

/* Trains for the options' epochs, printing a line an epoch, and evaluates after each; once, without
 * training, where there are none. out_last gets the last evaluation. */
tdm_status train_network(network *trained, const options *given, tdm_dataset *training,
                         tdm_dataset *test, evaluation *out_last);

#endif
