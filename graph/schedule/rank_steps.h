/* For jobs of several ranks: the steps of one of them, and which ends of messages these are. */
#ifndef TANDEM_GRAPH_SCHEDULE_RANK_STEPS_H
#define TANDEM_GRAPH_SCHEDULE_RANK_STEPS_H

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
  uint32_t device;  /* whose it is, from 1, over all ranks; 0: its host's */
  uint32_t partner; /* of a send or receive: the device at the other end; 0: a host */
} tdm_step_message;

/* The steps of one rank, with their waits. */
typedef struct tdm_rank_steps {
  const tdm_schedule *schedule;
  const tdm_step_message *messages; /* (step_count) */
} tdm_rank_steps;

#endif
