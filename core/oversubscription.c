/* Giving a core up, and what that costs. Invariant: see oversubscription.h; races on
 * until_ns lose a note of a loss, no more. */
#include "core/oversubscription.h"

#include <sched.h>

#include "core/park.h"

enum {
  LOST_NS = 200000,       /* a thread of ours hands a core back sooner */
  MOST_LOST_NS = 5000000, /* that one loss counts for */
  REST = 20,              /* times the loss, so that losses are a twentieth of the time at most */
};

bool tdm_oversubscription_yield(tdm_oversubscription *oversubscription, uint64_t now_ns) {
  if (now_ns < atomic_load_explicit(&oversubscription->until_ns, memory_order_relaxed))
    return false;
  (void)sched_yield();
  const uint64_t then_ns = tdm_time_ns(), lost_ns = then_ns - now_ns;
  if (lost_ns < LOST_NS) return true;
  const uint64_t rest_ns = REST * (lost_ns < MOST_LOST_NS ? lost_ns : MOST_LOST_NS);
  atomic_store_explicit(&oversubscription->until_ns, then_ns + rest_ns, memory_order_relaxed);
  return false;
}
