/* For jobs of several ranks: the steps of one rank, and which of them are ends of messages. */
#ifndef TANDEM_GRAPH_SCHEDULE_RANK_STEPS_H
#define TANDEM_GRAPH_SCHEDULE_RANK_STEPS_H

#include "graph/schedule/schedule.h"

typedef enum tdm_message_end {
  TDM_MESSAGE_NONE,
  TDM_MESSAGE_SEND,
  TDM_MESSAGE_RECEIVE,
  TDM_MESSAGE_OF_ALL /* executed by all members together, such as an all-reduce */
} tdm_message_end;

/* The end of a message that a step represents. */
typedef struct tdm_step_message {
  uint8_t end;     /* tdm_message_end */
  uint32_t number; /* equal for all its ends, and unique among messages of the kind */
  uint32_t peer;   /* the rank at the other end; for all of a group: the index of this member */
  uint64_t bytes;
  uint32_t group;   /* group of devices of a sum over devices; 0: all ranks, once each */
  uint32_t members; /* number of members of a group of devices, on any ranks */
  uint32_t device;  /* device of this rank, counted from 1 over all ranks; 0: its host */
  uint32_t partner; /* device at the other end of a send or receive; 0: a host */
} tdm_step_message;

/* The steps of one rank, with their waits. */
typedef struct tdm_rank_steps {
  const tdm_schedule *schedule;
  const tdm_step_message *messages; /* (step_count) */
} tdm_rank_steps;

#endif
