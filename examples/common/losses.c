/* Counting losses. */
#include "examples/common/losses.h"

#include <math.h>

static void begin(void *user) {
  *(losses *)user = (losses){0};
}

static tdm_status count(void *user, const batch *asked, const tdm_tensor *answers) {
  losses *counted = user;
  (void)asked;
  counted->sum += (double)*(const float *)tdm_tensor_data(answers);
  counted->batch_count++;
  return TDM_OK;
}

static double score(const void *user) {
  return losses_bits(user);
}

judge losses_judge(const char *score_name, losses *counted) {
  return (judge){score_name, begin, count, score, counted};
}

double losses_bits(const losses *counted) {
  return counted->batch_count ? counted->sum / (double)counted->batch_count / log(2.0) : 0;
}
