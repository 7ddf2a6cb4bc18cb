/* Two sessions that train with one store, as those of a GAN: each counts its own steps, and a
 * checkpoint by either has the numbers of both. graph/sessions.h describes them. */
#include <string.h>

#include "tests/checkpoint/support.h"
#include "tests/graph/group.h"
#include "tests/options.h"

enum { MAKER, JUDGE, BOTH };

typedef struct gan {
  tdm_store *store;
  tdm_session *sessions[BOTH];
} gan;

/* One graph of two losses: each session trains the parameters of its part with Adam. */
static tdm_session *session_of(tdm_store *store, int which, bool in_groups, double rate) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value noise = tdm_input(graph, "noise", TDM_FLOAT32, tdm_shape_of(2, 4, 3));
  tdm_value x = tdm_linear(graph, "maker/fc", noise, 5);
  x = tdm_dropout(graph, "judge/drop", x, 0.5);
  x = tdm_linear(graph, "judge/fc", x, 1);
  const tdm_value up = tdm_mean(graph, "up", x, NULL, 0, false);
  const tdm_value down = tdm_mean(graph, "down", tdm_mul(graph, "square", x, x), NULL, 0, false);
  const tdm_optimizer adam = tdm_adam(rate);
  const tdm_parameter_group frozen = {.parameters = which == MAKER ? "judge" : "maker"};
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.store = store, o.loss = which == MAKER ? up : down,
              o.optimizer = &adam, o.groups = in_groups ? &frozen : NULL, o.group_count = in_groups,
              o.seed = 3);
  return run_session(graph, &options);
}

static gan gan_create(bool in_groups, bool reversed) {
  gan made = {.store = tdm_store_create(context)};
  for (int i = 0; i < BOTH; i++) {
    const int which = reversed ? BOTH - 1 - i : i;
    made.sessions[which] = session_of(made.store, which, in_groups, 0.01 * (1 + which));
  }
  return made;
}

static void gan_release(gan *made) {
  for (int i = 0; i < BOTH; i++)
    tdm_session_release(made->sessions[i]);
  tdm_store_release(made->store);
}

static double train(tdm_session *session) {
  static const float noise[12] = {1, 2, 3, -1, 0, 2, 1, 1, -2, 0.5F, 1, 0};
  tdm_tensor *fed = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, 4, 3), noise);
  const tdm_feed feed = {"noise", fed, false};
  double loss = 0;
  assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, &loss));
  tdm_tensor_release(fed);
  return loss;
}

static void train_both(gan *made, int rounds) {
  for (int i = 0; i < rounds; i++) {
    (void)train(made->sessions[JUDGE]);
    (void)train(made->sessions[JUDGE]);
    (void)train(made->sessions[MAKER]);
  }
}

static void assert_same(gan *a, gan *b) {
  tdm_tensor_list *mine = tdm_store_save(a->store, true), *other = tdm_store_save(b->store, true);
  assert_same_state(mine, other);
  tdm_tensor_list_release(mine);
  tdm_tensor_list_release(other);
  assert_int_equal(tdm_store_step(a->store), tdm_store_step(b->store));
  for (int i = 0; i < BOTH; i++)
    assert_int_equal(tdm_session_step(a->sessions[i]), tdm_session_step(b->sessions[i]));
}

static void each_session_counts_its_own_steps(void **unused) {
  (void)unused;
  gan made = gan_create(true, false);
  train_both(&made, 3);
  assert_int_equal(tdm_session_step(made.sessions[MAKER]), 3);
  assert_int_equal(tdm_session_step(made.sessions[JUDGE]), 6);
  assert_int_equal(tdm_store_step(made.store), 9);
  assert_int_equal(tdm_store_step(NULL), 0);
  gan_release(&made);
}

/* Random operations go by the store's steps: equal seeds do not draw equal numbers in two sessions
 * one step after the other. */
static void sessions_draw_different_numbers(void **unused) {
  (void)unused;
  gan made = gan_create(true, false);
  for (int i = 0; i < BOTH; i++)
    assert_ok(tdm_session_set_learning_rate(made.sessions[i], 0));
  const double first = train(made.sessions[JUDGE]);
  (void)train(made.sessions[MAKER]);
  gan other = gan_create(true, false);
  for (int i = 0; i < BOTH; i++)
    assert_ok(tdm_session_set_learning_rate(other.sessions[i], 0));
  (void)train(other.sessions[MAKER]);
  assert_true(train(other.sessions[JUDGE]) != first);
  assert_true(train(made.sessions[JUDGE]) != first);
  gan_release(&other);
  gan_release(&made);
}

/* Either of two sessions, which were created in any order, saves and loads. Rates that were set
 * after the creation are restored, and later steps have the same bits. */
