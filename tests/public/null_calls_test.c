/* Calls every public function without its arguments: none crashes, each failure has a specific
 * message, and no missing object is used. */
#include "tests/options.h"
#include "tests/public/null_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "public_calls.inc"

static const char stale[] = "the message of an earlier failure";

/* Functions whose empty result is no failure, as their headers document. */
static const char *const harmless[] = {
    "tdm_context_retain",     "tdm_graph_retain",       "tdm_session_retain",
    "tdm_sequence_retain",    "tdm_store_retain",       "tdm_tensor_retain",
    "tdm_dataset_retain",     "tdm_session_store",      "tdm_session_context",
    "tdm_graph_context",      "tdm_tensor_list_tensor", "tdm_tensor_list_find",
    "tdm_tensor_list_name",   "tdm_gradient_graph",     "tdm_chunked_graph",
    "tdm_update_graph",       "tdm_gradient_input",     "tdm_gradient_output",
    "tdm_gradient_of_output", "tdm_chunked_input",      "tdm_chunked_whole",
    "tdm_chunked_output",     "tdm_update_parameter",   "tdm_update_gradient",
    "tdm_update_indices",     "tdm_update_rows_count"};

/* Returns true for functions that return a message of the caller, or the last message. */
static bool passes_on(const char *name) {
  return strcmp(name, "tdm_fail") == 0 || strcmp(name, "tdm_graph_fail_message") == 0 ||
         strcmp(name, "tdm_last_status") == 0;
}

static bool is_harmless(const char *name) {
  for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
    if (strcmp(harmless[i], name) == 0) return true;
  return false;
}

static tdm_context *context;

void givens_make(givens *given, call *self) {
  memset(given, 0, sizeof *given);
  given->call = self;
  if (!gives_objects(given)) {
    (void)tdm_fail(TDM_INTERNAL, "%s", stale);
    return;
  }
  given->context = context;
  given->graph = tdm_graph_create(context);
  given->value =
      tdm_input(given->graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), (int64_t)4));
  tdm_graph *built = tdm_graph_create(context);
  const tdm_value x =
      tdm_input(built, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), (int64_t)4));
  tdm_output(built, "y", tdm_linear(built, "fc", x, 2));
  given->session = run_session(built, NULL);
  given->store = tdm_session_store(given->session);
  given->sequence = tdm_sequence_create(given->session);
  given->tensor =
      tdm_tensor_zeros(context, "sim:0", TDM_FLOAT32, tdm_shape_of(2, (int64_t)3, (int64_t)4));
  given->list = tdm_tensor_list_create(context);
  given->costs = tdm_costs_create(context);
  tdm_tensor *rows = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(1, (int64_t)6));
  const char *const names[] = {"rows"};
  given->dataset = tdm_dataset_from_tensors(context, names, &rows, 1);
  tdm_tensor_release(rows);
  given->loader = tdm_loader_create(given->dataset, NULL);
  assert_true(given->graph && given->tensor && given->list && given->costs && given->loader &&
              given->sequence);
  (void)tdm_fail(TDM_INTERNAL, "%s", stale);
}

/* Released objects are NULL. */
void givens_end(givens *given) {
  if (!given->context) return;
  tdm_loader_release(given->loader);
  tdm_dataset_release(given->dataset);
  tdm_costs_release(given->costs);
  tdm_tensor_list_release(given->list);
  tdm_tensor_release(given->tensor);
  tdm_sequence_release(given->sequence);
  tdm_session_release(given->session);
  tdm_graph_release(given->graph);
}

static void complain(givens *given, const char *what) {
  static const char *const ways[CALL_WAYS] = {"with nothing",
                                              "with numbers alone",
                                              "with objects, without names",
                                              "with names, without objects",
                                              "without lists",
                                              "without an argument"};
  (void)snprintf(given->call->complaint, sizeof given->call->complaint,
                 "%s %s (%d): %s (message: %s)", given->call->name, ways[given->call->way],
                 given->call->lacking, what, tdm_last_message());
}

static bool is_stale(void) {
  return strncmp(tdm_last_message(), stale, strlen(stale)) == 0;
}

void judge_status(givens *given, tdm_status status) {
  if (passes_on(given->call->name)) return;
  if (status == TDM_OK && given->call->way == WITH_NOTHING) complain(given, "succeeds");
  if (status != TDM_OK && is_stale()) complain(given, "fails without a message of its own");
}

/* Checks that a graph keeps its error and returns it. */
void judge_value(givens *given, tdm_value value) {
  if (tdm_value_is_valid(value) || passes_on(given->call->name)) return;
  if (given->graph) (void)tdm_graph_status(given->graph);
  if (is_stale() && !is_harmless(given->call->name))
    complain(given, "fails without a message of its own");
}

