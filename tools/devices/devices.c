/* See devices.h. Uses only the public headers. */
#include "tools/devices/devices.h"

#include <stdio.h>
#include <string.h>

#include "core/json_writer.h"
#include "tandem/tandem.h"
#include "tools/devices/libraries.h"
#include "tools/options/option_table.h"

static const char *const kinds[] = {"cpu", "sim", "cuda"};
enum { KINDS = sizeof kinds / sizeof *kinds };

typedef struct options {
  tool_options common;
  bool calibrates;
  bool json;
} options;

#define FIELD(name) offsetof(options, name)
static const option rows[] = {
    {"--calibrate", NULL, "measure the links first and save the result for later programs",
     OPTION_FLAG, FIELD(calibrates), 0, 0, 0, NULL},
    {"--json", NULL, "print JSON, in bytes and microseconds", OPTION_FLAG, FIELD(json), 0, 0, 0,
     NULL},
};
static const options defaults = {.json = false};
static const option_table table = {
    .program = "tandem devices",
    .about =
        "Lists available devices, their memory and the cost of copies between them. Costs come\n"
        "from a model until --calibrate has measured the links. Lists optional libraries and\n"
        "why a device or a library is not available.",
    OPTION_DEFAULTS(defaults),
    OPTION_ROWS(rows),
    .below = &tool_table,
};

/* ---- Descriptions ---------------------------------------------------------------------------- */

static tdm_status describe(tdm_context *context, size_t index,
                           tdm_device_properties *out_properties) {
  *out_properties = (tdm_device_properties){.struct_size = sizeof *out_properties};
  return tdm_device_get_properties(context, tdm_device_name_at(context, index), out_properties);
}

/* False: copies between these two go by way of another device. pinned: of a host's end. */
static bool describe_link(tdm_context *context, size_t from, size_t to, bool pinned,
                          tdm_link_properties *out_properties) {
  *out_properties = (tdm_link_properties){.struct_size = sizeof *out_properties};
  return tdm_link_get_properties(context, tdm_device_name_at(context, from),
                                 tdm_device_name_at(context, to), pinned, out_properties) == TDM_OK;
}

/* Returns true if exactly one end is the host, where pinned memory makes a difference. */
static bool has_pinned(tdm_context *context, size_t from, size_t to) {
  return (strncmp(tdm_device_name_at(context, from), "cpu", 3) == 0) !=
         (strncmp(tdm_device_name_at(context, to), "cpu", 3) == 0);
}

/* Visits every pair of devices, also with pageable memory if that makes a difference. */
static void each_link(tdm_context *context,
                      void (*tell)(tdm_context *context, size_t from, size_t to, bool pinned,
                                   void *user),
                      void *user) {
  const size_t count = tdm_device_count(context);
  for (size_t pair = 0; pair < count * count; pair++) {
    const size_t from = pair / count, to = pair % count;
    if (from == to) continue;
    tell(context, from, to, true, user);
    if (has_pinned(context, from, to)) tell(context, from, to, false, user);
  }
}

/* Returns true if there is no device of the kind. The last message then has the reason. */
static bool is_missing(tdm_context *context, const char *kind) {
  return tdm_device_count_of(context, kind) == 0 && !tdm_is_available(context, kind);
}

/* ---- As text --------------------------------------------------------------------------------- */

static tdm_status print_devices(tdm_context *context) {
  const double gibibyte = 1024.0 * 1024 * 1024;
  printf("%-8s %10s %10s %5s %8s  %s\n", "device", "free, GiB", "of, GiB", "node", "threads", "");
  for (size_t i = 0; i < tdm_device_count(context); i++) {
    tdm_device_properties device;
    const tdm_status status = describe(context, i, &device);
    if (status != TDM_OK) return status;
    char node[16] = "-", threads[24] = "-";
    if (device.numa_node >= 0) (void)snprintf(node, sizeof node, "%d", device.numa_node);
    if (device.threads > 0) (void)snprintf(threads, sizeof threads, "%zu", device.threads);
    printf("%-8s %10.2f %10.2f %5s %8s  %s\n", tdm_device_name_at(context, i),
           (double)device.free_bytes / gibibyte, (double)device.memory_bytes / gibibyte, node,
           threads, device.model);
  }
  for (size_t i = 0; i < KINDS; i++)
    if (is_missing(context, kinds[i])) printf("%-8s none: %s\n", kinds[i], tdm_last_message());
  return TDM_OK;
}

static void print_link(tdm_context *context, size_t from, size_t to, bool pinned, void *user) {
  (void)user;
  tdm_link_properties link;
  if (!describe_link(context, from, to, pinned, &link)) return;
  char rate[32] = "no limit";
  if (link.gigabytes_per_second > 0)
    (void)snprintf(rate, sizeof rate, "%.2f", link.gigabytes_per_second);
  printf("%-8s %-8s %-9s %12.2f %10s  %s\n", tdm_device_name_at(context, from),
         tdm_device_name_at(context, to),
         !has_pinned(context, from, to) ? "" : (pinned ? "pinned" : "pageable"), link.latency_us,
         rate, link.measured ? "measured" : "modelled");
}

