/* Single runs of a trial: inputs, fetches, and the comparison with the oracle. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/trial.h"

/* ---- Feeding --------------------------------------------------------------------------------- */

static tdm_tensor *make_input(running *it, int index, uint64_t seed, int64_t rows) {
  const random_model *model = &it->trial->model;
  const random_node *what = &model->nodes[index];
  const extent *shape = &model->values[what->first_value];
  const int64_t count = extent_count(shape, rows);
  double *values = malloc((size_t)(count + 1) * sizeof *values);
  void *data = malloc((size_t)(count + 1) * sizeof *values);
  if (!values || !data) abort();
  model_fill_input(model, index, seed, rows, values);
  const tdm_dtype dtype = what->kind == NODE_IDS || what->kind == NODE_INDICES ? TDM_INT64
                          : model->wide                                        ? TDM_FLOAT64
                                                                               : TDM_FLOAT32;
  for (int64_t i = 0; i < count; i++) {
    if (dtype == TDM_INT64) ((int64_t *)data)[i] = (int64_t)values[i];
    if (dtype == TDM_FLOAT64) ((double *)data)[i] = values[i];
    if (dtype == TDM_FLOAT32) ((float *)data)[i] = (float)values[i];
  }
  tdm_dim dims[MOST_RANK];
  for (int i = 0; i < shape->rank; i++)
    dims[i] = extent_dim(shape, i, rows);
  tdm_tensor *made = tdm_tensor_from(it->context, dtype, tdm_shape_make(shape->rank, dims), data);
  free(values);
  free(data);
  draw stream = draw_of(seed, 3000 + (uint64_t)index);
  if (!made || !draw_one_in(&stream, 4)) return made;
  char device[16];
  const int where = draw_below(&stream, it->trial->machine.device_count);
  tdm_tensor *moved =
      tdm_tensor_to(made, machine_device(&it->trial->machine, where, device), TDM_DTYPE_NONE);
  tdm_tensor_release(made);
  return moved;
}

bool can_fetch(const trial *it, int view, int output) {
  return view_has_output(&it->views[view], &it->model, output) &&
         !model_output_is_kept(&it->model, output);
}

static bool begin(running *it, try_run *run, int view, bool trains, uint64_t seed, bool keeps) {
  const random_model *model = &it->trial->model;
  const random_view *seen = &it->trial->views[view];
  draw stream = draw_of(seed, 5);
  *run = (try_run){.view = view, .trains = trains, .seed = seed};
  run->rows = draw_below(&stream, MOST_ROWS + 1);
  if (draw_one_in(&stream, 3)) run->rows = draw_below(&stream, 3);
  if (model->fixed_rows > 0) run->rows = model->fixed_rows;
  for (int i = 0; i < model->node_count; i++) {
    if (!view_feeds(seen, model, i)) continue;
    (void)snprintf(run->names[run->feed_count], sizeof run->names[0], "n%d", i);
    run->feeds[run->feed_count] =
        (tdm_feed){run->names[run->feed_count], make_input(it, i, seed, run->rows), false};
    if (!run->feeds[run->feed_count++].tensor) return trial_fail(it, "an input was not made");
  }
  static const char *const OUTPUT_NAMES[MOST_OUTPUTS] = {"o0", "o1", "o2", "o3"};
  for (int i = 0; i < model->output_count; i++) {
    if (!view_has_output(seen, model, i) || (!keeps && !can_fetch(it->trial, view, i))) continue;
    if ((trains || run->fetch_count > 0) && draw_one_in(&stream, 4)) continue;
    run->outputs[run->fetch_count] = i;
    run->fetches[run->fetch_count++] = (tdm_fetch){OUTPUT_NAMES[i], NULL};
  }
  return true;
}

bool run_begin(running *it, try_run *run, int view, bool trains, uint64_t seed) {
  return begin(it, run, view, trains, seed, false);
}

bool run_begin_in_sequence(running *it, try_run *run, int view, uint64_t seed) {
  return begin(it, run, view, false, seed, true);
}

void run_end(try_run *run) {
  for (size_t i = 0; i < run->feed_count; i++)
    tdm_tensor_release(run->feeds[i].tensor);
  for (size_t i = 0; i < run->fetch_count; i++)
    tdm_tensor_release(run->fetches[i].tensor);
  run->feed_count = run->fetch_count = 0;
}

oracle_training run_training(const running *it, int view) {
  return (oracle_training){it->rates[view], it->momenta[view], it->trial->views[view].frozen};
}

/* Returns true if the loss is infinite because numbers became too large for the oracle. */
static bool has_outgrown(running *it, const try_run *run) {
  if (run->status != TDM_NOT_FINITE || !run->trains) return false;
  if (it->spent) return true;
  const oracle_training how = run_training(it, run->view);
  oracle_train(it->oracle, run->seed, run->rows, &how);
  if (!it->oracle->inexact) return false;
  it->counts->inexact++;
  return it->spent = true;
}

