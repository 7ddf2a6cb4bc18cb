/* A plan whose commands can be held back one at a time, and whose waits can be removed, to detect
 * an executor that ignores a wait. Every command gets a place for one more wait before it, for a
 * gate: a command on a separate device that ends once all other threads sleep. Additional waits are
 * always legal, so a plan that is held anywhere must give the same result. */
#ifndef TANDEM_TESTS_GRAPH_RUN_COUNTERS_HELD_PLAN_H
#define TANDEM_TESTS_GRAPH_RUN_COUNTERS_HELD_PLAN_H

#include "graph/run/session.h"

typedef struct held_plan {
  tdm_plan *plan;
  tdm_program *programs;
  tdm_command *commands; /* commands of all programs */
  tdm_command **places;  /* (place_count): before each command of the main phase */
  int place_count;
  tdm_command **waits; /* (wait_count): the plan's own */
  int wait_count;
  uint32_t gate; /* the gate's program */
} held_plan;

/* Rebuilds the programs of plan, which was never run. The gate is on gate_device's queue. */
void held_plan_begin(held_plan *held, tdm_plan *plan, tdm_device *gate_device);
/* Must be called after the plan's release. */
void held_plan_end(held_plan *held);

/* Holds only the command at `place` in later runs, until all other commands have advanced as far as
 * they can. */
void held_plan_hold(held_plan *held, int place);
/* The place of the command that the plan's own wait waits for; of one of no main phase: 0. Before
 * held_plan_ignore. */
int held_plan_awaited(const held_plan *held, int wait);
/* Takes the plan's own wait out. */
void held_plan_ignore(held_plan *held, int wait);

/* Called by kernels, which the gate watches. */
void held_plan_moved(void);

#endif
