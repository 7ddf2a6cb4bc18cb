/* Runs of several sequences of one session, in turn: each begins with the state of its own previous
 * run, independent of the other sequences. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/trial.h"

enum { MOST_SEQUENCES = 3, MOST_STEPS = 12, MOST_KEPT_ELEMENTS = 64 };

/* A sequence, and the oracle's value for each NODE_KEPT. */
typedef struct stream_of_runs {
  tdm_sequence *sequence;
  double kept[MOST_KEPT][MOST_KEPT_ELEMENTS];
} stream_of_runs;

typedef struct sequences {
  running *it;
  int view;
  int count;
  int nodes[MOST_KEPT]; /* nodes of kept values that the view has */
  int node_count;
  bool lost; /* the kept value is unknown to the oracle */
  stream_of_runs streams[MOST_SEQUENCES];
} sequences;

static void name_of(const sequences *all, int k, char text[16]) {
  (void)snprintf(text, 16, "n%d", all->nodes[k]);
}

static const extent *extent_of(const sequences *all, int k) {
  const random_model *model = &all->it->trial->model;
  return &model->values[model->nodes[all->nodes[k]].first_value];
}

/* Returns the value that the run stores as kept value k; -1: unchanged. A NODE_KEEP replaces the
 * whole value, even if only some rows are written. */
