/* Training and evaluation over the words. One thread. */
#ifndef EXAMPLES_DISTRIBUTED_MODEL_TRAIN_H
#define EXAMPLES_DISTRIBUTED_MODEL_TRAIN_H

#include "examples/common/confusion.h"
#include "examples/distributed_model/model.h"

/* Trains for the options' epochs, printing a line an epoch, and evaluates after each; once, without
 * training, where there are none. out_last gets the last evaluation. Then explains the plan of a
 * training step on words of the most common length, as the options ask. */
tdm_status train_model(model *trained, const options *given, confusion *out_last);

#endif
