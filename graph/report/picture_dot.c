/* Prints a picture as a Graphviz graph. Invariant: an edge's ends are nodes, sources, or the one
 * node for a device's updates. */
#include <string.h>

#include "graph/report/picture.h"

enum { MOST_COLOURS = 8 };
/* Colours of nodes, and of the frames around them. */
static const char *const fills[MOST_COLOURS] = {"#9cc4f5", "#f7c27a", "#a5dc9b", "#eba6cb",
                                                "#c3b1ee", "#e8d86b", "#92d7db", "#c4c4c4"};
static const char *const tints[MOST_COLOURS] = {"#f0f6fe", "#fef7ec", "#f1faf0", "#fdf2f8",
                                                "#f6f3fd", "#fcfae9", "#effafa", "#f6f6f6"};
#define MOVED "#c0504d" /* colour of data between devices */

typedef struct drawing {
  const tdm_picture *picture;
  FILE *out;
  const char **devices; /* (device_count), in the order of their first use */
  uint32_t device_count;
  uint32_t *device_of;      /* per node */
  uint32_t *producers;      /* per value: 1 + the node that computes it; 0: none */
  uint8_t *read_by_command; /* per value: read by a command that is not an update */
  uint8_t *named;           /* per value: it is a source */
  uint32_t *edge_to;        /* per node: 1 + the device to whose updates it already has an edge */
} drawing;

/* Prints the text inside quotes. Other control characters than these are not allowed in XML, and
 * Graphviz generates SVG. */
static void print_escaped(const char *text, FILE *out) {
  for (; *text; text++) {
    const bool is_odd = (unsigned char)*text < ' ' && *text != '\n' && *text != '\t';
    if (*text == '"' || *text == '\\') fputc('\\', out);
    fputc(is_odd ? '?' : *text, out);
  }
}

static void print_quoted(const char *text, FILE *out) {
  fputc('"', out);
  print_escaped(text, out);
  fputc('"', out);
}

static uint32_t number_of(drawing *self, const char *device) {
  uint32_t i = 0;
  while (i < self->device_count && strcmp(self->devices[i], device) != 0)
    i++;
  if (i == self->device_count) self->devices[self->device_count++] = device;
  return i;
}

static tdm_status prepare(drawing *self, tdm_region *region) {
  const tdm_picture *picture = self->picture;
  const size_t nodes = picture->node_count + 1u, values = picture->value_count + 1u;
  static const char what[] = "a picture of a plan";
  self->devices = tdm_region_take(region, nodes * sizeof *self->devices, what);
  self->device_of = tdm_region_take(region, nodes * sizeof *self->device_of, what);
  self->edge_to = tdm_region_take(region, nodes * sizeof *self->edge_to, what);
  self->producers = tdm_region_take(region, values * sizeof *self->producers, what);
  self->read_by_command = tdm_region_take(region, values, what);
  self->named = tdm_region_take(region, values, what);
  if (region->failed) return TDM_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < picture->source_count; i++)
    self->named[picture->sources[i].value] = 1;
  for (uint32_t i = 0; i < picture->node_count; i++) {
    const tdm_picture_node *node = &picture->nodes[i];
    self->device_of[i] = number_of(self, node->device);
    for (uint32_t k = 0; k < node->make_count; k++)
      self->producers[node->makes[k]] = i + 1;
    for (uint32_t k = 0; k < node->read_count && !node->update; k++)
      self->read_by_command[node->reads[k]] = 1;
  }
  return TDM_OK;
}

/* Prints the time after the label's first lines: " 23.4 us". */
static void print_time(const tdm_picture_node *node, FILE *out) {
  if (node->measured_ns >= 0)
    fprintf(out, "\\n%.1f us", node->measured_ns / 1000);
  else if (node->predicted_ns >= 0)
    fprintf(out, "\\n%.1f us predicted", node->predicted_ns / 1000);
}

static void print_node(const drawing *self, uint32_t index) {
  const tdm_picture_node *node = &self->picture->nodes[index];
  FILE *out = self->out;
  char bytes[TDM_BYTES_TEXT];
  fprintf(out, "    n%u [label=\"", index);
  if (node->route) {
    fprintf(out, "%s\\n", tdm_bytes_text(node->bytes, bytes));
    print_escaped(node->route, out);
  } else {
    print_escaped(node->name, out);
    fputs("\\n", out);
    print_escaped(node->action, out);
    fputs("\\n", out);
    print_escaped(node->result, out);
  }
  print_time(node, out);
  fputs("\"", out);
  if (node->route)
    fputs(", style=\"rounded,filled\", fillcolor=\"#ffffff\", color=\"" MOVED
          "\", fontcolor=\"" MOVED "\", fontsize=11, penwidth=1",
          out);
  if (node->cause) {
    fputs(", tooltip=", out);
    print_quoted(node->cause, out);
  }
  fputs("];\n", out);
}

