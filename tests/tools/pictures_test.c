/* The reports of `tandem plan` and `tandem trace` from the files of a session are those of the
 * session, and a browser draws its pages without an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tandem/tandem.h"
#include "tests/examples/program.h"
#include "tests/options.h"
#include "tests/tools/browser.h"

static char command[PATH_MAX];

static void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

/* One of the formats of one session's plan and runs, in a file. */
static void write_one(tdm_session *session, const char *path, int which) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  tdm_status status = TDM_OK;
  if (which == 0) status = tdm_session_explain(session, TDM_PLAN_JSON, file);
  if (which == 1) status = tdm_session_explain(session, TDM_PLAN_DOT, file);
  if (which == 2) status = tdm_session_trace(session, TDM_TRACE_CHROME, file);
  if (which == 3) status = tdm_session_trace(session, TDM_TRACE_SUMMARY, file);
  if (which == 4) status = tdm_session_report(session, file);
  if (status != TDM_OK) fail_msg("%s: %s", path, tdm_last_message());
  assert_int_equal(fclose(file), 0);
}

/* A layer's name may be any text. */
#define NAME "a</script><script>document.title='taken'</script>\"\\b"

static tdm_session *make_session(tdm_context *context) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 8, 16));
  const tdm_value wanted = tdm_input(graph, "wanted", TDM_FLOAT32, tdm_shape_of(2, 8, 4));
  tdm_place(graph, "cpu:0");
  const tdm_value hidden = tdm_linear(graph, NAME, x, 32);
  tdm_place(graph, "sim:0");
  const tdm_value loss = tdm_mse(graph, "loss", tdm_linear(graph, "last", hidden, 4), wanted);
  const tdm_optimizer adam = tdm_adam(0.01);
  const tdm_session_options options = OPTIONS(
      tdm_session_options, o.loss = loss, o.optimizer = &adam, o.profile = true, o.trace_runs = 5);
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_graph_release(graph);
  return session;
}

static int write_files(void **state) {
  (void)state;
  const tdm_context_options wanted =
      OPTIONS(tdm_context_options, o.cpu_devices = 1, o.sim_devices = 1);
  tdm_context *context = tdm_context_create(&wanted);
  tdm_session *session = make_session(context);
  tdm_tensor *x = tdm_tensor_ones(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 8, 16));
  tdm_tensor *y = tdm_tensor_ones(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 8, 4));
  const tdm_feed feeds[] = {{"x", x, false}, {"wanted", y, false}};
  for (int i = 0; i < 7; i++)
    assert_int_equal(tdm_train_step(session, feeds, 2, NULL, 0, NULL), TDM_OK);
  static const char *const paths[] = {"plan.json", "plan.dot", "trace.json", "trace.txt",
                                      "run.html"};
  for (int i = 0; i < 5; i++)
    write_one(session, paths[i], i);
  tdm_tensor_release(x);
  tdm_tensor_release(y);
  tdm_session_release(session);
  tdm_context_release(context);
  return 0;
}

static outcome run(const char *arguments, int exit_code) {
  char line[PATH_MAX + 512];
  (void)snprintf(line, sizeof line, "'%s' %s", command, arguments);
  outcome ended = program_run_as(line);
  if (ended.exit_code != exit_code)
    fail_msg("%s ended with %d:\n%s", arguments, ended.exit_code, ended.output);
  return ended;
}

static void must_print(const char *arguments, int exit_code, const char *text) {
  outcome ended = run(arguments, exit_code);
  if (!strstr(ended.output, text)) fail_msg("%s: no '%s' in:\n%s", arguments, text, ended.output);
  outcome_free(&ended);
}

/* Expects that the command prints the contents of the file. */
static void must_print_file(const char *arguments, const char *path) {
  char line[256];
  (void)snprintf(line, sizeof line, "cat %s", path);
  outcome wanted = program_run_as(line), ended = run(arguments, 0);
  assert_string_equal(ended.output, wanted.output);
  outcome_free(&wanted);
  outcome_free(&ended);
}

