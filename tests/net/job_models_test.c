/* Models of many kinds on any number of ranks of simnet, and in one process: one hash of losses and
 * scores on every rank, and one of parameters and states over all. */
#include <math.h>

#include "tests/graph/job.h"
#include "tests/net/job_models.h"

static tdm_status train(job_rank *rank) {
  const size_t model = *(const size_t *)rank->user;
  tdm_session *session = job_model_open(rank->context, model);
  if (!session) return TDM_INTERNAL;
  const tdm_status status = job_model_train(session, model, &rank->loss, &rank->number);
  rank->hash = job_hash(session);
  tdm_session_release(session);
  return status;
}

static void every_model_has_one_hash(void **state) {
  (void)state;
  static const int counts[] = {1, 2, 3, 4, 5, 8};
  for (size_t model = 0; model < job_model_count(); model++) {
    job_rank alone = {0};
    for (size_t c = 0; c < TDM_COUNT_OF(counts); c++) {
      job_rank ranks[JOB_MOST_RANKS];
      job_must(&(job_options){.rank_count = counts[c], .user = &model}, train, ranks);
      if (c == 0) alone = ranks[0];
      uint64_t hash = 0;
      for (int r = 0; r < counts[c]; r++) {
        hash ^= ranks[r].hash;
        if (ranks[r].number != alone.number)
          fail_msg("%s: rank %d of %d has other scores than one process", job_model_name(model), r,
                   counts[c]);
      }
      assert_true(isfinite(alone.loss));
      if (hash != alone.hash)
        fail_msg("%s: %d ranks train other bits than one process", job_model_name(model),
                 counts[c]);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_model_has_one_hash),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
