/* Prints a model's layers as a table. Invariant: a row contains all nodes of one path, and is at
 * the place of the first one. Sizes are those of the graph lowered again with the shapes that were
 * fed, so all are known. Work of a plan that belongs to no row is reported below the table. */
#include "graph/report/summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/map.h"
#include "graph/ir/rewriter.h"
#include "graph/passes/passes.h"
#include "graph/report/explain.h"
#include "graph/report/picture.h"

enum { DEVICES_TEXT = 64, COLUMN = TDM_BYTES_TEXT, COLUMNS = 6 };

typedef struct row {
  const tdm_ir_node *first; /* first node in the lowered graph */
  const tdm_ir_node *last;
  int64_t parameters; /* number of those that no row above reads */
  uint64_t bytes;     /* size of its nodes' results in a run */
  double ns;          /* negative: not measured */
  char devices[DEVICES_TEXT];
} row;

typedef struct summary {
  const tdm_summary_source *source;
  const tdm_plan *plan;
  tdm_graph lowered;
  row *rows;
  size_t count;
  tdm_map paths;        /* maps a path to its row */
  bool *counted;        /* per value of the lowered graph: a row contains its parameters */
  uint64_t state_bytes; /* size of parameters and states that the plan reads */
  double transfer_ns, rest_ns;
  bool measured;
} summary;

/* ---- Rows ------------------------------------------------------------------------------------ */

static row *find_row(const summary *it, const char *path) {
  return tdm_map_get(&it->paths, path);
}

/* Counts the parameters that the node reads and no row above does. */
static int64_t count_parameters(summary *it, const tdm_ir_node *node) {
  const tdm_graph *graph = &it->lowered;
  int64_t sum = 0;
  for (uint32_t k = 0; k < node->input_count; k++) {
    const uint32_t index = node->inputs[k];
    const tdm_ir_value *value = tdm_ir_value_at(graph, index);
    if (!index || value->kind != TDM_VALUE_PERSISTENT || it->counted[index]) continue;
    it->counted[index] = true;
    if (value->trainable) sum += tdm_shape_count(&value->spec->shape);
  }
  return sum;
}

static tdm_status make_rows(summary *it) {
  TDM_EACH_NODE(&it->lowered, node) {
    row *found = find_row(it, node->name);
    if (!found) {
      found = &it->rows[it->count++];
      *found = (row){.first = node, .ns = -1};
      TDM_TRY(tdm_map_put(&it->paths, node->name, found));
    }
    found->last = node;
    found->parameters += count_parameters(it, node);
  }
  return TDM_OK;
}

/* ---- Data from the plan ---------------------------------------------------------------------- */

/* Returns the last row whose path equals the piece of a name, up to `end`, or is followed in it by
 * ".part"s. */
static row *row_of_piece(const summary *it, const char *piece, const char *end) {
  row *found = NULL;
  const size_t length = (size_t)(end - piece);
  for (size_t n = length; n > 0; n--) {
    if (n < length && piece[n] != '.') continue;
    row *at = tdm_map_get_part(&it->paths, piece, n);
    if (at && (!found || at > found)) found = at;
  }
  return found;
}

/* Returns the row of a node of the plan: that of its path, or of its parameter's layer. A fused
 * node, named "a+b", belongs to the row of its last member. */
static row *row_of(const summary *it, const char *name) {
  row *found = name ? find_row(it, name) : NULL;
  if (found || !name) return found;
  for (const char *piece = name; *piece;) {
    const char *end = piece + strcspn(piece, "+");
    row *at = row_of_piece(it, piece, end);
    if (at && (!found || at > found)) found = at;
    piece = *end ? end + 1 : end;
  }
  return found;
}

/* Adds the device to the row's list, once. Devices without room are shown as dots. */
static void add_device(row *found, const char *device) {
  static const char more[] = ",...";
  const size_t length = strlen(device), used = strlen(found->devices);
  for (const char *at = found->devices; (at = strstr(at, device)); at += length)
    if (at[length] == 0 || at[length] == ',') return;
  if (used >= strlen(more) && strcmp(found->devices + used - strlen(more), more) == 0) return;
  const bool fits = used + 1 + length + sizeof more <= DEVICES_TEXT;
  (void)snprintf(found->devices + used, DEVICES_TEXT - used, "%s%s", used && fits ? "," : "",
                 fits ? device : more);
}

