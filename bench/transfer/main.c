/* transfer: measures copies between all devices, or with --model those of two models, and writes
 * what was asked for. Exit code 2: the arguments; 1: anything else. */
#include <string.h>

#include "bench/transfer/measure.h"
#include "bench/transfer/model.h"
#include "bench/transfer/options.h"
#include "bench/transfer/plain.h"
#include "bench/transfer/report.h"

enum { EXIT_FAILED = 1, EXIT_ARGUMENTS = 2 };

typedef struct program {
  transfer_options given;
  tdm_context *context;
  machine told;
  results measured;
  FILE *text; /* standard error where figures go to standard output */
} program;

static void print_log(void *user, tdm_log_level level, const char *message) {
  (void)user;
  if (level != TDM_LOG_INFO) fprintf(stderr, "transfer: %s\n", message);
}

static void print_help(void) {
  transfer_options_print_help();
  puts("\ncases:");
  for (size_t i = 0; i < transfer_case_count; i++)
    printf("  %-34s %s\n", transfer_cases[i].name, transfer_cases[i].told);
  plain_host_print_cases();
  plain_cuda_print_cases();
}

/* ---- What was asked for ---------------------------------------------------------------------- */

static bool has_case(const char *name) {
  for (size_t i = 0; i < transfer_case_count; i++)
    if (strcmp(transfer_cases[i].name, name) == 0) return true;
  return plain_host_has_case(name) || plain_cuda_has_case(name);
}

static tdm_status check_cases(const char *list) {
  char name[64];
  while (list && list_next(&list, name, sizeof name))
    if (!has_case(name))
      return tdm_fail(TDM_INVALID_ARGUMENT, "there is no case \"%s\"; --help lists them", name);
  return TDM_OK;
}

static tdm_status check_devices(tdm_context *context, const char *list) {
  char name[64];
  while (list && list_next(&list, name, sizeof name))
    TDM_TRY(tdm_device_check(context, name));
  return TDM_OK;
}

static tdm_status check_outputs(const transfer_options *given) {
  TDM_TRY(output_check("--json", given->json_path));
  TDM_TRY(output_check("--csv", given->csv_path));
  TDM_TRY(output_check("--plot", given->plot_path));
  return given->plot_path ? plot_check() : TDM_OK;
}

/* ---- Cases ----------------------------------------------------------------------------------- */

typedef struct case_run {
  measurement wanted;
  results *measured;
} case_run;

static tdm_status measure_one(void *user, const group *one) {
  case_run *run = user;
  return measure_group(&run->wanted, one, run->measured);
}

static tdm_status measure_case(program *self, const transfer_case *subject, host_memory memory) {
  case_run run = {.wanted = {.context = self->context,
                             .subject = subject,
                             .memory = memory,
                             .sizes = self->given.sizes,
                             .size_count = self->given.size_count,
                             .samples = self->given.samples},
                  .measured = &self->measured};
  const case_walk walk = {
      .context = self->context, .devices = self->given.devices, .visit = measure_one, .user = &run};
  const size_t first = self->measured.count;
  TDM_TRY(subject->visit(&walk));
  text_case(self->text, &self->measured, first, subject->told);
  return TDM_OK;
}

static tdm_status measure_cases(program *self) {
  for (size_t i = 0; i < transfer_case_count; i++) {
    const transfer_case *subject = &transfer_cases[i];
    if (!list_has(self->given.cases, subject->name)) continue;
    for (int memory = 0; memory < (subject->has_host_side ? MEMORY_KINDS : 1); memory++) {
      if (subject->has_host_side &&
          !list_has(self->given.memories, host_memory_name((host_memory)memory)))
        continue;
      TDM_TRY(measure_case(self, subject, (host_memory)memory));
    }
  }
  return TDM_OK;
}

static void tell_plain(void *user, size_t first, const char *title) {
  const program *self = user;
  text_case(self->text, &self->measured, first, title);
}

static tdm_status measure_all(program *self) {
  TDM_TRY(measure_cases(self));
  TDM_TRY(plain_host(self->context, &self->given, &self->measured, tell_plain, self));
  TDM_TRY(plain_cuda(&self->given, &self->measured, tell_plain, self));
  if (self->measured.count == 0)
    return tdm_fail(TDM_UNAVAILABLE,
                    "nothing to measure: the devices here (%s) have no such copies",
                    self->told.devices);
  text_fits(self->text, &self->measured);
  text_against_plain(self->text, &self->measured);
  const transfer_options *given = &self->given;
  if (given->json_path) TDM_TRY(json_write(given->json_path, &self->told, &self->measured));
  if (given->csv_path) TDM_TRY(csv_write(given->csv_path, &self->measured));
  if (given->plot_path) TDM_TRY(plot_write(given->plot_path, &self->told, &self->measured));
  return TDM_OK;
}

/* ---- The program ----------------------------------------------------------------------------- */

static tdm_status run(program *self) {
  const transfer_options *given = &self->given;
  TDM_TRY(check_outputs(given));
  const tdm_context_options wanted = {.struct_size = sizeof wanted, .log = print_log};
  self->context = tdm_context_create(&wanted);
  if (!self->context) return TDM_UNAVAILABLE;
  TDM_TRY(check_devices(self->context, given->devices));
  machine_describe(self->context, &self->told);
  const bool prints_figures = (given->json_path && strcmp(given->json_path, "-") == 0) ||
                              (given->csv_path && strcmp(given->csv_path, "-") == 0);
  self->text = prints_figures ? stderr : stdout;
  text_machine(self->text, &self->told);
  if (given->model) return model_transfers(self->context, given, &self->told, self->text);
  TDM_TRY(tdm_context_start(self->context));
  return measure_all(self);
}

int main(int argc, char **argv) {
  program self = {.context = NULL};
  tdm_status status = transfer_options_read(argc, argv, &self.given);
  if (status == TDM_OK) status = check_cases(self.given.cases);
  if (status != TDM_OK) {
    fprintf(stderr, "transfer: %s\n", tdm_last_message());
    return EXIT_ARGUMENTS;
  }
  if (self.given.help) {
    print_help();
    return 0;
  }
  status = run(&self);
  if (status != TDM_OK) fprintf(stderr, "transfer: %s\n", tdm_last_message());
  results_deinit(&self.measured);
  tdm_context_release(self.context);
  return status == TDM_OK ? 0 : EXIT_FAILED;
}
