/* Evaluates models that compute a score for each class: the class with the highest score is the
 * result. */
#ifndef EXAMPLES_COMMON_CONFUSION_H
#define EXAMPLES_COMMON_CONFUSION_H

#include "examples/common/learner.h"

enum { MOST_CLASSES = 32 };

typedef struct confusion {
  int64_t class_count;                        /* set by the example, as is the next */
  int class_field;                            /* index of a batch's field, int64 (rows) */
  int64_t counts[MOST_CLASSES][MOST_CLASSES]; /* [class of the item][class of the model's output] */
} confusion;

/* Returns a judge of scores float32 (rows, classes); counted is borrowed. */
judge confusion_judge(confusion *counted, const char *score_name);
int64_t confusion_total(const confusion *counted);
/* Returns the share of correct results, 0 without results. */
double confusion_accuracy(const confusion *counted);
/* Returns the share of the items of one class that were classified correctly. */
double confusion_recall(const confusion *counted, int64_t class_index);

#endif
