/* Converts kernels' reports to messages, worded like those of the cpu's kernels. */
#include "devices/cuda/library/reports.h"

#include <inttypes.h>
#include <string.h>

#include "core/status.h"

/* Fails with "ids 9 at position 3 is outside 0 to 5". */
static tdm_status outside(const char *what, const tdm_cuda_report *report, int64_t position) {
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "%s%" PRId64 " at position %" PRId64 " is outside %" PRId64 " to %" PRId64, what,
                  report->value, position, report->least, report->least + report->bound - 1);
}

tdm_status tdm_cuda_report_read(const tdm_cuda_report *report) {
  if (report->kind == TDM_CUDA_REPORT_NONE || report->position == -1) return TDM_OK;
  double real;
  switch (report->kind) {
  case TDM_CUDA_REPORT_BAG:
    if (report->position < 0) return outside("offsets ", report, -2 - report->position);
    /* fall through */
  case TDM_CUDA_REPORT_ID:
    if (report->bound == 0)
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "ids %" PRId64 " at position %" PRId64 " is outside a table of 0 rows",
                      report->value, report->position);
    return outside("ids ", report, report->position);
  case TDM_CUDA_REPORT_TARGET:
    return outside("targets ", report, report->position);
  case TDM_CUDA_REPORT_INDEX:
    if (report->bound == 0)
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "index %" PRId64 " at position %" PRId64 " is outside a dimension of size 0",
                      report->value, report->position);
    return outside("index ", report, report->position);
  case TDM_CUDA_REPORT_RANGE:
    return outside("", report, report->position);
  case TDM_CUDA_REPORT_LENGTH:
    return outside("lengths ", report, report->position);
  default:
    memcpy(&real, &report->value, sizeof(real));
    return tdm_fail(TDM_NOT_FINITE, "element %" PRId64 " of %" PRId64 " is %g: not finite",
                    report->position, report->bound, real);
  }
}
