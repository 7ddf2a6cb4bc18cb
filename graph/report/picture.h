/* What is drawn of a plan: its commands with what they read and make, made from a plan or from the
 * JSON of one. Invariant: all that it points to lies in its region, or in the plan. */
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
  const char *route;   /* of transfers "direct", ...; NULL: it is none */
  const char *cause;   /* of transfers */
  uint64_t bytes;      /* of its first result */
  double predicted_ns; /* negative: not known, here and below */
  double measured_ns;
  bool update;
  bool unusual; /* a run behind one like it passes it over */
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
  tdm_picture_source *sources; /* what no node makes: what is fed, parameters, states */
  uint32_t source_count;
  uint32_t value_count;
} tdm_picture;

/* The caller deinits *out_picture, also after a failure. */
tdm_status tdm_picture_of_plan(const tdm_plan *plan, tdm_picture *out_picture) TDM_WARN_UNUSED;
/* root is what TDM_PLAN_JSON wrote; CORRUPT_DATA names source where it is something else. */
tdm_status tdm_picture_read(const json_t *root, const char *source, const tdm_allocator *allocator,
                            tdm_picture *out_picture) TDM_WARN_UNUSED;
void tdm_picture_deinit(tdm_picture *picture);

/* As a Graphviz graph: a cluster and a colour a device; transfers are boxes on the edges, with
 * bytes and times (measured, else predicted); the updates of a device are one node. */
tdm_status tdm_picture_dot(tdm_picture *picture, FILE *out) TDM_WARN_UNUSED;

/* "288.0 KiB"; text gets it. */
enum { TDM_BYTES_TEXT = 32 };
const char *tdm_bytes_text(uint64_t bytes, char text[TDM_BYTES_TEXT]);

#endif
