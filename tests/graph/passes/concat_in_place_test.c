/* Concatenations without a copy: those that require no kernel, parts that do not wait for each
 * other, and unchanged results. */
#include <stdlib.h>

#include "graph/passes/parts.h"
#include "graph/run/session.h"

#define GROUP_CONTEXT graph_context_of(3, 3)
#include "tests/graph/group.h"
#include "tests/options.h"

enum { WIDTH = 3, ROWS = 7 };

/* ---- Looking at plans ------------------------------------------------------------------------ */

typedef struct concat_count {
  size_t joined;
  size_t kernels;
} concat_count;

static concat_count concats_of(const tdm_session *session) {
  const tdm_graph *graph = &session->newest->graph;
  concat_count count = {0, 0};
  TDM_EACH_NODE(graph, node) {
    if (node->operation != &tdm_operation_concat) continue;
    count.joined += node->joined;
    count.kernels += tdm_ir_has_step(node);
  }
  return count;
}

static void expect_concats(const tdm_session *session, size_t joined, size_t kernels) {
  const concat_count count = concats_of(session);
  if (count.joined != joined || count.kernels != kernels)
    fail_msg("%zu joined and %zu kernels, not %zu and %zu", count.joined, count.kernels, joined,
             kernels);
}

/* ---- A graph of pieces: tanh of each of two inputs (ROWS, WIDTH), (2, WIDTH) ----------------- */

typedef struct pieces {
  tdm_graph *graph;
  tdm_value x[2]; /* fed */
  tdm_value y[2]; /* tanh of x, on the requested devices */
} pieces;

static const int64_t piece_rows[] = {ROWS, 2};

static pieces make_pieces(const char *first, const char *second) {
  static const char *const names[] = {"x0", "x1"};
  const char *const places[] = {first, second};
  pieces made = {.graph = tdm_graph_create(context)};
  for (int i = 0; i < 2; i++) {
    tdm_place(made.graph, places[i]);
    made.x[i] = tdm_input(made.graph, names[i], TDM_FLOAT32, tdm_shape_of(2, piece_rows[i], WIDTH));
    made.y[i] = tdm_tanh(made.graph, names[i], made.x[i]);
  }
  tdm_place(made.graph, "cpu:0");
  return made;
}

static tdm_tensor *draw_piece(int i) {
  return tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, piece_rows[i], WIDTH),
                            (uint64_t)i + 1, -1, 1);
}

/* Runs with both inputs fed; the session stays, for its plan. */
static tdm_session *run_pieces(tdm_graph *graph, tdm_fetch *fetches, size_t fetch_count) {
  tdm_session *session = run_session(graph, WITH(tdm_session_options, o.unmerged = true));
  tdm_tensor *fed[] = {draw_piece(0), draw_piece(1)};
  const tdm_feed feeds[] = {{"x0", fed[0], false}, {"x1", fed[1], false}};
  assert_ok(tdm_run(session, feeds, 2, fetches, fetch_count));
  tdm_tensor_release(fed[0]);
  tdm_tensor_release(fed[1]);
  return session;
}

/* Computes tanh of the concatenated inputs, (ROWS + 2, WIDTH), in a plain run. */
static void wanted_rows(float *out) {
  pieces made = make_pieces("cpu:0", "cpu:0");
  tdm_output(made.graph, "y0", made.y[0]);
  tdm_output(made.graph, "y1", made.y[1]);
  tdm_fetch fetches[] = {{.name = "y0"}, {.name = "y1"}};
  tdm_session_release(run_pieces(made.graph, fetches, 2));
  for (int i = 0; i < 2; i++) {
    memcpy(out + i * ROWS * WIDTH, tdm_tensor_data(fetches[i].tensor),
           tdm_tensor_bytes(fetches[i].tensor));
    tdm_tensor_release(fetches[i].tensor);
  }
}

static void expect_rows(tdm_tensor *got, const float *wanted, size_t rows, float factor) {
  assert_int_equal(tdm_tensor_bytes(got), rows * WIDTH * sizeof(float));
  const float *data = tdm_tensor_data(got);
  for (size_t i = 0; i < rows * WIDTH; i++)
    assert_true(data[i] == factor * wanted[i]);
  tdm_tensor_release(got);
}

