/* Connects the words' loaders with the loops of examples/common. */
#include "examples/distributed_model/train.h"

#include "examples/distributed_model/data.h"
#include "examples/words/batches.h"
#include "tools/options/command_line.h"

/* Fields of an arranged batch: characters int64 (length, rows), classes int64 (rows). */
static const char *const inputs[] = {MODEL_CHARACTERS, MODEL_CLASSES};
enum { CHARACTERS, CLASSES, FIELD_COUNT };
enum { EVALUATION_BATCH = 1024 };

static tdm_status arrange(void *user, batch *taken) {
  const model *trained = user;
  return word_batch_arrange(trained->context, trained->accelerator, taken);
}

tdm_status train_model(model *trained, const options *given, confusion *out_last) {
  *out_last =
      (confusion){.class_count = (int64_t)trained->words->class_count, .class_field = CLASSES};
  tdm_loader *training = data_create_loader(trained->words, true, given->common.batch_size, true,
                                            (uint64_t)given->common.seed, trained->accelerator);
  tdm_loader *held_out =
      data_create_loader(trained->words, false, EVALUATION_BATCH, false, 0, NULL);
  tdm_tensor_list *tables = tdm_tensor_list_create(trained->context);
  tdm_status status = check_made(tables);
  if (status == TDM_OK) status = word_set_save(trained->words, tables);
  const learner self = {
      .session = trained->session,
      .training = training,
      .held_out = held_out,
      .arrange = arrange,
      .arranges_for = trained,
      .inputs = inputs,
      .input_count = FIELD_COUNT,
      .question_count = CHARACTERS + 1,
      .answer = MODEL_SCORES,
      .unit = "words",
      .judging = confusion_judge(out_last, "held-out accuracy"),
      .kept = tables, /* required to use the model of a checkpoint */
  };
  if (status == TDM_OK) status = training ? check_made(held_out) : check_made(training);
  if (status == TDM_OK) status = learner_train(&self, &given->common);
  if (status == TDM_OK) status = learner_explain(&self, &given->common);
  tdm_loader_release(held_out);
  tdm_loader_release(training);
  tdm_tensor_list_release(tables);
  return status;
}
