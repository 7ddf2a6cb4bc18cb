/* Calls that describe what spans nodes: gradients as values, ties, replicas, sharding, and what
 * runs keep. */
#include <math.h>
#include <string.h>

#include "tests/fuzz/api/api.h"
#include "tests/options.h"

/* A name that may have been given, "n0" to "n7", "s" and parameters of these. */
static const char *draw_known(api *self) {
  static const char *const names[] = {"n0",        "n1",      "n2", "n3",    "n4",       "n5",
                                      "n0.weight", "n1.bias", "s",  "n2.*",  "s/n1",     "nobody",
                                      "n6",        "n7",      "",   "n1/n2", "n3.weight"};
  return names[fuzz_below(&self->input, TDM_COUNT_OF(names))];
}

static void ask_gradient(api *self, const char *name) {
  const tdm_value loss = api_value(self);
  api_keep(self, tdm_gradient_of(self->graph, name, loss, api_value(self)));
}

static void tie(api *self) {
  const char *name = draw_known(self);
  tdm_tie(self->graph, name, draw_known(self));
}

static void spread(api *self) {
  static const char *const scopes[] = {"", "n0", "n1", "n2,n3", "n4", "s", "s,n1", "nobody"};
  const uint8_t flags = fuzz_byte(&self->input);
  const tdm_parallel_options options =
      OPTIONS(tdm_parallel_options, o.devices = api_devices(self),
              o.output_device = flags & 1 ? api_device(self) : NULL,
              o.sharding = (tdm_parallel_sharding)(flags >> 1 & 3)); /* 3 is illegal */
  tdm_data_parallel(self->graph, scopes[flags >> 5], &options);
}

/* ---- Kept ------------------------------------------------------------------------------------ */

static void keep(api *self, const char *name) {
  const tdm_dtype dtype = api_dtype(self);
  const tdm_value kept = tdm_kept(self->graph, name, dtype, api_shape(self, false));
  if (tdm_value_is_valid(kept)) self->keeps = true;
  api_keep(self, kept);
}

static void keep_rows(api *self, const char *name) {
  const tdm_value kept = api_value(self);
  const tdm_value rows = api_value(self);
  api_keep(self, tdm_keep_rows(self->graph, name, kept, rows, api_value(self)));
}

static void keep_value(api *self, const char *name) {
  const tdm_value kept = api_value(self);
  tdm_keep(self->graph, name, kept, api_value(self));
}

/* ---- Modules --------------------------------------------------------------------------------- */

static tdm_value build_module(tdm_graph *graph, void *user, tdm_value input) {
  const uint8_t how = *(const uint8_t *)user;
  if (how & 1) input = tdm_linear(graph, "fc", input, 1 + how / 64);
  if (how & 2) input = tdm_batch_norm(graph, "norm", input);
  return how & 4 ? tdm_relu(graph, "bend", input) : input;
}

static void apply_modules(api *self, const char *name) {
  enum { MOST = 4 };
  uint8_t how = fuzz_byte(&self->input);
  const tdm_module module = {.name = name, .build = build_module, .user = &how};
  tdm_module replicas[MOST];
  tdm_value inputs[MOST];
  tdm_value outputs[MOST] = {{0, 0}};
  memset(replicas, 0, sizeof replicas);
  const size_t count =
      tdm_replicate(self->graph, &module, api_devices(self), replicas, how & 8 ? 1 : MOST);
  for (size_t i = 0; i < count; i++)
    inputs[i] = api_value(self);
  tdm_parallel_apply(self->graph, replicas, inputs, count, outputs);
  for (size_t i = 0; i < count; i++)
    api_keep(self, outputs[i]);
}

/* ---- One of them ----------------------------------------------------------------------------- */

void api_call_graph(api *self) {
  char name[API_NAME_BYTES];
  switch (fuzz_below(&self->input, 11)) {
  case 0:
  case 1:
    ask_gradient(self, api_name(self, name));
    break;
  case 2:
    (void)api_name(self, name);
    api_keep(self, tdm_detach(self->graph, name, api_value(self)));
    break;
  case 3:
    tie(self);
    break;
  case 4:
    spread(self);
    break;
  case 5:
    keep(self, api_name(self, name));
    break;
  case 6:
    keep_rows(self, api_name(self, name));
    break;
  case 7:
    keep_value(self, api_name(self, name));
    break;
  case 8:
    apply_modules(self, api_name(self, name));
    break;
  case 9: {
    (void)api_name(self, name);
    const tdm_value value = api_value(self);
    tdm_output_on(self->graph, name, value, api_device(self));
    if (self->output_count < API_MOST_OUTPUTS)
      memcpy(self->outputs[self->output_count++], name, sizeof name);
    break;
  }
  default:
    api_keep(self, tdm_get_parameter(self->graph, draw_known(self)));
  }
}
