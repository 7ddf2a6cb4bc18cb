/* The state of the proof over ranks: all ranks' steps, and the messages of which they are ends.
 * Invariant: verify_ranks.c fills it; verify_ranks_order.c reads it. */
#ifndef TANDEM_GRAPH_SCHEDULE_VERIFY_RANKS_WALK_H
#define TANDEM_GRAPH_SCHEDULE_VERIFY_RANKS_WALK_H

#include "graph/schedule/rank_steps.h"

#define NONE UINT32_MAX

/* A message as described by its two ends. */
typedef struct match {
  uint32_t number;
  uint32_t ranks[2]; /* rank of the send and rank of the receive; NONE: not found yet */
  uint32_t steps[2];
} match;

/* A member's part in the messages of its group: all on one queue. */
typedef struct participant {
  uint32_t group;
  uint32_t member;
  uint32_t rank;
  uint32_t queue;
  uint32_t count;
  uint32_t behind; /* index of its last gathering: the next one is there or later */
} participant;

/* A message of all members of a group. */
typedef struct gathering {
  uint32_t group;
  uint32_t at;      /* index in the group */
  uint32_t rank;    /* rank of the first step that was found */
  uint32_t step;    /* first step that was found */
  uint32_t members; /* number of members of the group */
  uint32_t *ranks;  /* (members): rank of each member; NONE: not found yet */
  uint32_t *steps;  /* (members): step of each member */
} gathering;

enum { MOST_RUNS = 3 };

typedef struct rank_walk {
  uint32_t *first;        /* per queue: its first step; step_count: none */
  uint32_t *next;         /* per queue: its current step */
  uint32_t *run;          /* per queue: the run of that step; run_count: after its last one */
  uint32_t *follow;       /* per step: the next one of its queue */
  uint32_t *matches;      /* per step: its message in the matches; NONE */
  uint32_t *of_all;       /* per step: index of its message of all, in their order; NONE */
  bool *begun;            /* (run_count, step_count) */
  bool *ended;            /* (run_count, step_count) */
  size_t left[MOST_RUNS]; /* number of steps that have not ended */
} rank_walk;

typedef struct ranks_walk {
  const tdm_rank_steps *ranks;
  uint32_t rank_count;
  tdm_region region;
  rank_walk *walks; /* (rank_count) */
  match *matches;   /* (match_count), by number */
  uint32_t match_count;
  gathering *of_all; /* (of_all_count) */
  uint32_t of_all_count;
  participant *participants; /* (participant_count) */
  uint32_t participant_count;
  uint32_t run_count;
  uint32_t depth;
  bool updates;                /* some rank has an update phase */
  size_t main_left[MOST_RUNS]; /* number of main-phase steps that have not ended, of all ranks */
} ranks_walk;

static inline const tdm_step_message *message_at(const ranks_walk *walk, uint32_t rank,
                                                 uint32_t step) {
  return &walk->ranks[rank].messages[step];
}

static inline bool has_two_ends(const tdm_step_message *message) {
  return message->end == TDM_MESSAGE_SEND || message->end == TDM_MESSAGE_RECEIVE;
}

/* After ends are matched: checks the order of messages, and their queues. */
tdm_status tdm_verify_ranks_order(ranks_walk *walk) TDM_WARN_UNUSED;

#endif