/* Prints one node for all updates of a device. */
static void print_updates(const drawing *self, uint32_t device) {
  uint32_t count = 0;
  double measured_ns = 0;
  const char *action = NULL;
  for (uint32_t i = 0; i < self->picture->node_count; i++) {
    const tdm_picture_node *node = &self->picture->nodes[i];
    if (!node->update || self->device_of[i] != device) continue;
    count++;
    action = node->action;
    if (node->measured_ns > 0) measured_ns += node->measured_ns;
  }
  if (count == 0) return;
  fprintf(self->out, "    u%u [shape=box3d, label=\"%u update%s\\n", device, count,
          count == 1 ? "" : "s");
  print_escaped(action, self->out);
  if (measured_ns > 0) fprintf(self->out, "\\n%.1f us", measured_ns / 1000);
  fputs("\"];\n", self->out);
}

static void print_device(const drawing *self, uint32_t device) {
  fprintf(self->out,
          "  subgraph cluster_%u {\n    style=\"rounded,filled\";\n    color=\"%s\";\n"
          "    fontsize=16;\n    label=",
          device, tints[device % MOST_COLOURS]);
  print_quoted(self->devices[device], self->out);
  fprintf(self->out,
          ";\n    node [shape=box, style=\"rounded,filled\", penwidth=0, fillcolor=\"%s\"];\n",
          fills[device % MOST_COLOURS]);
  for (uint32_t i = 0; i < self->picture->node_count; i++)
    if (self->device_of[i] == device && !self->picture->nodes[i].update) print_node(self, i);
  print_updates(self, device);
  fputs("  }\n", self->out);
}

/* Returns the colour of an edge from producer, 1 + a node, to its reader. */
static const char *colour_of(const drawing *self, uint32_t producer, const tdm_picture_node *to) {
  const bool moved = to->route || self->picture->nodes[producer - 1].route;
  return moved ? " [color=\"" MOVED "\"]" : "";
}

static void print_edges(const drawing *self, uint32_t index) {
  const tdm_picture_node *node = &self->picture->nodes[index];
  for (uint32_t k = 0; k < node->read_count; k++) {
    const uint32_t value = node->reads[k];
    if (!value) continue;
    const uint32_t producer = self->producers[value];
    if (!node->update) {
      if (producer)
        fprintf(self->out, "  n%u -> n%u%s;\n", producer - 1, index,
                colour_of(self, producer, node));
      else if (self->named[value])
        fprintf(self->out, "  v%u -> n%u;\n", value, index);
      continue;
    }
    const uint32_t device = self->device_of[index];
    if (!producer || self->picture->nodes[producer - 1].update ||
        self->edge_to[producer - 1] == device + 1)
      continue;
    self->edge_to[producer - 1] = device + 1;
    fprintf(self->out, "  n%u -> u%u;\n", producer - 1, device);
  }
}

tdm_status tdm_picture_dot(tdm_picture *picture, FILE *out) {
  drawing self = {.picture = picture, .out = out};
  TDM_TRY(prepare(&self, &picture->region));
  fputs("digraph plan {\n  rankdir=LR;\n  fontname=\"sans-serif\";\n"
        "  node [fontname=\"sans-serif\", fontsize=13];\n  edge [color=\"#5c6675\"];\n",
        out);
  for (uint32_t d = 0; d < self.device_count; d++)
    print_device(&self, d);
  for (uint32_t i = 0; i < picture->source_count; i++) {
    const tdm_picture_source *source = &picture->sources[i];
    if (!self.read_by_command[source->value]) continue; /* an optimizer's states */
    fprintf(out, "  v%u [shape=note, fontsize=10, label=", source->value);
    print_quoted(source->name, out);
    fputs("];\n", out);
  }
  for (uint32_t i = 0; i < picture->node_count; i++)
    print_edges(&self, i);
  fputs("}\n", out);
  return TDM_OK;
}
