/* Files that examples write about a session. An existing file stays until the new one is complete.
 * Functions fail with tdm_fail; the message names the option and the path. */
#ifndef EXAMPLES_COMMON_WRITTEN_H
#define EXAMPLES_COMMON_WRITTEN_H

#include <tandem/tandem.h>

/* Writes list to path as safetensors if status, the result of creating the list, is TDM_OK. In a
 * job all ranks call this together; rank 0 writes, and all ranks return its status. */
tdm_status write_list(tdm_context *context, tdm_status status, const tdm_tensor_list *list,
                      const char *path);

/* Writes the timeline that session keeps (trace_runs) to path, for Perfetto, and prints what it
 * amounts to. In a job that is rank 0's; rank 1 writes its own to path.1, and so on. */
tdm_status write_trace(tdm_session *session, const char *option, const char *path);

/* Writes a page of the session's latest plan and runs (tdm_session_report) to path. In a job rank 0
 * does. */
tdm_status write_report(tdm_session *session, const char *option, const char *path);

#endif
