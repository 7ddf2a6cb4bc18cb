/* The order of a measurement. It is executed twice: first counted, so that the remaining time can
 * be printed, then measured. Invariant: files during the measurement have whole records, and are
 * marked as incomplete. */
#include "bench/transfer/run.h"

#include <string.h>

#include "bench/transfer/measure.h"
#include "core/thread.h"
#include "tools/draw/draw.h"
#include "tools/progress/progress.h"

enum { SELDOM = 20 }; /* writing files takes a twentieth of the time at most */

typedef struct transfer_measuring {
  tdm_context *context;
  const transfer_options *given;
  const plain_copies *const *plain;
  machine told;
  results measured;
  FILE *text;
  progress bar;
  bool is_counting;
  uint64_t began_ns;
  double total_ns;   /* weight of all parts */
  double done_ns;    /* weight of finished cases */
  double current_ns; /* weight of the case in progress */
  double told_ns;    /* total_ns when the last case was counted */
  int part_count;
  int part; /* number of the current part, from 1 */
  int case_count;
  int case_index;
  size_t saved_count; /* number of records in the files */
  uint64_t saved_ns;  /* time at which the files were written */
  uint64_t save_ns;   /* duration of writing the files */
} transfer_measuring;

/* ---- Selected cases -------------------------------------------------------------------------- */

static void print_case(void *user, const char *name, const char *title) {
  fprintf(user, "  %-34s %s\n", name, title);
}

static void each_case(const plain_copies *const *plain,
                      void (*tell)(void *user, const char *name, const char *title), void *user) {
  for (size_t i = 0; i < transfer_case_count; i++)
    tell(user, transfer_cases[i].name, transfer_cases[i].told);
  for (; *plain; plain++)
    (*plain)->each_case(tell, user);
}

void transfer_list_cases(const plain_copies *const *plain, FILE *out) {
  each_case(plain, print_case, out);
}

typedef struct name_search {
  const char *name;
  bool found;
} name_search;

static void compare_name(void *user, const char *name, const char *title) {
  name_search *search = user;
  (void)title;
  search->found |= strcmp(search->name, name) == 0;
}

tdm_status transfer_check_cases(const transfer_options *given, const plain_copies *const *plain) {
  char name[64];
  const char *list = given->cases;
  while (list && list_next(&list, name, sizeof name)) {
    name_search search = {.name = name};
    each_case(plain, compare_name, &search);
    if (!search.found)
      return tdm_fail(TDM_INVALID_ARGUMENT, "there is no case \"%s\"; --list tells which there are",
                      name);
  }
  return TDM_OK;
}

tdm_status transfer_check(tdm_context *context, const transfer_options *given) {
  char name[64];
  const char *list = given->devices;
  while (list && list_next(&list, name, sizeof name))
    TDM_TRY(tdm_device_check(context, name));
  return given->plot_path ? draw_check(&gnuplot_drawer, "--plot") : TDM_OK;
}

tdm_status transfer_open_text(const transfer_options *given, FILE **out_text) {
  *out_text = given->json ? fopen("/dev/null", "we") : stdout;
  return *out_text ? TDM_OK : tdm_fail(TDM_IO, "/dev/null cannot be opened");
}

void transfer_close_text(FILE *text) {
  if (text && text != stdout) (void)fclose(text);
}

/* ---- On the way ------------------------------------------------------------------------------ */

/* Writes the files if they lack records and some time has passed. A failure occurs again at the end
 * and is reported there. */
static void save_some(transfer_measuring *self) {
  const uint64_t now_ns = tdm_time_ns();
  if (self->measured.count == self->saved_count) return;
  if (now_ns - self->saved_ns < SELDOM * self->save_ns) return;
  if (files_write(self->given, &self->told, &self->measured, false) != TDM_OK) return;
  self->saved_count = self->measured.count;
  self->saved_ns = tdm_time_ns();
  self->save_ns = self->saved_ns - now_ns;
}

static void show_part(transfer_measuring *self, const result *next) {
  char note[160], size[32];
  (void)snprintf(note, sizeof note, "%s%s%s > %s, %s, %d left",
                 strcmp(next->memory, "-") ? next->memory : "",
                 strcmp(next->memory, "-") ? " " : "", next->from, next->to,
                 bytes_text(next->bytes, size, sizeof size), self->part_count - self->part);
  progress_show(&self->bar, next->case_name, (int64_t)self->done_ns, (int64_t)self->total_ns, note);
}

