/* Random user-defined optimizers: operations that write parameters and states, or compute numbers
 * from these and from gradients, in an order that a seed draws. Sessions of one store place, cut,
 * replicate and sum differently. Every device's copies equal the results of the operations in
 * sequence.
 *
 *     bazel run //tests/graph/gradient:update_seeds_test -- 50000 1000
 *
 * takes 50,000 seeds from 1,000 on. */
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "tests/graph/seed_range.h"
#include "tests/graph/support.h"
#include "tests/options.h"

enum { PARAMETERS = 3, STATES = 2, WIDTH = 4, MOST_STEPS = 14, MOST_ROWS = 8, TRAININGS = 5 };
enum { CPUS = 3, SIMS = 2, DEVICES = CPUS + SIMS };

static const char *const devices[DEVICES] = {"cpu:0", "cpu:1", "cpu:2", "sim:0", "sim:1"};

/* Values by number: parameters, states, gradients of the parameters, what steps make. */
enum {
  FIRST_STATE = PARAMETERS,
  FIRST_GRADIENT = FIRST_STATE + STATES,
  FIRST_MADE = FIRST_GRADIENT + PARAMETERS,
  MOST_VALUES = FIRST_MADE + MOST_STEPS
};

/* a * u + b * v, of u's size: overwrites u if it writes, or makes a new value. */
typedef struct factors {
  float a;
  float b;
} factors;

typedef struct step {
  bool writes;
  bool by_latest; /* reads the result of the latest write, and not the initial value */
  int u, v;
  factors by;
} step;

static step steps[MOST_STEPS];
static int step_count;
static int sizes[MOST_VALUES]; /* WIDTH or 1 */
static uint64_t seed, drawing;

static int draw(int below) {
  drawing = tdm_hash_mix(drawing, 1);
  return (int)(drawing % (uint64_t)below);
}

/* ---- The optimizer --------------------------------------------------------------------------- */

