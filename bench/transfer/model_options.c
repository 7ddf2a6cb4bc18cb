/* The rows that only //bench:transfer has. */
#include "bench/transfer/model_options.h"

#include <string.h>

#include "core/status.h"

static tdm_status take_words(void *given, const char *name, char **behind, int *out_taken) {
  model_options *out = given;
  (void)out_taken;
  if (out->list_count == MOST_LISTS)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: at most %d languages", name, MOST_LISTS);
  return read_word(name, behind, &out->lists[out->list_count++]);
}

static tdm_status take_accelerator(void *given, const char *name, char **behind, int *out_taken) {
  model_options *out = given;
  const char *text;
  (void)out_taken;
  TDM_TRY(read_word(name, behind, &text));
  if (strlen(text) > 32 || strcspn(text, ",=") != strlen(text))
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: \"%s\" is no device", name, text);
  out->accelerator = text;
  return TDM_OK;
}

#define FIELD(name) offsetof(model_options, name)
static const option rows[] = {
    {"--model", NULL, "measure the transfers of two models and compare them with predictions",
     OPTION_FLAG, FIELD(model), 0, 0, 0, NULL},
    {"--calibrate", NULL, "with --model: measure the links first and save them", OPTION_FLAG,
     FIELD(calibrate), 0, 0, 0, NULL},
    {"--words", "LANGUAGE=FILE", "with --model: word list of the main model; may be repeated",
     OPTION_TAKEN, 0, 0, 0, 0, take_words},
    {"--accelerator", "DEVICE", "with --model: device of the dense layers (a GPU, else sim:0)",
     OPTION_TAKEN, 0, 0, 0, 0, take_accelerator},
    {"--table-rows", "N", "with --model: rows of the embedding model's table", OPTION_INTEGER,
     FIELD(table_rows), 1, 100000000, 0, NULL},
    {"--largest-batch", "N", "with --model: largest batch size", OPTION_INTEGER,
     FIELD(largest_batch), 16, INT32_MAX, 0, NULL},
    {"--steps", "N", "with --model: measured training steps per model", OPTION_INTEGER,
     FIELD(steps), 1, 1000000, 0, NULL},
    {"--rounds", "N", "with --model: number of measurements; medians are reported", OPTION_INTEGER,
     FIELD(rounds), 1, 1000, 0, NULL},
};
static const model_options defaults = {
    .table_rows = 2000000, .largest_batch = INT32_MAX, .steps = 28, .rounds = 3};
const option_table model_table = {
    .program = "transfer",
    .about =
        "What `tandem bench transfer` measures, the driver's own copies where there is a GPU,\n"
        "and with --model what the transfers of two models were predicted to take, and took.",
    OPTION_DEFAULTS(defaults),
    OPTION_ROWS(rows),
    .below = &transfer_table,
};

/* Checks combinations of options. */
static tdm_status check_together(const model_options *out) {
  if (out->model && (out->copies.plot_path || out->copies.csv_path))
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "--model writes a table, --json or --save FILE.json; no CSV, and no --plot");
  if (!out->model && out->calibrate)
    return tdm_fail(TDM_INVALID_ARGUMENT, "--calibrate goes with --model");
  if (!out->model && out->list_count > 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "--words goes with --model");
  return TDM_OK;
}

tdm_status model_options_read(int argc, char **argv, model_options *out_options) {
  TDM_TRY(option_table_read(&model_table, argc, argv, out_options));
  transfer_options_complete(&out_options->copies);
  return out_options->copies.common.help ? TDM_OK : check_together(out_options);
}
