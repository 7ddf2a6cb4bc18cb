/* Random models that move the rows of a batch, mix them and reduce over them, along the batch and
 * across it. In micro-batches and parallel regions, nested, weighted, with few rows, they have the
 * results of the undivided model: outputs, requested gradients, and the state after training.
 * Otherwise they are refused with a message that names a layer. Takes `[count [first seed]]`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/graph/seed_range.h"
#include "tests/random/trial.h"

enum { CUT_VIEWS = 2, RUNS = 2, STEPS = 2 };

typedef struct rows_tally {
  int64_t compared, refused, wild, cut;
} rows_tally;

/* The views of the trial, of which the first is not cut. Each has a separate store. */
typedef struct rows_trial {
  running it;
  trial of;
  tdm_store *stores[1 + CUT_VIEWS];
  try_run runs[1 + CUT_VIEWS];
  bool wild; /* numbers have become too large for a tolerance */
} rows_trial;

/* ---- Drawing --------------------------------------------------------------------------------- */

static void draw_uncut(random_view *it) {
  for (int i = 0; i < MOST_NODES; i++)
    it->devices[i] = NOWHERE;
  it->wrap_count = 0;
  it->micro_batches = it->depth = 1;
  it->deterministic = true;
  it->collective = TDM_COLLECTIVE_AUTO;
}

