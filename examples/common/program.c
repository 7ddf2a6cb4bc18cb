/* The beginning and the end of an example. */
#include "examples/common/program.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "examples/common/interrupt.h"
#include "tools/options/command_line.h"

/* user is the program's table. */
static void print_log(void *user, tdm_log_level level, const char *message) {
  const option_table *table = user;
  if (level != TDM_LOG_INFO) fprintf(stderr, "%s: %s\n", table->program, message);
}

tdm_status program_open(const option_table *table, int argc, char **argv, void *options,
                        tdm_context **out_context) {
  *out_context = NULL;
  tdm_status status = command_line_begin();
  if (status == TDM_OK) status = option_table_read(table, argc, argv, options);
  if (status != TDM_OK) return status;
  if (((const common_options *)options)->help) {
    option_table_print_help(table, stdout);
    return TDM_OK;
  }
  tdm_context_options wanted = tdm_context_options_default();
  wanted.log = print_log;
  wanted.log_user = (void *)(uintptr_t)table;
  *out_context = tdm_context_create(&wanted);
  if (!*out_context) return check_made(*out_context);
  common_options *common = options;
  common->rank = tdm_context_rank(*out_context);
  common->rank_count = tdm_context_rank_count(*out_context);
  if (common->rank == 0 || freopen("/dev/null", "w", stdout)) return TDM_OK;
  return tdm_fail(TDM_IO, "/dev/null: %s", strerror(errno));
}

int program_end(const option_table *table, const void *options, tdm_status status) {
  const common_options *given = options;
  char rank[24] = "";
  if (status == TDM_OK) status = command_line_written();
  if (given->rank_count > 1) (void)snprintf(rank, sizeof rank, "rank %d: ", given->rank);
  if (status != TDM_OK) fprintf(stderr, "%s: %s%s\n", table->program, rank, tdm_last_message());
  if (status == TDM_CANCELLED && interrupt_came()) return INTERRUPTED_EXIT_CODE;
  return status == TDM_OK ? 0 : 1;
}
