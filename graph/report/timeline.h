/* A timeline: what commands of which runs were executed when, on which row (a queue of a device),
 * and what can be told of that. Knows no plan and no queue, so that one can be made by hand.
 * Invariant of a sorted one: runs by number, events by row, then by time; on a row they do not
 * overlap, and an event's wait lies between the end of the event before it and its begin. */
#ifndef TANDEM_GRAPH_REPORT_TIMELINE_H
#define TANDEM_GRAPH_REPORT_TIMELINE_H

#include <stdio.h>

#include "core/allocate.h"
#include "core/status.h"

#define TDM_TIMELINE_NONE UINT32_MAX

typedef struct tdm_timeline_row {
  const char *device; /* "cpu:0" */
  const char *queue;  /* "compute" */
  const char *shares; /* devices on the same cores, "cpu:0, sim:1"; NULL or "": there are none */
  uint32_t process;   /* number of the device, below device_count */
  uint32_t thread;    /* number of the queue among all of the context */
} tdm_timeline_row;

/* A command of a plan. */
typedef struct tdm_timeline_node {
  const char *name;     /* path of the node */
  const char *action;   /* "linear", "transfer" */
  const char *category; /* "kernel", "transfer", "update" */
  uint32_t row;
  bool last_phase; /* follows every node of its run that is not of this phase */
  uint32_t dependency_count;
  const uint32_t *dependencies; /* nodes of the plan whose results it reads */
  uint32_t wait_count;
  const uint32_t *waits; /* nodes of other rows that its queue waits for before it */
  uint32_t previous_wait_count;
  const uint32_t *previous_waits; /* the same of the plan's run before, where that is in flight */
  uint64_t bytes;                 /* of transfers; of kernels 0, and what follows is NULL */
  const char *from;               /* device */
  const char *to;
  const char *cause;
  const char *route;
  const char *memory;
} tdm_timeline_node;

typedef struct tdm_timeline_plan {
  const void *key; /* tells plans apart while a timeline is made */
  bool training;
  uint32_t node_count;
  tdm_timeline_node *nodes;
} tdm_timeline_plan;

typedef struct tdm_timeline_event {
  uint32_t run;  /* index in runs */
  uint32_t node; /* of the run's plan */
  uint32_t row;
  bool failed;
  uint64_t wait_ns; /* the queue waited from here to begin_ns; 0: it did not */
  uint64_t begin_ns;
  uint64_t end_ns;
  uint64_t core_wait_ns; /* of that, a copy waited for a core; it counts as no link's time */
} tdm_timeline_event;

typedef struct tdm_timeline_run {
  uint64_t number;
  uint32_t plan; /* index in plans */
  int slot;
  uint64_t asked_ns;
  uint64_t launched_ns;
  uint64_t updating_ns; /* 0: the update phase was not submitted apart */
  uint64_t ended_ns;
  tdm_status status;
  const char *message; /* "" when status is TDM_OK */
  uint32_t *event_of;  /* per node of the plan: index in events, NONE: not executed; by sort */
} tdm_timeline_run;

typedef struct tdm_timeline {
  tdm_region region; /* all that the lists below point to */
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
/* Establishes the invariant above; the lists are filled, event_of is not. */
tdm_status tdm_timeline_sort(tdm_timeline *timeline) TDM_WARN_UNUSED;

static inline const tdm_timeline_node *tdm_timeline_node_of(const tdm_timeline *timeline,
                                                            const tdm_timeline_event *event) {
  return &timeline->plans[timeline->runs[event->run].plan].nodes[event->node];
}

/* Returns for how long the event kept its device or its link busy. */
static inline uint64_t tdm_timeline_busy_ns(const tdm_timeline_event *event) {
  return event->end_ns - event->begin_ns - event->core_wait_ns;
}

/* ---- The critical path (timeline_path.c) ---- */

/* From the event that ends last back to the first one: before each event stands the one that ended
 * last among those it depends on, waits for, follows on its row, or, where its run had to wait to
 * be launched, the last event of the run that ended then. */
typedef struct tdm_timeline_path {
  uint32_t *events; /* (count), first to last */
  uint32_t count;
  uint64_t busy_ns;    /* inside the events */
  uint64_t core_ns;    /* inside them, but copies waited for a core */
  uint64_t handing_ns; /* between an event's end and the next one's begin */
  uint64_t caller_ns;  /* the same where the next run was not asked for yet */
} tdm_timeline_path;
tdm_status tdm_timeline_find_path(tdm_timeline *timeline,
                                  tdm_timeline_path *out_path) TDM_WARN_UNUSED;

/* ---- The summary (timeline_summary.c) ---- */

/* Times in ns; what lies between the first begin of an event and the last end. */
typedef struct tdm_timeline_summary {
  uint64_t begin_ns;
  uint64_t end_ns;
  uint32_t failed_runs;
  uint64_t *row_busy;    /* (row_count) inside events */
  uint64_t *row_wait;    /* (row_count) in waits */
  uint32_t *row_events;  /* (row_count) */
  uint64_t *device_busy; /* (device_count) some row of it is busy */
  uint64_t any_busy;     /* some device */
  uint64_t overlap;      /* two devices or more */
  tdm_timeline_path path;
  uint64_t *row_path;  /* (row_count) of the path's time, inside events of the row */
  uint32_t bound_row;  /* which has most of that; NONE without events */
  uint32_t bound_node; /* of bound_plan: with those of its name and action in other plans it has
                          most of bound_row's part of the path, bound_node_ns */
  uint32_t bound_plan;
  uint64_t bound_node_ns;
} tdm_timeline_summary;
/* Of a sorted timeline; lists lie in its region. */
tdm_status tdm_timeline_summarize(tdm_timeline *timeline,
                                  tdm_timeline_summary *out_summary) TDM_WARN_UNUSED;

/* ---- Printing ---- */

tdm_status tdm_timeline_text(tdm_timeline *timeline, FILE *out) TDM_WARN_UNUSED;
/* Events of one command, or of one link. */
typedef struct tdm_timeline_share {
  const tdm_timeline_node *node; /* of the first */
  const tdm_timeline_row *row;
  uint64_t busy_ns;
  uint64_t bytes;
  uint32_t count;
} tdm_timeline_share;
/* Of a sorted timeline, those with most time first: by name, action and queue; or, where links,
 * transfers by where from and where to. The list lies in its region. */
tdm_status tdm_timeline_share_out(tdm_timeline *timeline, bool links,
                                  const tdm_timeline_share *const **out_list,
                                  uint32_t *out_count) TDM_WARN_UNUSED;
/* The part of the text that tells the nodes that most of the commands' time went to, and the bytes
 * of every link (timeline_shares.c). */
tdm_status tdm_timeline_print_shares(tdm_timeline *timeline, FILE *out) TDM_WARN_UNUSED;
/* Begins the label of a device in JSON that shares its cores; the devices follow. */
#define TDM_TIMELINE_SHARES "shares its cores with "
tdm_status tdm_timeline_json(const tdm_timeline *timeline, FILE *out) TDM_WARN_UNUSED;

#endif
