/* The rows of the shared options. */
#include "examples/common/common_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/common/steps.h"
#include "tools/options/command_line.h"

enum { TRACE_RUNS = 50 }; /* number of latest runs in a timeline */

static tdm_status take_micro_batches(void *options, const char *name, char **words,
                                     int *out_taken) {
  common_options *out = options;
  (void)out_taken;
  if (!words[0]) return tdm_fail(TDM_INVALID_ARGUMENT, "%s needs N or auto", name);
  out->micro_batches = TDM_MICRO_BATCHES_AUTO;
  if (strcmp(words[0], "auto") == 0) return TDM_OK;
  return read_integer(name, words[0], 1, 16, &out->micro_batches);
}

#define FIELD(name) offsetof(common_options, name)
static const option rows[] = {
    {"--epochs", "N", "number of training epochs; 0: only evaluate", OPTION_INTEGER, FIELD(epochs),
     0, 100000, FIELD(epochs_given), NULL},
    {"--steps", "N", "maximum number of training steps; 0: no limit", OPTION_INTEGER, FIELD(steps),
     0, INT64_MAX, 0, NULL},
    {"--batch", "N", "samples per training step", OPTION_INTEGER, FIELD(batch_size), 1, 1 << 20, 0,
     NULL},
    {"--micro-batches", "N|auto",
     "split each step into N parts that overlap on several devices, 1 to 16 (1)", OPTION_TAKEN,
     FIELD(micro_batches), 0, 0, 0, take_micro_batches},
    {"--learning-rate", "R", "initial learning rate; decays to 0 at the last step", OPTION_REAL,
     FIELD(learning_rate), 0, 0, 0, NULL},
    {"--seed", "N", "random seed", OPTION_INTEGER, FIELD(seed), 0, INT64_MAX, 0, NULL},
    {"--place", "MAP", "placement of layers, such as *=cpu:0", OPTION_TEXT, FIELD(place), 0, 0, 0,
     NULL},
    {"--data-parallel", "LIST", "run a part data-parallel over devices, such as cpu:0,cpu:1",
     OPTION_TEXT, FIELD(parallel), 0, 0, 0, NULL},
    {"--load", "FILE", "load parameters from a safetensors file with PyTorch's names", OPTION_TEXT,
     FIELD(load_path), 0, 0, 0, NULL},
    {"--save", "FILE", "save the trained parameters as safetensors with PyTorch's names",
     OPTION_OUTPUT, FIELD(save_path), 0, 0, 0, NULL},
    {"--checkpoint", "FILE", "save the complete training state after every epoch", OPTION_OUTPUT,
     FIELD(checkpoint_path), 0, 0, 0, NULL},
    {"--checkpoint-every", "N", "also save it every N steps; 0: only after epochs", OPTION_INTEGER,
     FIELD(checkpoint_steps), 0, INT64_MAX, 0, NULL},
    {"--resume", "FILE", "resume training from a checkpoint", OPTION_TEXT, FIELD(resume_path), 0, 0,
     0, NULL},
    {"--log", "FILE", "write losses, scores and learning rates for `tandem curves`", OPTION_OUTPUT,
     FIELD(log_path), 0, 0, 0, NULL},
    {"--deterministic", NULL,
     "compute the same bits on any number of devices, threads and machines", OPTION_FLAG,
     FIELD(deterministic), 0, 0, 0, NULL},
    {"--explain", NULL, "print the plan of a training step with every transfer", OPTION_FLAG,
     FIELD(explain), 0, 0, 0, NULL},
    {"--dot", "FILE", "write the plan for graphviz", OPTION_OUTPUT, FIELD(dot_path), 0, 0, 0, NULL},
    {"--plan", "FILE", "write the plan for `tandem plan`", OPTION_OUTPUT, FIELD(plan_path), 0, 0, 0,
     NULL},
    {"--report", "FILE", "write the plan and the timeline of the last steps as an HTML page",
     OPTION_OUTPUT, FIELD(report_path), 0, 0, 0, NULL},
    {"--trace", "FILE",
     "write a timeline of the last steps for Perfetto and print what bounds them", OPTION_OUTPUT,
     FIELD(trace_path), 0, 0, 0, NULL},
    {"--help", NULL, "print this help", OPTION_HELP, FIELD(help), 0, 0, 0, NULL},
};

const option_table common_table = {OPTION_ROWS(rows)};

const char *second_device(const common_options *given, tdm_context *context) {
  if (given->place || given->parallel || getenv("TANDEM_PLACE")) return NULL;
  if (tdm_is_available(context, "cuda")) return tdm_accelerator(context);
  char reason[512];
  (void)snprintf(reason, sizeof reason, "%s", tdm_last_message());
  const char *simulator = tdm_simulator(context);
  printf("no GPU: %s, which the CPU simulates, stands for one; --place '*=cpu:0' does without\n"
         "  %s\n",
         simulator, reason);
  return simulator;
}

const char *first_device(const char *devices, char text[DEVICE_TEXT]) {
  (void)snprintf(text, DEVICE_TEXT, "%.*s", (int)strcspn(devices, ","), devices);
  for (char *any = text; (any = strchr(any, '*')) != NULL;)
    *any = '0';
  return text;
}

tdm_session_options session_options_for(const common_options *given, tdm_value loss,
                                        const tdm_optimizer *optimizer) {
  tdm_session_options options = tdm_session_options_default();
  options.loss = loss;
  options.optimizer = optimizer;
  options.device_map = given->place;
  options.seed = (uint64_t)given->seed;
  options.depth = STEPS_IN_FLIGHT;
  options.check_finite = true;
  options.deterministic = given->deterministic;
  options.profile = given->explain || given->plan_path || given->report_path;
  if (given->trace_path || given->report_path) options.trace_runs = TRACE_RUNS;
  if (given->micro_batches != 0) options.micro_batches = (int)given->micro_batches;
  return options;
}
