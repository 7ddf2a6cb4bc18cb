/* Random models of real layers over random devices have the results of the same model on only
 * cpu:0: the same bits with `deterministic`, and nearly the same otherwise. Layers are smooth, so
 * that rounding stays small. Takes `[count [first seed]]`. */
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

/* A trial, and the same trial on one device. */
typedef struct peers {
  running it;
  tdm_store *store; /* store of the sessions on one device */
  tdm_session *alone[MOST_VIEWS];
  bool rounded;            /* the two stores have been trained with other rounding */
  bool wild;               /* numbers have become too large for a tolerance */
  int64_t same_bits, near; /* comparisons */
} peers;

static int64_t count_of(const tdm_tensor *tensor) {
  const tdm_shape shape = tdm_tensor_shape(tensor);
  return tdm_shape_count(&shape);
}

static bool compare(peers *all, const tdm_tensor *a, const tdm_tensor *b, bool same_bits,
                    const char *name) {
  const tdm_shape found = tdm_tensor_shape(a), wanted = tdm_tensor_shape(b);
  if (!tdm_shape_equal(&found, &wanted)) return trial_fail(&all->it, "%s: other shapes", name);
  double largest = 1;
  for (int64_t i = 0; i < count_of(b); i++)
    largest = fmax(largest, fabs(tensor_element(b, i)));
  if (!(largest < 1e6)) all->wild = true;
  for (int64_t i = 0; i < count_of(a); i++)
    if (!isfinite(tensor_element(a, i)) || !isfinite(tensor_element(b, i))) all->wild = true;
  if (all->wild) return true;
  if (same_bits) all->same_bits++;
  if (!same_bits) all->near++;
  const double tolerance = same_bits ? 0 : largest * (all->it.trial->model.wide ? 1e-9 : 1e-3);
  for (int64_t i = 0; i < count_of(a); i++)
    if (!(fabs(tensor_element(a, i) - tensor_element(b, i)) <= tolerance))
      return trial_fail(&all->it, "%s: element %" PRId64 " is %.17g, alone %.17g", name, i,
                        tensor_element(a, i), tensor_element(b, i));
  return true;
}

static bool open_peers(peers *all, int view) {
  const trial *of = all->it.trial;
  if (!trial_open(&all->it, view)) return false;
  if (all->alone[view]) return true;
  random_view alone = of->views[view];
  for (int i = 0; i < MOST_NODES; i++)
    alone.devices[i] = NOWHERE;
  alone.wrap_count = alone.shard_count = 0;
  alone.micro_batches = alone.depth = 1;
  alone.collective = TDM_COLLECTIVE_AUTO;
  alone.deterministic = true;
  all->alone[view] = view_open(&alone, &of->model, &of->machine, all->it.context, all->store,
                               &all->it.observations);
  return all->alone[view] ? true : trial_fail(&all->it, "view %d does not open alone", view);
}

/* A session that loads a checkpoint has its rate. */
static bool align_rates(peers *all, int view) {
  const trial *of = all->it.trial;
  if (!of->hands_over || !of->views[view].trains) return true;
  const tdm_optimizer optimizer = build_optimizer(&of->model, 0, all->it.rates[view]);
  return tdm_session_set_learning_rate(all->alone[view], optimizer.learning_rate) == TDM_OK
             ? true
             : trial_fail(&all->it, "view %d takes no rate alone", view);
}

static bool compare_stores(peers *all, bool same_bits) {
  tdm_tensor_list *a = tdm_store_save(all->it.store, false);
  tdm_tensor_list *b = tdm_store_save(all->store, false);
  bool good = a && b ? true : trial_fail(&all->it, "a store does not save");
  for (size_t i = 0; good && i < tdm_tensor_list_count(b); i++) {
    const char *name = tdm_tensor_list_name(b, i);
    const tdm_tensor *own = tdm_tensor_list_find(a, name);
    good = own ? compare(all, own, tdm_tensor_list_tensor(b, i), same_bits, name)
               : trial_fail(&all->it, "%s is in one store alone", name);
  }
  tdm_tensor_list_release(a);
  tdm_tensor_list_release(b);
  return good;
}

static bool has(const random_model *it, node_kind kind) {
  for (int i = 0; i < it->node_count; i++)
    if (it->nodes[i].kind == kind) return true;
  return false;
}

