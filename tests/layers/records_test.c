/* Every record of an operation states its work and its precision, golden data reaches it, finite
 * differences check its gradient, and docs/layers.md lists its functions and no others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "devices/kernels/elementwise/fused.h"
#include "graph/run/session.h"
#include "layers/records.h"
#include "tests/layers/cases/training.h"
#include "tests/layers/layer_cases.h"

typedef void (*record_check)(const tdm_record *record);

static size_t complaints; /* complaints in the running test */

static void complain(const char *format, const char *name, const char *more) {
  print_error(format, name, more ? more : "");
  print_error("\n");
  complaints++;
}

/* Fails once all records have been checked. */
static void each_record(record_check check) {
  complaints = 0;
  for (const tdm_record *const *list = tdm_all_records; *list; list++)
    for (const tdm_record *record = *list; record->operation; record++)
      check(record);
  assert_int_equal(complaints, 0);
}

/* ---- Contents of a record -------------------------------------------------------------------- */

static void check_fields(const tdm_record *record) {
  const tdm_operation *operation = record->operation;
  const char *name = operation->name;
  if (operation->struct_size != sizeof *operation) complain("%s is of another size%s", name, NULL);
  if (!operation->infer) complain("%s has no shape rule%s", name, NULL);
  if (!operation->work) complain("%s does not say how much work it is%s", name, NULL);
  if (operation->precision == TDM_PRECISION_UNSAID || operation->precision > TDM_PRECISION_GIVEN)
    complain("%s does not say which precision it computes in%s", name, NULL);
  if (operation->gradient && operation->gradient_operation)
    complain("%s has a rule for its gradient and an operation as well%s", name, NULL);
}

static void every_record_says_its_work_and_precision(void **state) {
  (void)state;
  each_record(check_fields);
}

/* ---- What golden data reaches ---------------------------------------------------------------- */

enum { MOST_NAMES = 256 };

/* Names of operations. */
typedef struct name_set {
  const char *names[MOST_NAMES];
  size_t count;
} name_set;

static bool contains(const name_set *set, const char *name) {
  for (size_t i = 0; i < set->count; i++)
    if (strcmp(set->names[i], name) == 0) return true;
  return false;
}

static void add_name(name_set *set, const char *name) {
  if (contains(set, name)) return;
  assert_true(set->count < MOST_NAMES);
  set->names[set->count++] = name;
}

/* Those that the session's latest plan executes, members of fused nodes among them. */
static void add_plan(name_set *set, const tdm_session *session) {
  const tdm_graph *graph = &session->last_asked->graph;
  TDM_EACH_NODE(graph, node) {
    if (!node->operation) continue;
    add_name(set, node->operation->name);
    if (node->operation != &tdm_operation_fused) continue;
    const tdm_fused_attributes *program = node->attributes;
    for (int64_t m = 0; m < program->member_count; m++)
      add_name(set, program->members[m].operation->name);
  }
}

static name_set reached;      /* operations that golden data covers */
static name_set reached_back; /* operations in runs that train and that finite differences check */

static void add_session(tdm_session *session, const tdm_feed *feeds, size_t feed_count,
                        bool is_checked) {
  assert_int_equal(tdm_session_prepare(session, feeds, feed_count, NULL, 0, true), TDM_OK);
  add_plan(&reached, session);
  if (is_checked) add_plan(&reached_back, session);
}

static void add_case(const golden_file *golden, const layer_case *options) {
  layer_test test;
  layer_test_begin(&test, golden, options->name, "*=cpu:0");
  options->build(&test, options);
  layer_test_start(&test);
  add_session(test.session, test.feeds, test.feed_count, !options->not_smooth);
  tdm_fetch fetches[LAYER_TEST_MAX_FETCHES];
  memcpy(fetches, test.fetches, sizeof fetches);
  assert_int_equal(tdm_session_prepare(test.session, test.feeds, test.feed_count, fetches,
                                       test.fetch_count, false),
                   TDM_OK);
  add_plan(&reached, test.session);
  layer_test_end(&test);
}

static void add_training(const golden_file *golden, const training_case *training) {
  tdm_session *session = training_session(golden, training, "*=cpu:0");
  tdm_feed feeds[TRAINING_FEEDS];
  for (size_t i = 0; i < TRAINING_FEEDS; i++) {
    char text[64];
    (void)snprintf(text, sizeof text, "%s.0", training->model->feeds[i]);
    feeds[i] = (tdm_feed){.name = training->model->feeds[i],
                          .tensor = golden_tensor(golden, training->name, "input", text)};
  }
  add_session(session, feeds, TRAINING_FEEDS, false);
  tdm_session_release(session);
}

