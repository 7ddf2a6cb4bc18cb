/* Prints a graph for its author. Invariant: each node has one line. Each parameter is counted once,
 * at the first node that reads it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "graph/ir/ir.h"

/* Returns the length of the path's scopes, including the last '/'. */
static size_t scope_length(const char *path) {
  const char *last = strrchr(path, '/');
  return last ? (size_t)(last - path) + 1 : 0;
}

/* Returns the length of the scopes that the path shares with the previous one. */
static size_t common_scopes(const char *path, const char *before) {
  size_t common = 0;
  for (size_t i = 0; path[i] && path[i] == before[i]; i++)
    if (path[i] == '/') common = i + 1;
  return common;
}

static void indent(FILE *out, int depth) {
  for (int i = 0; i <= depth; i++)
    fputs("  ", out);
}

/* Prints the titles of scopes that begin with this path. Returns the depth of the path. */
static int print_scopes(FILE *out, const char *path, const char *before) {
  const size_t common = common_scopes(path, before);
  const size_t length = scope_length(path);
  int depth = 0;
  for (size_t begin = 0; begin < length;) {
    const size_t end = begin + strcspn(path + begin, "/");
    if (end >= common) {
      indent(out, depth);
      fprintf(out, "(%.*s):\n", (int)(end - begin), path + begin);
    }
    depth++;
    begin = end + 1;
  }
  return depth;
}

/* Counts the elements of parameters that the node reads first. */
static int64_t count_parameters(const tdm_graph *graph, const tdm_ir_node *node, bool *counted) {
  int64_t sum = 0;
  for (uint32_t k = 0; k < node->input_count; k++) {
    const uint32_t index = node->inputs[k];
    const tdm_ir_value *value = tdm_ir_value_at(graph, index);
    if (!index || value->kind != TDM_VALUE_PERSISTENT || !value->trainable || counted[index])
      continue;
    counted[index] = true;
    sum += tdm_shape_count(&value->spec->shape);
  }
  return sum;
}

static void print_node(FILE *out, const tdm_graph *graph, const tdm_ir_node *node, int depth,
                       int64_t parameters) {
  const tdm_spec *spec = tdm_ir_value_at(graph, node->first_output)->spec;
  char shape[TDM_SHAPE_TEXT];
  indent(out, depth);
  fprintf(out, "(%s): %s -> %s %s", node->name + scope_length(node->name), node->operation->name,
          tdm_dtype_name(spec->dtype), tdm_shape_text(&spec->shape, shape, sizeof shape));
  if (node->wanted)
    fprintf(out, ", on %s", tdm_context_device(graph->context, node->wanted - 1u)->name);
  if (parameters > 0)
    fprintf(out, ", %" PRId64 " parameter%s", parameters, parameters == 1 ? "" : "s");
  fputc('\n', out);
}

tdm_status tdm_graph_print(const tdm_graph *graph, FILE *out) {
  if (!graph || !out) return tdm_fail_null("tdm_graph_print: the graph or the file");
  TDM_TRY(tdm_graph_status(graph));
  const size_t bytes = graph->values.count * sizeof(bool);
  bool *counted = tdm_allocate(graph->allocator, bytes, "the parameters that were counted");
  if (!counted) return TDM_OUT_OF_MEMORY;
  const char *before = "";
  int64_t sum = 0;
  TDM_EACH_NODE(graph, node) {
    const int depth = print_scopes(out, node->name, before);
    const int64_t parameters = count_parameters(graph, node, counted);
    print_node(out, graph, node, depth, parameters);
    sum += parameters;
    before = node->name;
  }
  fprintf(out, "  %" PRId64 " parameter%s\n", sum, sum == 1 ? "" : "s");
  tdm_release(graph->allocator, counted, bytes);
  return ferror(out) ? tdm_fail(TDM_IO, "tdm_graph_print: the file cannot be written") : TDM_OK;
}
