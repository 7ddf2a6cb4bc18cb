/* A drawing of a plan: its commands with their inputs and outputs, created from a plan or from its
 * JSON. Invariant: everything that it points to is in its region or in the plan. */
#ifndef TANDEM_GRAPH_REPORT_PICTURE_H
#define TANDEM_GRAPH_REPORT_PICTURE_H

#include <jansson.h>
#include <stdio.h>

#include "core/allocate.h"
#include "graph/plan/plan.h"

typedef struct tdm_picture_node {
  const char *name;   /* path */
  const char *action; /* "linear", "fused of relu, mul", "transfer" */
  const char *device;
  const char *result;  /* "float32 [3, 4]" */
  const char *route;   /* "direct" or another route of a transfer; otherwise NULL */
  const char *cause;   /* cause of a transfer; otherwise NULL */
  uint64_t bytes;      /* size of its first result */
  double predicted_ns; /* here and below negative if unknown */
  double measured_ns;
  bool update;
  bool unusual; /* a run skips it after another run of the same plan */
  uint32_t read_count;
  uint32_t make_count;
  const uint32_t *reads; /* values, below value_count; 0: none */
  const uint32_t *makes;
} tdm_picture_node;

typedef struct tdm_picture_source {
  uint32_t value;
  const char *name;
} tdm_picture_source;

typedef struct tdm_picture {
  tdm_region region;
  bool training;
  tdm_picture_node *nodes;
  uint32_t node_count;
  tdm_picture_source *sources; /* values that no node computes: inputs, parameters, states */
  uint32_t source_count;
  uint32_t value_count;
} tdm_picture;

/* The caller deinits *out_picture, also after a failure. */
tdm_status tdm_picture_of_plan(const tdm_plan *plan, tdm_picture *out_picture) TDM_WARN_UNUSED;
/* Reads a picture from root, the output of TDM_PLAN_JSON. Fails with CORRUPT_DATA, naming source,
 * if it is something else. */
tdm_status tdm_picture_read(const json_t *root, const char *source, const tdm_allocator *allocator,
                            tdm_picture *out_picture) TDM_WARN_UNUSED;
void tdm_picture_deinit(tdm_picture *picture);

/* Prints a Graphviz graph: each device has a cluster and a colour. Transfers are boxes on the
 * edges, with bytes and times (measured or else predicted). All updates of a device are one
 * node. */
tdm_status tdm_picture_dot(tdm_picture *picture, FILE *out) TDM_WARN_UNUSED;

/* Writes "288.0 KiB" to text. */
enum { TDM_BYTES_TEXT = 32 };
const char *tdm_bytes_text(uint64_t bytes, char text[TDM_BYTES_TEXT]);

#endif
