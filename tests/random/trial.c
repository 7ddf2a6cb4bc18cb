/* Draws trials and executes them action by action. Invariant: everything is released after any
 * failure. */
#include "tests/random/trial.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const ACTION_NAMES[ACTION_KINDS] = {
    "run",  "train",    "fly",      "threads", "save",      "load", "restore",
    "rate", "momentum", "averages", "bad",     "sequences", "close"};

/* ---- Drawing --------------------------------------------------------------------------------- */

/* Views have one store, which has a parameter whole or in the pieces of one of them. */
static void keep_whole(trial *it) {
  for (int i = 0; i < it->view_count && it->view_count > 1; i++)
    for (int w = 0; w < it->views[i].wrap_count; w++)
      if (it->views[i].wraps[w].sharding == TDM_SHARDING_PARAMETERS)
        it->views[i].wraps[w].sharding = TDM_SHARDING_OPTIMIZER_STATES;
}

/* Views that share a store have its tables in the same shards. */
static void share_shards(trial *it, uint64_t seed) {
  shards_draw(&it->views[0], &it->model, &it->machine, seed);
  for (int i = 1; i < it->view_count; i++) {
    it->views[i].shard_count = it->views[0].shard_count;
    memcpy(it->views[i].shards, it->views[0].shards, sizeof it->views[0].shards);
  }
}

/* Gives views that share a store the same parallel regions, so that they require the same pieces of
 * it. */
static void share_wraps(trial *it) {
  it->views[0].node_count = it->model.node_count;
  for (int i = 1; i < it->view_count; i++) {
    it->views[i].node_count = it->model.node_count;
    it->views[i].wrap_count = it->views[0].wrap_count;
    memcpy(it->views[i].wraps, it->views[0].wraps, sizeof it->views[0].wraps);
  }
}

/* Makes all views train the same parameters, so that they can share a checkpoint. */
static void alternate(trial *it, draw *stream) {
  for (int i = 0; i < it->view_count; i++) {
    it->views[i].node_count = it->model.node_count;
    it->views[i].frozen = it->views[0].frozen;
    if (it->model.real) it->views[i].trains = it->model.reached != 0;
    shards_draw(&it->views[i], &it->model, &it->machine, draw_bits(stream));
  }
}

static void widen(trial *it, uint64_t seed) {
  draw stream = draw_of(seed, 10);
  it->hands_over = it->view_count > 1 && draw_one_in(&stream, 2);
  if (it->hands_over) {
    alternate(it, &stream);
    return;
  }
  /* Otherwise a view that requires a whole parameter could not share it with one that has
   * shards. */
  if (!it->model.real && draw_one_in(&stream, 2))
    share_wraps(it);
  else
    keep_whole(it);
  share_shards(it, draw_bits(&stream));
}

void trial_draw(trial *it, uint64_t seed, int kinds) {
  draw stream = draw_of(seed, 2);
  memset(it, 0, sizeof *it);
  model_draw(&it->model, seed, kinds);
  machine_draw(&it->machine, seed);
  it->view_count = draw_between(&stream, 1, MOST_VIEWS);
  for (int i = 0; i < it->view_count; i++)
    view_draw(&it->views[i], &it->model, &it->machine, draw_bits(&stream));
  if (it->model.wider)
    widen(it, seed);
  else
    keep_whole(it);
  it->loads_first = draw_one_in(&stream, 2);
  static const action_kind USUAL[] = {
      ACTION_RUN,     ACTION_RUN,  ACTION_TRAIN, ACTION_TRAIN, ACTION_TRAIN,    ACTION_FLY,
      ACTION_FLY,     ACTION_FLY,  ACTION_LOAD,  ACTION_LOAD,  ACTION_SAVE,     ACTION_THREADS,
      ACTION_RESTORE, ACTION_RATE, ACTION_BAD,   ACTION_CLOSE, ACTION_MOMENTUM, ACTION_AVERAGES};
  bool keeps = false;
  for (int i = 0; i < it->model.node_count; i++)
    keeps |= it->model.nodes[i].kind == NODE_KEPT;
  it->action_count = draw_between(&stream, 4, MOST_ACTIONS);
  for (int i = 0; i < it->action_count; i++)
    it->actions[i] = (action){USUAL[draw_below(&stream, (int)(sizeof USUAL / sizeof *USUAL))],
                              draw_below(&stream, it->view_count), draw_bits(&stream) % 1000000};
  for (int i = 0; i < it->action_count && keeps; i++)
    if (draw_one_in(&stream, 3)) it->actions[i].kind = ACTION_SEQUENCE;
}

