/* Random graphs of elementwise operations, fused and unfused: outputs, losses and trained
 * parameters have the same bits, on one device and on several, of both real types, wrapped, and in
 * micro-batches. For accelerators of TEST_KIND. */
#include <stdio.h>

#include "graph/run/session.h"
#include "tests/graph/group.h"
#include "tests/options.h"

#define ACCELERATOR TEST_KIND ":0"

enum { WIDTH = 9, NODES = 22, STEPS = 2, OUTPUTS = 3 };

/* ---- Models ---------------------------------------------------------------------------------- */

typedef struct model_variant {
  uint64_t seed;
  tdm_dtype dtype;
  int64_t rows;
  const char *devices[2]; /* nodes are on the second now and then; NULL: never */
  const char *replicas;   /* NULL: not wrapped */
  int micro_batches;
} model_variant;

static uint32_t draw(uint64_t *random, uint32_t bound) {
  *random = *random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*random >> 33) % bound;
}

/* A number that is at least 1/2, and grows as a does. */
static tdm_value positive(tdm_graph *graph, const char *name, tdm_value a) {
  return tdm_add_scalar(graph, name, tdm_abs(graph, name, a), 0.5);
}

/* A function of one value whose results stay small. */
static tdm_value grow_function(tdm_graph *graph, const char *name, tdm_value a, uint32_t which) {
  switch (which) {
  case 0:
    return tdm_relu(graph, name, a);
  case 1:
    return tdm_tanh(graph, name, a);
  case 2:
    return tdm_sigmoid(graph, name, a);
  case 3:
    return tdm_gelu(graph, name, a);
  case 4:
    return tdm_gelu_tanh(graph, name, a);
  case 5:
    return tdm_silu(graph, name, a);
  case 6:
    return tdm_leaky_relu(graph, name, a, 0.1);
  case 7:
    return tdm_dropout(graph, name, a, 0.3);
  case 8: /* elsewhere the same elements: the view belongs to no node */
    return tdm_reshape(graph, name, a, tdm_value_shape(graph, a));
  case 9:
    return tdm_elu(graph, name, a, 0.7);
  case 10:
    return tdm_softplus(graph, name, a, 1.5, 3);
  case 11:
    return tdm_hardtanh(graph, name, a, -1, 1.5);
  case 12:
    return tdm_exp(graph, name, tdm_clamp(graph, name, a, -2, 1));
  case 13:
    return tdm_log(graph, name, positive(graph, name, a));
  case 14:
    return tdm_sqrt(graph, name, positive(graph, name, a));
  case 15:
    return tdm_rsqrt(graph, name, positive(graph, name, a));
  case 16:
    return tdm_pow(graph, name, tdm_tanh(graph, name, a), 3);
  default:
    return tdm_affine(graph, name, a, -0.5, 0.1);
  }
}

enum { FUNCTIONS = 18, PAIRS = 11 };

/* Adds one of several values, with conversions to other dtypes between them. */
static tdm_value grow_pair(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                           uint32_t which) {
  const tdm_dtype dtype = tdm_value_dtype(graph, a);
  const tdm_dtype other = dtype == TDM_FLOAT32 ? TDM_FLOAT64 : TDM_FLOAT32;
  const tdm_value row = tdm_mean(graph, name, b, (int[]){1}, 1, true);
  switch (which) {
  case 0:
    return tdm_mul(graph, name, a, b);
  case 1:
    return tdm_sub(graph, name, a, b);
  case 2:
    return tdm_div(graph, name, a, positive(graph, name, b));
  case 3:
    return tdm_maximum(graph, name, a, b);
  case 4:
    return tdm_minimum(graph, name, a, row);
  case 5:
    return tdm_where(graph, name, tdm_compare(graph, name, a, TDM_LESS, b), a,
                     tdm_tanh(graph, name, b));
  case 6:
    return tdm_masked_fill(graph, name, a, tdm_compare_scalar(graph, name, b, TDM_GREATER, 0.5),
                           0.25);
  case 7:
    return tdm_mul(
        graph, name, a,
        tdm_cast(graph, name, tdm_compare(graph, name, row, TDM_GREATER_EQUAL, a), dtype));
  case 8:
    return tdm_cast(graph, name, tdm_tanh(graph, name, tdm_cast(graph, name, a, other)), dtype);
  case 9: {
    const tdm_value whole = tdm_cast(graph, name, tdm_affine(graph, name, row, 3, 0), TDM_INT32);
    const tdm_value sum = tdm_add(graph, name, tdm_cast(graph, name, b, TDM_INT32), whole);
    return tdm_masked_fill(graph, name, a, tdm_compare(graph, name, sum, TDM_LESS, whole), 0.5);
  }
  default:
    return tdm_add(graph, name, a, row);
  }
}

