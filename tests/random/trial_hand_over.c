/* Moves the contents of a store to the store of another view, whose parameters have other devices
 * and other shards: by a session's list, by a checkpoint's file, or by the store's list. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/random/trial.h"

static void close_all(running *it) {
  for (int i = 0; i < MOST_VIEWS; i++) {
    tdm_session_release(it->sessions[i]);
    it->sessions[i] = NULL;
  }
}

/* Replaces the store by an empty one. */
static bool begin_anew(running *it) {
  close_all(it);
  tdm_store_release(it->store);
  it->store = tdm_store_create(it->context);
  it->has_holder = false;
  return it->store ? true : trial_fail(it, "no store");
}

/* The names are those of the old store, also of parameters that no session has bound. A checkpoint
 * has these too, and sessions built like the old one load it. Their values differ. */
static bool load_others(running *it) {
  const random_model *model = &it->trial->model;
  oracle *kept = it->oracle;
  it->oracle = oracle_create(model);
  oracle_load(it->oracle, model->seed + 1);
  tdm_tensor_list *list = tdm_tensor_list_create(it->context);
  bool good = list != NULL;
  for (int i = 0; good && i < model->parameter_count; i++)
    good = list_add_parameter(it, list, i);
  good = good && tdm_store_load(it->store, list) == TDM_OK;
  tdm_tensor_list_release(list);
  oracle_release(it->oracle);
  it->oracle = kept;
  return good ? true : trial_fail(it, "the store does not load");
}

/* All that a checkpoint has: steps and rates too. */
static bool hand_over_session(running *it, int view, bool by_file) {
  char path[256];
  const char *folder = getenv("TEST_TMPDIR");
  (void)snprintf(path, sizeof path, "%s/handed_%d.safetensors", folder ? folder : "/tmp",
                 (int)getpid());
  const int from = it->holder;
  tdm_tensor_list *list = NULL;
  const tdm_status saved = by_file ? tdm_checkpoint_save(it->sessions[from], NULL, path)
                                   : tdm_session_save(it->sessions[from], &list);
  if (saved != TDM_OK) return trial_fail(it, "view %d does not save", from);
  const double rate = it->rates[from], momentum = it->momenta[from];
  bool good = begin_anew(it) && (!it->oracle || load_others(it)) && trial_open(it, view);
  const tdm_status loaded = !good     ? TDM_OK
                            : by_file ? tdm_checkpoint_load(it->sessions[view], NULL, path)
                                      : tdm_session_load(it->sessions[view], list);
  if (loaded != TDM_OK) good = trial_fail(it, "view %d does not load what %d had", view, from);
  it->rates[view] = rate;
  it->momenta[view] = momentum;
  tdm_tensor_list_release(list);
  if (by_file) (void)unlink(path);
  return good;
}

/* Parameters and states. Those that the store had for no session yet are added. */
static bool hand_over_store(running *it, int view, bool before) {
  const random_model *model = &it->trial->model;
  tdm_tensor_list *list = tdm_store_save(it->store, true);
  bool good = list ? begin_anew(it) : trial_fail(it, "the store does not save");
  const bool adds = it->oracle && !it->spent;
  for (int i = 0; good && i < model->parameter_count && adds; i++)
    if (!tdm_tensor_list_find(list, model->parameters[i].name))
      good = list_add_parameter(it, list, i);
  if (good && !before) good = trial_open(it, view);
  if (good && tdm_store_load(it->store, list) != TDM_OK)
    good = trial_fail(it, "the store of view %d does not load", view);
  tdm_tensor_list_release(list);
  it->steps = 0;
  return good && trial_open(it, view);
}

bool hand_over(running *it, int view) {
  const trial *of = it->trial;
  draw stream = draw_of(of->model.seed, 11 + it->counts->handed);
  it->counts->handed++;
  const bool both_train =
      it->sessions[it->holder] && of->views[it->holder].trains && of->views[view].trains;
  if (both_train && (of->model.real || draw_one_in(&stream, 2)))
    return hand_over_session(it, view, draw_one_in(&stream, 2));
  return hand_over_store(it, view, draw_one_in(&stream, 2));
}