void trial_print(const trial *it, FILE *out) {
  model_print(&it->model, out);
  fprintf(out, "  %d cpu, %d sim devices, delays from %" PRIu64 "%s%s\n", it->machine.cpu_count,
          it->machine.sim_count, it->machine.delay_seed,
          it->loads_first ? "; the store is loaded before sessions" : "",
          it->hands_over ? "; a store for each view, handed over" : "");
  for (int i = 0; i < it->view_count; i++) {
    fprintf(out, "  view %d ", i);
    view_print(&it->views[i], &it->model, &it->machine, out);
  }
  for (int i = 0; i < it->action_count; i++)
    fprintf(out, "  action %d: %s, view %d, seed %" PRIu64 "\n", i,
            ACTION_NAMES[it->actions[i].kind], it->actions[i].view, it->actions[i].seed);
}

/* ---- What actions share ---------------------------------------------------------------------- */

bool trial_fail(running *it, const char *format, ...) {
  char said[600];
  (void)snprintf(said, sizeof said, "%s", tdm_last_message());
  va_list list;
  va_start(list, format);
  (void)vsnprintf(it->failure, FAILURE_TEXT, format, list);
  va_end(list);
  const size_t length = strlen(it->failure);
  if (*said)
    (void)snprintf(it->failure + length, FAILURE_TEXT - length, " (last message: %s)", said);
  return false;
}

bool trial_open(running *it, int view) {
  const trial *of = it->trial;
  if (it->sessions[view]) return true;
  if (of->hands_over && it->has_holder && it->holder != view) return hand_over(it, view);
  it->holder = view;
  it->has_holder = true;
  it->sessions[view] = view_open(&of->views[view], &of->model, &of->machine, it->context, it->store,
                                 &it->observations);
  it->rates[view] = of->views[view].learning_rate;
  it->momenta[view] = -1;
  return it->sessions[view] ? true : trial_fail(it, "view %d does not open", view);
}

bool list_add_parameter(running *it, tdm_tensor_list *list, int parameter) {
  const random_model *model = &it->trial->model;
  const random_parameter *declared = &model->parameters[parameter];
  tdm_dim dims[MOST_RANK];
  memcpy(dims, declared->shape.dims, sizeof dims);
  const tdm_shape shape = tdm_shape_make(declared->shape.rank, dims);
  tdm_tensor *wide =
      tdm_tensor_from(it->context, TDM_FLOAT64, shape, it->oracle->parameters[parameter]);
  tdm_tensor *tensor = tdm_tensor_to(wide, NULL, model->wide ? TDM_FLOAT64 : TDM_FLOAT32);
  const bool done = tensor && tdm_tensor_list_add(list, declared->name, tensor) == TDM_OK;
  tdm_tensor_release(wide);
  tdm_tensor_release(tensor);
  return done;
}

static bool load(running *it, uint64_t seed) {
  const random_model *model = &it->trial->model;
  oracle_load(it->oracle, seed);
  tdm_tensor_list *list = tdm_tensor_list_create(it->context);
  bool done = list != NULL;
  for (int i = 0; i < model->parameter_count && done; i++)
    done = list_add_parameter(it, list, i);
  done = done && tdm_store_load(it->store, list) == TDM_OK;
  tdm_tensor_list_release(list);
  return done ? true : trial_fail(it, "the store does not load");
}

/* ---- Actions --------------------------------------------------------------------------------- */

static bool run_once(running *it, int view, bool trains, uint64_t seed) {
  try_run run;
  bool good = run_begin(it, &run, view, trains, seed);
  if (good) {
    run_execute(it, &run);
    good = run.status == TDM_OK ? run_check(it, &run) : run_failed(it, &run);
    if (good && trains && run.status == TDM_OK) it->steps++;
  }
  run_end(&run);
  return good;
}

static bool train(running *it, const action *what) {
  if (!it->trial->views[what->view].trains) return run_once(it, what->view, false, what->seed);
  for (uint64_t i = 0; i < 1 + what->seed % 2; i++)
    if (!run_once(it, what->view, true, what->seed + i)) return false;
  const uint64_t steps = tdm_store_step(it->store);
  return steps == it->steps
             ? true
             : trial_fail(it, "%" PRIu64 " steps are counted, not %" PRIu64, steps, it->steps);
}

