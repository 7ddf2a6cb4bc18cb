/* For jobs of several ranks: whether the programs of all of them can run together. Knows nothing of
 * how they were made. */
#ifndef TANDEM_GRAPH_SCHEDULE_VERIFY_RANKS_H
#define TANDEM_GRAPH_SCHEDULE_VERIFY_RANKS_H

#include "graph/schedule/schedule.h"

typedef enum tdm_message_end {
  TDM_MESSAGE_NONE,
  TDM_MESSAGE_SEND,
  TDM_MESSAGE_RECEIVE,
  TDM_MESSAGE_OF_ALL /* all of a group do it together, and it ends for all: an all-reduce */
} tdm_message_end;

/* The end of a message that a step is. */
typedef struct tdm_step_message {
  uint8_t end;     /* tdm_message_end */
  uint32_t number; /* all its ends have the same; no other message of the kind has it */
  uint32_t peer;   /* the rank at the other end; of all of a group of devices, which member it is */
  uint64_t bytes;
  uint32_t group;   /* of all: 0: all ranks, once each; else which group of devices */
  uint32_t members; /* of a group of devices, on whichever ranks */
} tdm_step_message;

/* The steps of one rank, with their waits. */
typedef struct tdm_rank_steps {
  const tdm_schedule *schedule;
  const tdm_step_message *messages; /* (step_count) */
} tdm_rank_steps;

/* Proves of runs of all ranks (rank_count), as many in flight as the schedules' depth, which every
 * rank submits in the same order: that every message has two ends, of as many bytes, on the ranks
 * that they name; that between each two ranks messages are received in the order in which they are
 * sent; that all ranks, and all members of each group of devices, have the same messages of all, on
 * one queue of a member, in the same order and of as many bytes; that no message belongs to the
 * update phase, which ranks enter apart; and that no rank waits in a circle, even where a send ends
 * only once it is received. INTERNAL, naming ranks, steps and messages. */
tdm_status tdm_verify_ranks(const tdm_allocator *allocator, const tdm_rank_steps *ranks,
                            uint32_t rank_count) TDM_WARN_UNUSED;

#endif
