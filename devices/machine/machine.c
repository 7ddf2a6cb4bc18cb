/* Reads machine descriptions. Invariant: a description is accepted as a whole or not at all. A
 * field that is missing, unknown, of another type or out of range is reported with its position. */
#include "devices/machine/machine.h"

#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/json_load.h"
#include "devices/least_rate.h"

typedef struct reader {
  const char *source;  /* file */
  const char *section; /* "device", "" at the top */
} reader;

static tdm_status fail(const reader *at, const char *field, const char *wanted) {
  return tdm_fail(TDM_CORRUPT_DATA, "%s: %s%s%s: %s", at->source, at->section,
                  at->section[0] ? "." : "", field, wanted);
}

/* ---- Fields ---------------------------------------------------------------------------------- */

/* Reads a number in [least, most]. If it is missing and not required, *number is unchanged. */
static tdm_status read_number(const reader *at, json_t *object, const char *field, bool required,
                              double least, double most, double *number) {
  json_t *value = json_object_get(object, field);
  if (!value) return required ? fail(at, field, "is missing") : TDM_OK;
  if (!json_is_number(value)) return fail(at, field, "is no number");
  const double found = json_number_value(value);
  if (!(found >= least && found <= most)) {
    char wanted[80];
    (void)snprintf(wanted, sizeof wanted, "%g is not from %g to %g", found, least, most);
    return fail(at, field, wanted);
  }
  *number = found;
  return TDM_OK;
}

static tdm_status read_count(const reader *at, json_t *object, const char *field, uint32_t most,
                             uint32_t *count) {
  json_t *value = json_object_get(object, field);
  if (!value) return TDM_OK;
  if (!json_is_integer(value)) return fail(at, field, "is no whole number");
  double number = 0;
  TDM_TRY(read_number(at, object, field, true, 1, most, &number));
  *count = (uint32_t)number;
  return TDM_OK;
}

static tdm_status read_text(const reader *at, json_t *object, const char *field, char *text,
                            size_t capacity) {
  const char *value = json_string_value(json_object_get(object, field));
  if (!value || !value[0]) return fail(at, field, "a text is wanted");
  if (strlen(value) >= capacity) return fail(at, field, "is too long");
  (void)snprintf(text, capacity, "%s", value);
  return TDM_OK;
}

/* Checks that every member is one of names (terminated by NULL). */
static tdm_status check_names(const reader *at, json_t *object, const char *const *names) {
  const char *key;
  json_t *value;
  json_object_foreach(object, key, value) {
    size_t i = 0;
    while (names[i] && strcmp(names[i], key) != 0)
      i++;
    if (!names[i]) return fail(at, key, "there is no such field");
  }
  return TDM_OK;
}

/* *out_object is NULL if the section is missing. */
static tdm_status read_section(const reader *at, json_t *root, const char *section, bool required,
                               json_t **out_object) {
  *out_object = json_object_get(root, section);
  if (!*out_object) return required ? fail(at, section, "is missing") : TDM_OK;
  return json_is_object(*out_object) ? TDM_OK : fail(at, section, "is no object");
}

/* ---- Sections -------------------------------------------------------------------------------- */

/* Reads {"float32": 1.2e13, ...} for floating dtypes. */
static tdm_status read_flops(const reader *at, json_t *object, tdm_machine_processor *processor) {
  static const char field[] = "flops_per_second";
  json_t *flops = json_object_get(object, field);
  if (!json_is_object(flops) || json_object_size(flops) == 0)
    return fail(at, field, "an object like {\"float32\": 1e13} is wanted");
  char section[64];
  (void)snprintf(section, sizeof section, "%s.%s", at->section, field);
  const reader inner = {at->source, section};
  const char *key;
  json_t *value;
  json_object_foreach(flops, key, value) {
    const tdm_dtype dtype = tdm_dtype_from_name(key);
    if (!tdm_dtype_is_floating(dtype)) return fail(&inner, key, "is no floating dtype");
    double per_second = 0;
    TDM_TRY(read_number(&inner, flops, key, true, 1, 1e20, &per_second));
    processor->flops_per_ns[dtype] = per_second / 1e9;
  }
  return TDM_OK;
}

static tdm_status read_processor(const char *source, json_t *root, const char *section,
                                 bool required, tdm_machine_processor *processor) {
  static const char *const names[] = {
      "model", "memory_bytes", "flops_per_second", "memory_bytes_per_second", "launch_us", NULL};
  const reader top = {source, ""};
  const reader at = {source, section};
  json_t *object;
  TDM_TRY(read_section(&top, root, section, required, &object));
  if (!object) return TDM_OK;
  TDM_TRY(check_names(&at, object, names));
  TDM_TRY(read_text(&at, object, "model", processor->model, sizeof processor->model));
  TDM_TRY(read_number(&at, object, "memory_bytes", false, 1, 1e18, &processor->memory_bytes));
  TDM_TRY(read_flops(&at, object, processor));
  double per_second = 0;
  TDM_TRY(read_number(&at, object, "memory_bytes_per_second", true, TDM_LEAST_BYTES_PER_SECOND,
                      1e18, &per_second));
  double launch_us = 0;
  TDM_TRY(read_number(&at, object, "launch_us", false, 0, 1e6, &launch_us));
  processor->memory_bytes_per_ns = per_second / 1e9;
  processor->launch_ns = launch_us * 1e3;
  return TDM_OK;
}

