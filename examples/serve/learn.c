/* Trains the main example's model, and copies its parameters from one context to another.
 * Invariant: nothing of the training context remains. */
#include "examples/serve/learn.h"

#include "examples/distributed_model/data.h"
#include "examples/distributed_model/train.h"
#include "tools/options/command_line.h"

/* The resources of training, released in one place. */
typedef struct lesson {
  tdm_context *context;
  word_set *words;
  model made;
  tdm_tensor_list *saved;  /* the file of --load */
  tdm_tensor_list *learnt; /* list of trained tensors in this context */
} lesson;

static tdm_status start_from_file(lesson *self, const options *given) {
  if (!given->common.load_path) return TDM_OK;
  self->saved = tdm_safetensors_load(self->context, given->common.load_path);
  if (!self->saved) return check_made(self->saved);
  return model_load(&self->made, self->saved, given->common.load_path);
}

static tdm_status train(lesson *self, const options *given) {
  self->words = data_read_words(self->context, given);
  tdm_status status = check_made(self->words);
  if (status == TDM_OK) status = model_create(self->context, self->words, given, &self->made);
  if (status == TDM_OK) status = start_from_file(self, given);
  confusion last;
  if (status == TDM_OK) status = train_model(&self->made, given, &last);
  if (status == TDM_OK && given->common.save_path)
    status = model_save(&self->made, given->common.save_path);
  if (status != TDM_OK) return status;
  self->learnt = tdm_store_save(tdm_session_store(self->made.session), false);
  status = check_made(self->learnt);
  return status == TDM_OK ? word_set_save(self->words, self->learnt) : status;
}

/* Copies of the list's tensors, which are the host's, in another context. */
static tdm_status carry_over(const tdm_tensor_list *from, tdm_context *to, tdm_tensor_list *out) {
  tdm_status status = TDM_OK;
  for (size_t i = 0; status == TDM_OK && i < tdm_tensor_list_count(from); i++) {
    tdm_tensor *tensor = tdm_tensor_list_tensor(from, i);
    tdm_tensor *copy = tdm_tensor_from(to, tdm_tensor_dtype(tensor), tdm_tensor_shape(tensor),
                                       tdm_tensor_data(tensor));
    status = check_made(copy);
    if (status == TDM_OK) status = tdm_tensor_list_add(out, tdm_tensor_list_name(from, i), copy);
    tdm_tensor_release(copy);
  }
  return status;
}

tdm_status learn(const options *given, tdm_log_function log, tdm_context *to,
                 tdm_tensor_list **out_list) {
  *out_list = NULL;
  tdm_context_options wanted = tdm_context_options_default();
  wanted.log = log;
  lesson self = {.context = tdm_context_create(&wanted)};
  tdm_status status = check_made(self.context);
  if (status == TDM_OK) status = train(&self, given);
  tdm_tensor_list *list = status == TDM_OK ? tdm_tensor_list_create(to) : NULL;
  if (status == TDM_OK) status = check_made(list);
  if (status == TDM_OK) status = carry_over(self.learnt, to, list);
  if (status == TDM_OK) {
    *out_list = list;
  } else {
    tdm_tensor_list_release(list);
  }
  tdm_tensor_list_release(self.learnt);
  tdm_tensor_list_release(self.saved);
  model_release(&self.made);
  word_set_release(self.words);
  tdm_context_release(self.context);
  return status;
}