/* Adds one more operation on values drawn from those made so far (count). */
static tdm_value grow(tdm_graph *graph, const char *name, const tdm_value *made, uint32_t count,
                      uint64_t *random) {
  const tdm_value a = made[count - 1 - draw(random, count < 4 ? count : 4)];
  const tdm_value b = made[draw(random, count)];
  switch (draw(random, 4)) {
  case 0:
    return tdm_add(graph, name, a, b);
  case 1:
    return grow_pair(graph, name, a, b, draw(random, PAIRS));
  default:
    return grow_function(graph, name, a, draw(random, FUNCTIONS));
  }
}

/* Builds x (batch, WIDTH) -> two linear layers -> NODES operations -> output "y0" and others; mse
 * "loss" with x. */
static tdm_graph *make_model(const model_variant *variant, tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  uint64_t random = variant->seed;
  tdm_scope_dtype(graph, variant->dtype);
  tdm_place(graph, variant->devices[0]);
  const tdm_value x =
      tdm_input(graph, "x", variant->dtype, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  tdm_value made[NODES + 2];
  uint32_t count = 0;
  tdm_scope_push(graph, "net");
  made[count++] = tdm_linear(graph, "a", x, WIDTH);
  made[count++] = tdm_linear(graph, "b", x, WIDTH);
  while (count < NODES + 2) {
    char name[16];
    (void)snprintf(name, sizeof name, "n%u", count);
    if (variant->devices[1]) tdm_place(graph, variant->devices[draw(&random, 6) == 0]);
    made[count] = grow(graph, name, made, count, &random);
    count++;
  }
  tdm_scope_pop(graph);
  tdm_place(graph, variant->devices[0]);
  *out_loss = tdm_mse(graph, "loss", made[count - 1], x);
  for (uint32_t i = 0; i < OUTPUTS; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "y%u", i);
    tdm_output(graph, name, made[i == 0 ? count - 1 : 2 + draw(&random, NODES)]);
  }
  const tdm_parallel_options wrapped = OPTIONS(tdm_parallel_options, o.devices = variant->replicas);
  if (variant->replicas) tdm_data_parallel(graph, "net", &wrapped);
  return graph;
}

static tdm_session *make_session(const model_variant *variant, bool unfused) {
  tdm_value loss;
  tdm_graph *graph = make_model(variant, &loss);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.seed = 3, o.micro_batches = OR_ONE(variant->micro_batches),
              o.unfused = unfused);
  return train_session(graph, loss, tdm_sgd(0.1), &options);
}

