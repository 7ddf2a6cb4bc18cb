/* The report at the end of the program. */
#ifndef EXAMPLES_DISTRIBUTED_MODEL_REPORT_H
#define EXAMPLES_DISTRIBUTED_MODEL_REPORT_H

#include "examples/distributed_model/train.h"

/* A row a language: of its words, how many the model took for each. */
void report_confusion(word_set *words, const confusion *counted);
/* The likeliest languages of each word. */
tdm_status report_predictions(model *asked, char *const *words, int count);

#endif
