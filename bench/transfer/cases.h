/* The cases that are measured, and for each of them the groups of copies that run together.
 * Invariant: every copy uses the queue that tdm_direct_queue returns, except in cases about another
 * queue, and each group's copies are between devices that the filter admits. */
#ifndef BENCH_TRANSFER_CASES_H
#define BENCH_TRANSFER_CASES_H

#include "devices/context/context.h"

enum { MOST_HOPS = 64 };

/* One direction of copying, again and again. */
typedef struct hop {
  tdm_device *from;
  tdm_device *to;
  tdm_queue *queue;
  bool counted; /* false: it only keeps the other direction busy */
} hop;

/* Hops that run at the same time. */
typedef struct group {
  hop hops[MOST_HOPS];
  size_t hop_count;
} group;

typedef struct case_walk case_walk;

typedef struct transfer_case {
  const char *name;
  const char *told;   /* one-line description */
  bool has_host_side; /* one end of every hop is memory of a cpu device, and the other is not */
  bool is_latency;    /* measures one small copy at a time, in us */
  /* Calls visit for each group until it fails. */
  tdm_status (*visit)(const case_walk *walk);
} transfer_case;

struct case_walk {
  tdm_context *context;
  const char *devices; /* a comma list, or NULL */
  tdm_status (*visit)(void *user, const group *one);
  void *user;
};

extern const transfer_case transfer_cases[];
extern const size_t transfer_case_count;

#endif
