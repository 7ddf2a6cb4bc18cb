/* Queries the memory that a session's latest plan uses on a device. */
#include <string.h>

#include "graph/report/memory_use.h"
#include "graph/run/session.h"

tdm_status tdm_session_memory(tdm_session *session, const char *device, tdm_memory_use *out_use) {
  if (!out_use)
    return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_session_memory: no place for the answer");
  memset(out_use, 0, sizeof *out_use);
  if (!session || !device)
    return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_session_memory: no session or no device");
  TDM_TRY(tdm_context_check(session->context));
  const tdm_device *found = tdm_context_find_device(session->context, device);
  if (!found) return tdm_fail(TDM_INVALID_ARGUMENT, "%s", tdm_last_message());
  (void)pthread_mutex_lock(&session->lock);
  const tdm_plan *plan = session->last_asked;
  if (plan) tdm_plan_memory_use(plan, found, out_use);
  (void)pthread_mutex_unlock(&session->lock);
  return plan ? TDM_OK : tdm_fail(TDM_INVALID_ARGUMENT, "the session has made no plan yet");
}
