/* Reads the command line of `tandem forecast`. */
#include "tools/forecast/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/forecast/models.h"
#include "tools/forecast/report.h"

static tdm_status read_integer(const char *name, const char *text, int64_t most,
                               int64_t *out_number) {
  char *end;
  const long long number = strtoll(text, &end, 10);
  if (*text == 0 || *end || number < 1 || number > most)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s %s: a whole number from 1 to %lld is wanted", name,
                    text, (long long)most);
  *out_number = number;
  return TDM_OK;
}

static tdm_status read_way(const char *text, int *out_way) {
  for (int i = 0; i < SUMMING_WAYS; i++)
    if (strcmp(text, summing_ways[i]) == 0) {
      *out_way = i;
      return TDM_OK;
    }
  return tdm_fail(TDM_INVALID_ARGUMENT, "--sums %s: plan, home, chain, ring or tree is wanted",
                  text);
}

static tdm_status read_value(const char *name, const char *text, forecast_request *request) {
  int64_t number = 0;
  if (strcmp(name, "--machine") == 0) {
    request->machine = text;
  } else if (strcmp(name, "--costs") == 0) {
    request->costs = text;
  } else if (strcmp(name, "--model") == 0) {
    request->model = text;
  } else if (strcmp(name, "--batch") == 0) {
    return read_integer(name, text, 1 << 24, &request->batch);
  } else if (strcmp(name, "--devices") == 0) {
    const tdm_status status = read_integer(name, text, 64, &number);
    request->devices = (int)number;
    return status;
  } else if (strcmp(name, "--ranks") == 0) {
    const tdm_status status = read_integer(name, text, TDM_MAX_ALIKE_RANKS, &number);
    request->ranks = (int)number;
    return status;
  } else if (strcmp(name, "--sums") == 0) {
    return read_way(text, &request->way);
  } else {
    return tdm_fail(TDM_INVALID_ARGUMENT, "there is no option %s (see --help)", name);
  }
  return TDM_OK;
}

tdm_status forecast_read_options(int argc, char **argv, forecast_request *out_request) {
  *out_request = (forecast_request){.model = "mlp", .batch = 4096};
  for (int i = 0; i < argc; i++) {
    if (strcmp(argv[i], "--help") == 0) {
      out_request->help = true;
      return TDM_OK;
    }
    if (strcmp(argv[i], "--per-device") == 0) {
      out_request->per_device = true;
      continue;
    }
    if (i + 1 == argc)
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "%s: a value, or another option, is wanted (see --help)", argv[i]);
    const tdm_status status = read_value(argv[i], argv[i + 1], out_request);
    if (status != TDM_OK) return status;
    i++;
  }
  if (!out_request->machine)
    return tdm_fail(TDM_INVALID_ARGUMENT, "--machine FILE is wanted (see --help)");
  return TDM_OK;
}

void forecast_print_help(void) {
  printf(
      "tandem forecast --machine FILE [options]\n\n"
      "What a training step would take on a machine that is described in FILE, found in virtual\n"
      "time: nothing is executed. Wraps the model over 1, 2, 4, ... of its devices.\n\n"
      "  --machine FILE   the description (docs/forecast.md; tools/machines has some)\n"
      "  --model NAME     the model (mlp):\n");
  for (size_t i = 0; model_names[i]; i++)
    printf("                     %-10s %s\n", model_names[i], model_descriptions[i]);
  printf("  --batch N        rows of a step (4096)\n"
         "  --per-device     of every device, so that the batch grows with them\n"
         "  --devices N      whose step is told in detail (all)\n"
         "  --sums WAY       how its gradients are summed: plan (as it chooses), home, ring, tree "
         "(plan)\n"
         "  --ranks N        1, 2, 4, ... to N ranks that are alike instead: each trains the model "
         "on\n"
         "                   one device, or on --devices (gpt-7b), and on rows of its own\n"
         "  --costs FILE     kernel times that were measured (tdm_costs_save)\n"
         "  --help           this text\n");
}