static void either_saves_and_loads_both(void **unused) {
  (void)unused;
  char path[512];
  checkpoint_path(path, "gan.safetensors");
  for (int mode = 0; mode < 16; mode++) {
    const bool in_groups = mode & 1, reversed = mode & 2;
    gan made = gan_create(in_groups, false);
    train_both(&made, 2);
    assert_ok(tdm_session_set_learning_rate(made.sessions[MAKER], 0.003));
    assert_ok(tdm_session_set_learning_rate(made.sessions[JUDGE], 0.0007));
    assert_ok(tdm_checkpoint_save(made.sessions[mode & 4 ? MAKER : JUDGE], NULL, path));
    gan later = gan_create(in_groups, reversed);
    assert_ok(tdm_checkpoint_load(later.sessions[mode & 8 ? MAKER : JUDGE], NULL, path));
    assert_same(&made, &later);
    train_both(&made, 2);
    train_both(&later, 2);
    assert_same(&made, &later);
    gan_release(&later);
    gan_release(&made);
  }
}

/* A program that has created only one of them does not continue with a wrong rate. */
static void a_missing_session_is_refused(void **unused) {
  (void)unused;
  char path[512];
  checkpoint_path(path, "both.safetensors");
  gan made = gan_create(true, false);
  train_both(&made, 1);
  assert_ok(tdm_checkpoint_save(made.sessions[JUDGE], NULL, path));
  tdm_session *lone = session_of(NULL, JUDGE, true, 0.01);
  assert_status(tdm_checkpoint_load(lone, NULL, path), TDM_INVALID_ARGUMENT);
  assert_message("it has the learning rate of a session that trains \"up: maker/fc.weight, "
                 "maker/fc.bias\"");
  assert_int_equal(tdm_session_step(lone), 0);
  assert_ok(tdm_state_dict_load(lone, path, NULL)); /* loading only parameters is legal */
  tdm_session_release(lone);
  tdm_session *third = session_of(made.store, JUDGE, true, 0.01);
  assert_status(tdm_checkpoint_load(made.sessions[JUDGE], NULL, path), TDM_INVALID_ARGUMENT);
  assert_message("no learning rate of the store's session that trains \"down: judge/fc.weight");
  tdm_session_release(third);
  assert_ok(tdm_checkpoint_load(made.sessions[JUDGE], NULL, path));
  gan_release(&made);
}

/* A session that ends is none of those that are saved; the other's steps are not the store's. */
static void a_session_that_has_ended_is_not_saved(void **unused) {
  (void)unused;
  char path[512];
  checkpoint_path(path, "one.safetensors");
  gan made = gan_create(true, false);
  train_both(&made, 2);
  tdm_session_release(made.sessions[MAKER]);
  made.sessions[MAKER] = NULL;
  assert_ok(tdm_checkpoint_save(made.sessions[JUDGE], NULL, path));
  tdm_session *lone = session_of(NULL, JUDGE, true, 0.5);
  assert_ok(tdm_checkpoint_load(lone, NULL, path));
  assert_int_equal(tdm_session_step(lone), 4);
  assert_int_equal(tdm_store_step(tdm_session_store(lone)), 6);
  for (int i = 0; i < 2; i++)
    assert_true(train(lone) == train(made.sessions[JUDGE]));
  tdm_session_release(lone);
  gan_release(&made);
}

/* Checkpoints of one session, and of earlier versions, load into several sessions. */
static void files_of_one_session_still_load(void **unused) {
  (void)unused;
  char path[512];
  checkpoint_path(path, "old.safetensors");
  tdm_session *lone = session_of(NULL, JUDGE, true, 0.02);
  (void)train(lone);
  assert_ok(tdm_session_set_learning_rate(lone, 0.007));
  assert_ok(tdm_checkpoint_save(lone, NULL, path));
  tdm_tensor_list *list = tdm_safetensors_load(context, path);
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++)
    assert_null(strstr(tdm_tensor_list_name(list, i), "session"));
  tdm_tensor_list_release(list);
  gan made = gan_create(true, false);
  assert_ok(tdm_checkpoint_load(made.sessions[JUDGE], NULL, path));
  assert_int_equal(tdm_session_step(made.sessions[JUDGE]), 1);
  assert_int_equal(tdm_session_step(made.sessions[MAKER]), 0);
  assert_true(train(lone) == train(made.sessions[JUDGE]));
  gan_release(&made);
  tdm_session_release(lone);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_session_counts_its_own_steps),
      cmocka_unit_test(sessions_draw_different_numbers),
      cmocka_unit_test(either_saves_and_loads_both),
      cmocka_unit_test(a_missing_session_is_refused),
      cmocka_unit_test(a_session_that_has_ended_is_not_saved),
      cmocka_unit_test(files_of_one_session_still_load),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
