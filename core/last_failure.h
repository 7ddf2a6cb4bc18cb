/* Saves and restores the calling thread's last failure, for callers that recover from the failure
 * of a callee. */
#ifndef TANDEM_CORE_LAST_FAILURE_H
#define TANDEM_CORE_LAST_FAILURE_H

#include "core/status.h"

/* Save it before a callee whose failure does not make the caller fail. A function that returns
 * TDM_OK leaves the thread's message as it was. */
typedef struct tdm_last_failure {
  tdm_status status;
  char message[TDM_MESSAGE_BYTES];
} tdm_last_failure;

void tdm_last_failure_keep(tdm_last_failure *out_failure);
void tdm_last_failure_restore(const tdm_last_failure *failure);

#endif