bool run_failed(running *it, const try_run *run) {
  if (has_outgrown(it, run)) return true;
  return trial_fail(it, "view %d, %s %" PRIu64 " of %" PRId64 " rows is %s: %s", run->view,
                    run->trains ? "training" : "run", run->seed, run->rows,
                    tdm_status_name(run->status), run->message);
}

void run_execute(running *it, try_run *run) {
  tdm_session *session = it->sessions[run->view];
  run->status = run->trains
                    ? tdm_train_step(session, run->feeds, run->feed_count, run->fetches,
                                     run->fetch_count, &run->loss)
                    : tdm_run(session, run->feeds, run->feed_count, run->fetches, run->fetch_count);
  if (run->status != TDM_OK)
    (void)snprintf(run->message, sizeof run->message, "%s", tdm_last_message());
}

/* ---- Comparing ------------------------------------------------------------------------------- */

double tensor_element(const tdm_tensor *tensor, int64_t index) {
  const void *data = tdm_tensor_data(tensor);
  return tdm_tensor_dtype(tensor) == TDM_FLOAT64 ? ((const double *)data)[index]
                                                 : (double)((const float *)data)[index];
}

static bool tensor_agrees(running *it, const tdm_tensor *tensor, const extent *shape, int64_t rows,
                          const double *wanted, const char *name, bool tell) {
  tdm_dim dims[MOST_RANK];
  for (int i = 0; i < shape->rank; i++)
    dims[i] = extent_dim(shape, i, rows);
  const tdm_shape expected = tdm_shape_make(shape->rank, dims);
  const tdm_shape found = tdm_tensor_shape(tensor);
  char text[TDM_SHAPE_TEXT];
  if (!tdm_shape_equal(&expected, &found)) {
    if (tell) trial_fail(it, "%s has shape %s", name, tdm_shape_text(&found, text, sizeof text));
    return false;
  }
  for (int64_t i = 0; i < extent_count(shape, rows); i++) {
    if (tensor_element(tensor, i) == wanted[i]) continue;
    if (tell)
      trial_fail(it, "%s: element %" PRId64 " is %.17g, not %.17g", name, i,
                 tensor_element(tensor, i), wanted[i]);
    return false;
  }
  return true;
}

bool run_agrees(running *it, const try_run *run, bool tell) {
  const random_model *model = &it->trial->model;
  char name[96];
  for (size_t i = 0; i < run->fetch_count; i++) {
    const int value = model->outputs[run->outputs[i]];
    (void)snprintf(name, sizeof name, "view %d, run %" PRIu64 " of %" PRId64 " rows, v%d",
                   run->view, run->seed, run->rows, value);
    if (!run->fetches[i].tensor) return tell ? trial_fail(it, "%s is not there", name) : false;
    if (!tensor_agrees(it, run->fetches[i].tensor, &model->values[value], run->rows,
                       it->oracle->values[value], name, tell))
      return false;
  }
  const double loss = it->oracle->values[model->loss][0];
  if (!run->trains || run->loss == loss) return true;
  return tell
             ? trial_fail(it, "view %d, run %" PRIu64 " of %" PRId64 " rows: loss %.17g, not %.17g",
                          run->view, run->seed, run->rows, run->loss, loss)
             : false;
}

bool run_check(running *it, const try_run *run) {
  if (it->spent) return true;
  const oracle_training how = run_training(it, run->view);
  if (run->trains)
    oracle_train(it->oracle, run->seed, run->rows, &how);
  else
    oracle_run(it->oracle, run->seed, run->rows);
  if (run->trains) it->counts->trained++;
  if (it->oracle->inexact) {
    it->counts->inexact++;
    it->spent = run->trains;
    return true;
  }
  it->counts->compared++;
  return run_agrees(it, run, true);
}

/* Compares the average of a parameter, if the list has optimizers' states. */
static bool average_agrees(running *it, const tdm_tensor_list *list, int index, bool tell) {
  const random_parameter *declared = &it->trial->model.parameters[index];
  char name[64];
  (void)snprintf(name, sizeof name, "optimizer/%s/average", declared->name);
  const tdm_tensor *average = tdm_tensor_list_find(list, name);
  if (!average || !it->oracle->has_average[index]) return true;
  return tensor_agrees(it, average, &declared->shape, 1, it->oracle->averages[index], name, tell);
}

bool list_agrees(running *it, const tdm_tensor_list *list, bool tell) {
  const random_model *model = &it->trial->model;
  for (int i = 0; i < model->parameter_count; i++) {
    const random_parameter *declared = &model->parameters[i];
    const tdm_tensor *tensor = tdm_tensor_list_find(list, declared->name);
    if (!tensor) continue; /* its layer is not yet bound by a session */
    if (!tensor_agrees(it, tensor, &declared->shape, 1, it->oracle->parameters[i], declared->name,
                       tell))
      return false;
    if (!average_agrees(it, list, i, tell)) return false;
  }
  return true;
}
