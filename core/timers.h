/* Timers ordered by due time: a pairing heap (Fredman, Sedgewick, Sleator, Tarjan: "The pairing
 * heap", Algorithmica 1986) linked through the timers themselves. Invariant: adding and removing
 * allocate nothing and cannot fail; no timer of a heap is due before its root. */
#ifndef TANDEM_CORE_TIMERS_H
#define TANDEM_CORE_TIMERS_H

#include "tandem/core/core.h"

/* A zeroed timer is in no heap. */
typedef struct tdm_timer {
  uint64_t due_ns; /* due time, comparable with tdm_time_ns */
  void (*run)(struct tdm_timer *timer);
  struct tdm_timer *child; /* the first of its children */
  struct tdm_timer *next;  /* next sibling */
  struct tdm_timer **link; /* the pointer to this timer; NULL if in no heap */
} tdm_timer;

typedef struct tdm_timers {
  tdm_timer *root; /* the earliest timer; NULL if the heap is empty */
} tdm_timers;

/* Adds a timer that is in no heap and has due_ns set. */
void tdm_timers_add(tdm_timers *timers, tdm_timer *timer);
/* Removes a timer. Does nothing if it is in no heap. */
void tdm_timers_remove(tdm_timers *timers, tdm_timer *timer);

#endif
