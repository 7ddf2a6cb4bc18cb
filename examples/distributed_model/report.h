/* The report at the end of the program. */
#ifndef EXAMPLES_DISTRIBUTED_MODEL_REPORT_H
#define EXAMPLES_DISTRIBUTED_MODEL_REPORT_H

#include "examples/distributed_model/train.h"

/* Prints a row per language: the number of its words that the model assigned to each language. */
void report_confusion(word_set *words, const confusion *counted);
/* Prints the most probable languages of each word. */
tdm_status report_predictions(model *asked, char *const *words, int count);

#endif
