/* Yields the core and measures what that costs. Invariant: see oversubscription.h. A race on
 * until_ns can only lose the record of a loss. */
#include "core/oversubscription.h"

#include <sched.h>

#include "core/park.h"

enum {
  LOST_NS = 200000,       /* threads of the library return a core sooner */
  MOST_LOST_NS = 5000000, /* upper limit of what one loss counts for */
  REST = 20,              /* times the loss, so that losses take at most a twentieth of the time */
};

bool tdm_oversubscription_allows(const tdm_oversubscription *oversubscription, uint64_t now_ns) {
  return now_ns >= atomic_load_explicit(&oversubscription->until_ns, memory_order_relaxed);
}

uint64_t tdm_oversubscription_give_up(uint64_t now_ns) {
  (void)sched_yield();
  return tdm_time_ns() - now_ns;
}

bool tdm_oversubscription_note(tdm_oversubscription *oversubscription, uint64_t now_ns,
                               uint64_t lost_ns) {
  if (lost_ns < LOST_NS) return true;
  const uint64_t rest_ns = REST * (lost_ns < MOST_LOST_NS ? lost_ns : MOST_LOST_NS);
  atomic_store_explicit(&oversubscription->until_ns, now_ns + lost_ns + rest_ns,
                        memory_order_relaxed);
  return false;
}

bool tdm_oversubscription_yield(tdm_oversubscription *oversubscription, uint64_t now_ns) {
  if (!tdm_oversubscription_allows(oversubscription, now_ns)) return false;
  return tdm_oversubscription_note(oversubscription, now_ns, tdm_oversubscription_give_up(now_ns));
}
