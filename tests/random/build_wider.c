/* Describes to the library what wider models and views have: shards, tied parameters, groups of
 * parameters. */
#include <stdio.h>
#include <string.h>

#include "tests/options.h"
#include "tests/random/view.h"

static void append(char *text, size_t bytes, const char *separator, const char *more) {
  const size_t length = strlen(text);
  (void)snprintf(text + length, bytes - length, "%s%s", length > 0 ? separator : "", more);
}

void build_shard(tdm_graph *graph, const random_view *it, const random_machine *on,
                 const random_shard *part) {
  char scopes[512] = "", devices[128] = "", text[16];
  for (int i = 0; i < part->table_count; i++) {
    if (part->tables[i] >= it->node_count) continue;
    (void)snprintf(text, sizeof text, "n%d", part->tables[i]);
    append(scopes, sizeof scopes, ",", text);
  }
  if (!*scopes) return;
  for (int i = 0; i < part->device_count; i++)
    append(devices, sizeof devices, ",", machine_device(on, part->devices[i], text));
  const tdm_shard_options options =
      OPTIONS(tdm_shard_options, o.devices = devices,
              o.by = part->by_tables ? TDM_SHARD_TABLES : TDM_SHARD_ROWS,
              o.weights = part->weighted ? part->weights : NULL);
  tdm_shard(graph, scopes, &options);
}

void build_ties(tdm_graph *graph, const random_model *of, int index) {
  static const char *const NAMES[] = {"it.weight", "it.bias"};
  const random_node *what = &of->nodes[index];
  for (int k = 0; k < what->parameter_count && what->tied; k++) {
    char name[32];
    (void)snprintf(name, sizeof name, "n%d/%s", index, NAMES[k]);
    tdm_tie(graph, name, of->parameters[what->parameters[k]].name);
  }
}

void build_groups(view_groups *out, const random_model *of, double learning_rate, uint32_t frozen) {
  memset(out, 0, sizeof *out);
  for (int g = 0; g < of->group_count; g++) {
    char *names = out->names[out->count];
    for (int i = 0; i < of->parameter_count; i++) {
      const bool stays = frozen >> i & 1;
      if (g == 0 ? stays : !stays && of->parameters[i].group == g)
        append(names, GROUP_TEXT, ",", of->parameters[i].name);
    }
    if (!*names) continue;
    out->optimizers[out->count] = build_optimizer(of, g, learning_rate);
    out->list[out->count] =
        (tdm_parameter_group){names, g > 0 ? &out->optimizers[out->count] : NULL};
    out->count++;
  }
}
