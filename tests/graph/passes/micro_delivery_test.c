/* Results of micro-batches: whole values, once for each name, and the values of each part for
 * observers. */
#include "tests/graph/group.h"
#include "tests/options.h"

enum { WIDTH = 6 };

typedef struct seen_places {
  char text[512];
} seen_places;

static void see(void *user, const tdm_observation *observation) {
  seen_places *seen = user;
  const size_t used = strlen(seen->text);
  (void)snprintf(seen->text + used, sizeof seen->text - used, "%s %d/%d: %d; ", observation->name,
                 observation->micro_batch, observation->replica,
                 (int)tdm_tensor_shape(observation->tensor).dims[0]);
}

static void places_show_every_micro_batch(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  const tdm_value y = tdm_observe(graph, "out", tdm_linear(graph, "fc", x, WIDTH));
  tdm_output(graph, "y", y);
  seen_places seen = {.text = ""};
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.observer = see, o.observer_user = &seen, o.micro_batches = 3);
  tdm_session *session = run_session(graph, &options);
  tdm_tensor *fed = tdm_tensor_create(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 7, WIDTH));
  const tdm_feed feed = {.name = "x", .tensor = fed};
  tdm_fetch fetch = {.name = "y"};
  assert_ok(tdm_run(session, &feed, 1, &fetch, 1));
  assert_string_equal(seen.text, "out 0/0: 3; out 1/0: 3; out 2/0: 1; ");
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(fed);
  tdm_session_release(session);
}

/* One value under several names: each delivers all rows. */
static void a_value_is_delivered_by_every_name(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  const tdm_value y = tdm_tanh(graph, "tanh", x);
  const char *const names[] = {"first", "second", "third"};
  for (size_t i = 0; i < TDM_COUNT_OF(names); i++)
    tdm_output(graph, names[i], y);
  tdm_session *session = run_session(graph, WITH(tdm_session_options, o.micro_batches = 3));
  float numbers[7][WIDTH];
  for (int i = 0; i < 7 * WIDTH; i++)
    numbers[i / WIDTH][i % WIDTH] = (float)i / 10;
  tdm_tensor *fed = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, 7, WIDTH), numbers);
  const tdm_feed feed = {.name = "x", .tensor = fed};
  tdm_fetch fetches[TDM_COUNT_OF(names)];
  for (size_t i = 0; i < TDM_COUNT_OF(names); i++)
    fetches[i] = (tdm_fetch){.name = names[i]};
  assert_ok(tdm_run(session, &feed, 1, fetches, TDM_COUNT_OF(names)));
  for (size_t i = 0; i < TDM_COUNT_OF(names); i++) {
    assert_int_equal(tdm_tensor_shape(fetches[i].tensor).dims[0], 7);
    assert_same_tensor(fetches[i].tensor, fetches[0].tensor);
  }
  for (size_t i = 0; i < TDM_COUNT_OF(names); i++)
    tdm_tensor_release(fetches[i].tensor);
  tdm_tensor_release(fed);
  tdm_session_release(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(places_show_every_micro_batch),
      cmocka_unit_test(a_value_is_delivered_by_every_name),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
