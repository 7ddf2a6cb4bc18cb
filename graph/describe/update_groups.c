/* Finds the parameter group of a parameter by its path. */
#include "graph/describe/update_groups.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/ir/names.h"

/* Returns true if path, or a layer or scope above it, matches the pattern that ends at `end`. '*'
 * matches any characters. After a mismatch only the latest '*' is extended, which suffices. */
static bool goes_by(const char *pattern, const char *end, const char *path) {
  const char *star = NULL;
  const char *retry = NULL;
  for (;;) {
    if (pattern < end && *pattern == '*') {
      star = ++pattern;
      retry = path;
    } else if (pattern == end && (*path == 0 || *path == '/' || *path == '.')) {
      return true;
    } else if (pattern < end && *path && *pattern == *path) {
      pattern++;
      path++;
    } else if (star && *retry) {
      pattern = star;
      path = ++retry;
    } else {
      return false;
    }
  }
}

/* Finds the next element of a comma-separated list, without surrounding spaces. */
static bool next_piece(const char **cursor, const char **out_begin, const char **out_end) {
  if (!*cursor) return false;
  const char *begin = *cursor;
  const char *comma = strchr(begin, ',');
  const char *end = comma ? comma : begin + strlen(begin);
  *cursor = comma ? comma + 1 : NULL;
  while (begin < end && *begin == ' ')
    begin++;
  while (end > begin && end[-1] == ' ')
    end--;
  *out_begin = begin;
  *out_end = end;
  return true;
}

static bool belongs(const char *patterns, const char *path) {
  const char *begin;
  const char *end;
  while (next_piece(&patterns, &begin, &end))
    if (goes_by(begin, end, path)) return true;
  return false;
}

size_t tdm_update_group_of(const tdm_update_groups *groups, const char *path) {
  for (size_t g = 1; g < groups->count; g++)
    if (belongs(groups->patterns[g], path)) return g;
  return 0;
}

bool tdm_is_learning_rate(double number) {
  return number >= 0.0 && isfinite(number);
}

bool tdm_is_momentum(double number) {
  return number >= 0.0 && number < 1.0;
}

bool tdm_update_group_has_momentum(const tdm_update_groups *groups, size_t group) {
  const tdm_optimizer *optimizer = &groups->optimizers[group];
  const int place = optimizer->rule ? optimizer->rule->momentum : 0;
  return place > 0 && optimizer->settings[place - 1] != 0.0;
}

static tdm_status check_rates(const tdm_update_groups *groups) {
  for (size_t g = 0; g < groups->count; g++) {
    const tdm_optimizer *optimizer = &groups->optimizers[g];
    if (!optimizer->rule || tdm_is_learning_rate(optimizer->learning_rate)) continue;
    char group[40] = "";
    if (g > 0) (void)snprintf(group, sizeof group, "parameter group %zu: ", g - 1);
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "session options: %s%s: learning rate %g must be finite and not negative",
                    group, optimizer->rule->name, optimizer->learning_rate);
  }
  return TDM_OK;
}

tdm_status tdm_update_groups_fill(tdm_update_groups *groups, tdm_region *region,
                                  const tdm_session_options *options) {
  groups->count = 0;
  if (!options->optimizer) return TDM_OK;
  groups->optimizers[0] = *options->optimizer;
  for (size_t g = 0; g < options->group_count; g++) {
    const tdm_parameter_group *group = &options->groups[g];
    if (!group->parameters || (group->optimizer && !group->optimizer->rule))
      return tdm_fail(TDM_INVALID_ARGUMENT, "session options: parameter group %zu has no %s", g,
                      group->parameters ? "rule in its optimizer" : "parameters");
    groups->patterns[1 + g] = tdm_region_string(region, group->parameters);
    if (!groups->patterns[1 + g]) return TDM_OUT_OF_MEMORY;
    if (group->optimizer) groups->optimizers[1 + g] = *group->optimizer;
  }
  groups->count = 1 + options->group_count;
  return check_rates(groups);
}

static tdm_status fail_nameless(const tdm_graph *graph, size_t group, const char *begin,
                                const char *end) {
  char given[64];
  (void)snprintf(given, sizeof given, "%.*s", (int)(end - begin), begin);
  tdm_choices parameters;
  return tdm_fail(
      TDM_INVALID_ARGUMENT,
      "session options: parameter group %zu: no parameter is called \"%s\", or is below "
      "a scope of that name; %s",
      group, given, tdm_parameters_text(graph, given, &parameters));
}

static bool names_any(const tdm_graph *graph, const char *begin, const char *end) {
  for (size_t i = 0; i < graph->persistents.count; i++) {
    const tdm_graph_persistent *persistent = &graph->persistents.items[i];
    if (tdm_ir_value_at(graph, persistent->value)->trainable &&
        goes_by(begin, end, tdm_persistent_table(persistent)))
      return true;
  }
  return false;
}

tdm_status tdm_update_groups_check(const tdm_update_groups *groups, const tdm_graph *graph) {
  for (size_t g = 1; g < groups->count; g++) {
    const char *patterns = groups->patterns[g];
    const char *begin;
    const char *end;
    while (next_piece(&patterns, &begin, &end))
      if (!names_any(graph, begin, end)) return fail_nameless(graph, g - 1, begin, end);
  }
  return TDM_OK;
}
