/* Handles failures of functions that a user has written and that did not set a message with
 * tdm_fail. Without it, the thread's message would be that of an earlier failure. */
#ifndef TANDEM_CORE_UNTOLD_H
#define TANDEM_CORE_UNTOLD_H

#include "tandem/core/core.h"

/* Returns how many failures the calling thread has reported, whether or not they were handled. */
uint32_t tdm_told_count(void);

/* Returns status, the result of a call before which tdm_told_count() was `before`. If the call
 * failed without reporting a failure, sets a message that reports this. */
static inline tdm_status tdm_fail_untold(tdm_status status, uint32_t before) {
  if (status == TDM_OK || tdm_told_count() != before) return status;
  return tdm_fail(status, "it does not say why (by tdm_fail)");
}

#endif
