/* The primitives in graphs, by the names and intents of PyTorch's
 * test/distributed/test_data_parallel.py: scatter and gather with gradients, replicas of parameters
 * and buffers, parallel_apply, and the saved entries of a wrapped model. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/options.h"
#include "tests/parallel/support.h"

#define BOTH FIRST "," SECOND

/* ---- parallel_apply: scopes on separate devices ---------------------------------------------- */

/* places NULL: none. */
static tdm_session *apply_session(const char *const *places) {
  tdm_graph *graph = tdm_graph_create(context);
  for (int i = 0; i < 2; i++) {
    static const char *const names[][3] = {{"l1", "i1", "y1"}, {"l2", "i2", "y2"}};
    tdm_scope_push(graph, names[i][0]);
    if (places) tdm_place(graph, places[i]);
    const tdm_value x =
        tdm_input(graph, names[i][1], TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 10));
    tdm_output(graph, names[i][2], tdm_linear(graph, "fc", x, 5));
    tdm_scope_pop(graph);
  }
  const tdm_session_options options = OPTIONS(tdm_session_options, o.seed = 2);
  return run_session(graph, &options);
}

static void run_apply(tdm_session *session, tdm_fetch *fetches) {
  tdm_tensor *tensors[] = {draw_on(FIRST, tdm_shape_of(2, 4, 10), 1),
                           draw_on(SECOND, tdm_shape_of(2, 4, 10), 2)};
  const tdm_feed feeds[] = {{"l1/i1", tensors[0], false}, {"l2/i2", tensors[1], false}};
  assert_ok(tdm_run(session, feeds, 2, fetches, 2));
  release_tensors(tensors, 2);
}

static void parallel_apply(void **unused) {
  (void)unused;
  static const char *const placements[][2] = {{FIRST, SECOND}, {SECOND, "cpu:1"}, {FIRST, FIRST}};
  tdm_session *plain = apply_session(NULL);
  tdm_fetch wanted[] = {{.name = "y1"}, {.name = "y2"}};
  run_apply(plain, wanted);
  for (size_t p = 0; p < TDM_COUNT_OF(placements); p++) {
    tdm_session *session = apply_session(placements[p]);
    tdm_fetch got[] = {{.name = "y1"}, {.name = "y2"}};
    run_apply(session, got);
    assert_planned(session, "l1/fc", placements[p][0], NULL);
    assert_planned(session, "l2/fc", placements[p][1], NULL);
    for (int i = 0; i < 2; i++) {
      assert_near_tensor(got[i].tensor, wanted[i].tensor, 1e-5);
      tdm_tensor_release(got[i].tensor);
    }
    tdm_session_release(session);
  }
  for (int i = 0; i < 2; i++)
    tdm_tensor_release(wanted[i].tensor);
  tdm_session_release(plain);
}

/* One of them fails: its error arrives, naming it; the other is not disturbed, nor the next run. */
static void parallel_apply_passes_exception(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  static const char *const names[] = {"good", "bad"};
  static const char *const places[] = {FIRST, SECOND};
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  for (int i = 0; i < 2; i++) {
    tdm_place(graph, places[i]);
    tdm_output(graph, names[i], tdm_embedding(graph, names[i], ids, i == 0 ? 100 : 10, 4));
  }
  tdm_session *session = run_session(graph, NULL);
  tdm_fetch fetches[] = {{.name = "good"}, {.name = "bad"}};
  const int64_t wrong[] = {3, 77};
  tdm_tensor *fed = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, 2), wrong);
  const tdm_feed feed = {"ids", fed, false};
  assert_status(tdm_run(session, &feed, 1, fetches, 2), TDM_INVALID_ARGUMENT);
  assert_message("bad");
  assert_message("77");
  assert_null(fetches[0].tensor);
  assert_null(fetches[1].tensor);
  assert_ok(tdm_run(session, &feed, 1, fetches, 1)); /* only the valid one */
  tdm_tensor_release(fetches[0].tensor);
  ((int64_t *)tdm_tensor_data(fed))[1] = 7;
  assert_ok(tdm_run(session, &feed, 1, fetches, 2));
  tdm_tensor_release(fetches[0].tensor);
  tdm_tensor_release(fetches[1].tensor);
  tdm_tensor_release(fed);
  tdm_session_release(session);
}

/* ---- Scatter and gather with gradients ------------------------------------------------------- */

enum { PARTS = 2 };
static const char *part_places[PARTS + 1]; /* devices of the parts, and of the whole; NULL: none */
static int part_dimension;

