/* The window of steps. Invariant: everything but the session is touched under the lock, for steps
 * end on the library's loop. */
#include "examples/common/steps.h"

#include <stdio.h>

void steps_start(steps *all, tdm_session *session) {
  *all = (steps){.session = session};
  (void)pthread_mutex_init(&all->lock, NULL);
  (void)pthread_cond_init(&all->changed, NULL);
}

/* Records the result of a step. Runs on the loop's thread. */
static void on_step(void *user, tdm_run_result *result) {
  step *ended = user;
  steps *all = ended->all;
  (void)pthread_mutex_lock(&all->lock);
  if (result->status == TDM_OK) {
    all->loss_sum += result->loss * (double)ended->rows;
    all->rows += ended->rows;
  } else if (all->status == TDM_OK) {
    all->status = result->status;
    (void)snprintf(all->message, sizeof all->message, "%s", result->message);
  }
  ended->rows = 0;
  (void)pthread_cond_signal(&all->changed);
  (void)pthread_mutex_unlock(&all->lock);
}

/* Returns an unused step, or NULL if all are in flight. The caller holds the lock. */
static step *find_place(steps *all) {
  for (int i = 0; i < STEPS_IN_FLIGHT; i++)
    if (all->places[i].rows == 0) return &all->places[i];
  return NULL;
}

static tdm_status told(const steps *all) {
  return all->status == TDM_OK ? TDM_OK : tdm_fail(all->status, "%s", all->message);
}

tdm_status steps_submit(steps *all, const tdm_feed *feeds, size_t feed_count, int64_t rows,
                        double *mean_loss) {
  (void)pthread_mutex_lock(&all->lock);
  step *place = find_place(all);
  while (!place) {
    (void)pthread_cond_wait(&all->changed, &all->lock);
    place = find_place(all);
  }
  tdm_status status = told(all);
  if (mean_loss) *mean_loss = all->rows ? all->loss_sum / (double)all->rows : 0;
  if (status == TDM_OK) *place = (step){all, rows};
  (void)pthread_mutex_unlock(&all->lock);
  if (status != TDM_OK) return status;
  status = tdm_submit(all->session, true, feeds, feed_count, NULL, 0, on_step, place);
  if (status == TDM_OK) return TDM_OK;
  (void)pthread_mutex_lock(&all->lock);
  place->rows = 0; /* the step never began */
  (void)pthread_mutex_unlock(&all->lock);
  return status;
}

void steps_tell(steps *all, int64_t *out_rows, double *out_loss_sum) {
  (void)pthread_mutex_lock(&all->lock);
  *out_rows = all->rows;
  *out_loss_sum = all->loss_sum;
  (void)pthread_mutex_unlock(&all->lock);
}

tdm_status steps_wait(steps *all) {
  (void)pthread_mutex_lock(&all->lock);
  for (int i = 0; i < STEPS_IN_FLIGHT; i++)
    while (all->places[i].rows != 0)
      (void)pthread_cond_wait(&all->changed, &all->lock);
  const tdm_status status = told(all);
  (void)pthread_mutex_unlock(&all->lock);
  return status;
}

tdm_status steps_finish(steps *all) {
  const tdm_status status = steps_wait(all);
  (void)pthread_mutex_destroy(&all->lock);
  (void)pthread_cond_destroy(&all->changed);
  return status;
}
