/* Plans in their present form, recorded as text in recorded/: any change of a plan of these
 * models shows here, line by line. Intended changes are recorded by bazel run
 * //tests/graph/plans:plans_test -- --record, and reviewed as a difference of text. The text has
 * the nodes on their queues, the waits of each, the place of its result, and the transfers with
 * their routes. For described machines it has the forecast of each queue and link. */
#include <stdlib.h>

#include "tests/graph/plans/recorded.h"
#include "tests/graph/support.h"

static bool records;

/* Writes a line without the parts that differ between machines or times: the duration of planning
 * and of its passes, and the assumed bandwidth of host memory. in_passes: the next lines are about
 * passes. */
static void tell_line(const char *line, bool *in_passes, FILE *out) {
  *in_passes = strncmp(line, "  passes    ", 12) == 0 ||
               (*in_passes && strncmp(line, "            ", 12) == 0);
  if (*in_passes) return;
  const char *made = strstr(line, ", made in ");
  const char *predicted = strstr(line, ", predicted ");
  const char *end = made ? made : predicted && strstr(predicted, "(assumed)") ? predicted : NULL;
  if (!end) {
    fputs(line, out);
    return;
  }
  const char *rest = made ? "\n" : strstr(predicted, "(assumed)") + strlen("(assumed)");
  fprintf(out, "%.*s%s", (int)(end - line), line, rest);
}

static void tell_plan(tdm_session *session, FILE *out) {
  char *text = printed(session, print_explain, NULL, TDM_PLAN_TEXT);
  FILE *in = fmemopen(text, strlen(text), "r");
  assert_non_null(in);
  char *line = NULL;
  size_t room = 0;
  bool in_passes = false;
  while (getline(&line, &room, in) > 0)
    tell_line(line, &in_passes, out);
  free(line);
  (void)fclose(in);
  free(text);
}

static void tell(const plan_model *model, tdm_session *session, FILE *out) {
  tell_plan(session, out);
  if (model->machine) recorded_tell_forecast(session, NULL, out);
}

static const recorded_kind plans = {.folder = "tests/graph/plans/recorded/", .tell = tell};

static void plans_over_devices_in_a_row_are_as_recorded(void **unused) {
  (void)unused;
  recorded_check(&plans, plan_placed_models, plan_placed_count, records);
}

static void plans_over_devices_side_by_side_are_as_recorded(void **unused) {
  (void)unused;
  recorded_check(&plans, plan_parallel_models, plan_parallel_count, records);
}

static void plans_of_jobs_are_as_recorded(void **unused) {
  (void)unused;
  recorded_check(&plans, plan_job_models, plan_job_count, records);
}

int main(int argc, char **argv) {
  records = recorded_begin(argc, argv);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plans_over_devices_in_a_row_are_as_recorded),
      cmocka_unit_test(plans_over_devices_side_by_side_are_as_recorded),
      cmocka_unit_test(plans_of_jobs_are_as_recorded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
