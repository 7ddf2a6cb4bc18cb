/* Counts results by class. */
#include "examples/common/confusion.h"

#include <string.h>

static void begin(void *user) {
  confusion *counted = user;
  memset(counted->counts, 0, sizeof counted->counts);
}

/* scores (classes). */
static int64_t best_of(const float *scores, int64_t classes) {
  int64_t best = 0;
  for (int64_t i = 1; i < classes; i++)
    if (scores[i] > scores[best]) best = i;
  return best;
}

static tdm_status count(void *user, const batch *asked, const tdm_tensor *answers) {
  confusion *counted = user;
  const int64_t classes = counted->class_count;
  const float *scores = tdm_tensor_data(answers);                              /* (rows, classes) */
  const int64_t *right = tdm_tensor_data(asked->fields[counted->class_field]); /* (rows) */
  for (int64_t i = 0; i < asked->rows; i++)
    counted->counts[right[i]][best_of(scores + i * classes, classes)]++;
  return TDM_OK;
}

static double score(const void *user) {
  return confusion_accuracy(user);
}

judge confusion_judge(confusion *counted, const char *score_name) {
  return (judge){score_name, begin, count, score, counted};
}

static int64_t row_total(const confusion *counted, int64_t row) {
  int64_t total = 0;
  for (int64_t i = 0; i < counted->class_count; i++)
    total += counted->counts[row][i];
  return total;
}

int64_t confusion_total(const confusion *counted) {
  int64_t total = 0;
  for (int64_t i = 0; i < counted->class_count; i++)
    total += row_total(counted, i);
  return total;
}

double confusion_accuracy(const confusion *counted) {
  const int64_t total = confusion_total(counted);
  int64_t right = 0;
  for (int64_t i = 0; i < counted->class_count; i++)
    right += counted->counts[i][i];
  return total ? (double)right / (double)total : 0;
}

double confusion_recall(const confusion *counted, int64_t class_index) {
  const int64_t total = row_total(counted, class_index);
  return total ? (double)counted->counts[class_index][class_index] / (double)total : 0;
}