static tdm_status infer_step(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

static void compute(float *y, const float *u, int64_t count, const float *v, int64_t v_count,
                    factors by) {
  for (int64_t i = 0; i < count; i++) {
    const volatile float one = by.a * u[i], other = by.b * v[v_count == 1 ? 0 : i];
    y[i] = one + other;
  }
}

static tdm_status execute_step(const tdm_kernel_call *call) {
  const factors *by = call->attributes;
  compute(call->outputs[0], call->inputs[0], tdm_shape_count(&call->output_specs[0].shape),
          call->inputs[1], tdm_shape_count(&call->input_specs[1].shape), *by);
  return TDM_OK;
}

#define STEP_KERNEL(name)                                                                          \
  {                                                                                                \
    .struct_size = sizeof(tdm_kernel), .operation = name, .executes = "cpu", .dtype = TDM_FLOAT32, \
    .execute = execute_step                                                                        \
  }
static const tdm_kernel kernels[] = {STEP_KERNEL("test_make"), STEP_KERNEL("test_write")};

#define STEP_OPERATION(called, ...)                                                                \
  {                                                                                                \
    .struct_size = sizeof(tdm_operation), .name = called, .attribute_bytes = sizeof(factors),      \
    .min_inputs = 2, .max_inputs = 2, .output_count = 1, .infer = infer_step, __VA_ARGS__          \
  }
static const tdm_operation operations[] = {STEP_OPERATION("test_make", .gradient = NULL),
                                           STEP_OPERATION("test_write", .overwrites = {1})};

static tdm_status append_steps(tdm_update *update) {
  tdm_graph *graph = tdm_update_graph(update);
  tdm_value first[MOST_VALUES], latest[MOST_VALUES];
  for (int k = 0; k < PARAMETERS; k++) {
    first[k] = tdm_update_parameter(update, (size_t)k);
    first[FIRST_GRADIENT + k] = tdm_update_gradient(update, (size_t)k);
  }
  static const char *const names[STATES] = {"optimizer/one", "optimizer/other"};
  for (int s = 0; s < STATES; s++)
    first[FIRST_STATE + s] = tdm_state(graph, names[s], TDM_FLOAT32,
                                       tdm_shape_of(1, sizes[FIRST_STATE + s]), NULL, first[0]);
  memcpy(latest, first, sizeof latest);
  int made = FIRST_MADE;
  for (int i = 0; i < step_count; i++) {
    const step *of = &steps[i];
    const tdm_value *from = of->by_latest ? latest : first;
    const tdm_value operands[] = {from[of->u], from[of->v]};
    const tdm_value y =
        tdm_append(graph, &operations[of->writes], "step", &of->by, operands, 2, NULL);
    latest[of->writes ? of->u : made] = y;
    if (!of->writes) first[made++] = y;
  }
  return tdm_graph_status(graph);
}

static const tdm_optimizer_rule rule = {.name = "drawn", .append = append_steps};

static void draw_step(step *of, int made) {
  static const float numbers[] = {1, -1, 0.5F, 0.25F};
  do {
    of->writes = draw(3) != 0;
    of->by_latest = draw(2);
    of->u = draw(of->writes ? FIRST_GRADIENT : made);
    of->v = draw(of->writes && draw(2) ? FIRST_MADE : made);
    if (of->u < PARAMETERS && draw(2)) of->v = FIRST_GRADIENT + of->u;
  } while (sizes[of->v] != 1 && sizes[of->v] != sizes[of->u]);
  of->by = (factors){numbers[draw(4)], numbers[draw(4)]};
}

static void draw_steps(void) {
  for (int k = 0; k < PARAMETERS; k++)
    sizes[k] = sizes[FIRST_GRADIENT + k] = draw(3) ? WIDTH : 1;
  for (int s = 0; s < STATES; s++)
    sizes[FIRST_STATE + s] = draw(2) ? WIDTH : 1;
  int made = FIRST_MADE;
  step_count = 3 + draw(MOST_STEPS - 3);
  for (int i = 0; i < step_count; i++) {
    draw_step(&steps[i], made);
    if (!steps[i].writes) sizes[made++] = sizes[steps[i].u];
  }
}

/* ---- Results --------------------------------------------------------------------------------- */

/* The loss is the sum of (k + 1) * x * p_k. */
static void train_alone(float (*values)[WIDTH], const float (*x)[WIDTH], int rows) {
  for (int k = 0; k < PARAMETERS; k++) {
    float *gradient = values[FIRST_GRADIENT + k];
    memset(gradient, 0, sizeof values[0]);
    for (int i = 0; i < rows * WIDTH; i++)
      gradient[sizes[k] == 1 ? 0 : i % WIDTH] += (float)(k + 1) * x[i / WIDTH][i % WIDTH];
  }
  int made = FIRST_MADE;
  for (int i = 0; i < step_count; i++) {
    const step *of = &steps[i];
    float y[WIDTH];
    compute(y, values[of->u], sizes[of->u], values[of->v], sizes[of->v], of->by);
    memcpy(values[of->writes ? of->u : made++], y, sizeof y);
  }
}

/* ---- Sessions -------------------------------------------------------------------------------- */

static tdm_value parameter(tdm_graph *graph, int k) {
  static const char *const names[PARAMETERS] = {"p0", "p1", "p2"};
  static const tdm_initializer zeros = {.kind = TDM_INIT_ZEROS};
  return tdm_parameter(graph, names[k], TDM_FLOAT32, tdm_shape_of(1, sizes[k]), &zeros);
}

static tdm_value describe(tdm_graph *graph) {
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  tdm_value sum = {0, 0};
  if (draw(2)) tdm_place(graph, devices[draw(DEVICES)]);
  tdm_scope_push(graph, "model");
  for (int k = 0; k < PARAMETERS; k++) {
    const tdm_value scaled =
        tdm_mul_scalar(graph, NULL, tdm_mul(graph, NULL, x, parameter(graph, k)), k + 1);
    sum = k ? tdm_add(graph, NULL, sum, scaled) : scaled;
  }
  tdm_scope_pop(graph);
  return tdm_sum(graph, "loss", sum, NULL, 0, false);
}

static void wrap(tdm_graph *graph) {
  static const char *const lists[] = {
      NULL,          "sim:0,sim:1",      "cpu:0,cpu:1,cpu:2", "cpu:1,cpu:2", "sim:1,sim:0,cpu:0",
      "cpu:0,sim:0", "sim:0,sim:1,sim:0"};
  static const tdm_parallel_sharding shardings[] = {TDM_SHARDING_PARAMETERS,
                                                    TDM_SHARDING_OPTIMIZER_STATES};
  const int number = draw(6); /* most cases shard nothing */
  const tdm_parallel_options options =
      OPTIONS(tdm_parallel_options, o.devices = lists[draw((int)TDM_COUNT_OF(lists))],
              o.sharding = number < 2 ? shardings[number] : TDM_SHARDING_NONE);
  if (options.devices) tdm_data_parallel(graph, "model", &options);
}

/* The value that an update has written is on another device than the one that a reading update
 * writes. */
static void assert_apart(tdm_status status) {
  if (status != TDM_UNSUPPORTED || !strstr(tdm_last_message(), "before it is written, or place"))
    fail_msg("seed %llu: %s", (unsigned long long)seed, tdm_last_message());
}

/* Returns NULL if an update would read a value that another device's update writes. */
static tdm_session *draw_session(tdm_context *context, tdm_store *store) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value loss = describe(graph);
  wrap(graph);
  const tdm_optimizer optimizer = OPTIONS(tdm_optimizer, o.rule = &rule, o.learning_rate = 1);
  const int parts = draw(4);
  tdm_session_options options =
      OPTIONS(tdm_session_options, o.store = store, o.loss = loss, o.optimizer = &optimizer,
              o.micro_batches = OR_ONE(parts),
              o.collective = (tdm_collective)draw(TDM_COLLECTIVE_TREE + 1), o.depth = 1 + draw(3));
  options.deterministic = options.collective < TDM_COLLECTIVE_RING && draw(3) == 0;
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  if (!session) assert_apart(tdm_last_status());
  return session;
}