static bool save(running *it) {
  tdm_tensor_list *list = tdm_store_save(it->store, it->trial->model.average_decay != 0);
  if (!list) return trial_fail(it, "the store does not save");
  const bool good = it->spent || list_agrees(it, list, true);
  it->counts->saves++;
  tdm_tensor_list_release(list);
  return good;
}

/* Saves, trains, and restores: all saved values are back, momenta too. */
static bool restore(running *it, const action *what) {
  tdm_session *session = it->sessions[what->view];
  const random_model *model = &it->trial->model;
  if (!it->trial->views[what->view].trains) return true;
  /* States of the optimizer exist from its first step on. */
  if (model_has_states(model) && !run_once(it, what->view, true, what->seed + 1)) return false;
  char path[256];
  const char *folder = getenv("TEST_TMPDIR");
  (void)snprintf(path, sizeof path, "%s/random_%d.safetensors", folder ? folder : "/tmp",
                 (int)getpid());
  const bool by_file = what->seed % 2;
  tdm_tensor_list *list = NULL;
  if ((by_file ? tdm_checkpoint_save(session, NULL, path) : tdm_session_save(session, &list)) !=
      TDM_OK)
    return trial_fail(it, "view %d does not save", what->view);
  oracle *kept = oracle_create(model);
  oracle_copy(kept, it->oracle);
  const uint64_t steps = it->steps;
  const bool spent = it->spent;
  bool good = run_once(it, what->view, it->trial->views[what->view].trains, what->seed);
  const tdm_status loaded = !good     ? TDM_OK
                            : by_file ? tdm_checkpoint_load(session, NULL, path)
                                      : tdm_session_load(session, list);
  if (loaded != TDM_OK) good = trial_fail(it, "view %d does not load", what->view);
  oracle_release(it->oracle);
  it->oracle = kept;
  it->steps = steps;
  it->spent = spent;
  tdm_tensor_list_release(list);
  if (by_file) (void)unlink(path);
  it->counts->saves++;
  return good && save(it);
}

static bool set_rate(running *it, const action *what) {
  if (!it->trial->views[what->view].trains) return true;
  static const double RATES[] = {1, 0.5, 0.25, 2, 0};
  it->rates[what->view] = RATES[what->seed % 5];
  return tdm_session_set_learning_rate(it->sessions[what->view], it->rates[what->view]) == TDM_OK
             ? true
             : trial_fail(it, "view %d takes no rate", what->view);
}

/* Returns true if a group of parameters that the view trains has a momentum. */
static bool trains_with_momentum(const running *it, int view) {
  const random_model *model = &it->trial->model;
  const random_view *seen = &it->trial->views[view];
  if (!seen->trains || model->optimizer != OPTIMIZER_SGD) return false;
  bool any = model->groups[0].momentum != 0;
  for (int i = 0; i < model->parameter_count; i++)
    any |= model->groups[model->parameters[i].group].momentum != 0 && !(seen->frozen >> i & 1);
  return any;
}

static bool set_momentum(running *it, const action *what) {
  if (!trains_with_momentum(it, what->view)) return true;
  static const double MOMENTA[] = {0.5, 0.25, 0.75, 0};
  it->momenta[what->view] = MOMENTA[what->seed % 4];
  return tdm_session_set_momentum(it->sessions[what->view], it->momenta[what->view]) == TDM_OK
             ? true
             : trial_fail(it, "view %d takes no momentum", what->view);
}

/* Returns true if an output of the view is computed from a parameter that has an average. */
static bool has_averages(const running *it, const random_view *view) {
  const random_model *model = &it->trial->model;
  uint32_t outputs = 0;
  for (int k = 0; k < model->output_count; k++)
    if (view_has_output(view, model, k)) outputs |= 1u << k;
  const uint64_t needed = model_needed(model, view->node_count, outputs);
  bool any = false;
  for (int i = 0; i < view->node_count; i++)
    for (int k = 0; k < model->nodes[i].parameter_count && (needed >> i & 1); k++)
      any |= it->oracle->has_average[model->nodes[i].parameters[k]];
  return any;
}

