/* Failures of functions that a user has written, which may forget to say why (tdm_fail): the
 * thread's message would be that of another failure, long past. */
#ifndef TANDEM_CORE_UNTOLD_H
#define TANDEM_CORE_UNTOLD_H

#include "tandem/core/core.h"

/* How many failures the calling thread has told of, whatever became of them. */
uint32_t tdm_told_count(void);

/* What came of a call before which tdm_told_count() was `before`: status, with a message that says
 * so where it is a failure that nobody has told of. */
static inline tdm_status tdm_fail_untold(tdm_status status, uint32_t before) {
  if (status == TDM_OK || tdm_told_count() != before) return status;
  return tdm_fail(status, "it does not say why (by tdm_fail)");
}

#endif
