/* Trains each model for some steps, and compares the predicted and measured times of the transfers
 * in its plan. The time of a step is measured without profiling. Everything is done in rounds.
 * Links are calibrated, if requested, before every profiled batch, because the speed of a machine
 * changes, particularly if its cores are shared. */
#include "bench/transfer/model.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/transfer/model_rounds.h"
#include "bench/transfer/subject.h"
#include "core/status.h"
#include "core/thread.h"
#include "devices/context/context.h"
#include "devices/topology/topology.h"
#include "tools/options/output_file.h"

enum { WARM_UP_STEPS = 5, MOST_BATCHES = 4 };

/* Smaller ones cost what looking at the clock does. */
static const double least_judged_bytes = 1024;

typedef struct model_case {
  const char *name;
  subject_open open;
  int64_t batches[MOST_BATCHES]; /* 0 ends them */
} model_case;

static const model_case model_cases[] = {
    {"main", subject_open_main, {16, 256, 1024}},
    {"embedding", subject_open_embedding, {16, 128, 1024, 4096}},
};

/* One model at one batch size: a member of the JSON, printed as it comes. */
typedef struct model_run {
  const char *model;
  int64_t batch;
  int steps;
  double step_ns;   /* median */
  json_t *commands; /* profiled commands of the plan */
  double touched_bytes;
} model_run;

/* ---- Steps ----------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
  const double left = *(const double *)a;
  const double right = *(const double *)b;
  return (left > right) - (left < right);
}

static tdm_status train(tdm_session *session, const model_run *run, const tdm_feed *feeds,
                        double *samples) {
  for (int i = -WARM_UP_STEPS; i < run->steps; i++) {
    const uint64_t began_ns = tdm_time_ns();
    TDM_TRY(tdm_train_step(session, feeds, SUBJECT_FEEDS, NULL, 0, NULL));
    if (i >= 0) samples[i] = (double)(tdm_time_ns() - began_ns);
  }
  qsort(samples, (size_t)run->steps, sizeof *samples, compare);
  return TDM_OK;
}

static tdm_status time_steps(const subject *opened, const model_run *run, double *out_median_ns) {
  tdm_feed feeds[SUBJECT_FEEDS];
  TDM_TRY(opened->make_feeds(opened, run->batch, feeds));
  double *samples = calloc((size_t)run->steps, sizeof *samples);
  tdm_status status =
      samples ? train(opened->session, run, feeds, samples) : tdm_fail(TDM_OUT_OF_MEMORY, "times");
  if (status == TDM_OK) *out_median_ns = samples[run->steps / 2];
  free(samples);
  subject_release_feeds(feeds);
  return status;
}

/* The commands of the session's latest plan, and what it touches, into run. */
static tdm_status read_plan(tdm_session *session, model_run *run) {
  json_decref(run->commands);
  run->commands = NULL;
  char *text = NULL;
  size_t length = 0;
  FILE *stream = open_memstream(&text, &length);
  if (!stream) return tdm_fail(TDM_OUT_OF_MEMORY, "the plan as text");
  tdm_status status = tdm_session_explain(session, TDM_PLAN_JSON, stream);
  (void)fclose(stream);
  if (status == TDM_OK) {
    json_error_t error;
    json_t *plan = json_loads(text, 0, &error);
    run->commands = json_incref(json_object_get(plan, "commands"));
    run->touched_bytes = json_number_value(json_object_get(plan, "touched_bytes"));
    json_decref(plan);
    if (!run->commands) status = tdm_fail(TDM_INTERNAL, "the plan's JSON: %s", error.text);
  }
  free(text);
  return status;
}

/* ---- Transfers ------------------------------------------------------------------------------- */

static double number_of(json_t *command, const char *key) {
  return json_number_value(json_object_get(command, key));
}

static const char *text_of(json_t *command, const char *key) {
  const char *text = json_string_value(json_object_get(command, key));
  return text ? text : "-";
}

/* Returns true if the transfer was executed. Conditional transfers may have been skipped. */
static bool is_measured(json_t *command) {
  return json_object_get(command, "predicted_ns") && number_of(command, "measured_ns") > 0 &&
         strcmp(text_of(command, "route"), "same device") != 0;
}

static json_t *transfer_json(const model_run *run, json_t *command) {
  json_t *transfer = json_pack("{s:s, s:I}", "model", run->model, "batch", (json_int_t)run->batch);
  static const char *const keys[] = {"cause",        "bytes",      "route",  "device",
                                     "queue_device", "queue",      "memory", "prediction",
                                     "predicted_ns", "measured_ns"};
  for (size_t i = 0; i < TDM_COUNT_OF(keys); i++) {
    json_t *value = json_object_get(command, keys[i]);
    if (value) json_object_set(transfer, keys[i], value);
  }
  const double measured_ns = number_of(command, "measured_ns");
  json_object_set_new(transfer, "ratio",
                      json_real(number_of(command, "predicted_ns") / measured_ns));
  return transfer;
}

