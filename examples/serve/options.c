/* serve's own options, on top of distributed_model's. */
#include "examples/serve/options.h"

#include <stddef.h>

#define FIELD(name) offsetof(serve_options, name)
static const option rows[] = {
    {"--address", "A", "to listen on", OPTION_TEXT, FIELD(address), 0, 0, 0, NULL},
    {"--port", "N", "to listen on; 0: any that is free", OPTION_INTEGER, FIELD(port), 0, 65535, 0,
     NULL},
    {"--max-batch", "N", "words that are asked about in one run", OPTION_INTEGER, FIELD(max_batch),
     1, 1024, 0, NULL},
    {"--depth", "N", "runs in flight", OPTION_INTEGER, FIELD(depth), 1, 16, 0, NULL},
    {"--connections", "N", "at a time; more are answered 503", OPTION_INTEGER, FIELD(connections),
     1, 100000, 0, NULL},
    {"--queue", "N", "words that may wait; more are answered 503", OPTION_INTEGER, FIELD(queue), 1,
     1000000, 0, NULL},
    {"--timeout", "N", "milliseconds for a request to arrive", OPTION_INTEGER, FIELD(timeout_ms),
     10, 3600000, 0, NULL},
};

static const option_help helps[] = {
    {"--epochs", "how often training sees every word (1, or 0 with --load)"},
    {"--predict", "refused: ask by POST, once it listens"},
};

static const serve_options defaults = {
    .address = "127.0.0.1",
    .port = 8080,
    .max_batch = 32,
    .depth = 2,
    .connections = 1000,
    .queue = 10000,
    .timeout_ms = 10000,
};

const option_table serve_table = {
    .program = "serve",
    .about = "POST a word to /language, get its language as JSON; GET /metrics; a page at / does\n"
             "both. The model that it asks is trained at the start, or loaded by --load.",
    OPTION_DEFAULTS(defaults),
    OPTION_ROWS(rows),
    OPTION_HELPS(helps),
    .below = &options_table,
    .below_offset = FIELD(model),
};

tdm_status serve_options_read(int argc, char **argv, serve_options *out) {
  tdm_status status = option_table_read(&serve_table, argc, argv, out);
  if (status != TDM_OK || out->model.common.help) return status;
  status = options_complete(&out->model);
  if (status != TDM_OK) return status;
  if (!out->model.common.epochs_given)
    out->model.common.epochs = out->model.common.load_path ? 0 : 1;
  if (out->model.common.epochs == 0 && !out->model.common.load_path)
    return tdm_fail(TDM_INVALID_ARGUMENT, "--epochs 0: there is nothing to serve without --load");
  if (out->model.predict)
    return tdm_fail(TDM_INVALID_ARGUMENT, "--predict: ask by POST, once it listens");
  return TDM_OK;
}
