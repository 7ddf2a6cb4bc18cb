/* A program for one process or any number of ranks, with only the public header: trains each of the
 * models of job_models.h. Prints for each "rank R of N: NAME LOSS HASH". */
#include <inttypes.h>
#include <stdio.h>

#include "tests/net/job_models.h"

static tdm_status run_model(tdm_context *context, size_t model) {
  tdm_session *session = job_model_open(context, model);
  if (!session) return TDM_INVALID_ARGUMENT;
  double loss = 0;
  uint64_t hash = 0;
  const tdm_status status = job_model_train(session, model, &loss, &hash);
  if (status == TDM_OK)
    printf("rank %d of %d: %s %.6f %016" PRIx64 "\n", tdm_context_rank(context),
           tdm_context_rank_count(context), job_model_name(model), loss, hash);
  tdm_session_release(session);
  return status;
}

int main(void) {
  tdm_context *context = tdm_context_create(NULL);
  tdm_status status = context ? TDM_OK : TDM_UNAVAILABLE;
  for (size_t model = 0; model < job_model_count() && status == TDM_OK; model++)
    status = run_model(context, model);
  if (status != TDM_OK) fprintf(stderr, "%s\n", tdm_last_message());
  tdm_context_release(context);
  return status == TDM_OK ? 0 : 1;
}