void judge_pointer(givens *given, const void *answer) {
  given->answer = (void *)answer;
  if (!answer && is_stale() && !is_harmless(given->call->name))
    complain(given, "answers nothing without a message of its own");
}

static int perform(size_t index, call_way way, int lacking) {
  call self = {.way = way, .lacking = lacking, .name = public_calls[index].name};
  public_calls[index].perform(&self);
  if (!self.complaint[0]) return 0;
  print_error("%s\n", self.complaint);
  return 1;
}

enum { CALLS = sizeof public_calls / sizeof public_calls[0] };

static void nothing_crashes_and_failures_say_why(void **unused) {
  (void)unused;
  int complaints = 0;
  context = graph_context_of(1, 1);
  const char *folder = getenv("TEST_TMPDIR"); /* for files that are written to "name" */
  if (folder) assert_int_equal(chdir(folder), 0);
  for (size_t i = 0; i < CALLS; i++) {
    for (int way = 0; way < WITH_ALL_BUT; way++)
      complaints += perform(i, (call_way)way, -1);
    for (int place = 0; public_calls[i].places >> place != 0; place++)
      if (public_calls[i].places >> place & 1) complaints += perform(i, WITH_ALL_BUT, place);
  }
  tdm_context_release(context);
  assert_int_equal(complaints, 0);
  assert_true(CALLS > 250);
}

/* Building without a context needs no check of each call: the cause is reported at the end. */
static void the_first_failure_is_told(void **unused) {
  (void)unused;
  const tdm_context_options options = OPTIONS(tdm_context_options, o.cpu_devices = -3);
  tdm_context *none = tdm_context_create(&options);
  tdm_graph *graph = tdm_graph_create(none);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, (int64_t)4));
  tdm_place(graph, "cpu:0");
  tdm_output(graph, "y", tdm_linear(graph, "fc", x, 2));
  tdm_session *session = tdm_session_create(graph, NULL);
  assert_null(session);
  assert_message("tdm_session_create: the graph is NULL");
  assert_message("cpu_devices is -3");
  /* Later calls of the README's program, and others. */
  assert_null(tdm_tensor_from(none, TDM_FLOAT32, tdm_shape_of(1, (int64_t)1), &(float){1}));
  assert_message("the context is NULL; the failure before it: ");
  assert_message("cpu_devices is -3");
  assert_null(tdm_tensor_zeros(none, "cpu:0", TDM_FLOAT32, tdm_shape_of(1, (int64_t)4)));
  tdm_tensor_list *list = tdm_safetensors_load(none, "no.safetensors");
  assert_null(list);
  assert_status(tdm_session_load(session, list), TDM_INVALID_ARGUMENT);
  assert_null(tdm_tensor_to(NULL, "cpu:0", TDM_FLOAT32));
  assert_message("the tensor is NULL");
  assert_message("cpu_devices is -3");
  tdm_graph_release(graph);
  tdm_context_release(none);
}

static void of_nothing_there_is_none(void **unused) {
  (void)unused;
  assert_int_equal(tdm_context_rank(NULL), 0);
  assert_int_equal(tdm_context_rank_count(NULL), 0);
  assert_int_equal(tdm_device_count(NULL), 0);
  assert_int_equal(tdm_device_count_of(NULL, "cpu"), 0);
  assert_int_equal(tdm_tensor_bytes(NULL), 0);
  assert_int_equal(tdm_tensor_dtype(NULL), TDM_DTYPE_NONE);
  assert_int_equal(tdm_tensor_list_count(NULL), 0);
  assert_int_equal(tdm_graph_dtype(NULL), TDM_DTYPE_NONE);
  assert_int_equal(tdm_store_version(NULL), 0);
  assert_int_equal(tdm_session_step(NULL), 0);
  assert_null(tdm_session_context(NULL));
  assert_false(tdm_run_cancel(NULL, 1));
  assert_int_equal(tdm_dataset_length(NULL), 0);
  assert_int_equal(tdm_loader_batch_count(NULL), 0);
  assert_int_equal(tdm_team_size(NULL), 1);
}

/* One call by its numbers, for a debugger: null_calls_test INDEX WAY [LACKING]. */
int main(int argc, char **argv) {
  if (argc >= 3) {
    context = graph_context_of(1, 1);
    const size_t index = (size_t)atol(argv[1]);
    if (index >= CALLS) return 77;
    printf("%s %s\n", public_calls[index].name, argv[2]);
    fflush(stdout);
    return perform(index, (call_way)atoi(argv[2]), argc > 3 ? atoi(argv[3]) : -1);
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_crashes_and_failures_say_why),
      cmocka_unit_test(the_first_failure_is_told),
      cmocka_unit_test(of_nothing_there_is_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
