/* distributed_model: a model on two devices learns to tell the language of a word. This file is the
 * order of things; options.h tells what can be asked for. */
#include <stdio.h>
#include <string.h>

#include "examples/common/command_line.h"
#include "examples/distributed_model/data.h"
#include "examples/distributed_model/report.h"

/* What a run of the program holds; released in one place. */
typedef struct program {
  options given;
  tdm_context *context;
  tdm_tensor_list *saved; /* the file of --load */
  tdm_words *saved_words; /* its tables */
  tdm_words *words;       /* of the lists; NULL where only questions are answered */
  model made;
} program;

static void print_log(void *user, tdm_log_level level, const char *message) {
  (void)user;
  if (level != TDM_LOG_INFO) fprintf(stderr, "distributed_model: %s\n", message);
}

/* Is it enough to answer questions with a saved model? */
static bool only_answers(const options *given) {
  return given->load_path && given->predict && !given->epochs_given && !given->dump_path;
}

static tdm_status open_words(program *self) {
  const options *given = &self->given;
  if (given->load_path) {
    self->saved = tdm_safetensors_load(self->context, given->load_path);
    if (!self->saved) return check_made(self->saved);
    self->saved_words = tdm_words_from_saved(self->context, self->saved);
    if (!self->saved_words) return fail_within(TDM_CORRUPT_DATA, given->load_path);
    if (tdm_words_class_count(self->saved_words) > MAX_LANGUAGES)
      return tdm_fail(TDM_UNSUPPORTED, "%s tells %zu languages apart; at most %d are supported",
                      given->load_path, tdm_words_class_count(self->saved_words), MAX_LANGUAGES);
  }
  if (only_answers(given)) return TDM_OK;
  self->words = data_read_words(self->context, given);
  if (!self->words || !self->saved_words) return check_made(self->words);
  return data_check_same_tables(self->context, self->words, self->saved_words, given->load_path);
}

static tdm_status open_model(program *self) {
  const options *given = &self->given;
  tdm_words *words = self->words ? self->words : self->saved_words;
  tdm_status status = data_check_known(words, given->predict, given->predict_count);
  if (status == TDM_OK) status = model_create(self->context, words, given, &self->made);
  if (status != TDM_OK || !self->saved) return status;
  return model_load(&self->made, self->saved, given->load_path);
}

static tdm_status train_and_tell(program *self) {
  const options *given = &self->given;
  evaluation last = {.word_count = 0};
  tdm_status status = train_model(&self->made, given, &last);
  if (status == TDM_OK && given->save_path) status = model_save(&self->made, given->save_path);
  if (status == TDM_OK) report_confusion(self->words, &last);
  if (status == TDM_OK) status = report_plan(&self->made, given);
  if (status == TDM_OK)
    status = report_predictions(&self->made, given->predict, given->predict_count);
  if (status == TDM_OK)
    printf("accuracy %.4f on %lld held-out words\n", evaluation_accuracy(&last),
           (long long)last.word_count);
  return status;
}

static tdm_status run(program *self, int argc, char **argv) {
  tdm_status status = enter_working_folder();
  if (status == TDM_OK) status = options_read(argc, argv, &self->given);
  if (status != TDM_OK) return status;
  const options *given = &self->given;
  if (given->help) {
    options_print_help();
    return TDM_OK;
  }
  const tdm_context_options wanted = {.struct_size = sizeof wanted, .log = print_log};
  self->context = tdm_context_create(&wanted);
  status = check_made(self->context);
  if (status == TDM_OK) status = open_words(self);
  if (status == TDM_OK && given->dump_path)
    return data_dump(self->context, self->words, given->dump_path);
  if (status == TDM_OK) status = open_model(self);
  if (status != TDM_OK) return status;
  if (only_answers(given))
    return report_predictions(&self->made, given->predict, given->predict_count);
  return train_and_tell(self);
}

int main(int argc, char **argv) {
  program self = {.context = NULL};
  const tdm_status status = run(&self, argc, argv);
  if (status != TDM_OK) fprintf(stderr, "distributed_model: %s\n", tdm_last_message());
  model_release(&self.made);
  tdm_words_release(self.words);
  tdm_words_release(self.saved_words);
  tdm_tensor_list_release(self.saved);
  tdm_context_release(self.context);
  return status == TDM_OK ? 0 : 1;
}
