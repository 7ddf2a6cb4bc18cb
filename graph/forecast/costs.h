/* Kernel times: measured times by (device class, operation, attributes, operands), and times of
 * described devices from their rates of computing and streaming. Invariant: an entry was measured,
 * here or by the author of its file. Nothing is extrapolated from another shape. */
#ifndef TANDEM_GRAPH_FORECAST_COSTS_H
#define TANDEM_GRAPH_FORECAST_COSTS_H

#include "core/map.h"
#include "devices/machine/machine.h"
#include "graph/plan/plan.h"
#include "tandem/graph/forecasts.h"

typedef struct tdm_cost {
  double alone_ns;   /* time in ns without other computation on the same memory; 0: not measured */
  double crowded_ns; /* time in ns with all neighbours computing as well; 0: not measured */
} tdm_cost;

typedef struct tdm_cost_entry {
  char *key;          /* owned: device class, end of line, the kernel's text */
  size_t class_bytes; /* bytes of the class; it may contain spaces, like models of devices */
  tdm_cost cost;
  struct tdm_cost_entry *next; /* next entry in the order of creation */
} tdm_cost_entry;

struct tdm_costs {
  tdm_context *context; /* retained */
  const tdm_allocator *allocator;
  tdm_map entries;
  tdm_cost_entry *first;
  tdm_cost_entry *last;
};

#define TDM_COST_KEY 2048 /* size that every key fits in; longer ones are cut */
enum { TDM_COST_CLASS = 64 };

/* Returns "cpu/1", the kind and team of a device of this machine, or the model of a described
 * device. On a described machine cpu:0 represents that machine's host. text has TDM_COST_CLASS
 * bytes. */
const char *tdm_cost_class(const tdm_device *device, char *text);
/* Returns "linear#0(float32[4, 8], ...) -> (...)", or "copy(1024 bytes)" for a copy on one
 * device. */
const char *tdm_cost_kernel(const tdm_graph *graph, const tdm_ir_node *node, char *text,
                            size_t capacity);
/* Returns the cost of a kernel, or zeros if there is none. */
tdm_cost tdm_costs_find(const tdm_costs *costs, const char *class_name, const char *kernel);
/* Sets the members that are not 0 in cost. */
tdm_status tdm_costs_put(tdm_costs *costs, const char *class_name, const char *kernel,
                         tdm_cost cost) TDM_WARN_UNUSED;

/* Gets a node's work from its operation; for a copy on one device, every byte. Fails with
 * UNSUPPORTED, naming the operation, if an operation, or a member of a fused node, does not
 * describe its work. */
tdm_status tdm_work_of(const tdm_graph *graph, const tdm_ir_node *node,
                       tdm_work *out_work) TDM_WARN_UNUSED;
/* Predicts the time on a described processor: launch, plus the longer of computing at its rate and
 * streaming what is read and written once (the roofline model: Williams, Waterman, Patterson, CACM
 * 52(4), 2009). Fails with UNSUPPORTED, naming it, for an operation of unknown work and for a dtype
 * without a described rate. */
tdm_status tdm_roofline_ns(const tdm_machine_processor *processor, const tdm_graph *graph,
                           const tdm_ir_node *node, double *out_ns) TDM_WARN_UNUSED;

#endif
