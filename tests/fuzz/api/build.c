/* Draws, and the calls that describe a graph. Invariant: see api.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/fuzz/api/api.h"
#include "tests/options.h"

/* Bytes of addresses that a simulated device has, of the smallest elements. */
enum { TAKEN_BITS = 38 };

/* ---- Draws ----------------------------------------------------------------------------------- */

bool api_bool(api *self) {
  return fuzz_byte(&self->input) & 1;
}

int64_t api_size(api *self) {
  static const int64_t seldom[] = {17,        33,        -1,        -2,
                                   INT64_MIN, INT64_MAX, 1LL << 40, 1LL << 58,
                                   1LL << 62, 1LL << 31, -100,      INT64_MIN + 1};
  const uint8_t byte = fuzz_byte(&self->input);
  if (byte < 240) return byte % 9;
  const int64_t size = seldom[(byte - 240) % TDM_COUNT_OF(seldom)];
  if (size == 1LL << 31) self->too_large = true; /* some memory has 2^31 bytes */
  return size;
}

int64_t api_extent(api *self) {
  const uint8_t byte = fuzz_byte(&self->input);
  return byte < 250 ? 1 + byte % 6 : api_size(self);
}

int api_dimension(api *self) {
  static const int seldom[] = {INT32_MIN, INT32_MAX, -8, -9, 8, 1000};
  const uint8_t byte = fuzz_byte(&self->input);
  return byte < 250 ? byte % 8 - 2 : seldom[byte - 250];
}

double api_real(api *self) {
  static const double seldom[] = {1e30, -1e30, 1e-30, INFINITY, -INFINITY, NAN};
  const uint8_t byte = fuzz_byte(&self->input);
  return byte < 250 ? (byte - 120) / 16.0 : seldom[byte - 250];
}

static tdm_dim draw_dim(api *self, bool named) {
  const uint8_t byte = fuzz_byte(&self->input);
  if (named && byte % 4 == 0) return TDM_DIM("batch");
  if (named && byte % 16 == 1) return TDM_DIM("other");
  if (byte == 255) return TDM_DIM_UNKNOWN;
  return byte < 250 ? byte / 16 % 6 : api_size(self);
}

tdm_shape api_shape(api *self, bool named) {
  tdm_shape shape = {.rank = (int32_t)fuzz_below(&self->input, 20)};
  if (shape.rank > TDM_MAX_RANK) shape.rank = shape.rank % 4 + 1;
  for (int i = 0; i < shape.rank; i++)
    shape.dims[i] = draw_dim(self, named);
  return shape;
}

tdm_dtype api_dtype(api *self) {
  static const tdm_dtype often[] = {TDM_FLOAT32, TDM_INT64,   TDM_FLOAT32, TDM_INT32,
                                    TDM_BOOL,    TDM_FLOAT64, TDM_FLOAT32};
  const uint8_t byte = fuzz_byte(&self->input);
  return byte < 240 ? often[byte % TDM_COUNT_OF(often)] : (tdm_dtype)(byte - 240);
}

tdm_value api_value(api *self) {
  const uint8_t byte = fuzz_byte(&self->input);
  if (byte == 255 || self->value_count == 0) return (tdm_value){0, 0};
  if (byte == 254) return (tdm_value){self->values[0].graph, 1000000};
  if (byte == 253) return (tdm_value){self->values[0].graph + 1, self->values[0].index};
  return self->values[self->value_count - 1 - byte % self->value_count];
}

const char *api_device(api *self) {
  static const char *const names[] = {"cpu:0", "sim:0", "cpu:1", "sim:1"};
  const uint8_t byte = fuzz_byte(&self->input);
  if (byte == 255) return "gpu";
  return byte == 254 ? "" : names[byte % TDM_COUNT_OF(names)];
}

const char *api_devices(api *self) {
  static const char *const lists[] = {"cpu:0",
                                      "cpu:0,cpu:1",
                                      "cpu:1,sim:0",
                                      "sim:0,sim:1,cpu:0",
                                      "cpu:0,cpu:0",
                                      "sim:1,sim:1",
                                      "cpu:1,cpu:0,sim:1",
                                      "sim:0,sim:0,",
                                      "",
                                      "cpu:0,,cpu:1"};
  return lists[fuzz_below(&self->input, 64) % TDM_COUNT_OF(lists)];
}

