/* Draws which tables of a view are sharded, and how. Invariant: by rows only tables that nothing
 * but look-ups reads, as graph/building.h demands. */
#include <stdio.h>

#include "tests/random/view.h"

static bool looks_up(const random_node *what) {
  return what->kind == NODE_EMBEDDING || what->kind == NODE_BAG;
}

/* Returns true if a node other than a look-up reads the parameter. */
static bool is_read_whole(const random_model *of, int parameter) {
  bool any = false;
  for (int i = 0; i < of->node_count; i++) {
    const random_node *what = &of->nodes[i];
    any |= what->target == parameter;
    for (int k = 0; k < what->parameter_count && !looks_up(what); k++)
      any |= what->parameters[k] == parameter;
  }
  return any;
}

/* The node by which a table is named: the first, or another one that looks it up. */
static int name_of(draw *stream, const random_model *of, int parameter) {
  int found = -1;
  for (int i = 0; i < of->node_count; i++) {
    const random_node *what = &of->nodes[i];
    const bool fits = looks_up(what) && what->parameters[0] == parameter;
    if (fits && (found < 0 || draw_one_in(stream, 3))) found = i;
  }
  return found;
}

static void draw_devices(draw *stream, random_shard *made, const random_machine *on) {
  const int wanted = draw_between(stream, 1, on->device_count);
  double sum = 0;
  for (int i = 0; i < 4 * wanted && made->device_count < wanted; i++) {
    const int device = draw_below(stream, on->device_count);
    bool is_there = false;
    for (int k = 0; k < made->device_count; k++)
      is_there |= on->devices[made->devices[k]] == on->devices[device];
    if (is_there) continue;
    sum += made->weights[made->device_count] = draw_below(stream, 4);
    made->devices[made->device_count++] = device;
  }
  made->weighted = sum > 0 && draw_one_in(stream, 2);
}

void shards_draw(random_view *it, const random_model *of, const random_machine *on, uint64_t seed) {
  draw stream = draw_of(seed, 9);
  for (int i = draw_below(&stream, MOST_SHARDS + 1); i > 0; i--) {
    random_shard *made = &it->shards[it->shard_count];
    *made =
        (random_shard){.by_tables = draw_one_in(&stream, 3), .is_first = draw_one_in(&stream, 2)};
    /* Adafactor treats each shard as a separate matrix (layers/optimizers.h). */
    if (of->optimizer == OPTIMIZER_ADAFACTOR) made->by_tables = true;
    draw_devices(&stream, made, on);
    for (int p = 0; p < of->parameter_count; p++) {
      const int table = name_of(&stream, of, p);
      bool is_sharded = false;
      for (int k = 0; k < it->shard_count * MOST_PARAMETERS; k++) {
        const random_shard *other = &it->shards[k / MOST_PARAMETERS];
        is_sharded |= k % MOST_PARAMETERS < other->table_count &&
                      of->nodes[other->tables[k % MOST_PARAMETERS]].parameters[0] == p;
      }
      if (table < 0 || is_sharded || (is_read_whole(of, p) && !made->by_tables)) continue;
      if (!draw_one_in(&stream, 4)) made->tables[made->table_count++] = table;
    }
    if (made->table_count > 0) it->shard_count++;
  }
}

void shards_print(const random_view *it, const random_machine *on, FILE *out) {
  char text[16];
  for (int i = 0; i < it->shard_count; i++) {
    const random_shard *part = &it->shards[i];
    fprintf(out, "    shard%s by %s", part->is_first ? " before wraps" : "",
            part->by_tables ? "tables" : "rows");
    for (int k = 0; k < part->table_count; k++)
      fprintf(out, " n%d", part->tables[k]);
    fputs(" over", out);
    for (int k = 0; k < part->device_count; k++) {
      fprintf(out, " %s", machine_device(on, part->devices[k], text));
      if (part->weighted) fprintf(out, " x %g", part->weights[k]);
    }
    fputc('\n', out);
  }
}
