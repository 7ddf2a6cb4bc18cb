/* Reads a context's options. Invariant: input that is not understood is an error that names its
 * position. */
#include "devices/creation/context_options.h"

#include <stdlib.h>
#include <string.h>

#include "core/options.h"
#include "core/settings.h"
#include "core/status.h"

static const char devices_variable[] = "TANDEM_DEVICES";
static const char tf32_variable[] = "TANDEM_TF32";
static const char nccl_variable[] = "TANDEM_NCCL";
static const char red_zones_variable[] = "TANDEM_RED_ZONES";

tdm_status tdm_context_options_read(const tdm_context_options *options,
                                    tdm_context_options *out_options) {
  return TDM_OPTIONS_READ("tdm_context_create", context, options, out_options);
}

static size_t find_kind(const char *name) {
  for (size_t i = 0; tdm_device_kinds[i]; i++)
    if (strcmp(tdm_device_kinds[i]->name, name) == 0) return i;
  return SIZE_MAX;
}

static tdm_status read_count(const char *source, const char *key, const char *text, uint64_t least,
                             tdm_kind_options *kind) {
  uint64_t count = 0;
  TDM_TRY(tdm_setting_integer(source, key, text, least, TDM_MAX_DEVICES_OF_KIND, &count));
  kind->count = (int)count;
  kind->none = count == 0;
  return TDM_OK;
}

static tdm_status read_devices_variable(tdm_context_plan *plan) {
  const char *cursor = getenv(devices_variable);
  if (!cursor) return TDM_OK;
  tdm_setting setting;
  tdm_status status = TDM_OK;
  while (tdm_setting_next(&cursor, devices_variable, &setting, &status)) {
    const size_t kind = find_kind(setting.key);
    if (kind == SIZE_MAX) {
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s: there is no kind of device \"%s\"",
                      devices_variable, setting.key);
    }
    const uint64_t least = kind == 0 ? 1 : 0; /* the host always exists */
    TDM_TRY(read_count(devices_variable, setting.key, setting.value, least, &plan->kinds[kind]));
  }
  return status;
}

static tdm_status read_kind_variables(const tdm_kind *kind, tdm_kind_options *options) {
  const char *count = !kind->count_variable ? NULL : getenv(kind->count_variable);
  if (count && count[0] != '\0')
    TDM_TRY(read_count(kind->count_variable, "the count", count, 1, options));
  if (kind->settings_variable) options->settings = getenv(kind->settings_variable);
  return TDM_OK;
}

static tdm_status read_tf32(int asked, tdm_context_plan *plan) {
  const bool by_environment = asked == TDM_FROM_ENVIRONMENT;
  if (!by_environment && (asked < 0 || asked > 1)) {
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "tdm_context_create: tf32 is %d, expected 0, 1 or TDM_FROM_ENVIRONMENT", asked);
  }
  uint64_t allowed = asked > 0;
  const char *text = getenv(tf32_variable);
  if (by_environment && text && text[0] != '\0')
    TDM_TRY(tdm_setting_integer(tf32_variable, "the value", text, 0, 1, &allowed));
  for (size_t i = 0; i < TDM_MAX_KINDS; i++)
    plan->kinds[i].tf32 = allowed == 1;
  return TDM_OK;
}

static tdm_status read_nccl(tdm_context_plan *plan) {
  uint64_t allowed = 1;
  const char *text = getenv(nccl_variable);
  if (text && text[0] != '\0')
    TDM_TRY(tdm_setting_integer(nccl_variable, "the value", text, 0, 1, &allowed));
  for (size_t i = 0; i < TDM_MAX_KINDS; i++)
    plan->kinds[i].nccl = allowed == 1;
  return TDM_OK;
}

static tdm_status read_red_zones(tdm_context_plan *plan) {
  static const char *const words[] = {[TDM_RED_ZONES_NONE] = "",
                                      [TDM_RED_ZONES_FILLED] = "filled",
                                      [TDM_RED_ZONES_UNFILLED] = "unfilled"};
  const char *text = getenv(red_zones_variable);
  for (size_t i = 0; i < TDM_COUNT_OF(words); i++) {
    if (strcmp(!text ? "" : text, words[i]) != 0) continue;
    plan->red_zones = (tdm_red_zones)i;
    return TDM_OK;
  }
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s is \"%.40s\", not filled or unfilled",
                  red_zones_variable, text);
}

/* ---- Silence of other ranks ------------------------------------------------------------------ */

enum { MOST_SILENCE_SECONDS = 86400 };
static const double least_silence_seconds = 0.5;

static bool is_silence(double seconds) {
  return seconds >= least_silence_seconds && seconds <= MOST_SILENCE_SECONDS;
}

uint64_t tdm_context_silence_ns(const tdm_context_options *options) {
  const double seconds = options->silence_seconds;
  return is_silence(seconds) ? (uint64_t)(seconds * 1e9) : 0;
}

static tdm_status check_silence(double seconds) {
  if (seconds == TDM_FROM_ENVIRONMENT || is_silence(seconds)) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "tdm_context_create: silence_seconds is %g, expected %g to %d, or "
                  "TDM_FROM_ENVIRONMENT",
                  seconds, least_silence_seconds, MOST_SILENCE_SECONDS);
}

/* The first kind, the host, has at least one device. */
static tdm_status set_count(tdm_context_plan *plan, const char *kind, int count) {
  if (count == TDM_FROM_ENVIRONMENT) return TDM_OK;
  const size_t index = find_kind(kind);
  const int least = index == 0 ? 1 : 0;
  const bool none = count == 0;
  if (count < least || count > TDM_MAX_DEVICES_OF_KIND) {
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "tdm_context_create: %s_devices is %d, expected %d to %d, or "
                    "TDM_FROM_ENVIRONMENT",
                    kind, count, least, TDM_MAX_DEVICES_OF_KIND);
  }
  if (none && index == SIZE_MAX) return TDM_OK;
  if (index == SIZE_MAX)
    return tdm_fail(TDM_UNAVAILABLE, "this build has no devices of kind %s", kind);
  plan->kinds[index].count = count;
  plan->kinds[index].none = none;
  return TDM_OK;
}

tdm_status tdm_context_plan_read(const tdm_context_options *options, tdm_context_plan *out_plan) {
  *out_plan = (tdm_context_plan){0};
  TDM_TRY(read_devices_variable(out_plan));
  for (size_t i = 0; tdm_device_kinds[i]; i++) {
    if (i == TDM_MAX_KINDS) return tdm_fail(TDM_INTERNAL, "more than %d kinds", TDM_MAX_KINDS);
    TDM_TRY(read_kind_variables(tdm_device_kinds[i], &out_plan->kinds[i]));
  }
  TDM_TRY(read_tf32(options->tf32, out_plan));
  TDM_TRY(read_nccl(out_plan));
  TDM_TRY(read_red_zones(out_plan));
  TDM_TRY(check_silence(options->silence_seconds));
  TDM_TRY(set_count(out_plan, "cpu", options->cpu_devices));
  TDM_TRY(set_count(out_plan, "sim", options->sim_devices));
  const size_t sim = find_kind("sim");
  if (options->sim && sim != SIZE_MAX) out_plan->kinds[sim].settings = options->sim;
  return TDM_OK;
}
