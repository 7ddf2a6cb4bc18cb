/* Predicted times of transfers: by the devices' models, saying so, until the links are calibrated;
 * then by what this machine's copies took. */
#include <stdlib.h>

#include <jansson.h>

#include "devices/host/links.h"
#include "devices/links.h"
#include "graph/session.h"
#include "tests/graph/support.h"

static json_t *explained(tdm_session *session) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  assert_non_null(out);
  assert_ok(tdm_session_explain(session, TDM_PLAN_JSON, out));
  (void)fclose(out);
  json_t *plan = json_loads(text, 0, NULL);
  assert_non_null(plan);
  free(text);
  return plan;
}

static double number_of(const json_t *object, const char *field) {
  const json_t *value = json_object_get(object, field);
  assert_true(json_is_number(value));
  return json_number_value(value);
}

static const char *text_of(const json_t *object, const char *field) {
  const char *text = json_string_value(json_object_get(object, field));
  assert_non_null(text);
  return text;
}

/* Each transfer between cpu:0 and sim:0 is predicted by the link of its direction and memory. */
static void assert_predictions(tdm_context *context, tdm_session *session, const char *origin) {
  json_t *plan = explained(session);
  const tdm_device *cpu = tdm_context_find_device(context, "cpu:0");
  const tdm_device *sim = tdm_context_find_device(context, "sim:0");
  size_t transfers = 0;
  size_t index;
  json_t *command;
  json_array_foreach(json_object_get(plan, "commands"), index, command) {
    if (!json_object_get(command, "cause")) continue;
    const bool up = strcmp(text_of(command, "device"), "sim:0") == 0;
    const bool pinned = strcmp(text_of(command, "memory"), "pinned") == 0;
    tdm_link_estimate link;
    tdm_context_link(context, up ? cpu : sim, up ? sim : cpu, pinned, &link);
    const double expected = tdm_link_predict_ns(&link, number_of(command, "bytes"));
    assert_true(expected > 0);
    const double predicted = number_of(command, "predicted_ns");
    if (!(predicted > 0.999 * expected && predicted < 1.001 * expected)) {
      fail_msg("%g ns are predicted, not %g", predicted, expected);
    }
    assert_string_equal(text_of(command, "prediction"), origin);
    transfers++;
  }
  assert_true(transfers >= 3);
  json_decref(plan);
}

static void predictions_come_from_the_links(void **unused) {
  (void)unused;
  tdm_context *context =
      tdm_context_create(&(tdm_context_options){.struct_size = sizeof(tdm_context_options),
                                                .cpu_devices = 1,
                                                .sim_devices = 1,
                                                .sim = "latency_us=40,gigabytes_per_second=1"});
  assert_non_null(context);
  tdm_value loss;
  tdm_graph *graph = tied_graph(context, "cpu:0", "sim:0", &loss);
  tdm_session *session = train_session(graph, loss, tdm_adam(0.1), NULL);
  (void)train_steps(session, 6, 3);
  assert_predictions(context, session, "modelled");
  const tdm_links_calibration quick = {.least_bytes = 256, .most_bytes = 4096, .copies = 5};
  size_t known_count = 0;
  assert_ok(tdm_links_calibrate(context, &quick, &known_count));
  assert_int_equal(known_count, 4);
  assert_predictions(context, session, "calibrated");
  tdm_session_release(session);
  tdm_context_release(context);
}

int main(void) {
  (void)setenv("TANDEM_LINKS", "off", 1); /* nobody's file */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(predictions_come_from_the_links),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