static tdm_value twice(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_add(graph, name, x, x);
}

static const char *const places[][2] = {
    {"cpu:0", "cpu:0"}, {"cpu:0", "cpu:1"}, {"sim:0", "sim:1"}, {"sim:0", "cpu:0"}};

/* The whole is delivered, and read by a kernel on a device. */
static void parts_lie_in_their_whole(void **unused) {
  (void)unused;
  float wanted[(ROWS + 2) * WIDTH];
  wanted_rows(wanted);
  for (size_t p = 0; p < TDM_COUNT_OF(places); p++)
    for (int on_device = 0; on_device < 2; on_device++) {
      pieces made = make_pieces(places[p][0], places[p][1]);
      if (on_device) tdm_place(made.graph, "sim:1");
      tdm_value whole = tdm_concat(made.graph, "whole", made.y, 2, 0);
      if (on_device) whole = twice(made.graph, "same", whole);
      tdm_output(made.graph, "whole", whole);
      tdm_fetch fetch = {.name = "whole"};
      tdm_session *session = run_pieces(made.graph, &fetch, 1);
      expect_rows(fetch.tensor, wanted, ROWS + 2, on_device ? 2 : 1);
      expect_concats(session, 1, 0);
      tdm_session_release(session);
    }
}

/* A concatenation in another, with a view of it in between; cut again elsewhere than it was put
 * together. */
static void wholes_lie_in_wholes(void **unused) {
  (void)unused;
  float wanted[(ROWS + 2) * WIDTH];
  wanted_rows(wanted);
  for (size_t p = 0; p < TDM_COUNT_OF(places); p++) {
    pieces made = make_pieces(places[p][0], places[p][1]);
    tdm_graph *graph = made.graph;
    const tdm_value inner = tdm_concat(graph, "inner", made.y, 2, 0);
    const tdm_value parts[] = {
        tdm_reshape(graph, "flat", inner, tdm_shape_of(1, (ROWS + 2) * WIDTH)),
        tdm_reshape(graph, "more", tdm_tanh(graph, "z", made.x[1]), tdm_shape_of(1, 2 * WIDTH))};
    const tdm_value outer = tdm_concat(graph, "outer", parts, 2, 0);
    tdm_value cut[3];
    tdm_split(graph, "cut", outer, 0, (const tdm_dim[]){WIDTH, ROWS * WIDTH, 3 * WIDTH}, 3, cut);
    tdm_place(graph, "sim:2");
    tdm_output(graph, "middle", twice(graph, "twice", cut[1]));
    tdm_output(graph, "end", twice(graph, "end", cut[2]));
    tdm_fetch fetches[] = {{.name = "middle"}, {.name = "end"}};
    tdm_session *session = run_pieces(graph, fetches, 2);
    expect_concats(session, 2, 0);
    expect_rows(fetches[0].tensor, wanted + WIDTH, ROWS, 2);
    float end[3 * WIDTH];
    memcpy(end, wanted + (ROWS + 1) * WIDTH, WIDTH * sizeof(float));
    memcpy(end + WIDTH, wanted + ROWS * WIDTH, 2 * WIDTH * sizeof(float));
    expect_rows(fetches[1].tensor, end, 3, 2);
    tdm_session_release(session);
  }
}

/* Parts that others read too lie in the whole all the same. */
static void other_readers_are_no_matter(void **unused) {
  (void)unused;
  float wanted[(ROWS + 2) * WIDTH];
  wanted_rows(wanted);
  pieces made = make_pieces("cpu:1", "cpu:1");
  tdm_place(made.graph, "cpu:1");
  const tdm_value whole = tdm_concat(made.graph, "whole", made.y, 2, 0);
  tdm_output(made.graph, "whole", twice(made.graph, "same", whole));
  tdm_output(made.graph, "part", twice(made.graph, "one", made.y[1]));
  tdm_fetch fetches[] = {{.name = "whole"}, {.name = "part"}};
  tdm_session *session = run_pieces(made.graph, fetches, 2);
  expect_concats(session, 1, 0);
  expect_rows(fetches[0].tensor, wanted, ROWS + 2, 2);
  expect_rows(fetches[1].tensor, wanted + ROWS * WIDTH, 2, 2);
  tdm_session_release(session);
}

