/* A timeline records which commands of which runs were executed when, on which row (a queue of a
 * device), and can be summarized. It is independent of plans and queues, so that tests can build
 * one. Invariant of a sorted one: runs are ordered by number, and events by row, then by time.
 * Events on a row do not overlap. An event's wait is between the end of the preceding event and its
 * begin. */
#ifndef TANDEM_GRAPH_REPORT_TIMELINE_H
#define TANDEM_GRAPH_REPORT_TIMELINE_H

#include <stdio.h>

#include "core/allocate.h"
#include "core/status.h"

#define TDM_TIMELINE_NONE UINT32_MAX

typedef struct tdm_timeline_row {
  const char *device; /* "cpu:0" */
  const char *queue;  /* "compute" */
  const char *shares; /* devices on the same cores, "cpu:0, sim:1"; NULL or "": none */
  uint32_t process;   /* number of the device, below device_count */
  uint32_t thread;    /* number of the queue among all queues of the context */
} tdm_timeline_row;

/* A command of a plan. */
typedef struct tdm_timeline_node {
  const char *name;     /* path of the node */
  const char *action;   /* "linear", "transfer" */
  const char *category; /* "kernel", "transfer", "update" */
  uint32_t row;
  bool last_phase; /* runs after all nodes of the run that are not of this phase */
  uint32_t dependency_count;
  const uint32_t *dependencies; /* nodes of the plan whose results it reads */
  uint32_t wait_count;
  const uint32_t *waits; /* nodes of other rows that its queue waits for before it */
  uint32_t previous_wait_count;
  const uint32_t *previous_waits; /* the same, of the plan's preceding run if that is in flight */
  uint64_t bytes; /* bytes of a transfer; 0 for kernels, whose remaining fields are NULL */
  const char *from;               /* device */
  const char *to;
  const char *cause;
  const char *route;
  const char *memory;
} tdm_timeline_node;

typedef struct tdm_timeline_plan {
  const void *key; /* identifies the plan while a timeline is built */
  bool training;
  uint32_t node_count;
  tdm_timeline_node *nodes;
} tdm_timeline_plan;

typedef struct tdm_timeline_event {
  uint32_t run;  /* index in runs */
  uint32_t node; /* index in the run's plan */
  uint32_t row;
  bool failed;
  uint64_t wait_ns; /* the queue waited from here to begin_ns; 0: it did not */
  uint64_t begin_ns;
  uint64_t end_ns;
  uint64_t core_wait_ns; /* part in which a copy waited for a core; no time of a link */
} tdm_timeline_event;

typedef struct tdm_timeline_run {
  uint64_t number;
  uint32_t plan; /* index in plans */
  int slot;
  uint64_t asked_ns;
  uint64_t launched_ns;
  uint64_t updating_ns; /* 0: no separate update phase */
  uint64_t ended_ns;
  tdm_status status;
  const char *message; /* "" when status is TDM_OK */
  uint32_t *event_of;  /* per node of the plan: index in events, NONE: not executed; set by sort */
} tdm_timeline_run;

typedef struct tdm_timeline {
  tdm_region region; /* owns everything that the lists below point to */
  uint32_t device_count;
  tdm_timeline_row *rows;
  uint32_t row_count;
  tdm_timeline_plan *plans;
  uint32_t plan_count;
  tdm_timeline_run *runs;
  uint32_t run_count;
  tdm_timeline_event *events;
  uint32_t event_count;
} tdm_timeline;

void tdm_timeline_init(tdm_timeline *timeline, const tdm_allocator *allocator);
void tdm_timeline_deinit(tdm_timeline *timeline);
/* Establishes the invariant above. The lists are filled, except event_of. */
tdm_status tdm_timeline_sort(tdm_timeline *timeline) TDM_WARN_UNUSED;