static void saved_plans_are_told(void **state) {
  (void)state;
  must_print("plan plan.json", 0, "a training step: ");
  must_print("plan plan.json", 0, "gradient of last -> a</script>");
  must_print_file("plan plan.json --dot", "plan.dot");
  must_print("plan plan.json --dot", 0, "updates\\nadam");
  must_print("plan plan.json --html", 0, "id=\"data-plan\">{");
  must_print("plan --help", 0, "--svg");
}

static void saved_timelines_are_told(void **state) {
  (void)state;
  must_print_file("trace trace.json", "trace.txt");
  must_print("trace trace.json", 0, "5 runs in ");
  must_print("trace trace.json", 0, "most time went to\n");
  must_print("trace trace.json", 0, "cpu:0      -> sim:0 ");
}

/* The figures of the text, as JSON, which an independent parser accepts. */
static void both_are_told_as_json(void **state) {
  (void)state;
  static const struct {
    const char *arguments;
    const char *asked;
  } cases[] = {
      {"plan plan.json", "t['training'], sorted(d['name'] for d in t['devices']), sum(d['updates'] "
                         "for d in t['devices']), "
                         "all(x['bytes'] > 0 for x in t['transfers'])"},
      {"trace trace.json",
       "t['runs'] == 5, {d['device'] for d in t['queues']} == {'cpu:0', 'sim:0'}, "
       "t['critical_path']['commands'] > 0, t['moved'][0]['times'] > 0 and "
       "sum(c['busy_ns'] for c in t['commands']) == sum(q['busy_ns'] for q in t['queues'])"},
  };
  static const char *const wanted[] = {"True ['cpu:0', 'sim:0'] 4 True\n", "True True True True\n"};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char line[PATH_MAX + 1024];
    (void)snprintf(line, sizeof line,
                   "'%s' %s --json | python3 -c \"import json, sys; t = json.load(sys.stdin); "
                   "assert next(iter(t)) == 'version'; print(%s)\"",
                   command, cases[i].arguments, cases[i].asked);
    outcome ended = program_run_as(line);
    if (strcmp(ended.output, wanted[i]) != 0)
      fail_msg("%s: %s, not %s", line, ended.output, wanted[i]);
    outcome_free(&ended);
  }
}

static void what_is_none_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *text;
    const char *plan;
    const char *trace;
  } cases[] = {
      {"no JSON", "is no JSON", "is no JSON"},
      {"[]", "is no plan", "is no timeline"},
      {"{\"commands\":[],\"sources\":3}", "is no plan", "is no timeline"},
      {"{\"commands\":[{\"name\":3}],\"sources\":[]}", "command 1 is not one", "is no timeline"},
      {"{\"commands\":[],\"sources\":[{\"value\":-1,\"name\":\"x\"}]}", "is no plan",
       "is no timeline"},
      {"{\"traceEvents\":[]}", "is no plan", "it has no run"},
      {"{\"traceEvents\":[{\"ph\":\"X\",\"pid\":1,\"cat\":\"run\",\"args\":{\"run\":1}},"
       "{\"ph\":\"X\",\"cat\":\"kernel\",\"args\":{\"run\":2}}]}",
       "is no plan", "a command of no run"},
      {"{\"traceEvents\":[{\"ph\":\"X\",\"pid\":1,\"cat\":\"run\",\"args\":{\"run\":1}},"
       "{\"ph\":\"X\",\"cat\":\"kernel\",\"args\":{\"run\":1,\"command\":3}}]}",
       "is no plan", "a command of no queue"},
      {"{\"traceEvents\":[{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":-7,\"tid\":1}]}",
       "is no plan", "a queue of no device"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    write_text("bad.json", cases[i].text);
    must_print("plan bad.json", 1, cases[i].plan);
    must_print("trace bad.json", 1, cases[i].trace);
  }
  must_print("plan nowhere", 1, "nowhere");
  must_print("trace nowhere", 1, "nowhere");
  static const char *const kinds[] = {"--dot", "--svg", "--html", "--json"};
  for (int i = 0; i < 16; i++) { /* each pair, in either order */
    char command[64];
    (void)snprintf(command, sizeof command, "plan plan.json %s %s", kinds[i / 4], kinds[i % 4]);
    if (i / 4 != i % 4) must_print(command, 2, "one at a time");
  }
  must_print("plan", 2, "missing FILE");
}

