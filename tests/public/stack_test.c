/* The stack that a thread requires to call the library: the life of a program on a thread whose
 * stack was filled with a pattern before. The documented size (devices/devices.h,
 * tdm_context_create) is sufficient. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tandem/tandem.h"
#include "tests/options.h"

enum { DOCUMENTED_BYTES = 512 * 1024, STACK_BYTES = 2 * DOCUMENTED_BYTES, PATTERN = 0xa5 };
enum { WORDS = 50, WIDTH = 8, HEADS = 2, CLASSES = 3, LENGTH = 5, BATCH = 4, STEPS = 3 };

#define must(expression)                                                                           \
  do {                                                                                             \
    if ((expression) != TDM_OK) return tdm_last_message();                                         \
  } while (0)

/* Layers with deep plans: a recurrent one, attention, images. */
static tdm_session *make_session(tdm_graph *graph, const char *device, const tdm_optimizer *adam) {
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(2, LENGTH, BATCH));
  const tdm_value classes = tdm_input(graph, "class", TDM_INT64, tdm_shape_of(1, BATCH));
  tdm_value x = tdm_embedding(graph, "embedding", ids, WORDS, WIDTH);
  tdm_place(graph, device);
  x = tdm_lstm(graph, "lstm", x, WIDTH, NULL, NULL, NULL);
  x = tdm_transformer_encoder_layer(graph, "encoder", x, HEADS, NULL);
  x = tdm_reshape(graph, "image", x, tdm_shape_of(4, BATCH, 1, LENGTH, WIDTH));
  x = tdm_flatten(graph, "flat", tdm_conv2d(graph, "conv", x, 2, 3, 3, NULL), 1, 3);
  const tdm_value scores = tdm_linear(graph, "head", x, CLASSES);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = tdm_cross_entropy(graph, "loss", scores, classes),
              o.optimizer = adam, o.profile = true, o.trace_runs = 4);
  return tdm_session_create(graph, &options);
}

static const char *report(tdm_session *session) {
  FILE *out = tmpfile();
  if (!out) return "no temporary file";
  must(tdm_session_explain(session, TDM_PLAN_TEXT, out));
  must(tdm_session_explain(session, TDM_PLAN_JSON, out));
  must(tdm_session_explain(session, TDM_PLAN_DOT, out));
  must(tdm_session_trace(session, TDM_TRACE_CHROME, out));
  must(tdm_session_print_summary(session, out));
  must(tdm_session_report(session, out));
  (void)fclose(out);
  char path[] = "/tmp/tandem_stack_XXXXXX";
  const int file = mkstemp(path);
  if (file < 0) return "no temporary file";
  (void)close(file);
  must(tdm_checkpoint_save(session, NULL, path));
  must(tdm_checkpoint_load(session, NULL, path));
  (void)unlink(path);
  return NULL;
}

static const char *live(const char *device) {
  const tdm_context_options wanted =
      OPTIONS(tdm_context_options, o.cpu_devices = 1, o.sim_devices = 1);
  tdm_context *context = tdm_context_create(&wanted);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_optimizer adam = tdm_adam(0.001);
  tdm_session *session = make_session(graph, device, &adam);
  if (!session) return tdm_last_message();
  const tdm_feed feeds[] = {
      {"ids", tdm_tensor_ones(context, "cpu:0", TDM_INT64, tdm_shape_of(2, LENGTH, BATCH)), true},
      {"class", tdm_tensor_ones(context, "cpu:0", TDM_INT64, tdm_shape_of(1, BATCH)), true}};
  for (int i = 0; i < STEPS; i++)
    must(tdm_train_step(session, feeds, 2, NULL, 0, NULL));
  const char *failure = report(session);
  tdm_costs *costs = tdm_costs_create(context);
  must(tdm_costs_learn(costs, session, false));
  tdm_forecast *forecast = NULL;
  const tdm_forecast_options options = OPTIONS(tdm_forecast_options, o.costs = costs);
  must(tdm_session_forecast(session, &options, &forecast));
  tdm_forecast_release(forecast);
  tdm_costs_release(costs);
  tdm_tensor_release(feeds[0].tensor);
  tdm_tensor_release(feeds[1].tensor);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return failure;
}

static void *run_life(void *user) {
  *(const char **)user = live("sim:0");
  if (!*(const char **)user) *(const char **)user = live("cpu:0"); /* on this thread */
  return NULL;
}

static size_t used_bytes(const unsigned char *stack) {
  size_t unused = 0;
  while (unused < STACK_BYTES && stack[unused] == PATTERN)
    unused++;
  return STACK_BYTES - unused;
}

static void the_documented_stack_suffices(void **state) {
  (void)state;
  unsigned char *stack =
      mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(stack, MAP_FAILED);
  memset(stack, PATTERN, STACK_BYTES);
  pthread_attr_t attributes;
  pthread_t thread;
  const char *failure = NULL;
  assert_int_equal(pthread_attr_init(&attributes), 0);
  assert_int_equal(pthread_attr_setstack(&attributes, stack, STACK_BYTES), 0);
  assert_int_equal(pthread_create(&thread, &attributes, run_life, &failure), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  if (failure) fail_msg("%s", failure);
  print_message("%zu bytes of stack were used\n", used_bytes(stack));
  assert_in_range(used_bytes(stack), 1, DOCUMENTED_BYTES);
  assert_int_equal(pthread_attr_destroy(&attributes), 0);
  assert_int_equal(munmap(stack, STACK_BYTES), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_documented_stack_suffices)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
