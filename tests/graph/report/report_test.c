/* Reports to streams: the same text in every locale and with little memory, and IO with the
 * system's reason if the stream accepts no more. */
#define _GNU_SOURCE /* open_memstream */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/core/comma_locale.h"
#include "tests/devices/sanitized.h"
#include "tests/graph/support.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

static tdm_status print_pass(tdm_session *session, const char *what, tdm_plan_format format,
                             FILE *out) {
  return tdm_session_print_pass(session, what, format, out);
}

static tdm_status print_trace(tdm_session *session, const char *what, tdm_plan_format format,
                              FILE *out) {
  (void)what;
  return tdm_session_trace(session, format == TDM_PLAN_JSON ? TDM_TRACE_CHROME : TDM_TRACE_SUMMARY,
                           out);
}

static tdm_status print_report(tdm_session *of, const char *what, tdm_plan_format format,
                               FILE *out) {
  (void)what;
  (void)format;
  return tdm_session_report(of, out);
}

static const struct {
  test_printer print;
  const char *pass;
  tdm_plan_format format;
  const char *what;
} reports[] = {
    {print_explain, NULL, TDM_PLAN_TEXT, "the plan"},
    {print_explain, NULL, TDM_PLAN_DOT, "the plan"},
    {print_explain, NULL, TDM_PLAN_JSON, "the plan"},
    {print_pass, "place", TDM_PLAN_TEXT, "the plan"},
    {print_pass, "schedule", TDM_PLAN_JSON, "the plan"},
    {print_pass, "verify", TDM_PLAN_DOT, "the plan"},
    {print_trace, NULL, TDM_PLAN_TEXT, "the trace"},
    {print_trace, NULL, TDM_PLAN_JSON, "the trace"},
    {print_report, NULL, TDM_PLAN_JSON, "the report"},
};

static tdm_faulty_allocator *faulty;
static tdm_context *context;
static tdm_session *session;

static int make_session(void **state) {
  (void)state;
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.trace_runs = 2, o.profile = true, o.micro_batches = 4);
  tdm_value loss;
  faulty = tdm_faulty_allocator_create();
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  const tdm_context_options devices =
      OPTIONS(tdm_context_options, o.allocator = &allocator, o.cpu_devices = 1, o.sim_devices = 1,
              o.sim = "latency_us=0,gigabytes_per_second=0");
  context = tdm_context_create(&devices);
  assert_non_null(context);
  tdm_graph *graph = zigzag_graph(context, "cpu:0", "sim:0", &loss);
  session = train_session(graph, loss, tdm_adam(0.01), &options);
  (void)train_steps(session, 7, 3);
  return 0;
}

static int release_session(void **state) {
  (void)state;
  tdm_session_release(session);
  tdm_context_release(context);
  tdm_faulty_allocator_destroy(faulty);
  return 0;
}

static char *report(size_t i) {
  return printed(session, reports[i].print, reports[i].pass, reports[i].format);
}

/* Compares two reports. Durations of making a plan again are ignored. */
static void assert_same_report(size_t i, const char *a, const char *b) {
  if (!reports[i].pass || reports[i].format == TDM_PLAN_DOT) assert_string_equal(a, b);
}

static void a_full_device_says_so(void **state) {
  (void)state;
  for (size_t i = 0; i < TDM_COUNT_OF(reports); i++) {
    for (int buffered = 0; buffered < 2; buffered++) {
      FILE *full = fopen("/dev/full", "w");
      assert_non_null(full);
      if (!buffered) assert_int_equal(setvbuf(full, NULL, _IONBF, 0), 0);
      const tdm_status status = reports[i].print(session, reports[i].pass, reports[i].format, full);
      if (status != TDM_IO) fail_msg("report %zu: %s", i, tdm_status_name(status));
      assert_non_null(strstr(tdm_last_message(), reports[i].what));
      if (!strstr(tdm_last_message(), strerror(ENOSPC)))
        fail_msg("report %zu: %s", i, tdm_last_message());
      (void)fclose(full);
    }
  }
}

/* Checks a stream that had failed before the report: the report fails although its own writes
 * succeed. */