/* Names in a file are untrusted. */
static void names_are_shown_as_text(void **state) {
  (void)state;
  write_text(
      "names.json",
      "{\"commands\":[{\"name\":\"a\\u001b[2Jb\\nc\",\"action\":\"relu\",\"device\":"
      "\"cpu\\u001b:0\",\"dtype\":\"float32\",\"shape\":[2],\"output_bytes\":8}],\"sources\":[]}");
  must_print("plan names.json", 0, "  cpu?:0 ");
  must_print("plan names.json --dot", 0, "label=\"a?[2Jb?c\\nrelu");
  write_text(
      "names.json",
      "{\"traceEvents\":["
      "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":2,\"args\":{\"name\":\"cpu\\u001b:0\"}},"
      "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":2,\"tid\":1,\"args\":{\"name\":\"q\\n\"}},"
      "{\"ph\":\"X\",\"pid\":1,\"cat\":\"run\",\"ts\":1,\"dur\":5,\"args\":{\"run\":1,"
      "\"status\":\"ok\"}},"
      "{\"ph\":\"X\",\"pid\":2,\"tid\":1,\"cat\":\"kernel\",\"name\":\"a\\u001b[2Jb\",\"ts\":2,"
      "\"dur\":3,\"args\":{\"run\":1,\"command\":0,\"action\":\"relu\"}}]}");
  must_print("trace names.json", 0, "a?[2Jb (relu), cpu?:0 q?\n");
}

static void graphviz_draws(void **state) {
  (void)state;
  char line[PATH_MAX + 64];
  (void)snprintf(line, sizeof line, "PATH=/nowhere '%s' plan plan.json --svg", command);
  outcome ended = program_run_as(line);
  assert_int_equal(ended.exit_code, 1);
  assert_non_null(strstr(ended.output, "graphviz"));
  outcome_free(&ended);
  if (!is_program_here("dot")) skip();
  must_print("plan plan.json --svg", 0, "</svg>");
}

#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void browsers_open_the_pages(void **state) {
  (void)state;
  must_print("plan plan.json --html > plan.html", 0, "");
  outcome outside = program_run_as("grep -E '(src|href)=\"?https?:|@import|url\\(' run.html");
  assert_int_equal(outside.exit_code, 1); /* grep finds no reference to another host */
  outcome_free(&outside);
  if (!is_program_here("chromium")) skip();
  browser_expect("file://$PWD/run.html", 0,
                 TEXTS("A training step", "parameters and their states", "updates (adam)",
                       "bound by", "a&lt;/script&gt;", "<canvas width="));
  browser_expect("file://$PWD/plan.html", 0, TEXTS("A training step", "updates (adam)"));
}

int main(int count, char **arguments) {
  const char *folder = getenv("TEST_TMPDIR");
  if (count != 2 || !realpath(arguments[1], command) || !folder || chdir(folder) != 0) return 2;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(saved_plans_are_told),    cmocka_unit_test(saved_timelines_are_told),
      cmocka_unit_test(both_are_told_as_json),   cmocka_unit_test(what_is_none_is_refused),
      cmocka_unit_test(names_are_shown_as_text), cmocka_unit_test(graphviz_draws),
      cmocka_unit_test(browsers_open_the_pages),
  };
  return cmocka_run_group_tests(tests, write_files, NULL);
}
