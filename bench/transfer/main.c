/* transfer: measures copies between all devices, or with --model those of two models. Exit code 2:
 * the arguments; 1: anything else. `tandem bench transfer` is the first of both. */
#include "bench/transfer/model.h"
#include "bench/transfer/run.h"
#include "tools/options/command_line.h"

enum { EXIT_FAILED = 1, EXIT_ARGUMENTS = 2 };

static const plain_copies *const plain[] = {&plain_host, &plain_cuda, NULL};

static void print_log(void *user, tdm_log_level level, const char *message) {
  (void)user;
  if (level != TDM_LOG_INFO) fprintf(stderr, "transfer: %s\n", message);
}

static tdm_status run_models(tdm_context *context, const model_options *given) {
  machine told;
  FILE *text;
  machine_describe(context, &told);
  TDM_TRY(transfer_open_text(&given->copies, &text));
  text_machine(text, &told);
  const tdm_status status = model_transfers(context, given, &told, text);
  transfer_close_text(text);
  return status;
}

static tdm_status run(const model_options *given) {
  tdm_context_options wanted = tdm_context_options_default();
  wanted.log = print_log;
  tdm_context *context = tdm_context_create(&wanted);
  if (!context) return TDM_UNAVAILABLE;
  tdm_status status = transfer_check(context, &given->copies);
  if (status == TDM_OK)
    status =
        given->model ? run_models(context, given) : transfer_run(context, &given->copies, plain);
  tdm_context_release(context);
  return status;
}

int main(int argc, char **argv) {
  model_options given;
  tdm_status status = command_line_begin();
  if (status == TDM_OK) status = model_options_read(argc, argv, &given);
  if (status == TDM_OK) status = transfer_check_cases(&given.copies, plain);
  if (status != TDM_OK) {
    fprintf(stderr, "transfer: %s\n", tdm_last_message());
    return EXIT_ARGUMENTS;
  }
  if (given.copies.common.help) {
    option_table_print_help(&model_table, stdout);
    return 0;
  }
  if (given.copies.lists) {
    transfer_list_cases(plain, stdout);
    return 0;
  }
  status = run(&given);
  if (status == TDM_OK) status = command_line_written();
  if (status != TDM_OK) fprintf(stderr, "transfer: %s\n", tdm_last_message());
  return status == TDM_OK ? 0 : EXIT_FAILED;
}