static inline const tdm_timeline_node *tdm_timeline_node_of(const tdm_timeline *timeline,
                                                            const tdm_timeline_event *event) {
  return &timeline->plans[timeline->runs[event->run].plan].nodes[event->node];
}

/* Returns for how long the event kept its device or its link busy. */
static inline uint64_t tdm_timeline_busy_ns(const tdm_timeline_event *event) {
  return event->end_ns - event->begin_ns - event->core_wait_ns;
}

/* ---- The critical path (timeline_path.c) ----------------------------------------------------- */

/* The path from the first event to the one that ends last. The predecessor of an event is the
 * latest to end among the events that it depends on, waits for, or follows on its row. If its run
 * had to wait before its launch, the last event of the run that ended then is a candidate, too. */
typedef struct tdm_timeline_path {
  uint32_t *events; /* (count), first to last */
  uint32_t count;
  uint64_t busy_ns;    /* inside the events */
  uint64_t core_ns;    /* inside them, while copies waited for a core */
  uint64_t handing_ns; /* time between an event's end and the next one's begin */
  uint64_t caller_ns;  /* part of handing_ns while the next run was not submitted yet */
} tdm_timeline_path;
tdm_status tdm_timeline_find_path(tdm_timeline *timeline,
                                  tdm_timeline_path *out_path) TDM_WARN_UNUSED;

/* ---- The summary (timeline_summary.c) -------------------------------------------------------- */

/* Times in ns, between the first begin of an event and the last end. */
typedef struct tdm_timeline_summary {
  uint64_t begin_ns;
  uint64_t end_ns;
  uint32_t failed_runs;
  uint64_t *row_busy;    /* (row_count) inside events */
  uint64_t *row_wait;    /* (row_count) in waits */
  uint32_t *row_events;  /* (row_count) */
  uint64_t *device_busy; /* (device_count): time in ns in which some row of the device is busy */
  uint64_t any_busy;     /* time in ns in which at least one device is busy */
  uint64_t overlap;      /* time in ns in which at least two devices are busy */
  tdm_timeline_path path;
  uint64_t *row_path;  /* (row_count) time of the path inside events of the row */
  uint32_t bound_row;  /* the row with most of that; NONE without events */
  uint32_t bound_node; /* node of bound_plan: together with nodes of its name and action in other
                        * plans it has the largest part of bound_row's path, bound_node_ns */
  uint32_t bound_plan;
  uint64_t bound_node_ns;
} tdm_timeline_summary;
/* Summarizes a sorted timeline; lists are in its region. */
tdm_status tdm_timeline_summarize(tdm_timeline *timeline,
                                  tdm_timeline_summary *out_summary) TDM_WARN_UNUSED;

/* ---- Printing -------------------------------------------------------------------------------- */

tdm_status tdm_timeline_text(tdm_timeline *timeline, FILE *out) TDM_WARN_UNUSED;
/* The events of one command, or of one link. */
typedef struct tdm_timeline_share {
  const tdm_timeline_node *node; /* node of the first event */
  const tdm_timeline_row *row;
  uint64_t busy_ns;
  uint64_t bytes;
  uint32_t count;
} tdm_timeline_share;
/* Lists the shares of a sorted timeline, largest first: by name, action and queue; or, with links,
 * transfers by source and destination. The list is in its region. */
tdm_status tdm_timeline_share_out(tdm_timeline *timeline, bool links,
                                  const tdm_timeline_share *const **out_list,
                                  uint32_t *out_count) TDM_WARN_UNUSED;
/* Prints the nodes with most of the commands' time, and the bytes of every link
 * (timeline_shares.c). */
tdm_status tdm_timeline_print_shares(tdm_timeline *timeline, FILE *out) TDM_WARN_UNUSED;
/* Begins the label in JSON of a device that shares its cores; the devices follow. */
#define TDM_TIMELINE_SHARES "shares its cores with "
tdm_status tdm_timeline_json(const tdm_timeline *timeline, FILE *out) TDM_WARN_UNUSED;

#endif