static void a_stream_that_had_failed_is_told(void **state) {
  (void)state;
  for (size_t i = 0; i < TDM_COUNT_OF(reports); i++) {
    FILE *out = fopen("/dev/null", "w");
    assert_non_null(out);
    assert_int_equal(fgetc(out), EOF); /* it is not for reading */
    assert_true(ferror(out));
    assert_int_equal(reports[i].print(session, reports[i].pass, reports[i].format, out), TDM_IO);
    if (!strstr(tdm_last_message(), "the stream has failed before"))
      fail_msg("report %zu: %s", i, tdm_last_message());
    (void)fclose(out);
  }
}

static ssize_t write_nothing(void *cookie, const char *bytes, size_t count) {
  (void)cookie;
  (void)bytes;
  (void)count;
  return 0; /* fails, and does not report why */
}

/* A user-defined stream need not set an error number. Then none is reported. */
static void a_failure_without_a_reason_has_none(void **state) {
  (void)state;
  if (test_is_thread_sanitized()) skip(); /* the sanitizer queries the stream's descriptor: EBADF */
  for (size_t i = 0; i < TDM_COUNT_OF(reports); i++) {
    FILE *out = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_nothing});
    assert_non_null(out);
    assert_int_equal(reports[i].print(session, reports[i].pass, reports[i].format, out), TDM_IO);
    if (!strstr(tdm_last_message(), "cannot write: the stream gives no reason"))
      fail_msg("report %zu: %s", i, tdm_last_message());
    (void)fclose(out);
  }
}

/* Returns the JSON of one part; released by the caller. */
static json_t *part_of(const char *page, const char *part) {
  char tag[32];
  (void)snprintf(tag, sizeof tag, "id=\"data-%s\">", part);
  const char *at = strstr(page, tag);
  if (!at) fail_msg("%s is not in the page", tag);
  at += strlen(tag);
  const char *end = strstr(at, "</script>");
  assert_non_null(end);
  json_error_t error;
  json_t *root = json_loadb(at, (size_t)(end - at), JSON_DECODE_ANY, &error);
  if (!root) fail_msg("%s: %s", part, error.text);
  return root;
}

/* Checks the page against the separately written parts, and the summary as a string. */
static void a_page_has_the_plan_and_its_runs(void **state) {
  (void)state;
  char *page = printed(session, print_report, NULL, TDM_PLAN_JSON);
  char *texts[] = {printed(session, print_explain, NULL, TDM_PLAN_JSON),
                   printed(session, print_trace, NULL, TDM_PLAN_JSON),
                   printed(session, print_trace, NULL, TDM_PLAN_TEXT)};
  json_t *wanted[] = {json_loads(texts[0], 0, NULL), json_loads(texts[1], 0, NULL),
                      json_string(texts[2])};
  static const char *const parts[] = {"plan", "trace", "summary"};
  for (size_t i = 0; i < TDM_COUNT_OF(parts); i++) {
    json_t *part = part_of(page, parts[i]);
    assert_non_null(wanted[i]);
    if (!json_equal(part, wanted[i])) fail_msg("the page has another %s", parts[i]);
    json_decref(part);
    json_decref(wanted[i]);
    free(texts[i]);
  }
  free(page);
}

/* The Nth allocation fails, for every N until none does: a report is whole, or not OK. */
static void no_report_is_cut_short(void **state) {
  (void)state;
  for (size_t i = 0; i < TDM_COUNT_OF(reports); i++) {
    char *wanted = report(i);
    for (uint64_t n = 1;; n++) {
      char *text = NULL;
      size_t bytes = 0;
      FILE *out = open_memstream(&text, &bytes);
      assert_non_null(out);
      tdm_faulty_allocator_arm(faulty, n, false);
      const tdm_status status = reports[i].print(session, reports[i].pass, reports[i].format, out);
      const bool failed = tdm_faulty_allocator_failures(faulty) > 0;
      tdm_faulty_allocator_arm(faulty, 0, false);
      (void)fclose(out);
      if (status != TDM_OK) assert_int_equal(status, TDM_OUT_OF_MEMORY);
      if (status == TDM_OK) assert_same_report(i, text, wanted);
      assert_true(status != TDM_OK || text[bytes - 1] == '\n');
      free(text);
      if (!failed) break;
    }
    free(wanted);
  }
}

/* An allocator without memory for jansson; text that is written without jansson does not use it. */
static void *no_memory(size_t bytes) {
  (void)bytes;
  return NULL;
}

