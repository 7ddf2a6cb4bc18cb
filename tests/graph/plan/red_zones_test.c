/* TANDEM_RED_ZONES: every value of a run has separate memory, allocated and filled for every run,
 * on every kind of device. Results do not change, and accesses outside of a value are detected. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/devices/cuda_emulation/emulation.h"
#include "tests/graph/support.h"
#include "tests/options.h"

enum { ROWS = 4, WIDTH = 5 };

/* ---- The same results ------------------------------------------------------------------------ */

typedef struct model {
  tdm_context *context;
  tdm_graph *graph;
  tdm_session *session;
  tdm_tensor *x;
} model;

static void model_begin(model *made, const char *zones, const char *place) {
  if (zones) assert_int_equal(setenv("TANDEM_RED_ZONES", zones, 1), 0);
  made->context = tdm_context_create(NULL);
  assert_int_equal(unsetenv("TANDEM_RED_ZONES"), 0);
  if (!made->context) fail_msg("%s", tdm_last_message());
  made->graph = tdm_graph_create(made->context);
  const tdm_value x = tdm_input(made->graph, "x", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH));
  const tdm_value y = tdm_relu(made->graph, "relu", tdm_linear(made->graph, "linear", x, 7));
  const tdm_value z = tdm_linear(made->graph, "second", tdm_softmax(made->graph, "soft", y, 1), 3);
  const tdm_value loss = tdm_mean(made->graph, "loss", z, NULL, 0, false);
  tdm_output(made->graph, "loss", loss);
  const tdm_optimizer adam = tdm_adam(0.01);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = loss, o.optimizer = &adam, o.device_map = place,
              o.seed = 7, o.depth = 2);
  made->session = tdm_session_create(made->graph, &options);
  if (!made->session) fail_msg("%s", tdm_last_message());
  float values[ROWS * WIDTH];
  for (int i = 0; i < ROWS * WIDTH; i++)
    values[i] = (float)(i % 7) - 3;
  made->x = tdm_tensor_from(made->context, TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH), values);
}

static void model_end(model *made) {
  tdm_tensor_release(made->x);
  tdm_session_release(made->session);
  tdm_graph_release(made->graph);
  tdm_context_release(made->context);
}

static double train(const model *made) {
  const tdm_feed feed = {"x", made->x, false};
  double loss = 0;
  for (int i = 0; i < 5; i++)
    if (tdm_train_step(made->session, &feed, 1, NULL, 0, &loss) != TDM_OK)
      fail_msg("%s", tdm_last_message());
  return loss;
}

static const char *const places[] = {"*=cpu:0", "*=sim:0", "linear=cpu:0,*=sim:0", "*=cuda:0",
                                     "linear=cpu:0,*=cuda:0"};

static void results_stay_as_they_are(void **state) {
  (void)state;
  static const char *const zones[] = {NULL, "filled", "unfilled"};
  for (size_t p = 0; p < TDM_COUNT_OF(places); p++) {
    double losses[TDM_COUNT_OF(zones)];
    for (size_t z = 0; z < TDM_COUNT_OF(zones); z++) {
      model made;
      model_begin(&made, zones[z], places[p]);
      losses[z] = train(&made);
      model_end(&made);
      assert_memory_equal(&losses[z], &losses[0], sizeof losses[0]);
    }
  }
  assert_int_equal(emulation_outstanding(), 0);
}

static void the_plan_says_so(void **state) {
  (void)state;
  model made;
  model_begin(&made, "filled", "*=cuda:0");
  (void)train(&made);
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  assert_non_null(out);
  assert_int_equal(tdm_session_explain(made.session, TDM_PLAN_TEXT, out), TDM_OK);
  assert_int_equal(fclose(out), 0);
  assert_non_null(strstr(text, "red zones: every value in memory of its own"));
  const char *first = strstr(text, "cuda:0    activations of");
  assert_non_null(first);
  assert_null(strstr(first + 1, "cuda:0    activations of")); /* one line a device */
  free(text);
  model_end(&made);
}

static void what_is_not_known_is_refused(void **state) {
  (void)state;
  assert_int_equal(setenv("TANDEM_RED_ZONES", "yes", 1), 0);
  assert_null(tdm_context_create(NULL));
  assert_non_null(strstr(tdm_last_message(), "TANDEM_RED_ZONES is \"yes\""));
  assert_int_equal(unsetenv("TANDEM_RED_ZONES"), 0);
}

/* ---- Detected overruns ----------------------------------------------------------------------- */

/* Checks that every bit of a device's fresh memory is one. */
static void fresh_memory_is_filled(void **state) {
  (void)state;
  static const char *const names[] = {"cpu:0", "sim:0", "cuda:0"};
  assert_int_equal(setenv("TANDEM_RED_ZONES", "filled", 1), 0);
  tdm_context *context = tdm_context_create(NULL);
  assert_int_equal(unsetenv("TANDEM_RED_ZONES"), 0);
  for (size_t i = 0; i < TDM_COUNT_OF(names); i++) {
    tdm_device *device = tdm_context_find_device(context, names[i]);
    tdm_device *host = tdm_context_find_device(context, "cpu:0");
    tdm_memory memory, here;
    assert_int_equal(device->ops->allocate(device, 5001, &memory), TDM_OK);
    assert_int_equal(host->ops->allocate(host, 5001, &here), TDM_OK);
    memset((void *)here.address, 0, 5001);
    assert_int_equal(tdm_context_copy(context, &memory, &here, 5001), TDM_OK);
    for (size_t k = 0; k < 5001; k++)
      assert_int_equal(((unsigned char *)here.address)[k], 0xff);
    device->ops->release(device, &memory);
    host->ops->release(host, &here);
  }
  tdm_context_release(context);
}

/* Returns true if a process that writes one byte after a block of a GPU aborts when the block is
 * released. Without zones two blocks share an arena, and only the GPU's own memory follows
 * either. */
static bool overrun_dies(const char *zones) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    if (!freopen("/dev/null", "w", stderr)) _exit(2);
    if (setenv("TANDEM_RED_ZONES", zones, 1) != 0) _exit(3);
    tdm_context *context = tdm_context_create(NULL);
    tdm_device *device = tdm_context_find_device(context, "cuda:0");
    tdm_memory memory;
    void *pointer = NULL;
    if (device->ops->allocate(device, 1001, &memory) != TDM_OK) _exit(4);
    if (device->ops->translate(device, memory.address, 1001, &pointer) != TDM_OK) _exit(5);
    char *bytes = emulated_block(pointer, 1, 0);
    bytes[1001] = 0;
    device->ops->release(device, &memory);
    tdm_context_release(context);
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFSIGNALED(status)) assert_int_equal(WEXITSTATUS(status), 0);
  return WIFSIGNALED(status);
}

static void an_overrun_of_a_value_is_found(void **state) {
  (void)state;
  assert_false(overrun_dies("")); /* inside its arena the write is not detected */
  assert_true(overrun_dies("filled"));
  assert_true(overrun_dies("unfilled"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_overrun_of_a_value_is_found), /* forks, before there are threads */
      cmocka_unit_test(results_stay_as_they_are),       cmocka_unit_test(the_plan_says_so),
      cmocka_unit_test(what_is_not_known_is_refused),   cmocka_unit_test(fresh_memory_is_filled),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
