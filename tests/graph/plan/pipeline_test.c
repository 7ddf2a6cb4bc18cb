/* The pipeline: reports and the documentation have its passes, in its order. */
#include <stdlib.h>

#include <jansson.h>

#include "graph/run/session.h"
#include "tests/graph/group.h"
#include "tests/options.h"

/* Reads the name of the next row "| `name` | effect |" of a table of Markdown; false: none is left.
 */
static bool next_row(FILE *file, char name[64]) {
  char line[1024];
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "| `%63[a-z_]` |", name) == 1) return true;
  return false;
}

static void the_documentation_lists_all_passes(void **unused) {
  (void)unused;
  char name[64];
  FILE *file = fopen("docs/architecture/planning.md", "r");
  assert_non_null(file);
  for (size_t i = 0; i < tdm_pass_count; i++) {
    if (!next_row(file, name))
      fail_msg("docs/architecture/planning.md lacks %s", tdm_passes[i].name);
    assert_string_equal(name, tdm_passes[i].name);
  }
  assert_false(next_row(file, name));
  assert_int_equal(fclose(file), 0);
}

static tdm_session *trained_session(const tdm_session_options *options) {
  tdm_value loss;
  tdm_graph *graph = seed_graph(context, "cpu:0", "sim:0", &loss);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), options);
  test_batch batch;
  test_batch_make(&batch, context, 6, 1);
  (void)train_once(session, &batch);
  test_batch_release(&batch);
  return session;
}

static bool applied(const json_t *plan, const char *pass) {
  for (size_t i = 0; i < tdm_pass_count; i++) {
    const json_t *row = json_array_get(json_object_get(plan, "passes"), i);
    assert_string_equal(json_string_value(json_object_get(row, "name")), tdm_passes[i].name);
    const bool is = json_is_true(json_object_get(row, "applied"));
    assert_true(is || json_integer_value(json_object_get(row, "ns")) == 0);
    if (strcmp(tdm_passes[i].name, pass) == 0) return is;
  }
  fail_msg("there is no pass %s", pass);
  return false;
}

static void explain_lists_the_passes_that_applied(void **unused) {
  (void)unused;
  const tdm_session_options options[] = {
      OPTIONS(tdm_session_options, o.seed = 1),
      OPTIONS(tdm_session_options, o.unfused = true, o.unmerged = true)};
  for (size_t i = 0; i < TDM_COUNT_OF(options); i++) {
    tdm_session *session = trained_session(&options[i]);
    char *text = printed(session, print_explain, NULL, TDM_PLAN_JSON);
    json_t *plan = json_loads(text, 0, NULL);
    assert_non_null(plan);
    free(text);
    assert_int_equal(json_array_size(json_object_get(plan, "passes")), tdm_pass_count);
    assert_true(applied(plan, "lower") && applied(plan, "bind"));
    assert_false(applied(plan, "micro_batch") || applied(plan, "observe"));
    assert_int_equal(applied(plan, "fuse"), i == 0);
    assert_int_equal(applied(plan, "common_subexpressions"), i == 0);
    json_decref(plan);
    text = printed(session, print_explain, NULL, TDM_PLAN_TEXT);
    assert_non_null(strstr(text, "  passes    lower "));
    assert_int_equal(strstr(text, " fuse ") != NULL, i == 0);
    free(text);
    tdm_session_release(session);
  }
}

static void every_pass_of_the_array_can_be_printed(void **unused) {
  (void)unused;
  tdm_session *session = trained_session(NULL);
  for (size_t i = 0; i < tdm_pass_count; i++)
    free(printed(session, tdm_session_print_pass, tdm_passes[i].name, TDM_PLAN_TEXT));
  FILE *out = fopen("/dev/null", "w");
  assert_non_null(out);
  assert_status(tdm_session_print_pass(session, "optimize", TDM_PLAN_TEXT, out),
                TDM_INVALID_ARGUMENT);
  assert_message("print_pass: pass is optimize, expected one of lower, micro_batch, data_parallel");
  assert_message("emit, bind");
  assert_int_equal(fclose(out), 0);
  tdm_session_release(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_documentation_lists_all_passes),
      cmocka_unit_test(explain_lists_the_passes_that_applied),
      cmocka_unit_test(every_pass_of_the_array_can_be_printed),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