static tdm_status read_port(const char *source, json_t *root, const char *section, bool required,
                            tdm_machine_port *port) {
  static const char *const names[] = {"latency_us", "bytes_per_second", "sharing", NULL};
  const reader top = {source, ""};
  const reader at = {source, section};
  json_t *object;
  port->sharing = 1;
  TDM_TRY(read_section(&top, root, section, required, &object));
  if (!object) return TDM_OK;
  TDM_TRY(check_names(&at, object, names));
  double latency_us = 0;
  double per_second = 0;
  TDM_TRY(read_number(&at, object, "latency_us", true, 0, 1e6, &latency_us));
  TDM_TRY(read_number(&at, object, "bytes_per_second", true, TDM_LEAST_BYTES_PER_SECOND, 1e18,
                      &per_second));
  TDM_TRY(read_count(&at, object, "sharing", TDM_MACHINE_MOST_DEVICES, &port->sharing));
  port->latency_ns = latency_us * 1e3;
  port->bytes_per_ns = per_second / 1e9;
  return TDM_OK;
}

/* Checks "sources": ["a data sheet", ...], which is only for human readers. */
static tdm_status check_sources(const reader *at, json_t *root) {
  json_t *sources = json_object_get(root, "sources");
  if (!json_is_array(sources) || json_array_size(sources) == 0)
    return fail(at, "sources", "a list is wanted of where the figures are from");
  size_t index;
  json_t *source;
  json_array_foreach(sources, index, source) {
    if (!json_is_string(source)) return fail(at, "sources", "one of them is no text");
  }
  return TDM_OK;
}

static tdm_status read_machine(const char *source, json_t *root, tdm_machine *machine) {
  static const char *const names[] = {"title",  "sources", "hosts",     "devices_per_host", "host",
                                      "device", "peer",    "host_link", "network",          NULL};
  const reader at = {source, ""};
  if (!json_is_object(root)) return tdm_fail(TDM_CORRUPT_DATA, "%s: is no JSON object", source);
  TDM_TRY(check_names(&at, root, names));
  TDM_TRY(read_text(&at, root, "title", machine->title, sizeof machine->title));
  TDM_TRY(check_sources(&at, root));
  machine->host_count = 1;
  machine->devices_per_host = 1;
  TDM_TRY(read_count(&at, root, "hosts", TDM_MACHINE_MOST_HOSTS, &machine->host_count));
  TDM_TRY(read_count(&at, root, "devices_per_host", TDM_MACHINE_MOST_DEVICES,
                     &machine->devices_per_host));
  machine->all_hosts = machine->host_count;
  if (tdm_machine_device_count(machine) > TDM_MACHINE_MOST_DEVICES)
    machine->host_count = TDM_MACHINE_MOST_DEVICES / machine->devices_per_host;
  TDM_TRY(read_processor(source, root, "device", true, &machine->device));
  TDM_TRY(read_processor(source, root, "host", false, &machine->host));
  TDM_TRY(read_port(source, root, "peer", false, &machine->peer));
  if (machine->peer.sharing != 1) {
    const reader peer = {source, "peer"};
    return fail(&peer, "sharing", "a peer port is one device's own");
  }
  TDM_TRY(read_port(source, root, "host_link", true, &machine->host_link));
  return read_port(source, root, "network", machine->all_hosts > 1, &machine->network);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static const size_t most_file_bytes = (size_t)1 << 20;

static tdm_status take_machine(const char *source, json_t *root, tdm_machine *out_machine) {
  tdm_machine machine = {.title = ""};
  const tdm_status status = read_machine(source, root, &machine);
  if (status == TDM_OK) *out_machine = machine;
  json_decref(root);
  return status;
}

tdm_status tdm_machine_parse(const char *text, const char *source, tdm_machine *out_machine) {
  *out_machine = (tdm_machine){.title = ""};
  json_t *root;
  TDM_TRY(tdm_json_load(text, strlen(text), source, &root));
  return take_machine(source, root, out_machine);
}

tdm_status tdm_machine_read(const char *path, tdm_machine *out_machine) {
  *out_machine = (tdm_machine){.title = ""};
  const tdm_allocator allocator = tdm_allocator_default();
  json_t *root;
  TDM_TRY(
      tdm_json_load_file(&allocator, "the description of a machine", path, most_file_bytes, &root));
  return take_machine(path, root, out_machine);
}
