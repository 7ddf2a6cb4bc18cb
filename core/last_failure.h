/* The calling thread's last failure as a whole, for whoever gets over one of a callee's. */
#ifndef TANDEM_CORE_LAST_FAILURE_H
#define TANDEM_CORE_LAST_FAILURE_H

#include "core/status.h"

/* Put aside before a callee that may fail without its caller's failing: who is answered TDM_OK
 * finds the thread's message as it was. */
typedef struct tdm_last_failure {
  tdm_status status;
  char message[TDM_MESSAGE_BYTES];
} tdm_last_failure;

void tdm_last_failure_keep(tdm_last_failure *out_failure);
void tdm_last_failure_restore(const tdm_last_failure *failure);

#endif