/* Scatters, scales one half by a separate layer on its device, and gathers. Layers before and after
 * have parameters, so that their gradients depend on both halves. */
static tdm_value build_halves(tdm_graph *graph, tdm_value x) {
  tdm_value halves[PARTS];
  const tdm_dim sizes[PARTS] = {6, 2};
  tdm_split(graph, "cut", x, part_dimension, sizes, PARTS, halves);
  for (int i = 0; i < PARTS; i++) {
    if (part_places[i]) tdm_place(graph, part_places[i]);
    halves[i] = tdm_tanh(graph, i == 0 ? "a" : "b", halves[i]);
  }
  if (part_places[PARTS]) tdm_place(graph, part_places[PARTS]);
  const tdm_value whole = tdm_concat(graph, "whole", halves, PARTS, part_dimension);
  return tdm_linear(graph, "after", whole, 5);
}

static tdm_value build_whole(tdm_graph *graph, tdm_value x) {
  return tdm_linear(graph, "after", tdm_tanh(graph, "a", x), 5);
}

static void expect_halves(const test_model *wanted, const test_model *cut) {
  tdm_session *plain = model_session(wanted, NULL, NULL, NULL);
  tdm_session *halved = model_session(cut, NULL, NULL, NULL);
  for (uint64_t i = 0; i < 3; i++) {
    tdm_tensor *want = model_run(plain, wanted, 8, i);
    tdm_tensor *got = model_run(halved, cut, 8, i);
    assert_near_tensor(got, want, 1e-4);
    tdm_tensor_release(want);
    tdm_tensor_release(got);
    (void)model_train(plain, wanted, 8, i);
    (void)model_train(halved, cut, 8, i);
  }
  tdm_tensor_list *want = state_of(plain);
  tdm_tensor_list *got = state_of(halved);
  assert_near_state(got, want, 1e-4);
  tdm_tensor_list_release(want);
  tdm_tensor_list_release(got);
  tdm_session_release(plain);
  tdm_session_release(halved);
}

static void expect_parts(const char *first, const char *second, const char *whole) {
  part_places[0] = first;
  part_places[1] = second;
  part_places[2] = whole;
  test_model model = {.build = build_whole,
                      .x = tdm_shape_of(2, TDM_DIM("batch"), 8),
                      .y = tdm_shape_of(2, TDM_DIM("batch"), 5)};
  test_model cut = model;
  cut.build = build_halves;
  for (part_dimension = -2; part_dimension < 2; part_dimension++)
    expect_halves(&model, &cut);
}

static void scatter_cpu(void **unused) {
  (void)unused;
  expect_parts(FIRST, SECOND, "cpu:0"); /* the scattered value is on cpu:0 */
}

static void scatter_gpu(void **unused) {
  (void)unused;
  expect_parts("cpu:1", FIRST, FIRST);
}

static void gather_cpu(void **unused) {
  (void)unused;
  expect_parts(SECOND, "cpu:2", "cpu:0");
}

static void gather_gpu(void **unused) {
  (void)unused;
  expect_parts(FIRST, SECOND, SECOND);
}

/* Results that do not fit are refused; in a graph every replica has the same ones by name. */
static void gather_different_len_dicts(void **unused) {
  (void)unused;
  tdm_tensor *parts[] = {draw_on(FIRST, tdm_shape_of(2, 3, 4), 1),
                         draw_on(SECOND, tdm_shape_of(2, 3, 5), 1)};
  assert_null(tdm_tensors_gather(parts, 2, 0, "cpu:0"));
  assert_message("tensor 1");
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value a = tdm_input(graph, "a", TDM_FLOAT32, tdm_shape_of(2, 3, 4));
  const tdm_value b = tdm_input(graph, "b", TDM_FLOAT32, tdm_shape_of(2, 3, 5));
  const tdm_value values[] = {a, b};
  (void)tdm_concat(graph, "whole", values, 2, 0);
  assert_status(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
  assert_message("whole");
  tdm_graph_release(graph);
  release_tensors(parts, 2);
}

/* ---- Replicas -------------------------------------------------------------------------------- */

typedef struct seen_copies {
  tdm_tensor_list *state;
  int weights;
  int buffers;
} seen_copies;

static void compare_copy(void *user, const tdm_observation *observation) {
  seen_copies *seen = user;
  const bool buffer = strcmp(observation->name, "module/buffer") == 0;
  const tdm_tensor *own =
      tdm_tensor_list_find(seen->state, buffer ? "module/fc.running" : "module/fc.weight");
  assert_non_null(own);
  assert_int_equal(observation->replica, buffer ? seen->buffers++ : seen->weights++);
  assert_same_tensor(observation->tensor, own);
}

/* A part that reads a parameter and a buffer, both seen where its replicas have them. */
static tdm_session *reader_session(seen_copies *seen) {
  const tdm_initializer uniform = {.kind = TDM_INIT_UNIFORM, .a = -1, .b = 1, .zero_row = -1};
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 4));
  tdm_scope_push(graph, "module");
  const tdm_shape shape = tdm_shape_of(2, 5, 4);
  const tdm_value weight = tdm_parameter(graph, "fc.weight", TDM_FLOAT32, shape, &uniform);
  const tdm_value running =
      tdm_state(graph, "fc.running", TDM_FLOAT32, shape, &uniform, (tdm_value){0, 0});
  const tdm_value sum = tdm_add(graph, "sum", tdm_observe(graph, "weight", weight),
                                tdm_observe(graph, "buffer", running));
  tdm_output(graph, "y", append_product(graph, "product", x, sum));
  tdm_scope_pop(graph);
  const tdm_parallel_options wrapped = OPTIONS(tdm_parallel_options, o.devices = BOTH ",cpu:1");
  tdm_data_parallel(graph, "module", &wrapped);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.observer = compare_copy, o.observer_user = seen);
  return run_session(graph, &options);
}