static int reach_all(void **state) {
  (void)state;
  static const char *const families[] = {"arrays",    "blocks", "loss",   "moves",  "pointwise",
                                         "recurrent", "tables", "vision", "volumes"};
  static layer_case cases[LAYER_CASES_MAX];
  static training_case trainings[TRAINING_CASES_MAX];
  golden_file golden;
  golden_open(&golden, "layers", TDM_FLOAT32);
  size_t count = layer_cases_all(cases, LAYER_CASES_MAX);
  for (size_t i = 0; i < count; i++)
    add_case(&golden, &cases[i]);
  golden_close(&golden);
  for (size_t f = 0; f < TDM_COUNT_OF(families); f++) {
    golden_open(&golden, families[f], TDM_FLOAT32);
    count = option_cases_all(&golden, cases, LAYER_CASES_MAX);
    for (size_t i = 0; i < count; i++)
      add_case(&golden, &cases[i]);
    golden_close(&golden);
  }
  golden_open(&golden, "training", TDM_FLOAT32);
  count = training_cases_all(&golden, trainings);
  for (size_t i = 0; i < count; i++)
    add_training(&golden, &trainings[i]);
  golden_close(&golden);
  return 0;
}

static void check_golden(const tdm_record *record) {
  const char *name = record->operation->name;
  const bool found = contains(&reached, name);
  if (!record->no_golden && !found) complain("no golden data reaches %s%s", name, NULL);
  if (record->no_golden && found)
    complain("golden data reaches %s, which is excused: %s", name, record->no_golden);
}

static void golden_data_reaches_every_record(void **state) {
  (void)state;
  each_record(check_golden);
}

static void check_gradient(const tdm_record *record) {
  const tdm_operation *operation = record->operation;
  if (!operation->gradient && !operation->gradient_operation) return;
  const tdm_operation *trained = operation->when_training;
  const bool found = contains(&reached_back, operation->name) ||
                     (trained && contains(&reached_back, trained->name));
  if (!record->no_differences && !found)
    complain("no finite differences check the gradient of %s%s", operation->name, NULL);
  if (record->no_differences && found)
    complain("finite differences check %s, which is excused: %s", operation->name,
             record->no_differences);
}

static void differences_check_every_gradient(void **state) {
  (void)state;
  each_record(check_gradient);
}

/* ---- The list in the documentation ----------------------------------------------------------- */

static char *documentation;

static int read_documentation(void **state) {
  FILE *file = fopen("docs/layers.md", "r");
  assert_non_null(file);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  const long size = ftell(file);
  assert_true(size > 0);
  rewind(file);
  documentation = calloc((size_t)size + 1, 1);
  assert_non_null(documentation);
  assert_int_equal(fread(documentation, 1, (size_t)size, file), (size_t)size);
  (void)fclose(file);
  return reach_all(state);
}

static int release_documentation(void **state) {
  (void)state;
  free(documentation);
  return 0;
}

#define FUNCTION_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789_"

/* Returns true if the text contains the function's name, and not only as the beginning of another
 * name. */
static bool names(const char *text, const char *function, size_t length) {
  for (const char *at = text; (at = strstr(at, "tdm_")); at += strspn(at, FUNCTION_LETTERS))
    if (strspn(at, FUNCTION_LETTERS) == length && strncmp(at, function, length) == 0) return true;
  return false;
}

static void check_documented(const tdm_record *record) {
  const char *at = record->functions ? record->functions : "";
  for (size_t length; *at; at += length + strspn(at + length, " ")) {
    length = strcspn(at, " ");
    if (!names(documentation, at, length))
      complain("docs/layers.md lacks a function of %s: %s", record->operation->name, at);
  }
}

static bool is_recorded(const char *function, size_t length) {
  for (const tdm_record *const *list = tdm_all_records; *list; list++)
    for (const tdm_record *record = *list; record->operation; record++)
      if (record->functions && names(record->functions, function, length)) return true;
  return false;
}

/* Rates, ties and printing are no operations. */
static bool is_operation(const char *function, size_t length) {
  static const char rates[] = "tdm_rate_";
  static const char *const others[] = {"tdm_tie", "tdm_graph_print", "tdm_tensor_print"};
  for (size_t i = 0; i < TDM_COUNT_OF(others); i++)
    if (strlen(others[i]) == length && strncmp(function, others[i], length) == 0) return false;
  return strncmp(function, rates, sizeof rates - 1) != 0;
}

static void documentation_and_records_agree(void **state) {
  (void)state;
  each_record(check_documented);
  size_t listed = 0;
  for (const char *at = documentation; (at = strstr(at, "tdm_"));
       at += strspn(at, FUNCTION_LETTERS)) {
    const size_t length = strspn(at, FUNCTION_LETTERS);
    if (!is_operation(at, length)) continue;
    if (!is_recorded(at, length))
      fail_msg("docs/layers.md lists %.*s, which no record has", (int)length, at);
    listed++;
  }
  assert_true(listed > 80);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_record_says_its_work_and_precision),
      cmocka_unit_test(golden_data_reaches_every_record),
      cmocka_unit_test(differences_check_every_gradient),
      cmocka_unit_test(documentation_and_records_agree),
  };
  return cmocka_run_group_tests(tests, read_documentation, release_documentation);
}