static void add_node(summary *it, const tdm_ir_node *node) {
  const tdm_graph *graph = &it->plan->graph;
  row *found = node->operation ? row_of(it, node->name) : NULL;
  if (!found || node->role != TDM_ROLE_FORWARD) return;
  add_device(found, tdm_explain_device(it->plan, node->device));
  for (uint32_t k = 0; k < node->output_count && !node->operation->is_view; k++)
    found->bytes += tdm_ir_value_at(graph, node->first_output + k)->bytes;
}

static void add_time(summary *it, size_t step) {
  const uint32_t index = it->plan->lowered.sources[step].node;
  const tdm_ir_node *node = tdm_ir_node_at(&it->plan->graph, index);
  const double ns = tdm_explain_measured_ns(it->plan, step);
  it->measured |= ns >= 0;
  if (ns < 0 || !tdm_plan_is_usual(it->plan, node)) return;
  row *found = node->operation ? row_of(it, node->name) : NULL;
  if (!node->operation)
    it->transfer_ns += ns;
  else if (!found)
    it->rest_ns += ns;
  else
    found->ns = found->ns < 0 ? ns : found->ns + ns;
}

/* A value without its own node was fused into its reader, or is a part of it. */
static void follow_readers(summary *it) {
  const tdm_graph *graph = &it->lowered;
  TDM_EACH_NODE_BACKWARD(graph, node) {
    const row *reader = find_row(it, node->name);
    for (uint32_t k = 0; reader && k < node->input_count; k++) {
      const tdm_ir_node *producer = tdm_producer(graph, node->inputs[k]);
      row *found = producer ? find_row(it, producer->name) : NULL;
      if (found && !*found->devices) memcpy(found->devices, reader->devices, DEVICES_TEXT);
    }
  }
}