static size_t count_steps(const tdm_session *session) {
  return session->newest->lowered.schedule.step_count;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* One run of both sessions, training or not. */
static void compare_run(tdm_session *const *sessions, const tdm_feed *feed, bool training) {
  tdm_fetch fetches[2][OUTPUTS] = {{{.name = "y0"}, {.name = "y1"}, {.name = "y2"}},
                                   {{.name = "y0"}, {.name = "y1"}, {.name = "y2"}}};
  double losses[2] = {0, 0};
  for (int s = 0; s < 2; s++) {
    if (training)
      assert_ok(tdm_train_step(sessions[s], feed, 1, fetches[s], OUTPUTS, &losses[s]));
    else
      assert_ok(tdm_run(sessions[s], feed, 1, fetches[s], OUTPUTS));
  }
  assert_memory_equal(&losses[0], &losses[1], sizeof losses[0]);
  for (int i = 0; i < OUTPUTS; i++) {
    assert_same_tensor(fetches[0][i].tensor, fetches[1][i].tensor);
    tdm_tensor_release(fetches[0][i].tensor);
    tdm_tensor_release(fetches[1][i].tensor);
  }
}

/* Trains and evaluates the model with and without fusing. Returns the number of steps that fusing
 * saves. */
static size_t compare_models(const model_variant *variant) {
  tdm_session *sessions[] = {make_session(variant, true), make_session(variant, false)};
  size_t saved = 0;
  for (int i = 0; i < STEPS + 1; i++) {
    tdm_tensor *x =
        tdm_tensor_uniform(context, "cpu:0", variant->dtype, tdm_shape_of(2, variant->rows, WIDTH),
                           variant->seed + (uint64_t)i, -2, 2);
    const tdm_feed feed = {.name = "x", .tensor = x};
    compare_run(sessions, &feed, i < STEPS);
    tdm_tensor_release(x);
    assert_true(count_steps(sessions[1]) <= count_steps(sessions[0]));
    saved += count_steps(sessions[0]) - count_steps(sessions[1]);
  }
  tdm_tensor_list *states[] = {state_of(sessions[0]), state_of(sessions[1])};
  assert_same_state(states[0], states[1]);
  for (int s = 0; s < 2; s++) {
    tdm_tensor_list_release(states[s]);
    tdm_session_release(sessions[s]);
  }
  return saved;
}

static void compare_seeds(model_variant variant, uint64_t seeds) {
  size_t saved = 0;
  for (uint64_t seed = 1; seed <= seeds; seed++) {
    variant.seed = seed;
    saved += compare_models(&variant);
  }
  assert_true(saved > 2 * seeds);
}

static void on_one_device(void **unused) {
  (void)unused;
  compare_seeds((model_variant){.dtype = TDM_FLOAT32, .rows = 5, .devices = {ACCELERATOR}}, 12);
  compare_seeds((model_variant){.dtype = TDM_FLOAT64, .rows = 5, .devices = {ACCELERATOR}}, 6);
}

/* Several tiles, the last of them not whole; on cpu:0, more than one thread may share them. */
static void of_many_elements(void **unused) {
  (void)unused;
  compare_seeds((model_variant){.dtype = TDM_FLOAT32, .rows = 1203, .devices = {"cpu:0"}}, 4);
  compare_seeds((model_variant){.dtype = TDM_FLOAT64, .rows = 307, .devices = {"cpu:0"}}, 3);
  compare_seeds((model_variant){.dtype = TDM_FLOAT32, .rows = 131, .devices = {ACCELERATOR}}, 2);
}

static void on_two_devices(void **unused) {
  (void)unused;
  compare_seeds((model_variant){.dtype = TDM_FLOAT32, .rows = 5, .devices = {ACCELERATOR, "cpu:0"}},
                8);
}

static void in_replicas(void **unused) {
  (void)unused;
  compare_seeds(
      (model_variant){
          .dtype = TDM_FLOAT32, .rows = 5, .devices = {"cpu:0"}, .replicas = "cpu:0," ACCELERATOR},
      5);
}

static void in_micro_batches(void **unused) {
  (void)unused;
  compare_seeds(
      (model_variant){
          .dtype = TDM_FLOAT32, .rows = 7, .devices = {"cpu:0", ACCELERATOR}, .micro_batches = 3},
      5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(on_one_device),    cmocka_unit_test(of_many_elements),
      cmocka_unit_test(on_two_devices),   cmocka_unit_test(in_replicas),
      cmocka_unit_test(in_micro_batches),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
