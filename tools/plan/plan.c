/* See plan.h. */
#include "tools/plan/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_load.h"
#include "graph/report/page.h"
#include "graph/report/picture.h"
#include "tools/draw/draw.h"

enum { MOST_BYTES = 1 << 30, MOST_TRANSFERS = 12 };

typedef struct options {
  tool_options common;
  const char *path;
  bool dot;
  bool svg;
  bool html;
  bool json;
} options;

#define FIELD(name) offsetof(options, name)
static const option rows[] = {
    {"--dot", NULL, "print a graph for graphviz", OPTION_FLAG, FIELD(dot), 0, 0, 0, NULL},
    {"--svg", NULL, "print an SVG picture (requires graphviz)", OPTION_FLAG, FIELD(svg), 0, 0, 0,
     NULL},
    {"--html", NULL, "print a self-contained HTML page", OPTION_FLAG, FIELD(html), 0, 0, 0, NULL},
    {"--json", NULL, "print the summary as JSON, in nanoseconds and bytes", OPTION_FLAG,
     FIELD(json), 0, 0, 0, NULL},
};
static const option file_operand = {"FILE", NULL, NULL, OPTION_TEXT, FIELD(path), 0, 0, 0, NULL};
static const options defaults = {.path = NULL};
static tdm_status check(const void *read) {
  const options *given = read;
  if (given->dot + given->svg + given->html + given->json > 1)
    return tdm_fail(TDM_INVALID_ARGUMENT, "--dot, --svg, --html and --json: one at a time");
  return TDM_OK;
}

static const option_table table = {
    .program = "tandem plan",
    .about =
        "Prints the devices and transfers of a plan that tdm_session_explain (TDM_PLAN_JSON) or\n"
        "the option --plan of an example wrote, or draws the plan on stdout.",
    OPTION_DEFAULTS(defaults),
    OPTION_ROWS(rows),
    .operand = &file_operand,
    .below = &tool_table,
    .check = check,
};

/* ---- As text --------------------------------------------------------------------------------- */

/* Totals of the nodes on one device. */
typedef struct tally {
  uint32_t kernels;
  uint32_t updates;
  uint32_t transfers; /* number of transfers to the device */
  uint64_t bytes;
  double measured_ns;
} tally;

static double known_ns(const tdm_picture_node *node) {
  if (node->measured_ns >= 0) return node->measured_ns;
  return node->predicted_ns > 0 ? node->predicted_ns : 0;
}

static tally count(const tdm_picture *picture, const char *device) {
  tally all = {.kernels = 0};
  for (uint32_t i = 0; i < picture->node_count; i++) {
    const tdm_picture_node *node = &picture->nodes[i];
    if (strcmp(node->device, device) != 0 || node->unusual) continue;
    all.kernels += !node->route && !node->update;
    all.updates += node->update;
    all.transfers += node->route != NULL;
    all.bytes += node->route ? node->bytes : 0;
    all.measured_ns += node->route ? 0 : known_ns(node);
  }
  return all;
}

static bool is_first_of_device(const tdm_picture *picture, uint32_t index) {
  for (uint32_t i = 0; i < index; i++)
    if (strcmp(picture->nodes[i].device, picture->nodes[index].device) == 0) return false;
  return true;
}

static int compare_bytes(const void *a, const void *b) {
  const tdm_picture_node *x = *(const tdm_picture_node *const *)a;
  const tdm_picture_node *y = *(const tdm_picture_node *const *)b;
  return x->bytes == y->bytes ? strcmp(x->cause, y->cause) : (x->bytes < y->bytes ? 1 : -1);
}

/* Lists the transfers of a step, the largest first, in the picture's region. */
static tdm_status list_transfers(tdm_picture *picture, const tdm_picture_node ***out_list,
                                 uint32_t *out_count) {
  const tdm_picture_node **list = tdm_region_take(
      &picture->region, (picture->node_count + 1) * sizeof *list, "a list of transfers");
  if (!list) return TDM_OUT_OF_MEMORY;
  uint32_t found = 0;
  for (uint32_t i = 0; i < picture->node_count; i++)
    if (picture->nodes[i].route && picture->nodes[i].cause && !picture->nodes[i].unusual)
      list[found++] = &picture->nodes[i];
  qsort(list, found, sizeof *list, compare_bytes);
  *out_list = list;
  *out_count = found;
  return TDM_OK;
}

/* Copies are refreshed when something else has written what they are of. */
static void print_unusual(const tdm_picture *picture) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < picture->node_count; i++)
    count += picture->nodes[i].route && picture->nodes[i].unusual;
  if (count > 0) printf("  besides %u that refresh copies, which consecutive steps skip\n", count);
}

static tdm_status print_transfers(tdm_picture *picture) {
  const tdm_picture_node **list;
  uint32_t found;
  TDM_TRY(list_transfers(picture, &list, &found));
  printf("\n  %12s %12s  %-8s %-14s %s\n", "bytes", "us", "to", "route", "cause");
  for (uint32_t i = 0; i < found && i < MOST_TRANSFERS; i++) {
    char bytes[TDM_BYTES_TEXT];
    printf("  %12s %12.1f  %-8s %-14s %s\n", tdm_bytes_text(list[i]->bytes, bytes),
           known_ns(list[i]) / 1000, list[i]->device, list[i]->route, list[i]->cause);
  }
  if (found > MOST_TRANSFERS) printf("  and %u smaller ones\n", found - MOST_TRANSFERS);
  print_unusual(picture);
  return TDM_OK;
}