static void reports_take_no_memory_of_jansson_s(void **state) {
  (void)state;
  for (size_t i = 0; i < TDM_COUNT_OF(reports); i++) {
    char *wanted = report(i);
    json_set_alloc_funcs(no_memory, free);
    char *text = report(i);
    json_set_alloc_funcs(malloc, free);
    assert_same_report(i, text, wanted);
    free(text);
    free(wanted);
  }
}

static void reports_are_the_same_in_every_locale(void **state) {
  char *wanted[TDM_COUNT_OF(reports)];
  for (size_t i = 0; i < TDM_COUNT_OF(reports); i++)
    wanted[i] = report(i);
  assert_int_equal(enter_comma_locale(state), 0);
  for (size_t i = 0; i < TDM_COUNT_OF(reports); i++) {
    char *text = report(i);
    assert_same_report(i, text, wanted[i]);
    free(text);
  }
  assert_int_equal(leave_comma_locale(state), 0);
  for (size_t i = 0; i < TDM_COUNT_OF(reports); i++)
    free(wanted[i]);
}

static void messages_of_graphs_have_a_point(void **state) {
  assert_int_equal(enter_comma_locale(state), 0);
  tdm_graph *graph = tdm_graph_create(context);
  (void)tdm_dropout(graph, "d", tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, 2)), 1.5);
  assert_int_equal(leave_comma_locale(state), 0);
  assert_int_equal(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(tdm_last_message(), "its probability is 1.5,"));
  tdm_graph_release(graph);
}

/* Long names are JSON strings, and causes have the whole of both. */
static void json_opens_whatever_names_are(void **state) {
  (void)state;
  char name[199];
  for (size_t i = 0; i + 1 < sizeof name; i += 2)
    memcpy(name + i, "\xc3\xa4", 2);
  name[sizeof name - 1] = '\0';
  tdm_graph *graph = tdm_graph_create(context);
  tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 2, 3));
  tdm_place(graph, "cpu:0");
  tdm_value hidden = tdm_linear(graph, name, x, 3);
  tdm_place(graph, "sim:0");
  tdm_output(graph, "y", tdm_linear(graph, name + 2, hidden, 3));
  const tdm_session_options options = OPTIONS(tdm_session_options, o.trace_runs = 1);
  tdm_session *named = run_session(graph, &options);
  tdm_tensor *fed = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 2, 3));
  const tdm_feed feed = {"x", fed, false};
  tdm_fetch fetch = {"y", NULL};
  assert_ok(tdm_run(named, &feed, 1, &fetch, 1));
  char cause[2 * sizeof name + 4];
  (void)snprintf(cause, sizeof cause, "%s -> %s", name, name + 2);
  char *texts[] = {printed(named, print_explain, NULL, TDM_PLAN_JSON),
                   printed(named, print_trace, NULL, TDM_PLAN_JSON)};
  for (int i = 0; i < 2; i++) {
    json_error_t error;
    json_t *root = json_loads(texts[i], JSON_REJECT_DUPLICATES, &error);
    if (!root) fail_msg("line %d: %s", error.line, error.text);
    assert_non_null(strstr(texts[i], cause));
    json_decref(root);
    free(texts[i]);
  }
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(fed);
  tdm_session_release(named);
}

/* A report takes nothing that it keeps. */
static void reports_give_their_memory_back(void **state) {
  (void)state;
  for (size_t i = 0; i < TDM_COUNT_OF(reports); i++) {
    free(report(i)); /* the session has now allocated the data that it keeps for later reports */
    const int64_t before = tdm_faulty_allocator_outstanding_bytes(faulty);
    free(report(i));
    const int64_t left = tdm_faulty_allocator_outstanding_bytes(faulty) - before;
    if (left != 0) fail_msg("report %zu: %lld bytes are left", i, (long long)left);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_full_device_says_so),
      cmocka_unit_test(a_failure_without_a_reason_has_none),
      cmocka_unit_test(a_stream_that_had_failed_is_told),
      cmocka_unit_test(a_page_has_the_plan_and_its_runs),
      cmocka_unit_test(no_report_is_cut_short),
      cmocka_unit_test(reports_take_no_memory_of_jansson_s),
      cmocka_unit_test(reports_are_the_same_in_every_locale),
      cmocka_unit_test(messages_of_graphs_have_a_point),
      cmocka_unit_test(json_opens_whatever_names_are),
      cmocka_unit_test(reports_give_their_memory_back),
  };
  return cmocka_run_group_tests(tests, make_session, release_session);
}
