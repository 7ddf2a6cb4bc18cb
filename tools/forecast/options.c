/* The options of `tandem forecast`. */
#include "tools/forecast/options.h"

#include "tools/forecast/models.h"
#include "tools/forecast/report.h"
#include "tools/options/command_line.h"

static tdm_status take_algorithm(void *given, const char *name, char **words, int *out_taken) {
  forecast_request *out = given;
  (void)out_taken;
  if (!words[0]) return tdm_fail(TDM_INVALID_ARGUMENT, "%s needs NAME", name);
  const char *algorithms[SUMMING_ALGORITHMS];
  for (int algorithm = 0; algorithm < SUMMING_ALGORITHMS; algorithm++)
    algorithms[algorithm] = summing_name(algorithm);
  return read_choice(name, words[0], algorithms, SUMMING_ALGORITHMS, &out->algorithm);
}

static tdm_status take_model(void *given, const char *name, char **words, int *out_taken) {
  forecast_request *out = given;
  (void)out_taken;
  if (!words[0]) return tdm_fail(TDM_INVALID_ARGUMENT, "%s needs NAME", name);
  int count = 0, model;
  while (model_names[count])
    count++;
  out->model = words[0];
  return read_choice(name, words[0], model_names, count, &model);
}

#define FIELD(name) offsetof(forecast_request, name)
static const option rows[] = {
    {"--machine", "FILE", "machine description (docs/forecast.md; examples: tools/machines)",
     OPTION_TEXT, FIELD(machine), 0, 0, 0, NULL},
    {"--model", "NAME", "one of the models above (mlp)", OPTION_TAKEN, 0, 0, 0, 0, take_model},
    {"--batch", "N", "rows per training step", OPTION_INTEGER, FIELD(batch), 1, 1 << 24, 0, NULL},
    {"--per-device", NULL, "--batch is per device, so that the batch grows with the devices",
     OPTION_FLAG, FIELD(per_device), 0, 0, 0, NULL},
    {"--devices", "N", "number of devices of the step to report in detail (all)", OPTION_INTEGER,
     FIELD(devices), 1, 64, 0, NULL},
    {"--sums", "NAME",
     "algorithm for sums of gradients: plan (automatic), home, chain, ring, tree (plan)",
     OPTION_TAKEN, FIELD(algorithm), 0, 0, 0, take_algorithm},
    {"--ranks", "N", "forecast 1, 2, 4, ... up to N equal ranks instead of devices", OPTION_INTEGER,
     FIELD(ranks), 1, TDM_MAX_ALIKE_RANKS, 0, NULL},
    {"--costs", "FILE", "measured kernel times (tdm_costs_save)", OPTION_TEXT, FIELD(costs), 0, 0,
     0, NULL},
    {"--json", NULL, "print JSON, in nanoseconds and bytes", OPTION_FLAG, FIELD(json), 0, 0, 0,
     NULL},
};
static const forecast_request defaults = {.model = "mlp", .batch = 4096};

const option_table forecast_table = {
    .program = "tandem forecast",
    .about =
        "Predicts the time of a training step on the machine that --machine describes. Nothing\n"
        "is executed. The model runs data-parallel over 1, 2, 4, ... devices. The blocks of\n"
        "gpt-7b are placed one after the other on --devices devices. With --ranks, each rank\n"
        "trains the model on one device (gpt-7b: on --devices).\n\nModels:\n"
        "  main       words of 8 characters -> embedding 96 x 32 -> RNN 128 -> linear 7; Adam,\n"
        "             clipped\n"
        "  mlp        512 -> 2048 -> 2048 -> 512, relu between; SGD\n"
        "  embedding  26 of 200000 rows of 64 -> linear 256 -> linear 1; SGD, sparse rows\n"
        "  gpt-7b     2048 of 32000 words -> 32 blocks of 4096, 32 heads -> 32000; Adam, 16\n"
        "             micro-batches",
    OPTION_DEFAULTS(defaults),
    OPTION_ROWS(rows),
    .below = &tool_table,
};
