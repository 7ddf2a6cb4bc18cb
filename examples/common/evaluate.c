/* The evaluation loop, and the state that steps pass on. Invariant: a batch's tensors are released
 * before the next is requested, on failure too. */
#include "examples/common/evaluate.h"

#include "examples/common/interrupt.h"

/* ---- What is carried ------------------------------------------------------------------------- */

void carrier_begin(carrier *state, const learner *self) {
  *state = (carrier){{NULL}};
  for (size_t i = 0; i < self->carry_count; i++)
    state->values[i] = tdm_tensor_retain(self->carries[i].first);
}

void carrier_end(carrier *state, const learner *self) {
  for (size_t i = 0; i < self->carry_count; i++)
    tdm_tensor_release(state->values[i]);
}

size_t carrier_feeds(const carrier *state, const learner *self, const batch *taken,
                     size_t field_count, bool handed_over, tdm_feed *out_feeds) {
  size_t count = 0;
  for (size_t i = 0; i < field_count; i++)
    out_feeds[count++] = (tdm_feed){self->inputs[i], taken->fields[i], handed_over};
  for (size_t i = 0; i < self->carry_count; i++)
    out_feeds[count++] = (tdm_feed){self->carries[i].input, state->values[i], false};
  return count;
}

void carrier_take(carrier *state, const learner *self, tdm_fetch *fetches) {
  for (size_t i = 0; i < self->carry_count; i++) {
    tdm_tensor_release(state->values[i]);
    state->values[i] = fetches[i].tensor;
  }
}

/* ---- Batches --------------------------------------------------------------------------------- */

tdm_status learner_next(const learner *self, tdm_loader *loader, batch *out_batch) {
  batch_release(out_batch);
  const tdm_status status =
      tdm_loader_next(loader, out_batch->fields, TDM_DATASET_MAX_FIELDS, &out_batch->rows);
  if (status != TDM_OK || out_batch->rows == 0 || !self->arrange) return status;
  return self->arrange(self->arranges_for, out_batch);
}

/* ---- Evaluation ------------------------------------------------------------------------------ */

static tdm_status evaluate_batch(const learner *self, carrier *state, const batch *taken) {
  tdm_feed feeds[TDM_DATASET_MAX_FIELDS + MOST_CARRIED];
  const size_t feed_count = carrier_feeds(state, self, taken, self->question_count, false, feeds);
  tdm_fetch fetches[MOST_CARRIED + 1];
  for (size_t i = 0; i < self->carry_count; i++)
    fetches[i] = (tdm_fetch){self->carries[i].output, NULL};
  tdm_fetch *answers = &fetches[self->carry_count];
  *answers = (tdm_fetch){self->answer, NULL};
  tdm_status status = tdm_run(self->session, feeds, feed_count, fetches, self->carry_count + 1);
  if (status != TDM_OK) return status;
  carrier_take(state, self, fetches);
  status = self->judging.count(self->judging.user, taken, answers->tensor);
  tdm_tensor_release(answers->tensor);
  return status;
}

tdm_status evaluate(const learner *self) {
  self->judging.begin(self->judging.user);
  carrier state;
  carrier_begin(&state, self);
  batch taken = {.rows = 0};
  tdm_status status = tdm_loader_start(self->held_out, 0);
  if (status == TDM_OK) status = learner_next(self, self->held_out, &taken);
  while (status == TDM_OK && taken.rows > 0 && !interrupt_came()) {
    status = evaluate_batch(self, &state, &taken);
    if (status == TDM_OK) status = learner_next(self, self->held_out, &taken);
  }
  batch_release(&taken);
  carrier_end(&state, self);
  return status;
}