static void run_reader(tdm_session *session, seen_copies *seen) {
  tdm_tensor *x = draw(tdm_shape_of(2, 9, 4), 1);
  const tdm_feed feed = {"x", x, false};
  tdm_fetch y = {.name = "y"};
  seen->state = state_of(session);
  seen->weights = 0;
  seen->buffers = 0;
  assert_ok(tdm_run(session, &feed, 1, &y, 1));
  assert_int_equal(seen->weights, 3);
  assert_int_equal(seen->buffers, 3);
  tdm_tensor_list_release(seen->state);
  tdm_tensor_release(y.tensor);
  tdm_tensor_release(x);
}

/* Sets a value of the store anew. */
static void reload(tdm_session *session, const char *name, uint64_t seed) {
  tdm_tensor *fresh = draw(tdm_shape_of(2, 5, 4), seed);
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  assert_ok(tdm_tensor_list_add(list, name, fresh));
  assert_ok(tdm_store_load(tdm_session_store(session), list));
  tdm_tensor_list_release(list);
  tdm_tensor_release(fresh);
}

/* Copies of a parameter are its own values, also after it was changed; none travels twice. */
static void replicate(void **unused) {
  (void)unused;
  seen_copies seen = {0};
  tdm_session *session = reader_session(&seen);
  run_reader(session, &seen);
  reload(session, "module/fc.weight", 5);
  run_reader(session, &seen);
  tdm_session_release(session);
}

static void replicate_buffers(void **unused) {
  (void)unused;
  seen_copies seen = {0};
  tdm_session *session = reader_session(&seen);
  run_reader(session, &seen);
  reload(session, "module/fc.running", 6);
  run_reader(session, &seen);
  tdm_session_release(session);
}

/* ---- Saved entries --------------------------------------------------------------------------- */

static tdm_value build_linear(tdm_graph *graph, tdm_value x) {
  return tdm_linear(graph, "fc", x, 5);
}

static const test_model *saved_model(void) {
  static test_model model;
  model = (test_model){.build = build_linear,
                       .x = tdm_shape_of(2, TDM_DIM("batch"), 10),
                       .y = tdm_shape_of(2, TDM_DIM("batch"), 5)};
  return &model;
}

/* A wrapped model is saved under the plain model's names; a plain model continues from it. */
static void save_replica_module(void **unused) {
  (void)unused;
  char path[] = "/tmp/tandem_parallel_XXXXXX";
  const int file = mkstemp(path);
  assert_true(file >= 0);
  (void)close(file);
  const test_model *model = saved_model();
  tdm_session *plain = model_session(model, NULL, NULL, NULL);
  tdm_session *wrapped = model_session(model, BOTH, NULL, NULL);
  (void)model_train(wrapped, model, 8, 1);
  tdm_tensor_list *own = tdm_store_save(tdm_session_store(plain), false);
  tdm_tensor_list *saved = tdm_store_save(tdm_session_store(wrapped), false);
  assert_int_equal(tdm_tensor_list_count(saved), tdm_tensor_list_count(own));
  for (size_t i = 0; i < tdm_tensor_list_count(own); i++)
    assert_string_equal(tdm_tensor_list_name(saved, i), tdm_tensor_list_name(own, i));
  assert_ok(tdm_safetensors_save(saved, path));
  tdm_tensor_list *loaded = tdm_safetensors_load(context, path);
  assert_non_null(loaded);
  assert_ok(tdm_store_load(tdm_session_store(plain), loaded));
  tdm_tensor *wanted = model_run(wrapped, model, 8, 2);
  tdm_tensor *got = model_run(plain, model, 8, 2);
  assert_near_tensor(got, wanted, 1e-5);
  tdm_tensor_release(wanted);
  tdm_tensor_release(got);
  tdm_tensor_list_release(own);
  tdm_tensor_list_release(saved);
  tdm_tensor_list_release(loaded);
  tdm_session_release(plain);
  tdm_session_release(wrapped);
  (void)remove(path);
}

