/* What kernels report, in the words of the cpu's. */
#include "devices/cuda/library/reports.h"

#include <inttypes.h>
#include <string.h>

#include "core/status.h"

static tdm_status offset_failure(int64_t offset, int64_t position) {
  if (position == 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "offset %" PRId64 " at position 0 is not 0", offset);
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "offset %" PRId64 " at position %" PRId64
                  " lies before the one before it, or behind the ids",
                  offset, position);
}

tdm_status tdm_cuda_report_read(const tdm_cuda_report *report) {
  if (report->kind == TDM_CUDA_REPORT_NONE || report->position == -1) return TDM_OK;
  double real;
  switch (report->kind) {
  case TDM_CUDA_REPORT_BAG:
    if (report->position < 0) return offset_failure(report->value, -2 - report->position);
    /* fall through */
  case TDM_CUDA_REPORT_ID:
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "id %" PRId64 " at position %" PRId64 " is outside the table of %" PRId64
                    " rows",
                    report->value, report->position, report->bound);
  case TDM_CUDA_REPORT_TARGET:
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "target %" PRId64 " at position %" PRId64 " is outside the %" PRId64 " classes",
                    report->value, report->position, report->bound);
  case TDM_CUDA_REPORT_INDEX:
    if (report->bound == 0)
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "index %" PRId64 " at position %" PRId64 " is outside a dimension of size 0",
                      report->value, report->position);
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "index %" PRId64 " at position %" PRId64 " is outside 0 to %" PRId64,
                    report->value, report->position, report->bound - 1);
  case TDM_CUDA_REPORT_RANGE:
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "%" PRId64 " at position %" PRId64 " is outside %" PRId64 " to %" PRId64,
                    report->value, report->position, report->least,
                    report->least + report->bound - 1);
  case TDM_CUDA_REPORT_LENGTH:
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "length %" PRId64 " at position %" PRId64 " is outside 0 to %" PRId64,
                    report->value, report->position, report->bound - 1);
  default:
    memcpy(&real, &report->value, sizeof(real));
    return tdm_fail(TDM_NOT_FINITE, "element %" PRId64 " of %" PRId64 " is %g: not finite",
                    report->position, report->bound, real);
  }
}