/* A kernel concatenates inputs, repeated parts, parts that are delivered or belong to another
 * whole, and parts that would not be contiguous. */
static void the_rest_is_put_together(void **unused) {
  (void)unused;
  float rows[(ROWS + 2) * WIDTH];
  wanted_rows(rows);
  for (int kind = 0; kind < 4; kind++) {
    pieces made = make_pieces("cpu:0", "cpu:0");
    tdm_graph *graph = made.graph;
    tdm_value halves[2];
    tdm_split(graph, "halves", made.y[1], 0, (const tdm_dim[]){1, 1}, 2, halves);
    const tdm_value cases[][2] = {{made.x[0], made.y[1]},
                                  {made.y[1], made.y[1]},
                                  {made.y[0], made.y[1]}, /* and delivered */
                                  {made.y[0], halves[1]}};
    tdm_output(graph, "whole", tdm_concat(graph, "whole", cases[kind], 2, 0));
    if (kind == 2) tdm_output(graph, "y0", made.y[0]);
    tdm_fetch fetches[] = {{.name = "whole"}, {.name = "y0"}};
    tdm_session *session = run_pieces(graph, fetches, kind == 2 ? 2 : 1);
    expect_concats(session, 0, 1);
    const float *whole = tdm_tensor_data(fetches[0].tensor);
    if (kind == 1) assert_memory_equal(whole, whole + 2 * WIDTH, 2 * WIDTH * sizeof(float));
    if (kind == 2) assert_memory_equal(whole, rows, sizeof rows);
    if (kind == 3)
      assert_memory_equal(whole + ROWS * WIDTH, rows + (ROWS + 1) * WIDTH, WIDTH * sizeof(float));
    tdm_tensor_release(fetches[0].tensor);
    if (kind == 2) tdm_tensor_release(fetches[1].tensor);
    tdm_session_release(session);
  }
}

/* ---- Wrapped models -------------------------------------------------------------------------- */

enum { ROWS_FIRST, ONE_BEFORE_ROWS, ROWS_SECOND, ADDED, ADDED_TO, KINDS };

static tdm_shape shape_of(int kind, int64_t rows) {
  if (kind == ONE_BEFORE_ROWS) return tdm_shape_of(3, 1, rows, WIDTH);
  if (kind == ROWS_SECOND) return tdm_shape_of(3, WIDTH, rows, WIDTH);
  return tdm_shape_of(2, rows, WIDTH);
}

/* x -> before -> [part] -> after. ADDED, ADDED_TO: before is also read elsewhere, so that the
 * gradient of the replicas is added to another one, or that one to it. */
static tdm_session *wrapped_session(int kind, const char *devices, const char *output_device) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "cpu:0");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape_of(kind, TDM_DIM("batch")));
  const tdm_value before = tdm_linear(graph, "before", x, WIDTH);
  tdm_value part = tdm_tanh(graph, "part", tdm_linear(graph, "part", before, WIDTH));
  const tdm_scatter scatter = {before, kind == ONE_BEFORE_ROWS || kind == ROWS_SECOND ? 1 : 0};
  const tdm_parallel_options options =
      OPTIONS(tdm_parallel_options, o.devices = devices, o.output_device = output_device,
              o.scatter = &scatter, o.scatter_count = 1);
  tdm_data_parallel(graph, "part", &options);
  if (kind == ADDED_TO) {
    tdm_place(graph, "sim:1");
    part = tdm_add(graph, "both", part, before);
    tdm_place(graph, "cpu:0");
  }
  if (kind == ADDED) {
    tdm_place(graph, "sim:1");
    const tdm_value beside = tdm_linear(graph, "beside", before, WIDTH);
    tdm_place(graph, "cpu:0");
    part = tdm_add(graph, "both", part, beside);
  }
  const tdm_value loss = tdm_mse(graph, "loss", tdm_linear(graph, "after", part, WIDTH), x);
  const tdm_session_options session_options =
      OPTIONS(tdm_session_options, o.seed = 5, o.deterministic = true);
  return train_session(graph, loss, tdm_sgd(0.1), &session_options);
}