static int kept_after(const sequences *all, int k, uint64_t needed) {
  const random_model *model = &all->it->trial->model;
  int after = -1;
  for (int i = 0; i < all->it->trial->views[all->view].node_count; i++) {
    const random_node *what = &model->nodes[i];
    if (what->kind < NODE_KEEP || !(needed >> i & 1)) continue;
    if (model_kept_by(model, i) != all->nodes[k]) continue;
    if (what->kind == NODE_KEEP) return what->operands[1];
    after = what->first_value;
  }
  return after;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static bool check_run(sequences *all, stream_of_runs *one, const try_run *run) {
  running *it = all->it;
  const random_model *model = &it->trial->model;
  uint32_t outputs = 0;
  for (size_t i = 0; i < run->fetch_count; i++)
    outputs |= 1u << run->outputs[i];
  const int node_count = it->trial->views[all->view].node_count;
  const uint64_t needed = model_needed(model, node_count, outputs);
  for (int k = 0; k < all->node_count; k++)
    it->oracle->kept[all->nodes[k]] = one->kept[k];
  oracle_run(it->oracle, run->seed, run->rows);
  bool good = true;
  all->lost |= it->oracle->inexact;
  if (!all->lost) good = run_agrees(it, run, true);
  for (int k = 0; k < all->node_count; k++)
    it->oracle->kept[all->nodes[k]] = NULL;
  for (int k = 0; k < all->node_count; k++) {
    const int value = kept_after(all, k, needed);
    if (value >= 0)
      memcpy(one->kept[k], it->oracle->values[value],
             (size_t)extent_count(extent_of(all, k), 1) * sizeof(double));
  }
  it->counts->kept += !all->lost;
  return good;
}

static bool run_one(sequences *all, stream_of_runs *one, uint64_t seed) {
  try_run run;
  bool good = run_begin_in_sequence(all->it, &run, all->view, seed);
  if (good && run.fetch_count > 0) {
    run.status =
        tdm_sequence_run(one->sequence, run.feeds, run.feed_count, run.fetches, run.fetch_count);
    (void)snprintf(run.message, sizeof run.message, "%s", tdm_last_message());
    good = run.status == TDM_OK ? check_run(all, one, &run) : run_failed(all->it, &run);
  }
  run_end(&run);
  return good;
}

static tdm_tensor *tensor_of(sequences *all, int k, const double *values) {
  tdm_dim dims[MOST_RANK];
  memcpy(dims, extent_of(all, k)->dims, sizeof dims);
  const tdm_shape shape = tdm_shape_make(extent_of(all, k)->rank, dims);
  tdm_tensor *wide = tdm_tensor_from(all->it->context, TDM_FLOAT64, shape, values);
  const bool is_wide = all->it->trial->model.wide;
  tdm_tensor *tensor = tdm_tensor_to(wide, NULL, is_wide ? TDM_FLOAT64 : TDM_FLOAT32);
  tdm_tensor_release(wide);
  return tensor;
}

static bool set_one(sequences *all, stream_of_runs *one, int k, draw *stream) {
  char name[16];
  name_of(all, k, name);
  for (int64_t i = 0; i < extent_count(extent_of(all, k), 1); i++)
    one->kept[k][i] = draw_between(stream, -3, 3);
  tdm_tensor *tensor = tensor_of(all, k, one->kept[k]);
  const tdm_status status = tdm_sequence_set(one->sequence, name, tensor);
  tdm_tensor_release(tensor);
  return status == TDM_OK ? true : trial_fail(all->it, "%s is not set", name);
}

static bool get_one(sequences *all, stream_of_runs *one, int k) {
  char name[16];
  name_of(all, k, name);
  tdm_tensor *tensor;
  if (tdm_sequence_get(one->sequence, name, &tensor) != TDM_OK)
    return trial_fail(all->it, "%s is not got", name);
  bool good = true;
  for (int64_t i = 0; i < extent_count(extent_of(all, k), 1) && good && !all->lost; i++) {
    const void *data = tdm_tensor_data(tensor);
    const double found = tdm_tensor_dtype(tensor) == TDM_FLOAT64 ? ((const double *)data)[i]
                                                                 : (double)((const float *)data)[i];
    if (found != one->kept[k][i])
      good = trial_fail(all->it, "%s keeps %.17g in element %" PRId64 ", not %.17g", name, found, i,
                        one->kept[k][i]);
  }
  tdm_tensor_release(tensor);
  return good;
}

static bool reset_one(sequences *all, stream_of_runs *one) {
  memset(one->kept, 0, sizeof one->kept);
  return tdm_sequence_reset(one->sequence) == TDM_OK ? true
                                                     : trial_fail(all->it, "a reset is refused");
}

static bool copy_one(sequences *all, const stream_of_runs *one, stream_of_runs *to) {
  tdm_sequence *copy = tdm_sequence_copy(one->sequence);
  if (!copy) return trial_fail(all->it, "a sequence is not copied");
  tdm_sequence_release(to->sequence);
  *to = *one;
  to->sequence = copy;
  return true;
}

static bool step(sequences *all, draw *stream) {
  stream_of_runs *one = &all->streams[draw_below(stream, all->count)];
  stream_of_runs *other = &all->streams[draw_below(stream, all->count)];
  const int k = draw_below(stream, all->node_count);
  switch (draw_below(stream, 10)) {
  case 0:
    return reset_one(all, one);
  case 1:
    return set_one(all, one, k, stream);
  case 2:
    return one == other || copy_one(all, one, other);
  case 3:
    return get_one(all, one, k);
  default:
    return run_one(all, one, draw_bits(stream) % 1000000);
  }
}

bool go_in_sequences(running *it, const action *what) {
  const random_model *model = &it->trial->model;
  sequences all = {.it = it, .view = what->view, .lost = it->spent};
  for (int i = 0; i < model->node_count; i++)
    if (model->nodes[i].kind == NODE_KEPT) all.nodes[all.node_count++] = i;
  if (all.node_count == 0) return true;
  draw stream = draw_of(what->seed, 12);
  const int wanted = draw_between(&stream, 1, MOST_SEQUENCES);
  bool good = true;
  for (; good && all.count < wanted; all.count += good) {
    all.streams[all.count].sequence = tdm_sequence_create(it->sessions[what->view]);
    good = all.streams[all.count].sequence ? true : trial_fail(it, "no sequence");
  }
  for (int i = draw_between(&stream, 1, MOST_STEPS); i > 0 && good; i--)
    good = step(&all, &stream);
  for (int i = 0; i < all.count && good; i++)
    for (int k = 0; k < all.node_count && good; k++)
      good = get_one(&all, &all.streams[i], k);
  for (int i = 0; i < all.count; i++)
    tdm_sequence_release(all.streams[i].sequence);
  return good;
}