const char *api_name(api *self, char *text) {
  static const char *const odd[] = {"", "a", "a/b", "checkpoint", "optimizer", "n0", "\xff", "."};
  const uint8_t byte = fuzz_byte(&self->input);
  const uint32_t number = byte < 240 ? self->name_count++ : byte % 8;
  if (byte < 248)
    (void)snprintf(text, API_NAME_BYTES, "n%u", number);
  else
    (void)snprintf(text, API_NAME_BYTES, "%s", odd[byte - 248]);
  return text;
}

/* Elements, where every name is as large as it will be. */
static bool is_small(const tdm_shape *shape) {
  int64_t count = 1;
  for (int i = 0; i < shape->rank; i++) {
    const int64_t size = tdm_dim_is_size(shape->dims[i]) ? shape->dims[i] : 6;
    if (size > 4096) return false;
    count *= size > 0 ? size : 1;
    if (count > 4096) return false;
  }
  return true;
}

void api_keep(api *self, tdm_value value) {
  if (!tdm_value_is_valid(value)) return;
  const tdm_shape shape = tdm_value_shape(self->graph, value);
  fuzz_expect(shape.rank >= 0 && shape.rank <= TDM_MAX_RANK, "rank %d", (int)shape.rank);
  fuzz_expect(tdm_value_dtype(self->graph, value) != TDM_DTYPE_NONE, "no dtype");
  if (!is_small(&shape)) self->too_large = true;
  if (self->value_count < API_MOST_VALUES) self->values[self->value_count++] = value;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static void make_input(api *self) {
  char name[API_NAME_BYTES];
  (void)api_name(self, name);
  const tdm_dtype dtype = api_dtype(self);
  const tdm_shape shape = api_shape(self, true);
  const tdm_value value = tdm_input(self->graph, name, dtype, shape);
  if (!tdm_value_is_valid(value)) return;
  api_keep(self, value);
  if (self->input_count < API_MOST_INPUTS) {
    api_input *added = &self->inputs[self->input_count++];
    *added = (api_input){.dtype = dtype, .shape = shape};
    memcpy(added->name, name, sizeof name);
  } else {
    self->too_large = true; /* it is not fed */
  }
}

bool api_takes_memory(int64_t elements) {
  return elements > 1LL << 20 && elements < 1LL << TAKEN_BITS;
}

static void make_parameter(api *self, bool state) {
  char name[API_NAME_BYTES];
  (void)api_name(self, name);
  const tdm_dtype dtype = api_dtype(self);
  const tdm_shape shape = api_shape(self, false);
  self->takes_memory |= api_takes_memory(tdm_shape_count(&shape));
  const tdm_initializer initializer = {(tdm_initializer_kind)fuzz_below(&self->input, 5),
                                       api_real(self), api_real(self),
                                       (int64_t)fuzz_below(&self->input, 8) - 4};
  api_keep(self, state ? tdm_state(self->graph, name, dtype, shape, &initializer, api_value(self))
                       : tdm_parameter(self->graph, name, dtype, shape, &initializer));
}

static void split(api *self, const char *name) {
  tdm_dim sizes[65];
  tdm_value parts[65] = {{0, 0}};
  const uint32_t count = fuzz_byte(&self->input) % 80;
  const uint32_t used = count > 66 ? count % 4 + 1 : count;
  for (uint32_t i = 0; i < used && i < 65; i++)
    sizes[i] = api_size(self);
  const tdm_value x = api_value(self);
  const int dimension = api_dimension(self);
  if (used > 65) return;
  tdm_split(self->graph, name, x, dimension, sizes, used, parts);
  for (uint32_t i = 0; i < used; i++)
    api_keep(self, parts[i]);
}

static void concat(api *self, const char *name) {
  tdm_value parts[6];
  const uint32_t count = fuzz_below(&self->input, 7);
  for (uint32_t i = 0; i < count; i++)
    parts[i] = api_value(self);
  api_keep(self, tdm_concat(self->graph, name, parts, count, api_dimension(self)));
}

static void wrap(api *self, bool between) {
  static const char *const scopes[] = {"", "n0", "n1", "n2,n3", "n4", "s", "s,n1", "nobody"};
  tdm_scatter scatter[3];
  double weights[5];
  tdm_value inputs[3];
  tdm_value outputs[2];
  const uint8_t flags = fuzz_byte(&self->input);
  tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = api_devices(self),
                                         o.output_device = flags & 1 ? api_device(self) : NULL,
                                         o.weights = flags & 2 ? weights : NULL,
                                         o.scatter = scatter, o.scatter_count = flags >> 2 & 3);
  for (size_t i = 0; i < TDM_COUNT_OF(weights); i++)
    weights[i] = flags & 2 ? fabs(api_real(self)) : 1;
  for (size_t i = 0; i < options.scatter_count; i++) {
    const int dimension = api_dimension(self);
    scatter[i] = (tdm_scatter){api_value(self), dimension == 5 ? TDM_BROADCAST : dimension};
  }
  if (!between) {
    tdm_data_parallel(self->graph, scopes[flags >> 5], &options);
    return;
  }
  for (size_t i = 0; i < TDM_COUNT_OF(inputs); i++)
    inputs[i] = api_value(self);
  for (size_t i = 0; i < TDM_COUNT_OF(outputs); i++)
    outputs[i] = api_value(self);
  tdm_data_parallel_between(self->graph, inputs, flags >> 6, outputs, 1 + (flags >> 5 & 1),
                            &options);
}

