/* What kernels take: measured times by (device class, operation, attributes, operands), and for
 * devices that are described by how fast they compute and stream. Invariant: an entry was measured,
 * here or by whoever wrote the file it came from; nothing is guessed from another shape. */
#ifndef TANDEM_GRAPH_FORECAST_COSTS_H
#define TANDEM_GRAPH_FORECAST_COSTS_H

#include "core/map.h"
#include "devices/machine/machine.h"
#include "graph/plan/plan.h"
#include "tandem/graph/forecasts.h"

typedef struct tdm_cost {
  double alone_ns;   /* nobody else computed in the memory's neighbourhood; 0: not measured */
  double crowded_ns; /* every neighbour computed as well; 0: not measured */
} tdm_cost;

typedef struct tdm_cost_entry {
  char *key;          /* owned: device class, the end of a line, the kernel's text */
  size_t class_bytes; /* of these the first; a class may have spaces, as models of devices do */
  tdm_cost cost;
  struct tdm_cost_entry *next; /* in the order of their making */
} tdm_cost_entry;

struct tdm_costs {
  tdm_context *context; /* retained */
  const tdm_allocator *allocator;
  tdm_map entries;
  tdm_cost_entry *first;
  tdm_cost_entry *last;
};

#define TDM_COST_KEY 2048 /* bytes that every key fits in, cut otherwise */
enum { TDM_COST_CLASS = 64 };

/* "cpu/1": kind and team of a device that is here; the model of one that is described. What cpu:0
 * stands for on a described machine is that machine's host. text has TDM_COST_CLASS bytes. */
const char *tdm_cost_class(const tdm_device *device, char *text);
/* "linear#0(float32[4, 8], ...) -> (...)"; of a copy on one device "copy(1024 bytes)". */
const char *tdm_cost_kernel(const tdm_graph *graph, const tdm_ir_node *node, char *text,
                            size_t capacity);
/* Zeros when there is none. */
tdm_cost tdm_costs_find(const tdm_costs *costs, const char *class_name, const char *kernel);
/* Sets what is not 0 in cost. */
tdm_status tdm_costs_put(tdm_costs *costs, const char *class_name, const char *kernel,
                         tdm_cost cost) TDM_WARN_UNUSED;

/* What the node's operation says of its work; of a copy on one device, every byte. UNSUPPORTED,
 * naming it, for an operation that says nothing; of a fused node, for a member's. */
tdm_status tdm_work_of(const tdm_graph *graph, const tdm_ir_node *node,
                       tdm_work *out_work) TDM_WARN_UNUSED;
/* By a described processor: launch, and the longer of computing at its rate and streaming what is
 * read and written once (the roofline model: Williams, Waterman, Patterson, CACM 52(4), 2009).
 * UNSUPPORTED, naming it, for work that is not known, and for dtypes that the description has no
 * rate for. */
tdm_status tdm_roofline_ns(const tdm_machine_processor *processor, const tdm_graph *graph,
                           const tdm_ir_node *node, double *out_ns) TDM_WARN_UNUSED;

#endif
