/* distributed_model: trains a model on two devices to classify words by language. This file has the
 * sequence of the steps, options.h the options. */
#include <stdio.h>
#include <string.h>

#include "examples/common/program.h"
#include "examples/distributed_model/data.h"
#include "examples/distributed_model/report.h"
#include "tools/options/command_line.h"

/* The resources of the program, released in one place. */
typedef struct program {
  options given;
  tdm_context *context;
  tdm_tensor_list *saved; /* the file of --load */
  word_set *saved_words;  /* tables of words in that file */
  word_set *words;        /* words of the lists; NULL if the program only classifies words */
  model made;
} program;

/* Returns true if a saved model only classifies words, without training. */
static bool only_answers(const options *given) {
  return given->common.load_path && given->predict && !given->common.epochs_given &&
         !given->dump_path;
}

static tdm_status open_words(program *self) {
  const options *given = &self->given;
  if (given->common.load_path) {
    self->saved = tdm_safetensors_load(self->context, given->common.load_path);
    if (!self->saved) return check_made(self->saved);
    const tdm_status status = data_saved_words(self->context, self->saved, &self->saved_words);
    if (status != TDM_OK) return fail_within(status, given->common.load_path);
    if (self->saved_words->class_count > MAX_LANGUAGES)
      return tdm_fail(TDM_UNSUPPORTED, "%s has %zu languages, expected at most %d",
                      given->common.load_path, self->saved_words->class_count, MAX_LANGUAGES);
  }
  if (only_answers(given)) return TDM_OK;
  self->words = data_read_words(self->context, given);
  if (!self->words || !self->saved_words) return check_made(self->words);
  return data_check_same_tables(self->context, self->words, self->saved_words,
                                given->common.load_path);
}

static tdm_status open_model(program *self) {
  const options *given = &self->given;
  word_set *words = self->words ? self->words : self->saved_words;
  tdm_status status = data_check_known(words, given->predict, given->predict_count);
  if (status == TDM_OK) status = model_create(self->context, words, given, &self->made);
  if (status != TDM_OK || !self->saved) return status;
  return model_load(&self->made, self->saved, given->common.load_path);
}

static tdm_status train_and_tell(program *self) {
  const options *given = &self->given;
  confusion last;
  tdm_status status = train_model(&self->made, given, &last);
  if (status == TDM_OK && given->common.save_path)
    status = model_save(&self->made, given->common.save_path);
  if (status == TDM_OK) report_confusion(self->words, &last);
  if (status == TDM_OK)
    status = report_predictions(&self->made, given->predict, given->predict_count);
  if (status == TDM_OK)
    printf("accuracy %.4f on %lld held-out words\n", confusion_accuracy(&last),
           (long long)confusion_total(&last));
  return status;
}

static tdm_status run(program *self, int argc, char **argv) {
  const options *given = &self->given;
  tdm_status status = program_open(&options_table, argc, argv, &self->given, &self->context);
  if (status != TDM_OK || given->common.help) return status;
  status = options_complete(&self->given);
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
  const int exit_code = program_end(&options_table, &self.given, status);
  model_release(&self.made);
  word_set_release(self.words);
  word_set_release(self.saved_words);
  tdm_tensor_list_release(self.saved);
  tdm_context_release(self.context);
  return exit_code;
}