static void read_plan(summary *it) {
  const tdm_graph *graph = &it->plan->graph;
  TDM_EACH_NODE(graph, node)
    add_node(it, node);
  for (size_t s = 0; s < it->plan->lowered.schedule.step_count; s++)
    add_time(it, s);
  follow_readers(it);
  for (size_t i = 0; i < graph->persistents.count; i++)
    it->state_bytes += tdm_ir_value_at(graph, graph->persistents.items[i].value)->bytes;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void put_time(char *text, double ns) {
  if (ns < 0)
    (void)snprintf(text, COLUMN, "-");
  else
    (void)snprintf(text, COLUMN, "%.1f us", ns / 1000);
}

typedef char cells[COLUMNS][2 * TDM_SHAPE_TEXT];

static const char *const titles[COLUMNS] = {"layer",      "device", "output",
                                            "parameters", "bytes",  "time"};

static void put_row(const summary *it, const row *of, cells text) {
  const tdm_spec spec = *tdm_ir_value_at(&it->lowered, of->last->first_output)->spec;
  const tdm_ir_node *described = tdm_ir_node_at(it->source->graph, of->last->described);
  char shape[TDM_SHAPE_TEXT];
  (void)snprintf(text[0], sizeof text[0], "%s (%s)", of->first->name, described->operation->name);
  (void)snprintf(text[1], sizeof text[1], "%s", of->devices);
  (void)snprintf(text[2], sizeof text[2], "%s %s", tdm_dtype_name(spec.dtype),
                 tdm_shape_text(&spec.shape, shape, sizeof shape));
  (void)snprintf(text[3], sizeof text[3], "%" PRId64, of->parameters);
  (void)tdm_bytes_text(of->bytes, text[4]);
  put_time(text[5], of->ns);
}

static void widen(size_t widths[COLUMNS], cells text) {
  for (int c = 0; c < COLUMNS; c++)
    if (strlen(text[c]) > widths[c]) widths[c] = strlen(text[c]);
}

/* Aligns words to the left and numbers to the right. */
static void print_cells(FILE *out, const size_t widths[COLUMNS], cells text) {
  for (int c = 0; c < COLUMNS; c++)
    fprintf(out, "%s%*s", c ? "  " : "", c < 3 ? -(int)widths[c] : (int)widths[c], text[c]);
  fputc('\n', out);
}

static void print_totals(const summary *it, FILE *out) {
  char text[4][COLUMN];
  int64_t parameters = 0;
  uint64_t bytes = 0;
  double ns = it->rest_ns + it->transfer_ns;
  const tdm_traffic *moved = &it->plan->traffic;
  for (size_t i = 0; i < it->count; i++) {
    parameters += it->rows[i].parameters;
    bytes += it->rows[i].bytes;
    if (it->rows[i].ns > 0) ns += it->rows[i].ns;
  }
  (void)tdm_bytes_text(it->state_bytes, text[0]);
  (void)tdm_bytes_text(bytes, text[1]);
  (void)tdm_bytes_text(moved->edge_bytes + moved->boundary_bytes + moved->refresh_bytes, text[2]);
  put_time(text[3], it->measured ? ns : -1);
  fprintf(out, "parameters: %" PRId64 "; with all states %s\n", parameters, text[0]);
  fprintf(out, "a run%s makes %s forward, transfers %s", it->plan->training ? " that trains" : "",
          text[1], text[2]);
  if (it->measured) {
    put_time(text[0], it->transfer_ns);
    put_time(text[1], it->rest_ns);
    fprintf(out, "; %s on all queues, transfers %s and other work %s of them", text[3], text[0],
            text[1]);
  }
  fputc('\n', out);
}

static void print_table(const summary *it, FILE *out) {
  size_t widths[COLUMNS] = {0};
  cells head, text;
  size_t line = 2 * (COLUMNS - 1);
  for (int c = 0; c < COLUMNS; c++)
    (void)snprintf(head[c], sizeof head[c], "%s", titles[c]);
  widen(widths, head);
  for (size_t i = 0; i < it->count; i++) {
    put_row(it, &it->rows[i], text);
    widen(widths, text);
  }
  for (int c = 0; c < COLUMNS; c++)
    line += widths[c];
  print_cells(out, widths, head);
  for (size_t i = 0; i < line; i++)
    fputc('-', out);
  fputc('\n', out);
  for (size_t i = 0; i < it->count; i++) {
    put_row(it, &it->rows[i], text);
    print_cells(out, widths, text);
  }
  for (size_t i = 0; i < line; i++)
    fputc('-', out);
  fputc('\n', out);
  print_totals(it, out);
}

static tdm_status lower(summary *it) {
  const tdm_summary_source *source = it->source;
  const tdm_lowering lowering = {.source = source->graph,
                                 .feeds = source->feeds,
                                 .targets = source->targets,
                                 .target_count = source->target_count,
                                 .training = it->plan->training,
                                 .keeps_whole = it->plan->whole_reason != NULL};
  return tdm_lower(&lowering, &it->lowered);
}

static tdm_status fill(summary *it) {
  const tdm_allocator *allocator = it->source->graph->allocator;
  TDM_TRY(lower(it));
  it->rows = tdm_allocate(allocator, it->lowered.nodes.count * sizeof *it->rows, "summary");
  it->counted = tdm_allocate(allocator, it->lowered.values.count, "summary");
  if (!it->rows || !it->counted) return TDM_OUT_OF_MEMORY;
  TDM_TRY(make_rows(it));
  read_plan(it);
  return TDM_OK;
}

tdm_status tdm_summary_print(const tdm_summary_source *source, const tdm_plan *plan, FILE *out) {
  const tdm_allocator *allocator = source->graph->allocator;
  summary it = {.source = source, .plan = plan};
  tdm_map_init(&it.paths, allocator);
  tdm_status status = tdm_graph_init(&it.lowered, source->graph->context);
  if (status == TDM_OK) status = fill(&it);
  if (status == TDM_OK) print_table(&it, out);
  tdm_map_deinit(&it.paths);
  tdm_release(allocator, it.rows, it.lowered.nodes.count * sizeof *it.rows);
  tdm_release(allocator, it.counted, it.lowered.values.count);
  tdm_graph_deinit(&it.lowered);
  return status;
}
