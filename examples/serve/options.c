/* Reads serve's options from a table, and hands the others on to distributed_model's. */
#include "examples/serve/options.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "examples/common/command_line.h"

enum { MOST_ARGUMENTS = 256 };

typedef struct number {
  const char *name;
  size_t field; /* int64_t at this offset */
  int64_t low;
  int64_t high;
  int64_t normal;
  const char *help;
} number;

#define FIELD(name) offsetof(serve_options, name)
static const number numbers[] = {
    {"--port", FIELD(port), 0, 65535, 8080, "to listen on; 0: any that is free"},
    {"--max-batch", FIELD(max_batch), 1, 1024, 32, "words that are asked about in one run"},
    {"--depth", FIELD(depth), 1, 16, 2, "runs in flight"},
    {"--connections", FIELD(connections), 1, 100000, 1000, "at a time; more are answered 503"},
    {"--queue", FIELD(queue), 1, 1000000, 10000, "words that may wait; more are answered 503"},
    {"--timeout", FIELD(timeout_ms), 10, 3600000, 10000, "milliseconds for a request to arrive"},
};
enum { NUMBER_COUNT = sizeof numbers / sizeof *numbers };

void serve_options_print_help(void) {
  puts("serve: POST a word to /language, get its language as JSON; GET /metrics.\n");
  printf("  %-20s %s (127.0.0.1)\n", "--address A", "to listen on");
  for (int i = 0; i < NUMBER_COUNT; i++) {
    char left[64];
    snprintf(left, sizeof left, "%s N", numbers[i].name);
    printf("  %-20s %s (%lld)\n", left, numbers[i].help, (long long)numbers[i].normal);
  }
  puts("\nand what model it asks, trained at the start (1 epoch) or loaded by --load:\n");
  options_print_help();
}

/* Is argv[0] one of serve's own, with its value in argv[1]? */
static tdm_status take_own(serve_options *out, char **argv, bool *out_taken) {
  *out_taken = true;
  if (strcmp(argv[0], "--address") == 0 && argv[1]) {
    out->address = argv[1];
    return TDM_OK;
  }
  for (int i = 0; i < NUMBER_COUNT; i++) {
    if (strcmp(argv[0], numbers[i].name) != 0) continue;
    if (!argv[1]) return tdm_fail(TDM_INVALID_ARGUMENT, "%s needs N", argv[0]);
    int64_t *field = (int64_t *)(void *)((char *)out + numbers[i].field);
    return read_integer(argv[0], argv[1], numbers[i].low, numbers[i].high, field);
  }
  *out_taken = false;
  return TDM_OK;
}

tdm_status serve_options_read(int argc, char **argv, serve_options *out) {
  *out = (serve_options){.address = "127.0.0.1"};
  for (int i = 0; i < NUMBER_COUNT; i++)
    *(int64_t *)(void *)((char *)out + numbers[i].field) = numbers[i].normal;
  if (argc > MOST_ARGUMENTS) return tdm_fail(TDM_INVALID_ARGUMENT, "too many arguments");
  char *others[MOST_ARGUMENTS + 1] = {argv[0]};
  int other_count = 1;
  for (int i = 1; i < argc; i++) {
    bool taken = false;
    const tdm_status status = take_own(out, argv + i, &taken);
    if (status != TDM_OK) return status;
    if (taken)
      i++;
    else
      others[other_count++] = argv[i];
  }
  const tdm_status status = options_read(other_count, others, &out->model);
  if (status != TDM_OK) return status;
  if (!out->model.common.epochs_given)
    out->model.common.epochs = out->model.common.load_path ? 0 : 1;
  if (out->model.common.epochs == 0 && !out->model.common.load_path)
    return tdm_fail(TDM_INVALID_ARGUMENT, "--epochs 0: there is nothing to serve without --load");
  if (out->model.predict)
    return tdm_fail(TDM_INVALID_ARGUMENT, "--predict: ask by POST, once it listens");
  return TDM_OK;
}