static tdm_status print_text(tdm_picture *picture) {
  printf("%s: %u commands\n\n", picture->training ? "a training step" : "a run",
         picture->node_count);
  printf("  %-10s %8s %8s %10s %12s %12s\n", "device", "kernels", "updates", "transfers", "bytes",
         "kernels, us");
  for (uint32_t i = 0; i < picture->node_count; i++) {
    if (!is_first_of_device(picture, i)) continue;
    const tally all = count(picture, picture->nodes[i].device);
    char bytes[TDM_BYTES_TEXT];
    printf("  %-10s %8u %8u %10u %12s %12.1f\n", picture->nodes[i].device, all.kernels, all.updates,
           all.transfers, tdm_bytes_text(all.bytes, bytes), all.measured_ns / 1000);
  }
  return print_transfers(picture);
}

/* ---- As JSON --------------------------------------------------------------------------------- */

static void json_device(const tdm_picture *picture, const char *device, tdm_json_writer *out) {
  const tally all = count(picture, device);
  tdm_json_open(out, NULL, '{');
  tdm_json_put_string(out, "name", device);
  tdm_json_put_integer(out, "kernels", all.kernels);
  tdm_json_put_integer(out, "updates", all.updates);
  tdm_json_put_integer(out, "transfers", all.transfers);
  tdm_json_put_integer(out, "bytes", (int64_t)all.bytes);
  tdm_json_put_real(out, "kernels_ns", all.measured_ns);
  tdm_json_close(out, '}');
}

static void json_transfer(const tdm_picture_node *node, tdm_json_writer *out) {
  tdm_json_open(out, NULL, '{');
  tdm_json_put_string(out, "cause", node->cause);
  tdm_json_put_string(out, "to", node->device);
  tdm_json_put_string(out, "route", node->route);
  tdm_json_put_integer(out, "bytes", (int64_t)node->bytes);
  tdm_json_put_real(out, "ns", known_ns(node));
  tdm_json_put_bool(out, "measured", node->measured_ns >= 0);
  tdm_json_close(out, '}');
}

static tdm_status print_json(tdm_picture *picture) {
  const tdm_picture_node **list;
  uint32_t found;
  TDM_TRY(list_transfers(picture, &list, &found));
  tdm_json_writer out;
  tool_json_begin(&out);
  tdm_json_put_bool(&out, "training", picture->training);
  tdm_json_put_integer(&out, "commands", picture->node_count);
  tdm_json_open(&out, "devices", '[');
  for (uint32_t i = 0; i < picture->node_count; i++)
    if (is_first_of_device(picture, i)) json_device(picture, picture->nodes[i].device, &out);
  tdm_json_close(&out, ']');
  tdm_json_open(&out, "transfers", '[');
  for (uint32_t i = 0; i < found; i++)
    json_transfer(list[i], &out);
  tdm_json_close(&out, ']');
  return tool_json_end(&out);
}

/* ---- As a picture ---------------------------------------------------------------------------- */

static tdm_status write_svg(tdm_picture *picture) {
  FILE *graph = tmpfile();
  if (!graph) return tdm_fail(TDM_IO, "a picture: %s", strerror(errno));
  tdm_status status = tdm_picture_dot(picture, graph);
  if (status == TDM_OK) status = draw(&dot_drawer, "--svg", graph);
  (void)fclose(graph);
  return status;
}

static tdm_status write_html(const json_t *root) {
  char *json = json_dumps(root, JSON_COMPACT);
  if (!json) return tdm_fail(TDM_OUT_OF_MEMORY, "a page: no memory");
  tdm_page_begin(stdout);
  tdm_page_put(stdout, TDM_PAGE_PLAN, json, strlen(json));
  tdm_page_end(stdout);
  free(json);
  return TDM_OK;
}

/* ---- The command ----------------------------------------------------------------------------- */

static tdm_status tell(const options *given, const json_t *root, tdm_picture *picture) {
  if (given->dot) return tdm_picture_dot(picture, stdout);
  if (given->svg) return write_svg(picture);
  if (given->html) return write_html(root);
  if (given->json) return print_json(picture);
  return print_text(picture);
}

static tdm_status show(const options *given) {
  const tdm_allocator allocator = tdm_allocator_default();
  json_t *root = NULL;
  TDM_TRY(tdm_json_load_file(&allocator, "plan", given->path, MOST_BYTES, &root));
  tdm_picture picture;
  tdm_status status = tdm_picture_read(root, given->path, &allocator, &picture);
  if (status == TDM_OK) status = tell(given, root, &picture);
  tdm_picture_deinit(&picture);
  json_decref(root);
  return status;
}

static int run(const void *given) {
  return tool_ended(&plan_tool, show(given));
}

const tool plan_tool = {"plan", "Print or draw a saved plan", &table, run};