static void shard(api *self) {
  static const char *const scopes[] = {"", "n0", "n1", "n2,n3", "n4", "s", "s,n1", "nobody"};
  double weights[64];
  const uint8_t flags = fuzz_byte(&self->input);
  const tdm_shard_options options =
      OPTIONS(tdm_shard_options, o.devices = api_devices(self), o.by = (tdm_shard_by)(flags & 3),
              o.weights = flags & 4 ? weights : NULL);
  for (size_t i = 0; i < TDM_COUNT_OF(weights); i++)
    weights[i] = flags & 4 ? api_real(self) : 1;
  tdm_shard(self->graph, scopes[flags >> 5], &options);
}

static void name_output(api *self) {
  char name[API_NAME_BYTES];
  (void)api_name(self, name);
  tdm_output(self->graph, name, api_value(self));
  if (self->output_count < API_MOST_OUTPUTS)
    memcpy(self->outputs[self->output_count++], name, sizeof name);
}

void api_call_building(api *self) {
  char name[API_NAME_BYTES];
  switch (fuzz_below(&self->input, 17)) {
  case 0:
  case 1:
  case 2:
    make_input(self);
    break;
  case 3:
    make_parameter(self, false);
    break;
  case 4:
    make_parameter(self, true);
    break;
  case 5:
  case 6:
    name_output(self);
    break;
  case 7:
    tdm_place(self->graph, api_device(self));
    break;
  case 8: {
    const tdm_value value = api_value(self);
    tdm_place_value(self->graph, value, api_device(self));
    break;
  }
  case 9:
    tdm_scope_push(self->graph, fuzz_below(&self->input, 2) ? "s" : api_name(self, name));
    break;
  case 10:
    tdm_scope_pop(self->graph);
    break;
  case 11:
    tdm_scope_dtype(self->graph, api_dtype(self));
    tdm_scope_evaluate(self->graph, fuzz_byte(&self->input) & 1);
    break;
  case 12:
    split(self, api_name(self, name));
    break;
  case 13:
    concat(self, api_name(self, name));
    break;
  case 14:
    wrap(self, fuzz_below(&self->input, 3) == 0);
    break;
  case 15:
    shard(self);
    break;
  default:
    (void)api_name(self, name);
    api_keep(self, tdm_observe(self->graph, name, api_value(self)));
  }
}
