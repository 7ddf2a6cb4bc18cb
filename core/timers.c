/* The pairing heap of timers. Invariant: exactly one pointer points to a timer in the heap, the one
 * in its `link`: the root, its parent's child, or its elder sibling's next. */
#include "core/timers.h"

#include <stddef.h>

/* Makes the later of two heaps the first child of the other. Both may be NULL. */
static tdm_timer *meld(tdm_timer *a, tdm_timer *b) {
  if (!a) return b;
  if (!b) return a;
  if (b->due_ns < a->due_ns) {
    tdm_timer *later = a;
    a = b;
    b = later;
  }
  b->next = a->child;
  if (b->next) b->next->link = &b->next;
  a->child = b;
  b->link = &a->child;
  return a;
}

static void put_root(tdm_timers *timers, tdm_timer *root) {
  timers->root = root;
  if (!root) return;
  root->next = NULL;
  root->link = &timers->root;
}

/* Melds siblings in pairs, then the pairs from the last to the first. */
static tdm_timer *meld_siblings(tdm_timer *first) {
  tdm_timer *pairs = NULL; /* list, the latest pair first, linked through next */
  while (first) {
    tdm_timer *second = first->next;
    tdm_timer *rest = second ? second->next : NULL;
    tdm_timer *pair = meld(first, second);
    pair->next = pairs;
    pairs = pair;
    first = rest;
  }
  tdm_timer *heap = NULL;
  while (pairs) {
    tdm_timer *rest = pairs->next;
    heap = meld(heap, pairs);
    pairs = rest;
  }
  return heap;
}

void tdm_timers_add(tdm_timers *timers, tdm_timer *timer) {
  timer->child = timer->next = NULL;
  put_root(timers, meld(timers->root, timer));
}

void tdm_timers_remove(tdm_timers *timers, tdm_timer *timer) {
  if (!timer->link) return;
  *timer->link = timer->next;
  if (timer->next) timer->next->link = timer->link;
  tdm_timer *below = meld_siblings(timer->child);
  timer->child = timer->next = NULL;
  timer->link = NULL;
  put_root(timers, meld(timers->root, below));
}
