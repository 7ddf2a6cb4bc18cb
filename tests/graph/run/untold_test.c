/* Functions of a user's own that fail and do not say why: the message names whose they are, and is
 * not that of a failure long past. */
#include "tests/graph/support.h"
#include "tests/options.h"

typedef enum silent_function { NOBODY, INFER, PREPARE, EXECUTE, GRADIENT, APPEND } silent_function;
static silent_function silent;

static tdm_status answer(silent_function asked) {
  return asked == silent ? TDM_UNSUPPORTED : TDM_OK;
}

static tdm_status infer_scalar(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  infer->outputs[0].shape = tdm_shape_scalar();
  return answer(INFER);
}

static tdm_status prepare(const tdm_kernel_request *request, tdm_kernel_answer *out_answer) {
  (void)request;
  (void)out_answer;
  return answer(PREPARE);
}

static tdm_status execute(const tdm_kernel_call *call) {
  *(float *)call->outputs[0] = *(const float *)call->inputs[0];
  return answer(EXECUTE);
}

static tdm_status gradient(tdm_gradient *of) {
  tdm_gradient_set(of, 0, tdm_gradient_input(of, 0));
  return answer(GRADIENT);
}

static tdm_status append(tdm_update *update) {
  (void)update;
  return answer(APPEND);
}

/* x (1) -> () */
static const tdm_operation operation = {.struct_size = sizeof(tdm_operation),
                                        .name = "mine",
                                        .min_inputs = 1,
                                        .max_inputs = 1,
                                        .output_count = 1,
                                        .infer = infer_scalar,
                                        .gradient = gradient};
static const tdm_kernel kernel = {.struct_size = sizeof(tdm_kernel),
                                  .operation = "mine",
                                  .executes = "cpu",
                                  .dtype = TDM_FLOAT32,
                                  .prepare = prepare,
                                  .execute = execute};
static const tdm_optimizer_rule rule = {.name = "my rule", .append = append};

/* Describes, and makes a step; the first status that is none of success. */
static tdm_status train(tdm_context *context) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_initializer one = {.kind = TDM_INIT_CONSTANT, .a = 1, .zero_row = -1};
  const tdm_value weight = tdm_parameter(graph, "w", TDM_FLOAT32, tdm_shape_of(1, 1), &one);
  const tdm_value loss = tdm_append(graph, &operation, "layer", NULL, &weight, 1, NULL);
  const tdm_optimizer optimizer = OPTIONS(tdm_optimizer, o.rule = &rule, o.learning_rate = 1);
  tdm_session *session =
      tdm_session_create(graph, WITH(tdm_session_options, o.loss = loss, o.optimizer = &optimizer));
  tdm_status status = session ? TDM_OK : tdm_last_status();
  if (session) status = tdm_train_step(session, NULL, 0, NULL, 0, NULL);
  tdm_session_release(session);
  tdm_graph_release(graph);
  return status;
}

static void who_fails_without_a_word_is_named(void **state) {
  (void)state;
  static const char *const named[] = {
      [INFER] = "mine layer: ",
      [PREPARE] = "mine layer on cpu:0: ",
      [EXECUTE] = "layer: mine on cpu:0: ",
      [GRADIENT] = "gradient of mine layer: ",
      [APPEND] = "optimizer my rule: ",
  };
  tdm_context *context = graph_context();
  assert_ok(tdm_kernel_register(context, &kernel));
  for (silent = INFER; silent <= APPEND; silent++) {
    (void)tdm_fail(TDM_IO, "a failure long past");
    assert_int_equal(train(context), TDM_UNSUPPORTED);
    const char *message = tdm_last_message();
    if (!strstr(message, named[silent]) || !strstr(message, "it does not say why"))
      fail_msg("%d: %s", silent, message);
    assert_null(strstr(message, "long past"));
  }
  tdm_context_release(context);
}

/* ---- Some elements of a fused node ----------------------------------------------------------- */

static tdm_status infer_like_first(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

static tdm_status execute_part(const tdm_kernel_call *call, int64_t begin, int64_t end) {
  (void)call;
  (void)begin;
  (void)end;
  return TDM_UNSUPPORTED;
}

static void a_member_that_fails_without_a_word_is_named(void **state) {
  (void)state;
  static const tdm_operation elementwise = {.struct_size = sizeof(tdm_operation),
                                            .name = "mine_too",
                                            .min_inputs = 1,
                                            .max_inputs = 1,
                                            .output_count = 1,
                                            .infer = infer_like_first,
                                            .elementwise = true};
  static const tdm_kernel in_parts = {.struct_size = sizeof(tdm_kernel),
                                      .operation = "mine_too",
                                      .executes = "cpu",
                                      .dtype = TDM_FLOAT32,
                                      .execute = execute,
                                      .execute_part = execute_part};
  tdm_context *context = graph_context();
  assert_ok(tdm_kernel_register(context, &in_parts));
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value weight = tdm_parameter(graph, "w", TDM_FLOAT32, tdm_shape_of(1, 3), NULL);
  const tdm_value y = tdm_append(graph, &elementwise, "layer", NULL, &weight, 1, NULL);
  tdm_output(graph, "y", tdm_tanh(graph, "tanh", y));
  tdm_session *session = run_session(graph, NULL);
  tdm_fetch fetch = {.name = "y"};
  for (int run = 0; run < 2; run++) /* the second time the thread has a failure long past */
    assert_int_equal(tdm_run(session, NULL, 0, &fetch, 1), TDM_UNSUPPORTED);
  const char *message = tdm_last_message();
  if (!strstr(message, "member 1, mine_too: it does not say why")) fail_msg("%s", message);
  tdm_session_release(session);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_member_that_fails_without_a_word_is_named),
      cmocka_unit_test(who_fails_without_a_word_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
