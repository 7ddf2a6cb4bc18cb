/* Explains the plan of a training step. If batches have several shapes, each has a separate plan.
 * The plan of the most rows is explained. */
#include <stdio.h>

#include "examples/common/evaluate.h"
#include "tools/options/output_file.h"

/* Limits of distinct shapes and of examined batches; enough to find the most frequent shape. */
enum { MOST_SHAPES = 64, MOST_BATCHES = 2000 };

/* Batches of equal shapes: the first of them, and the rows of all. */
typedef struct kind_of_batch {
  batch first;
  int64_t rows;
} kind_of_batch;

static bool shapes_equal(const batch *a, const batch *b) {
  for (int i = 0; i < TDM_DATASET_MAX_FIELDS && a->fields[i]; i++) {
    const tdm_shape left = tdm_tensor_shape(a->fields[i]);
    const tdm_shape right = tdm_tensor_shape(b->fields[i]);
    if (!tdm_shape_equal(&left, &right)) return false;
  }
  return true;
}

/* Counts the batch among its like; keeps it, and empties *taken, if it is the first. */
static void count_batch(kind_of_batch *kinds, size_t *kind_count, batch *taken) {
  size_t at = 0;
  while (at < *kind_count && !shapes_equal(&kinds[at].first, taken))
    at++;
  if (at == MOST_SHAPES) return;
  kinds[at].rows += taken->rows;
  if (at < *kind_count) return;
  kinds[at].first = *taken;
  *taken = (batch){.rows = 0};
  (*kind_count)++;
}

static tdm_status count_batches(const learner *self, kind_of_batch *kinds, size_t *out_count) {
  tdm_loader *loader = self->training;
  batch taken = {.rows = 0};
  tdm_status status = tdm_loader_start(loader, 0);
  for (int i = 0; status == TDM_OK && i < MOST_BATCHES; i++) {
    status = learner_next(self, loader, &taken);
    if (status != TDM_OK || taken.rows == 0) break;
    count_batch(kinds, out_count, &taken);
  }
  batch_release(&taken);
  return status;
}

static tdm_status prepare_common(const learner *self) {
  kind_of_batch kinds[MOST_SHAPES] = {{.rows = 0}};
  size_t kind_count = 0;
  tdm_status status = count_batches(self, kinds, &kind_count);
  size_t common = 0;
  for (size_t i = 1; i < kind_count; i++)
    if (kinds[i].rows > kinds[common].rows) common = i;
  if (status == TDM_OK && kind_count > 0) {
    carrier state;
    carrier_begin(&state, self);
    tdm_feed feeds[TDM_DATASET_MAX_FIELDS + MOST_CARRIED];
    const size_t feed_count =
        carrier_feeds(&state, self, &kinds[common].first, self->input_count, false, feeds);
    tdm_fetch fetches[MOST_CARRIED];
    for (size_t i = 0; i < self->carry_count; i++)
      fetches[i] = (tdm_fetch){self->carries[i].output, NULL};
    status =
        tdm_session_prepare(self->session, feeds, feed_count, fetches, self->carry_count, true);
    carrier_end(&state, self);
  }
  for (size_t i = 0; i < kind_count; i++)
    batch_release(&kinds[i].first);
  return status;
}

static tdm_status write_plan(tdm_session *session, const char *name, const char *path,
                             tdm_plan_format format) {
  output_file file;
  if (!path) return TDM_OK;
  const tdm_status status = output_begin(name, path, &file);
  if (status != TDM_OK) return status;
  return output_end(&file, tdm_session_explain(session, format, file.stream));
}

tdm_status learner_explain(const learner *self, const common_options *given) {
  if (!given->explain && !given->dot_path && !given->plan_path) return TDM_OK;
  tdm_status status = prepare_common(self);
  if (status == TDM_OK && given->explain)
    status = tdm_session_explain(self->session, TDM_PLAN_TEXT, stdout);
  if (status != TDM_OK || given->rank != 0) return status;
  status = write_plan(self->session, "--dot", given->dot_path, TDM_PLAN_DOT);
  return status == TDM_OK ? write_plan(self->session, "--plan", given->plan_path, TDM_PLAN_JSON)
                          : status;
}
