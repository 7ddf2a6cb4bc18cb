/* `tandem bench overhead`, whose rows are bench/overhead's. */
#include <string.h>

#include "bench/overhead/rows.h"
#include "tools/bench/bench.h"
#include "tools/progress/progress.h"

typedef struct options {
  tool_options common;
  int64_t layers;
  bool runs;
  bool planning;
  bool json;
} options;

#define FIELD(name) offsetof(options, name)
static const option rows[] = {
    {"--runs", NULL, "measure only runs and training steps", OPTION_FLAG, FIELD(runs), 0, 0, 0,
     NULL},
    {"--planning", NULL, "measure only planning", OPTION_FLAG, FIELD(planning), 0, 0, 0, NULL},
    {"--layers", "N", "number of layers of the larger planned model", OPTION_INTEGER, FIELD(layers),
     100, 1000000, 0, NULL},
    {"--json", NULL, "print JSON, in nanoseconds", OPTION_FLAG, FIELD(json), 0, 0, 0, NULL},
};
static const options defaults = {.layers = OVERHEAD_LAYERS};
static const option_table table = {
    .program = "tandem bench overhead",
    .about =
        "Measures the overhead of runs on models whose arithmetic takes almost no time, and the\n"
        "time of planning per node of the final graph, without and with the preparation of\n"
        "kernels. A node is a kernel, a transfer or an update. All times are medians.",
    OPTION_DEFAULTS(defaults),
    OPTION_ROWS(rows),
    .below = &tool_table,
};

typedef struct telling {
  tdm_json_writer *json; /* NULL: text is wanted */
  progress bar;
  int begun;
  int total;
} telling;

static void show(void *user, const char *what) {
  telling *self = user;
  char note[32];
  (void)snprintf(note, sizeof note, "%d left", self->total - self->begun - 1);
  progress_show(&self->bar, what, self->begun++, self->total, note);
}

static void tell_row(void *user, const char *name, double ns) {
  telling *self = user;
  progress_hide(&self->bar);
  if (!self->json) {
    printf("%-42s %12.3f\n", name, ns / 1000);
    fflush(stdout);
    return;
  }
  tdm_json_open(self->json, NULL, '{');
  tdm_json_put_string(self->json, "name", name);
  tdm_json_put_real(self->json, "ns", ns);
  tdm_json_close(self->json, '}');
}

static tdm_status measure(const options *given, telling *self) {
  const bool all = given->runs == given->planning;
  const overhead_listener to = {show, tell_row, self};
  self->bar = progress_start();
  self->bar.is_weighed = true;
  if (all || given->runs) self->total += OVERHEAD_RUNS;
  if (all || given->planning) self->total += OVERHEAD_PLANNINGS;
  tdm_status status = TDM_OK;
  if (all || given->runs) status = rows_of_runs(&to);
  if (status == TDM_OK && (all || given->planning)) status = rows_of_planning(&to, given->layers);
  progress_clear(&self->bar);
  return status;
}

static tdm_status measure_as_json(const options *given) {
  tdm_json_writer out;
  telling self = {.json = &out};
  tool_json_begin(&out);
  tdm_json_open(&out, "rows", '[');
  TDM_TRY(measure(given, &self));
  tdm_json_close(&out, ']');
  return tool_json_end(&out);
}

static int run(const void *read) {
  const options *given = read;
  telling self = {.json = NULL};
  tdm_status status;
  if (given->json) {
    status = measure_as_json(given);
  } else {
    printf("%-42s %12s\n", "", "us");
    status = measure(given, &self);
  }
  return tool_ended(&bench_overhead_tool, status);
}

const tool bench_overhead_tool = {"bench overhead", "Measure the overhead of runs and planning",
                                  &table, run};