static void print_transfer(FILE *out, json_t *transfer) {
  fprintf(out, "  %-9s %6d  %-34.34s %10.0f  %-7s %-6s %-8s %-8s %-10s %12.2f %12.2f %7.2f\n",
          text_of(transfer, "model"), (int)number_of(transfer, "batch"), text_of(transfer, "cause"),
          number_of(transfer, "bytes"), text_of(transfer, "route"),
          text_of(transfer, "queue_device"), text_of(transfer, "queue"),
          text_of(transfer, "memory"), text_of(transfer, "prediction"),
          number_of(transfer, "predicted_ns") / 1e3, number_of(transfer, "measured_ns") / 1e3,
          number_of(transfer, "ratio"));
}

/* Appends the run's transfers and its summary to the lists. */
static void collect(const model_run *run, json_t *transfers, json_t *runs) {
  double transfers_ns = 0;
  size_t index;
  json_t *command;
  json_array_foreach(run->commands, index, command) {
    if (!is_measured(command)) continue;
    transfers_ns += number_of(command, "measured_ns");
    json_array_append_new(transfers, transfer_json(run, command));
  }
  json_array_append_new(
      runs, json_pack("{s:s, s:I, s:f, s:f, s:f, s:f}", "model", run->model, "batch",
                      (json_int_t)run->batch, "step_ns", run->step_ns, "transfers_ns", transfers_ns,
                      "share", transfers_ns / run->step_ns, "touched_bytes", run->touched_bytes));
}

/* ---- Models ---------------------------------------------------------------------------------- */

/* Returns true if batch i exists and is selected. Batches are in rising order. */
static bool has_batch(const model_case *one, const model_options *given, int i) {
  return i < MOST_BATCHES && one->batches[i] > 0 && one->batches[i] <= given->largest_batch;
}

/* That the measured links could not be kept for other programs is no failure here. */
static tdm_status calibrate(tdm_context *context) {
  const tdm_status status = tdm_context_calibrate(context, NULL);
  if (status != TDM_IO && status != TDM_UNAVAILABLE) return status;
  fprintf(stderr, "transfer: %s\n", tdm_last_message());
  return TDM_OK;
}

/* The batches of a model in one session; profiled, it fills plans, else step_ns. */
static tdm_status run_session(tdm_context *context, const model_options *given,
                              const model_case *one, bool profile, model_run *runs) {
  subject opened;
  TDM_TRY(one->open(context, given, profile, &opened));
  tdm_status status = TDM_OK;
  for (int i = 0; has_batch(one, given, i) && status == TDM_OK; i++) {
    model_run *run = &runs[i];
    run->model = one->name;
    run->batch = one->batches[i];
    run->steps = given->steps;
    double median_ns = 0;
    if (profile && given->calibrate) status = calibrate(context);
    if (status == TDM_OK) status = time_steps(&opened, run, &median_ns);
    if (!profile) run->step_ns = median_ns;
    if (status == TDM_OK && profile) status = read_plan(opened.session, run);
  }
  opened.close(&opened);
  return status;
}

static tdm_status run_model(tdm_context *context, const model_options *given, const model_case *one,
                            json_t *transfers, json_t *summary) {
  model_run runs[MOST_BATCHES] = {{.batch = 0}};
  tdm_status status = run_session(context, given, one, false, runs);
  if (status == TDM_OK) status = run_session(context, given, one, true, runs);
  for (int i = 0; has_batch(one, given, i); i++) {
    if (status == TDM_OK) collect(&runs[i], transfers, summary);
    json_decref(runs[i].commands);
  }
  return status;
}

/* ---- The report ------------------------------------------------------------------------------ */

static void print_shares(FILE *out, json_t *runs) {
  fprintf(out, "\n  %-9s %6s %14s %16s %16s %14s\n", "model", "batch", "us a step",
          "us transferring", "share of a step", "MiB touched");
  size_t index;
  json_t *run;
  json_array_foreach(runs, index, run) {
    fprintf(out, "  %-9s %6d %14.1f %16.1f %15.1f%% %14.2f\n", text_of(run, "model"),
            (int)number_of(run, "batch"), number_of(run, "step_ns") / 1e3,
            number_of(run, "transfers_ns") / 1e3, 100 * number_of(run, "share"),
            number_of(run, "touched_bytes") / (1 << 20));
  }
  fputs("  transfers may run beside kernels, and beside each other: a share is not what a step\n"
        "  would save without them\n",
        out);
}

static tdm_status print_json(FILE *out, const json_t *root) {
  const int failed = json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
  fputc('\n', out);
  return failed == 0 ? TDM_OK : tdm_fail(TDM_IO, "the models' transfers could not be written");
}