/* Runs a session that reads averages, on the same store as the view's own session. */
static bool read_averages(running *it, const action *what) {
  const trial *of = it->trial;
  const random_model *model = &of->model;
  random_view view = of->views[what->view];
  view.trains = false;
  view.reads_averages = true;
  if (it->spent || !has_averages(it, &view)) return true;
  tdm_session *own = it->sessions[what->view];
  it->sessions[what->view] =
      view_open(&view, model, &of->machine, it->context, it->store, &it->observations);
  oracle_swap_averages(it->oracle);
  const bool good = it->sessions[what->view]
                        ? run_once(it, what->view, false, what->seed)
                        : trial_fail(it, "view %d does not open to read averages", what->view);
  oracle_swap_averages(it->oracle);
  tdm_session_release(it->sessions[what->view]);
  it->sessions[what->view] = own;
  return good;
}

/* A wrong id or a missing feed is an error without effect on later runs. */
static bool go_wrong(running *it, const action *what) {
  const random_model *model = &it->trial->model;
  const bool trains = it->trial->views[what->view].trains && what->seed % 2;
  try_run run;
  bool good = run_begin(it, &run, what->view, trains, what->seed);
  bool wrong = run.feed_count > 0 && (trains || run.fetch_count > 0);
  for (size_t i = 0; i < run.feed_count && good; i++) {
    const random_node *fed = &model->nodes[atoi(run.names[i] + 1)];
    int64_t *ids = tdm_tensor_data(run.feeds[i].tensor);
    if (fed->kind == NODE_IDS && ids && run.rows > 0) ids[0] = 1000;
  }
  /* Only who reads the ids finds out; without them, a name that nothing has. */
  if (what->seed % 3 == 0 && run.feed_count > 0) run.feeds[0].name = "nothing";
  wrong = wrong && what->seed % 3 == 0;
  if (good) {
    if (wrong) run_execute(it, &run);
    if (wrong && run.status == TDM_OK) good = trial_fail(it, "an input that lacks was accepted");
  }
  run_end(&run);
  return good && save(it);
}

static void close_view(running *it, int view) {
  tdm_session_release(it->sessions[view]);
  it->sessions[view] = NULL;
}

static bool can_run(const running *it, int view) {
  for (int i = 0; i < it->trial->model.output_count; i++)
    if (can_fetch(it->trial, view, i)) return true;
  return false;
}

bool trial_act(running *it, const action *what) {
  if (!can_run(it, what->view)) return true;
  if (!trial_open(it, what->view)) return false;
  switch (what->kind) {
  case ACTION_RUN:
    return run_once(it, what->view, false, what->seed);
  case ACTION_TRAIN:
    return train(it, what);
  case ACTION_FLY:
    return fly(it, what);
  case ACTION_THREADS:
    return go_in_threads(it, what);
  case ACTION_SAVE:
    return save(it);
  case ACTION_LOAD:
    if (!model_has_states(&it->trial->model)) it->spent = false;
    return load(it, what->seed);
  case ACTION_RESTORE:
    return restore(it, what);
  case ACTION_RATE:
    return set_rate(it, what);
  case ACTION_MOMENTUM:
    return set_momentum(it, what);
  case ACTION_AVERAGES:
    return read_averages(it, what);
  case ACTION_BAD:
    return go_wrong(it, what);
  case ACTION_SEQUENCE:
    return go_in_sequences(it, what);
  default:
    close_view(it, what->view);
    return true;
  }
}

bool trial_run(const trial *of, tally *counts, char failure[FAILURE_TEXT]) {
  running it = {.trial = of, .counts = counts, .failure = failure};
  *failure = 0;
  it.context = machine_open(&of->machine);
  it.store = it.context ? tdm_store_create(it.context) : NULL;
  it.oracle = oracle_create(&of->model);
  bool good = it.store ? true : trial_fail(&it, "no context, or no store");
  if (good && !of->loads_first) good = !can_run(&it, 0) || trial_open(&it, 0);
  good = good && load(&it, of->model.seed);
  for (int i = 0; i < of->action_count && good; i++) {
    if (it.spent && model_has_states(&of->model)) break;
    if (it.spent) good = load(&it, of->actions[i].seed + 1);
    it.spent = false;
    good = good && trial_act(&it, &of->actions[i]);
    char text[FAILURE_TEXT];
    if (good) continue;
    (void)snprintf(text, sizeof text, "%s", failure);
    (void)snprintf(failure, FAILURE_TEXT, "action %d: %.900s", i, text);
  }
  good = good && (it.spent || save(&it));
  for (int i = 0; i < MOST_VIEWS; i++)
    close_view(&it, i);
  oracle_release(it.oracle);
  tdm_store_release(it.store);
  tdm_context_release(it.context);
  return good;
}