static void print_library(void *user, const library *one) {
  (void)user;
  printf("%-15s %-9s %s: %s\n", one->name, one->found ? "found" : "none", one->use, one->detail);
}

static void print_libraries(void) {
  printf("\n%-15s\n", "library");
  libraries_each(print_library, NULL);
}

static void print_links(tdm_context *context) {
  printf("\n%-8s %-8s %-9s %12s %10s\n", "from", "to", "host's", "latency, us", "GB/s");
  each_link(context, print_link, NULL);
}

/* ---- As JSON --------------------------------------------------------------------------------- */

static tdm_status json_devices(tdm_context *context, tdm_json_writer *out) {
  tdm_json_open(out, "devices", '[');
  for (size_t i = 0; i < tdm_device_count(context); i++) {
    tdm_device_properties device;
    const tdm_status status = describe(context, i, &device);
    if (status != TDM_OK) return status;
    tdm_json_open(out, NULL, '{');
    tdm_json_put_string(out, "name", tdm_device_name_at(context, i));
    tdm_json_put_string(out, "kind", device.kind);
    tdm_json_put_string(out, "model", device.model);
    tdm_json_put_integer(out, "numa_node", device.numa_node);
    tdm_json_put_integer(out, "threads", (int64_t)device.threads);
    tdm_json_put_integer(out, "memory_bytes", (int64_t)device.memory_bytes);
    tdm_json_put_integer(out, "free_bytes", (int64_t)device.free_bytes);
    tdm_json_close(out, '}');
  }
  tdm_json_close(out, ']');
  return TDM_OK;
}

static void json_missing(tdm_context *context, tdm_json_writer *out) {
  tdm_json_open(out, "missing", '[');
  for (size_t i = 0; i < KINDS; i++) {
    if (!is_missing(context, kinds[i])) continue;
    tdm_json_open(out, NULL, '{');
    tdm_json_put_string(out, "kind", kinds[i]);
    tdm_json_put_string(out, "why", tdm_last_message());
    tdm_json_close(out, '}');
  }
  tdm_json_close(out, ']');
}

static void json_link(tdm_context *context, size_t from, size_t to, bool pinned, void *user) {
  tdm_json_writer *out = user;
  tdm_link_properties link;
  if (!describe_link(context, from, to, pinned, &link)) return;
  tdm_json_open(out, NULL, '{');
  tdm_json_put_string(out, "from", tdm_device_name_at(context, from));
  tdm_json_put_string(out, "to", tdm_device_name_at(context, to));
  tdm_json_put_bool(out, "pinned", pinned && has_pinned(context, from, to));
  tdm_json_put_bool(out, "measured", link.measured);
  tdm_json_put_real(out, "latency_us", link.latency_us);
  tdm_json_put_real(out, "gigabytes_per_second", link.gigabytes_per_second);
  tdm_json_close(out, '}');
}

static void json_library(void *user, const library *one) {
  tdm_json_writer *out = user;
  tdm_json_open(out, NULL, '{');
  tdm_json_put_string(out, "name", one->name);
  tdm_json_put_string(out, "use", one->use);
  tdm_json_put_bool(out, "found", one->found);
  tdm_json_put_string(out, one->found ? "detail" : "why", one->detail);
  tdm_json_close(out, '}');
}

static tdm_status write_json(tdm_context *context) {
  tdm_json_writer out;
  tool_json_begin(&out);
  const tdm_status status = json_devices(context, &out);
  if (status != TDM_OK) return status;
  json_missing(context, &out);
  tdm_json_open(&out, "links", '[');
  each_link(context, json_link, &out);
  tdm_json_close(&out, ']');
  tdm_json_open(&out, "libraries", '[');
  libraries_each(json_library, &out);
  tdm_json_close(&out, ']');
  return tool_json_end(&out);
}

/* ---- The command ----------------------------------------------------------------------------- */

static tdm_status print_text(tdm_context *context) {
  const tdm_status status = print_devices(context);
  if (status != TDM_OK) return status;
  print_links(context);
  print_libraries();
  return TDM_OK;
}

static int run(const void *given) {
  const options *wanted = given;
  tdm_context_options plain = tdm_context_options_default();
  plain.log = tool_log;
  plain.log_user = (void *)(uintptr_t)&devices_tool;
  tdm_context *context = tdm_context_create(&plain);
  tdm_status status = context ? TDM_OK : TDM_UNAVAILABLE;
  if (context && wanted->calibrates) status = tdm_context_calibrate(context, NULL);
  if (status == TDM_OK) status = wanted->json ? write_json(context) : print_text(context);
  tdm_context_release(context);
  return tool_ended(&devices_tool, status);
}

const tool devices_tool = {"devices", "List available devices and copy costs", &table, run};
