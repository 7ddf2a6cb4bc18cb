/* Detects cores that other processes use as well. A thread that waits for another may spin and
 * yield to any thread that is ready on its core. If that is a busy process, the system gives it a
 * whole time slice, and a wait of microseconds takes milliseconds. Invariant: after such a loss
 * threads park instead, for so long that losses stay a small part of the time. */
#ifndef TANDEM_CORE_OVERSUBSCRIPTION_H
#define TANDEM_CORE_OVERSUBSCRIPTION_H

#include <stdatomic.h>

#include "tandem/core/core.h"

/* State of a context, initially all zeros. */
typedef struct tdm_oversubscription {
  _Atomic uint64_t until_ns; /* no thread yields its core before this time */
} tdm_oversubscription;

/* Yields the core once, for a thread that spins. Returns false if something else had the core for
 * long, now or recently, so that the caller should park instead. now_ns is the current time of
 * tdm_time_ns. Any thread. */
bool tdm_oversubscription_yield(tdm_oversubscription *oversubscription, uint64_t now_ns);

/* Does the same in three steps, for a caller that can detect whether the library's own threads had
 * the core meanwhile, which is no loss. First: true if the core may be yielded at now_ns. Second:
 * yields it and returns how long that took. Third: records that time, and returns false if it is a
 * loss. */
bool tdm_oversubscription_allows(const tdm_oversubscription *oversubscription, uint64_t now_ns);
uint64_t tdm_oversubscription_give_up(uint64_t now_ns);
bool tdm_oversubscription_note(tdm_oversubscription *oversubscription, uint64_t now_ns,
                               uint64_t lost_ns);

#endif