/* Hands out every parameter of the store as every device has it. */
static tdm_session *make_reader(tdm_context *context, tdm_store *store) {
  tdm_graph *graph = tdm_graph_create(context);
  for (int i = 0; i < DEVICES * PARAMETERS; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "%d", i);
    tdm_place(graph, devices[i / PARAMETERS]);
    tdm_scope_push(graph, "model");
    tdm_output(graph, name, tdm_mul_scalar(graph, name, parameter(graph, i % PARAMETERS), 1));
    tdm_scope_pop(graph);
  }
  return run_session(graph, WITH(tdm_session_options, o.store = store));
}

static void assert_everywhere(tdm_session *reader, const float (*values)[WIDTH]) {
  char names[DEVICES * PARAMETERS][16];
  tdm_fetch fetches[DEVICES * PARAMETERS];
  for (int i = 0; i < DEVICES * PARAMETERS; i++) {
    (void)snprintf(names[i], sizeof names[i], "%d", i);
    fetches[i] = (tdm_fetch){.name = names[i]};
  }
  assert_ok(tdm_run(reader, NULL, 0, fetches, DEVICES * PARAMETERS));
  for (int i = 0; i < DEVICES * PARAMETERS; i++) {
    const float *found = tdm_tensor_data(fetches[i].tensor);
    const int k = i % PARAMETERS;
    for (int c = 0; c < sizes[k]; c++)
      if (found[c] != values[k][c])
        fail_msg("seed %llu: element %d of p%d on %s is %g, not %g", (unsigned long long)seed, c, k,
                 devices[i / PARAMETERS], (double)found[c], (double)values[k][c]);
    tdm_tensor_release(fetches[i].tensor);
  }
}

/* Returns false if an update would read a value that another device's update writes. */
static bool train(tdm_context *context, tdm_session *session, float (*values)[WIDTH]) {
  float x[MOST_ROWS][WIDTH];
  const int rows = MOST_ROWS - draw(3);
  for (int i = 0; i < rows * WIDTH; i++)
    x[i / WIDTH][i % WIDTH] = (float)(draw(5) - 2);
  tdm_tensor *fed = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, rows, WIDTH), x);
  const tdm_status status = tdm_train_step(session, &(tdm_feed){"x", fed, false}, 1, NULL, 0, NULL);
  tdm_tensor_release(fed);
  if (status != TDM_OK) assert_apart(status);
  if (status != TDM_OK) return false;
  train_alone(values, (const float(*)[WIDTH])x, rows);
  return true;
}

static void run_seed(tdm_context *context) {
  drawing = tdm_hash_mix(0, seed);
  draw_steps();
  tdm_session *sessions[2] = {draw_session(context, NULL), NULL};
  if (sessions[0]) sessions[1] = draw_session(context, tdm_session_store(sessions[0]));
  if (sessions[1]) {
    tdm_session *reader = make_reader(context, tdm_session_store(sessions[0]));
    float values[MOST_VALUES][WIDTH] = {{0}};
    for (int i = 0; i < TRAININGS && train(context, sessions[draw(2)], values); i++)
      if (draw(2) || i == TRAININGS - 1) assert_everywhere(reader, (const float(*)[WIDTH])values);
    tdm_session_release(reader);
  }
  tdm_session_release(sessions[0]);
  tdm_session_release(sessions[1]);
}

static void updates_are_made_one_after_the_other(void **unused) {
  (void)unused;
  tdm_context *context = graph_context_of(CPUS, SIMS);
  for (size_t i = 0; i < TDM_COUNT_OF(kernels); i++)
    assert_ok(tdm_kernel_register(context, &kernels[i]));
  const seed_range range = seed_range_of(1, 500);
  for (int i = 0; i < range.count; i++) {
    seed = range.first + (uint64_t)i;
    run_seed(context);
  }
  tdm_context_release(context);
}

int main(int argc, char **argv) {
  seed_range_read(argc, argv);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(updates_are_made_one_after_the_other),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