static tdm_tensor_list *train_wrapped(tdm_session *session, int kind, int64_t rows) {
  tdm_tensor *x = tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, shape_of(kind, rows),
                                     (uint64_t)rows, -1, 1);
  const tdm_feed feed = {"x", x, false};
  for (int i = 0; i < 3; i++)
    assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, NULL));
  tdm_tensor_release(x);
  return state_of(session);
}

/* Results and input gradients are joined in place, or by a kernel if rows are not contiguous. All
 * of them train to the same parameters. */
static void wrapped_models_gather_without_copies(void **unused) {
  (void)unused;
  static const char *const lists[] = {"cpu:0,cpu:0,cpu:0", "sim:0,sim:1,cpu:1",
                                      "sim:2,cpu:0,sim:2"};
  for (int kind = 0; kind < KINDS; kind++)
    for (int64_t rows = 6; rows < 12; rows += 5) {
      tdm_tensor_list *wanted = NULL;
      for (size_t k = 0; k < TDM_COUNT_OF(lists); k++) {
        tdm_session *session = wrapped_session(kind, lists[k], k == 0 ? NULL : "cpu:0");
        tdm_tensor_list *got = train_wrapped(session, kind, rows);
        expect_concats(session, kind == ROWS_SECOND ? 0 : 2, kind == ROWS_SECOND ? 2 : 0);
        if (wanted) assert_same_state(got, wanted);
        if (wanted) tdm_tensor_list_release(got);
        if (!wanted) wanted = got;
        tdm_session_release(session);
      }
      tdm_tensor_list_release(wanted);
    }
}

/* Half of "before" has "side" added to it, so that their gradients are one value, which "side"
 * reads last; all of "before" is read by "there" too. there_first: the order of the two. */
static tdm_session *halved_session(const char *there, bool there_first) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "cpu:0");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 2 * ROWS, WIDTH));
  const tdm_value target = tdm_input(graph, "target", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH));
  const tdm_value side = tdm_linear(graph, "side", target, WIDTH);
  const tdm_value before = tdm_linear(graph, "before", x, WIDTH);
  const tdm_dim sizes[2] = {ROWS, ROWS};
  tdm_value halves[2];
  tdm_value read = {0};
  for (int i = 0; i < 2; i++) {
    if ((i == 0) == there_first) {
      tdm_place(graph, there);
      read = tdm_mse(graph, "read", tdm_linear(graph, "there", before, WIDTH), x);
      tdm_place(graph, "cpu:0");
    } else {
      tdm_split(graph, "halves", before, 0, sizes, 2, halves);
    }
  }
  const tdm_value shifted = tdm_add(graph, "shifted", side, halves[0]);
  const tdm_value first = tdm_mse(graph, "first", shifted, target);
  const tdm_value second = tdm_mse(graph, "second", halves[1], target);
  const tdm_value loss = tdm_add(graph, "loss", tdm_add(graph, "both", first, second), read);
  return train_session(graph, loss, tdm_sgd(0.1), WITH(tdm_session_options, o.seed = 5));
}

/* Checks that a part that is read after a sum overwrites the whole has separate memory. */
static void parts_outlive_a_whole_that_is_overwritten(void **unused) {
  (void)unused;
  tdm_tensor *x =
      tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 2 * ROWS, WIDTH), 1, -1, 1);
  tdm_tensor *target =
      tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH), 2, -1, 1);
  const tdm_feed feeds[] = {{"x", x, false}, {"target", target, false}};
  static const char *const devices[] = {"cpu:0", "sim:0", "cpu:1"};
  for (int there_first = 0; there_first < 2; there_first++) {
    tdm_tensor_list *states[TDM_COUNT_OF(devices)];
    for (size_t i = 0; i < TDM_COUNT_OF(devices); i++) {
      tdm_session *session = halved_session(devices[i], there_first);
      for (int step = 0; step < 3; step++)
        assert_ok(tdm_train_step(session, feeds, 2, NULL, 0, NULL));
      states[i] = state_of(session);
      assert_same_state(states[i], states[0]);
      tdm_session_release(session);
    }
    for (size_t i = 0; i < TDM_COUNT_OF(devices); i++)
      tdm_tensor_list_release(states[i]);
  }
  tdm_tensor_release(x);
  tdm_tensor_release(target);
}

