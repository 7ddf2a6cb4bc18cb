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
    {"--machine", "FILE", "the description (docs/forecast.md; tools/machines has some)",
     OPTION_TEXT, FIELD(machine), 0, 0, 0, NULL},
    {"--model", "NAME", "the model, of those above (mlp)", OPTION_TAKEN, 0, 0, 0, 0, take_model},
    {"--batch", "N", "rows of a step", OPTION_INTEGER, FIELD(batch), 1, 1 << 24, 0, NULL},
    {"--per-device", NULL, "of every device, so that the batch grows with them", OPTION_FLAG,
     FIELD(per_device), 0, 0, 0, NULL},
    {"--devices", "N", "whose step is told in detail; else all", OPTION_INTEGER, FIELD(devices), 1,
     64, 0, NULL},
    {"--sums", "NAME",
     "how its gradients are summed: plan (as it chooses), home, chain, ring, tree (plan)",
     OPTION_TAKEN, FIELD(algorithm), 0, 0, 0, take_algorithm},
    {"--ranks", "N", "1, 2, 4, ... to N ranks that are alike instead, each with rows of its own",
     OPTION_INTEGER, FIELD(ranks), 1, TDM_MAX_ALIKE_RANKS, 0, NULL},
    {"--costs", "FILE", "kernel times that were measured (tdm_costs_save)", OPTION_TEXT,
     FIELD(costs), 0, 0, 0, NULL},
    {"--json", NULL, "as JSON, nanoseconds and bytes", OPTION_FLAG, FIELD(json), 0, 0, 0, NULL},
};
static const forecast_request defaults = {.model = "mlp", .batch = 4096};

const option_table forecast_table = {
    .program = "tandem forecast",
    .about =
        "What a training step would take on a machine that --machine describes, found in\n"
        "virtual time: nothing is executed. Wraps the model over 1, 2, 4, ... of its devices\n"
        "(gpt-7b, whose blocks are placed one behind the other, is told for --devices alone);\n"
        "with --ranks each rank trains it on one device, or on --devices (gpt-7b).\n\n"
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