static bool compare_runs(peers *all, const try_run *run, const try_run *alone) {
  const random_view *view = &all->it.trial->views[run->view];
  const random_model *model = &all->it.trial->model;
  const bool promised = view->deterministic && view->wrap_count == 0 && view->micro_batches == 1 &&
                        !(view->shard_count > 0 && has(model, NODE_BAG));
  const bool same_bits = promised && !all->rounded;
  if (run->status != alone->status)
    return trial_fail(&all->it, "view %d, run %" PRIu64 " of %" PRId64 " rows is %s: %s; alone %s",
                      run->view, run->seed, run->rows, tdm_status_name(run->status), run->message,
                      tdm_status_name(alone->status));
  if (run->status != TDM_OK) all->wild = true; /* check_finite */
  for (size_t i = 0; i < run->fetch_count && !all->wild; i++) {
    /* A row has the same bits in any batch, so in any chunk of one; sums over rows have not. */
    const int value = all->it.trial->model.outputs[run->outputs[i]];
    const bool of_rows = extent_batch(&all->it.trial->model.values[value]) >= 0;
    const bool row_bits =
        view->deterministic && !all->rounded && of_rows && !has(model, NODE_GRADIENT);
    if (!compare(all, run->fetches[i].tensor, alone->fetches[i].tensor, same_bits || row_bits,
                 run->fetches[i].name))
      return false;
  }
  if (!run->trains || all->wild) return true;
  all->rounded |= !promised;
  return compare_stores(all, same_bits);
}

static bool act(peers *all, const action *what) {
  const random_view *view = &all->it.trial->views[what->view];
  const bool trains = view->trains && what->kind != ACTION_RUN;
  bool has_output = false;
  for (int i = 0; i < all->it.trial->model.output_count; i++)
    has_output |= can_fetch(all->it.trial, what->view, i);
  if (!trains && !has_output) return true;
  if (!open_peers(all, what->view) || !align_rates(all, what->view)) return false;
  try_run run, alone;
  bool good = run_begin(&all->it, &run, what->view, trains, what->seed);
  good = good && run_begin(&all->it, &alone, what->view, trains, what->seed);
  if (good) {
    run_execute(&all->it, &run);
    tdm_session *kept = all->it.sessions[what->view];
    all->it.sessions[what->view] = all->alone[what->view];
    run_execute(&all->it, &alone);
    all->it.sessions[what->view] = kept;
    good = compare_runs(all, &run, &alone);
  }
  run_end(&run);
  run_end(&alone);
  return good;
}

static bool run_peers(const trial *of, peers *all, char failure[FAILURE_TEXT]) {
  static tally unused;
  all->it = (running){.trial = of, .counts = &unused, .failure = failure};
  all->it.context = machine_open(&of->machine);
  all->it.store = tdm_store_create(all->it.context);
  all->store = tdm_store_create(all->it.context);
  all->rounded = all->wild = false;
  bool good = all->store && all->it.store;
  for (int i = 0; good && i < of->action_count && !all->wild; i++)
    good = act(all, &of->actions[i]);
  for (int i = 0; i < MOST_VIEWS; i++) {
    tdm_session_release(all->it.sessions[i]);
    tdm_session_release(all->alone[i]);
    all->alone[i] = NULL;
  }
  tdm_store_release(all->it.store);
  tdm_store_release(all->store);
  tdm_context_release(all->it.context);
  return good;
}

static void trials_equal_one_device(void **unused) {
  (void)unused;
  const seed_range seeds = seed_range_of(0, 100);
  trial *it = malloc(sizeof *it);
  peers *all = calloc(1, sizeof *all);
  assert_true(it && all);
  int failed = 0, wild = 0;
  for (int i = 0; i < seeds.count; i++) {
    char failure[FAILURE_TEXT];
    const uint64_t seed = seeds.first + (uint64_t)i;
    trial_draw(it, seed, DRAW_REAL | (seed % 2 ? DRAW_WIDER : 0));
    if (!run_peers(it, all, failure)) {
      trial_print(it, stderr);
      fprintf(stderr, "seed %" PRIu64 ": %s\n", it->model.seed, failure);
      failed++;
    }
    wild += all->wild;
  }
  fprintf(stderr,
          "%d seeds: %" PRId64 " values of the same bits, %" PRId64 " nearly, %d cases ended by "
          "large numbers\n",
          seeds.count, all->same_bits, all->near, wild);
  free(it);
  free(all);
  assert_int_equal(failed, 0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(trials_equal_one_device),
  };
  seed_range_read(argc, argv);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