static tdm_status write_json(const transfer_options *given, const json_t *root) {
  if (given->json) TDM_TRY(print_json(stdout, root));
  if (!given->json_path) return TDM_OK;
  output_file file;
  TDM_TRY(output_begin("--save", given->json_path, &file));
  return output_end(&file, print_json(file.stream, root));
}

static void print_transfers(FILE *out, json_t *transfers) {
  fprintf(out, "\n  %-9s %6s  %-34s %10s  %-7s %-6s %-8s %-8s %-10s %12s %12s %7s\n", "model",
          "batch", "edge", "bytes", "route", "on", "queue", "memory", "told by", "predicted us",
          "measured us", "ratio");
  size_t index;
  json_t *transfer;
  json_array_foreach(transfers, index, transfer) print_transfer(out, transfer);
}

static void print_errors(FILE *out, const model_options *given, json_t *errors) {
  fprintf(out,
          "\nprediction: off by %.0f%% in the median, %.0f%% at the 90th per cent, over the %d "
          "transfers of 1 KiB and more;\n  medians of %d rounds",
          100 * number_of(errors, "median_error"), 100 * number_of(errors, "p90_error"),
          (int)number_of(errors, "transfers"), (int)given->rounds);
  if (given->calibrate)
    fprintf(out, "; one calibration was %.0f%% off the median of all",
            100 * number_of(errors, "drift"));
  fputc('\n', out);
}

/* all_transfers: of every round; transfers, runs: merged. */
static tdm_status report(FILE *out, const model_options *given, const machine *told,
                         json_t *all_transfers, json_t *transfers, json_t *runs) {
  json_t *errors = rounds_errors(transfers, least_judged_bytes);
  if (!errors) return tdm_fail(TDM_INTERNAL, "no transfer of either model was measured");
  json_object_set_new(errors, "rounds", json_integer(given->rounds));
  json_object_set_new(errors, "drift",
                      json_real(rounds_drift(all_transfers, transfers, least_judged_bytes)));
  print_transfers(out, transfers);
  print_shares(out, runs);
  print_errors(out, given, errors);
  json_t *root =
      json_pack("{s:s, s:s, s:s, s:s, s:s, s:O, s:O, s:o}", "version", tdm_version(), "processor",
                told->processor, "devices", told->devices, "gpu", told->gpu, "measured", told->utc,
                "transfers", transfers, "runs", runs, "prediction", errors);
  tdm_status status = TDM_OK;
  if (!root) status = tdm_fail(TDM_OUT_OF_MEMORY, "the models' transfers as JSON");
  if (status == TDM_OK) status = write_json(&given->copies, root);
  json_decref(root);
  return status;
}

static tdm_status merge_and_report(FILE *out, const model_options *given, const machine *told,
                                   json_t *all_transfers, json_t *all_runs) {
  static const char *const transfer_keys[] = {"predicted_ns", "measured_ns", "ratio", NULL};
  static const char *const run_keys[] = {"step_ns", "transfers_ns", "share", NULL};
  json_t *transfers = NULL;
  json_t *runs = NULL;
  tdm_status status = rounds_merge(all_transfers, transfer_keys, &transfers);
  if (status == TDM_OK) status = rounds_merge(all_runs, run_keys, &runs);
  if (status == TDM_OK) status = report(out, given, told, all_transfers, transfers, runs);
  json_decref(runs);
  json_decref(transfers);
  return status;
}

static tdm_status run_round(tdm_context *context, const model_options *given, json_t *all_transfers,
                            json_t *all_runs) {
  json_t *transfers = json_array();
  json_t *runs = json_array();
  tdm_status status = TDM_OK;
  for (size_t i = 0; i < TDM_COUNT_OF(model_cases) && status == TDM_OK; i++)
    status = run_model(context, given, &model_cases[i], transfers, runs);
  json_array_append_new(all_transfers, transfers);
  json_array_append_new(all_runs, runs);
  return status;
}

/* A thread with a blocking run executes one of its queues, here the accelerator's if that is a cpu
 * device. The core of the thread determines whose caches have the bytes to copy. */
static void bind_to_accelerator(tdm_context *context, const model_options *given) {
  const tdm_device *device =
      given->accelerator ? tdm_context_find_device(context, given->accelerator) : NULL;
  if (!device || !device->host_addressable) device = tdm_context_device(context, 0);
  (void)tdm_topology_bind_thread(tdm_context_topology(context), tdm_context_cores(context, device));
}

tdm_status model_transfers(tdm_context *context, const model_options *given, const machine *told,
                           FILE *out) {
  json_t *transfers = json_array();
  json_t *runs = json_array();
  bind_to_accelerator(context, given);
  tdm_status status = TDM_OK;
  for (int round = 0; round < given->rounds && status == TDM_OK; round++)
    status = run_round(context, given, transfers, runs);
  if (status == TDM_OK) status = merge_and_report(out, given, told, transfers, runs);
  json_decref(runs);
  json_decref(transfers);
  return status;
}
