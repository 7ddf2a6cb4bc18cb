/* See last_failure.h. */
#include "core/last_failure.h"

#include <string.h>

void tdm_last_failure_keep(tdm_last_failure *out_failure) {
  const char *message = tdm_last_message();
  out_failure->status = tdm_last_status();
  memcpy(out_failure->message, message, strlen(message) + 1);
}

void tdm_last_failure_restore(const tdm_last_failure *failure) {
  (void)tdm_fail(failure->status, "%s", failure->message);
}
