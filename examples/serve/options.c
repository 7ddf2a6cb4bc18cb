/* serve's own options, on top of distributed_model's. */
#include "examples/serve/options.h"

#include <stddef.h>

#define FIELD(name) offsetof(serve_options, name)
static const option rows[] = {
    {"--address", "A", "address to listen on", OPTION_TEXT, FIELD(address), 0, 0, 0, NULL},
    {"--port", "N", "port to listen on; 0: any free port", OPTION_INTEGER, FIELD(port), 0, 65535, 0,
     NULL},
    {"--max-batch", "N", "maximum number of words in one run", OPTION_INTEGER, FIELD(max_batch), 1,
     1024, 0, NULL},
    {"--depth", "N", "maximum number of concurrent runs", OPTION_INTEGER, FIELD(depth), 1, 16, 0,
     NULL},
    {"--connections", "N", "maximum number of connections; others get status 503", OPTION_INTEGER,
     FIELD(connections), 1, 100000, 0, NULL},
    {"--queue", "N", "maximum number of waiting words; others get status 503", OPTION_INTEGER,
     FIELD(queue), 1, 1000000, 0, NULL},
    {"--timeout", "N", "time limit for the arrival of a request, in milliseconds", OPTION_INTEGER,
     FIELD(timeout_ms), 10, 3600000, 0, NULL},
};

static const option_help helps[] = {
    {"--epochs", "how often training sees every word (1, or 0 with --load)"},
    {"--predict", "not supported: send POST requests to the running server"},
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
    .about =
        "serves a model over HTTP: POST /language returns the language of a word as JSON, GET\n"
        "/metrics returns counters, GET / a page. --load loads the model; else it is trained.",
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