static bool begins(void *user, const result *next, double weight_ns) {
  transfer_measuring *self = user;
  if (self->is_counting) {
    self->total_ns += weight_ns;
    self->part_count++;
    return false;
  }
  save_some(self);
  self->done_ns += self->current_ns;
  self->current_ns = weight_ns;
  self->part++;
  show_part(self, next);
  return true;
}

/* A case is through; its results begin at first. */
static void tell_case(void *user, size_t first, const char *title) {
  transfer_measuring *self = user;
  if (self->is_counting) {
    self->case_count += self->total_ns > self->told_ns;
    self->told_ns = self->total_ns;
    return;
  }
  if (self->measured.count == first) return;
  self->done_ns += self->current_ns;
  self->current_ns = 0;
  self->case_index++;
  const double took_s = (double)(tdm_time_ns() - self->began_ns) / 1e9;
  char place[64];
  (void)snprintf(place, sizeof place, "%d of %d, about %.0f s left", self->case_index,
                 self->case_count, took_s * (self->total_ns - self->done_ns) / self->done_ns);
  progress_hide(&self->bar);
  text_case(self->text, &self->measured, first, title, place);
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

static tdm_status measure_case(transfer_measuring *self, const transfer_case *subject,
                               host_memory memory) {
  case_run run = {.wanted = {.context = self->context,
                             .subject = subject,
                             .memory = memory,
                             .sizes = self->given->sizes,
                             .size_count = self->given->size_count,
                             .samples = (int)self->given->samples},
                  .measured = &self->measured};
  const case_walk walk = {.context = self->context,
                          .devices = self->given->devices,
                          .visit = measure_one,
                          .user = &run};
  const size_t first = self->measured.count;
  TDM_TRY(subject->visit(&walk));
  tell_case(self, first, subject->told);
  return TDM_OK;
}

static tdm_status measure_cases(transfer_measuring *self) {
  for (size_t i = 0; i < transfer_case_count; i++) {
    const transfer_case *subject = &transfer_cases[i];
    if (!list_has(self->given->cases, subject->name)) continue;
    for (int memory = 0; memory < (subject->has_host_side ? MEMORY_KINDS : 1); memory++) {
      if (subject->has_host_side &&
          !list_has(self->given->memories, host_memory_name((host_memory)memory)))
        continue;
      TDM_TRY(measure_case(self, subject, (host_memory)memory));
    }
  }
  return TDM_OK;
}

static tdm_status measure_all(transfer_measuring *self) {
  TDM_TRY(measure_cases(self));
  for (const plain_copies *const *other = self->plain; *other; other++)
    TDM_TRY((*other)->measure(self->context, self->given, &self->measured, tell_case, self));
  return TDM_OK;
}

static tdm_status measure_and_tell(transfer_measuring *self) {
  self->is_counting = true;
  TDM_TRY(measure_all(self));
  self->is_counting = false;
  if (self->part_count == 0)
    return tdm_fail(TDM_UNAVAILABLE,
                    "nothing to measure: the devices here (%s) have no such copies",
                    self->told.devices);
  TDM_TRY(tdm_context_start(self->context));
  text_machine(self->text, &self->told);
  self->began_ns = tdm_time_ns();
  TDM_TRY(measure_all(self));
  progress_clear(&self->bar);
  text_fits(self->text, &self->measured);
  text_against_plain(self->text, &self->measured);
  TDM_TRY(files_write(self->given, &self->told, &self->measured, true));
  if (self->given->json) TDM_TRY(json_print(stdout, &self->told, &self->measured, true));
  if (!self->given->plot_path) return TDM_OK;
  return plot_write(self->given->plot_path, &self->told, &self->measured);
}

tdm_status transfer_run(tdm_context *context, const transfer_options *given,
                        const plain_copies *const *plain) {
  transfer_measuring self = {
      .context = context, .given = given, .plain = plain, .bar = progress_start()};
  const results_watch watch = {begins, &self};
  self.bar.is_weighed = true;
  self.measured.watch = &watch;
  machine_describe(context, &self.told);
  TDM_TRY(transfer_open_text(given, &self.text));
  const tdm_status status = measure_and_tell(&self);
  progress_clear(&self.bar);
  transfer_close_text(self.text);
  results_deinit(&self.measured);
  return status;
}
