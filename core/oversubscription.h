/* Cores that something else wants as well. A thread that waits for another one may spin, and lets
 * who is ready on its core run now and then; where that is a busy process, the system gives it a
 * whole time slice, and a wait of microseconds takes milliseconds. Invariant: after such a loss
 * threads park instead, for so long that losses stay a small part of the time. */
#ifndef TANDEM_CORE_OVERSUBSCRIPTION_H
#define TANDEM_CORE_OVERSUBSCRIPTION_H

#include <stdatomic.h>

#include "tandem/core/core.h"

/* Of a context; zeros at first. */
typedef struct tdm_oversubscription {
  _Atomic uint64_t until_ns; /* to then nobody gives a core up */
} tdm_oversubscription;

/* For a thread that spins: lets others that are ready on its core run. False: something else had
 * the core for long, now or lately, so that the caller had better park. now_ns: the time, as
 * tdm_time_ns told it just now. Any thread. */
bool tdm_oversubscription_yield(tdm_oversubscription *oversubscription, uint64_t now_ns);

#endif
