/* Times to be called at, earliest first: a pairing heap (Fredman, Sedgewick, Sleator, Tarjan: "The
 * pairing heap", Algorithmica 1986) through the timers themselves. Invariant: adding and removing
 * allocate nothing and cannot fail; no timer of a heap is due before its root. */
#ifndef TANDEM_CORE_TIMERS_H
#define TANDEM_CORE_TIMERS_H

#include "tandem/core/core.h"

/* All zeros: in no heap. */
typedef struct tdm_timer {
  uint64_t due_ns; /* of tdm_time_ns */
  void (*run)(struct tdm_timer *timer);
  struct tdm_timer *child; /* the first of those below it */
  struct tdm_timer *next;  /* sibling */
  struct tdm_timer **link; /* what points here; NULL: in no heap */
} tdm_timer;

typedef struct tdm_timers {
  tdm_timer *root; /* NULL: empty; otherwise due first */
} tdm_timers;

/* timer is in no heap; due_ns is set. */
void tdm_timers_add(tdm_timers *timers, tdm_timer *timer);
/* One that is in no heap is left alone. */
void tdm_timers_remove(tdm_timers *timers, tdm_timer *timer);

#endif
