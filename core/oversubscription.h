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

/* The same in steps, for who can tell whether threads of ours had the core meanwhile, which is no
 * loss: may it be given up at now_ns; giving it up, which answers how long that took; and noting
 * it. note: false where it is a loss. */
bool tdm_oversubscription_allows(const tdm_oversubscription *oversubscription, uint64_t now_ns);
uint64_t tdm_oversubscription_give_up(uint64_t now_ns);
bool tdm_oversubscription_note(tdm_oversubscription *oversubscription, uint64_t now_ns,
                               uint64_t lost_ns);

#endif