static void draw_views(trial *of, uint64_t seed) {
  draw stream = draw_of(seed, 12);
  of->view_count = 1 + CUT_VIEWS;
  for (int i = 0; i < of->view_count; i++) {
    random_view *view = &of->views[i];
    do {
      view_draw(view, &of->model, &of->machine, draw_bits(&stream));
      if (of->model.fixed_rows > 0) view->micro_batches = 1;
      if (view->micro_batches == TDM_MICRO_BATCHES_AUTO) view->micro_batches = 3;
    } while (view->wrap_count == 0 && view->micro_batches == 1);
    view->node_count = of->model.node_count;
    view->trains = of->model.reached != 0;
    view->frozen = 0;
    view->learning_rate = 1;
    view->depth = 1;
    view->queue_limit = view->plan_limit = view->trace_runs = 0;
    view->check_finite = view->profile = view->observes = false;
  }
  draw_uncut(&of->views[0]);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static bool agree(rows_trial *all, const tdm_tensor *wanted, const tdm_tensor *got, int view,
                  const char *name) {
  const tdm_shape a = tdm_tensor_shape(wanted), b = tdm_tensor_shape(got);
  if (!tdm_shape_equal(&a, &b))
    return trial_fail(&all->it, "view %d, %s: another shape", view, name);
  const tdm_dtype dtype = tdm_tensor_dtype(wanted);
  if (dtype != TDM_FLOAT64 && dtype != TDM_FLOAT32) return true; /* counts */
  double largest = 1;
  for (int64_t i = 0; i < tdm_shape_count(&a); i++)
    largest = fmax(largest, fabs(tensor_element(wanted, i)));
  all->wild |= !(largest < 1e5);
  for (int64_t i = 0; i < tdm_shape_count(&a) && !all->wild; i++) {
    const double one = tensor_element(wanted, i), other = tensor_element(got, i);
    all->wild |= !isfinite(one);
    if (!all->wild && !(fabs(one - other) <= 1e-8 * largest))
      return trial_fail(&all->it, "view %d, %s: element %" PRId64 " is %.17g, uncut %.17g", view,
                        name, i, other, one);
  }
  return true;
}

static bool agree_runs(rows_trial *all, int view) {
  const try_run *wanted = &all->runs[0], *got = &all->runs[view];
  for (size_t i = 0; i < wanted->fetch_count && !all->wild; i++) {
    char name[48];
    (void)snprintf(name, sizeof name, "v%d of %" PRId64 " rows",
                   all->of.model.outputs[wanted->outputs[i]], wanted->rows);
    if (!agree(all, wanted->fetches[i].tensor, got->fetches[i].tensor, view, name)) return false;
  }
  const double size = fabs(wanted->loss);
  all->wild |= wanted->trains && !(size < 1e8);
  if (!wanted->trains || all->wild || fabs(wanted->loss - got->loss) <= 1e-8 * (1 + size))
    return true;
  return trial_fail(&all->it, "view %d: loss %.17g, uncut %.17g", view, got->loss, wanted->loss);
}

static bool agree_states(rows_trial *all, int view) {
  tdm_tensor_list *wanted = NULL, *got = NULL;
  bool good = tdm_session_save(all->it.sessions[0], &wanted) == TDM_OK &&
              tdm_session_save(all->it.sessions[view], &got) == TDM_OK;
  if (!good) (void)trial_fail(&all->it, "view %d: no state", view);
  for (size_t i = 0; good && i < tdm_tensor_list_count(wanted) && !all->wild; i++) {
    const char *name = tdm_tensor_list_name(wanted, i);
    const tdm_tensor *own = tdm_tensor_list_find(got, name);
    good = own ? agree(all, tdm_tensor_list_tensor(wanted, i), own, view, name)
               : trial_fail(&all->it, "view %d: %s is not there", view, name);
  }
  tdm_tensor_list_release(wanted);
  tdm_tensor_list_release(got);
  return good;
}

/* ---- One case -------------------------------------------------------------------------------- */

/* Returns true if a divided view was refused by name; it is then ignored. */
static bool is_refused(rows_trial *all, int view, tdm_status status, const char *message) {
  const char *named = strstr(message, " n");
  const bool tells = named && named[2] >= '0' && named[2] <= '9';
  tdm_session_release(all->it.sessions[view]);
  all->it.sessions[view] = NULL;
  if ((status == TDM_INVALID_ARGUMENT || status == TDM_UNSUPPORTED) && tells) return true;
  return trial_fail(&all->it, "view %d is %s, and no layer is named: %s", view,
                    tdm_status_name(status), message);
}

static bool open_view(rows_trial *all, int view, rows_tally *counts) {
  all->stores[view] = tdm_store_create(all->it.context);
  all->it.sessions[view] = view_open(&all->of.views[view], &all->of.model, &all->of.machine,
                                     all->it.context, all->stores[view], &all->it.observations);
  if (all->it.sessions[view] || view == 0) return true;
  if (!all->it.sessions[0]) return true;
  counts->refused++;
  return is_refused(all, view, tdm_last_status(), tdm_last_message());
}

/* Runs all views. If the undivided one fails, the others may fail. */
static bool run_all(rows_trial *all, bool trains, uint64_t seed, rows_tally *counts) {
  bool good = true;
  for (int v = 0; v <= CUT_VIEWS && good && !all->wild; v++) {
    if (!all->it.sessions[v]) continue;
    good = run_begin(&all->it, &all->runs[v], v, trains, seed);
    if (!good || (!trains && all->runs[v].fetch_count == 0)) continue;
    run_execute(&all->it, &all->runs[v]);
    if (all->runs[v].status != TDM_OK && v == 0) all->wild = true;
    if (all->wild) break;
    if (all->runs[v].status != TDM_OK) {
      counts->refused++;
      good = is_refused(all, v, all->runs[v].status, all->runs[v].message);
    } else if (v > 0) {
      counts->compared++;
      good = agree_runs(all, v);
    }
  }
  for (int v = 0; v <= CUT_VIEWS; v++)
    run_end(&all->runs[v]);
  return good;
}

static bool run_case(rows_trial *all, rows_tally *counts, char failure[FAILURE_TEXT]) {
  static tally unused;
  all->it = (running){.trial = &all->of, .counts = &unused, .failure = failure};
  all->it.context = machine_open(&all->of.machine);
  bool good = all->it.context != NULL;
  for (int v = 0; v <= CUT_VIEWS && good; v++)
    good = open_view(all, v, counts);
  const bool trains = all->of.model.reached != 0;
  all->wild = !all->it.sessions[0];
  for (int i = 0; i < RUNS + STEPS && good && !all->wild; i++)
    good =
        run_all(all, trains && i > 0 && i <= STEPS, all->of.model.seed * 10 + (uint64_t)i, counts);
  for (int v = 1; v <= CUT_VIEWS && good && !all->wild; v++) {
    if (!all->it.sessions[v]) continue;
    counts->cut++;
    good = !trains || agree_states(all, v);
  }
  counts->wild += all->wild;
  for (int v = 0; v <= CUT_VIEWS; v++) {
    tdm_session_release(all->it.sessions[v]);
    tdm_store_release(all->stores[v]);
    all->stores[v] = NULL;
  }
  tdm_context_release(all->it.context);
  return good;
}

static void compare_models(int kinds, int usual_count) {
  const seed_range seeds = seed_range_of(0, usual_count);
  rows_trial *all = calloc(1, sizeof *all);
  assert_non_null(all);
  rows_tally counts = {0};
  int failed = 0;
  for (int i = 0; i < seeds.count; i++) {
    char failure[FAILURE_TEXT] = "";
    const uint64_t seed = seeds.first + (uint64_t)i;
    memset(&all->of, 0, sizeof all->of);
    model_draw(&all->of.model, seed, DRAW_REAL | DRAW_ROWS | DRAW_WIDER | kinds);
    machine_draw(&all->of.machine, seed);
    draw_views(&all->of, seed);
    if (run_case(all, &counts, failure)) continue;
    trial_print(&all->of, stderr);
    fprintf(stderr, "seed %" PRIu64 ": %s\n", seed, failure);
    failed++;
  }
  fprintf(stderr,
          "%d seeds: %" PRId64 " runs compared, %" PRId64 " sessions to their ends, %" PRId64
          " refused, %" PRId64 " cases ended uncut\n",
          seeds.count, counts.compared, counts.cut, counts.refused, counts.wild);
  free(all);
  assert_int_equal(failed, 0);
}

static void cut_batches_equal_whole_ones(void **unused) {
  (void)unused;
  compare_models(0, 250);
}

/* Gradients as values, read by other layers and concatenated, in micro-batches and regions. */
static void cut_gradients_equal_whole_ones(void **unused) {
  (void)unused;
  compare_models(DRAW_GRADIENTS, 250);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cut_batches_equal_whole_ones),
      cmocka_unit_test(cut_gradients_equal_whole_ones),
  };
  seed_range_read(argc, argv);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