/* PyTorch's names of this model wrapped whole, its part wrapped, both. */
static const char *const prefixed[][2] = {
    {"module.before", "module.module/fc"},
    {"before", "module/module.fc"},
    {"module.before", "module.module/module.fc"},
};

static void names_with_module_load(void **unused) {
  (void)unused;
  const test_model *model = saved_model();
  tdm_session *trained = model_session(model, NULL, NULL, NULL);
  (void)model_train(trained, model, 8, 1);
  tdm_tensor_list *own = tdm_store_save(tdm_session_store(trained), false);
  for (size_t p = 0; p < 2 * TDM_COUNT_OF(prefixed); p++) {
    tdm_tensor_list *list = tdm_tensor_list_create(context);
    for (size_t i = 0; i < tdm_tensor_list_count(own); i++) {
      const char *name = tdm_tensor_list_name(own, i);
      char other[128];
      const char *prefix = prefixed[p / 2][strncmp(name, "module/", 7) == 0];
      (void)snprintf(other, sizeof other, "%s%s", prefix, strchr(name, '.'));
      assert_ok(tdm_tensor_list_add(list, other, tdm_tensor_list_tensor(own, i)));
    }
    tdm_session *session = model_session(model, p % 2 ? BOTH : NULL, NULL, NULL);
    assert_ok(tdm_store_load(tdm_session_store(session), list));
    tdm_tensor_list *state = tdm_store_save(tdm_session_store(session), false);
    assert_same_state(state, own);
    tdm_tensor_list_release(state);
    tdm_session_release(session);
    tdm_store *store = tdm_store_create(context); /* before there is a session */
    assert_ok(tdm_store_load(store, list));
    session = model_session(model, p % 2 ? BOTH : NULL, NULL, store);
    state = tdm_store_save(store, false);
    for (size_t i = 0; i < tdm_tensor_list_count(own); i++)
      assert_same_tensor(tdm_tensor_list_find(state, tdm_tensor_list_name(own, i)),
                         tdm_tensor_list_tensor(own, i));
    tdm_tensor_list_release(state);
    tdm_session_release(session);
    tdm_store_release(store);
    tdm_tensor_list_release(list);
  }
  tdm_tensor_list_release(own);
  tdm_session_release(trained);
}

/* A list with a parameter under two names is ambiguous, and changes nothing. */
static void a_name_with_module_and_without_is_refused(void **unused) {
  (void)unused;
  tdm_session *session = model_session(saved_model(), NULL, NULL, NULL);
  tdm_tensor_list *before = state_of(session);
  tdm_tensor *bias = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(1, 5));
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  assert_ok(tdm_tensor_list_add(list, "module/fc.bias", bias));
  assert_ok(tdm_tensor_list_add(list, "module.module/fc.bias", bias));
  assert_status(tdm_store_load(tdm_session_store(session), list), TDM_INVALID_ARGUMENT);
  assert_message("module.module/fc.bias and module/fc.bias");
  tdm_tensor_list *after = state_of(session);
  assert_same_state(after, before);
  tdm_tensor_list_release(before);
  tdm_tensor_list_release(after);
  tdm_tensor_list_release(list);
  tdm_tensor_release(bias);
  tdm_session_release(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parallel_apply),
      cmocka_unit_test(parallel_apply_passes_exception),
      cmocka_unit_test(scatter_cpu),
      cmocka_unit_test(scatter_gpu),
      cmocka_unit_test(gather_cpu),
      cmocka_unit_test(gather_gpu),
      cmocka_unit_test(gather_different_len_dicts),
      cmocka_unit_test(replicate),
      cmocka_unit_test(replicate_buffers),
      cmocka_unit_test(save_replica_module),
      cmocka_unit_test(names_with_module_load),
      cmocka_unit_test(a_name_with_module_and_without_is_refused),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