/* Checks that writers of different parts do not wait for each other. */
static void parts_do_not_wait_for_one_another(void **unused) {
  (void)unused;
  tdm_session *session = wrapped_session(0, "sim:0,sim:1,sim:2,cpu:1", "cpu:0");
  tdm_tensor_list_release(train_wrapped(session, 0, 20));
  const tdm_schedule *schedule = &session->newest->lowered.schedule;
  /* (steps): the whole that each step writes to */
  uint32_t *whole_of = calloc(schedule->step_count, sizeof *whole_of);
  size_t writers = 0;
  for (size_t s = 0; s < schedule->step_count; s++) {
    const tdm_step *step = &schedule->steps[s];
    for (uint32_t i = 0; i < step->access_count; i++) {
      const tdm_access *access = &schedule->accesses[step->first_access + i];
      if (access->writes) whole_of[s] |= schedule->storages[access->storage].whole;
    }
    writers += whole_of[s] != 0;
    for (uint32_t w = 0; w < step->wait_count && whole_of[s]; w++)
      assert_int_not_equal(whole_of[schedule->waits[step->first_wait + w].step], whole_of[s]);
  }
  assert_int_equal(writers, 8); /* writers of results, and of gradients of the input */
  free(whole_of);
  tdm_session_release(session);
}

/* Returns the number of steps on which the command depends. */
static uint32_t dependencies_of(const tdm_plan *plan, const char *name) {
  for (uint32_t p = 0; p < plan->program_count; p++)
    for (uint32_t c = 0; c < plan->programs[p].count; c++) {
      const tdm_command *command = &plan->programs[p].commands[c];
      if (command->kind == TDM_COMMAND_EXECUTE && strcmp(command->name, name) == 0)
        return command->dependency_count;
    }
  fail_msg("no command %s", name);
  return 0;
}

/* Checks that a failing part fails the consumers of the whole, with a message that names the part's
 * replica. */
static void a_failing_part_spoils_the_whole(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "cpu:0");
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value rows = tdm_embedding(graph, "table", ids, 10, WIDTH);
  const tdm_parallel_options options =
      OPTIONS(tdm_parallel_options, o.devices = "sim:0,sim:1,sim:2");
  tdm_data_parallel(graph, "table", &options);
  tdm_place(graph, "sim:0"); /* device of the whole */
  const tdm_value near = tdm_tanh(graph, "near", rows);
  tdm_place(graph, "sim:1");
  tdm_output(graph, "y", tdm_tanh(graph, "far", near));
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor *fed = tdm_tensor_zeros(context, "cpu:0", TDM_INT64, tdm_shape_of(1, 6));
  const tdm_feed feed = {"ids", fed, false};
  tdm_fetch y = {.name = "y"};
  for (int bad = -1; bad < 6; bad++) {
    for (int i = 0; i < 6; i++)
      ((int64_t *)tdm_tensor_data(fed))[i] = i == bad ? 99 : i;
    const tdm_status status = tdm_run(session, &feed, 1, &y, 1);
    assert_status(status, bad < 0 ? TDM_OK : TDM_INVALID_ARGUMENT);
    if (bad < 0) expect_concats(session, 1, 0);
    assert_int_equal(dependencies_of(session->newest, "near"), 3);
    if (bad < 0) tdm_tensor_release(y.tensor);
    static const char *const replicas[] = {"replica 0", "replica 1", "replica 2"};
    if (bad >= 0) assert_message(replicas[bad / 2]);
  }
  tdm_tensor_release(fed);
  tdm_session_release(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_lie_in_their_whole),
      cmocka_unit_test(wholes_lie_in_wholes),
      cmocka_unit_test(other_readers_are_no_matter),
      cmocka_unit_test(the_rest_is_put_together),
      cmocka_unit_test(wrapped_models_gather_without_copies),
      cmocka_unit_test(parts_outlive_a_whole_that_is_overwritten),
      cmocka_unit_test(parts_do_not_wait_for_one_another),
      cmocka_unit_test(a_failing_part_spoils_the_whole),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
