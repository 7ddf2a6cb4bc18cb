/* `tandem bench transfer`, which bench/transfer measures. */
#include <string.h>

#include "bench/transfer/run.h"
#include "tools/bench/bench.h"

static const plain_copies *const plain[] = {&plain_host, NULL};

static tdm_status measure(const transfer_options *given) {
  tdm_context_options wanted = tdm_context_options_default();
  wanted.log = tool_log;
  wanted.log_user = (void *)(uintptr_t)&bench_transfer_tool;
  tdm_context *context = tdm_context_create(&wanted);
  if (!context) return TDM_UNAVAILABLE;
  tdm_status status = transfer_check(context, given);
  if (status == TDM_OK) status = transfer_run(context, given, plain);
  tdm_context_release(context);
  return status;
}

static int run(const void *read) {
  enum { BAD_USAGE = 2 };
  transfer_options given;
  memcpy(&given, read, sizeof given);
  transfer_options_complete(&given);
  tdm_status status = transfer_check_cases(&given, plain);
  if (status != TDM_OK) return tool_ended(&bench_transfer_tool, status) ? BAD_USAGE : 0;
  if (given.lists)
    transfer_list_cases(plain, stdout);
  else
    status = measure(&given);
  return tool_ended(&bench_transfer_tool, status);
}

const tool bench_transfer_tool = {"bench transfer", "Measure copies between devices",
                                  &transfer_table, run};
