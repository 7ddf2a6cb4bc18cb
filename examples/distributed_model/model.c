/* Builds, saves and loads the model. The placements cpu:0 and accelerator suffice to use two
 * devices; transfers between them are inserted automatically. */
#include "examples/distributed_model/model.h"

#include "examples/common/written.h"
#include "tools/options/command_line.h"

enum { EMBEDDING_SIZE = 32, HIDDEN_SIZE = 128 };

/* Longest joint norm of all gradients; longer ones are scaled down to it. */
static const double CLIP_NORM = 1.0;
/* Each length of a word has separate plans for training and for evaluation, twice each. */
enum { PLAN_LIMIT = 128 };

/* Wraps the recurrent part over several devices. Its input is x (length, batch, 32). */
static void wrap_recurrent(tdm_graph *graph, tdm_value x, const char *devices) {
  const tdm_scatter batch = {x, 1};
  tdm_parallel_options wrapped = tdm_parallel_options_default();
  wrapped.devices = devices;
  wrapped.scatter = &batch;
  wrapped.scatter_count = 1;
  tdm_data_parallel(graph, "rnn,last,linear", &wrapped);
}

/* Describes the model; returns its loss. accelerator and parallel may be NULL. */
static tdm_value describe(tdm_graph *graph, word_set *words, const char *accelerator,
                          const char *parallel) {
  const int64_t languages = (int64_t)words->class_count;
  const tdm_dim length = TDM_DIM("length");
  const tdm_dim batch = TDM_DIM("batch");

  tdm_value characters =
      tdm_input(graph, MODEL_CHARACTERS, TDM_INT64, tdm_shape_of(2, length, batch));
  tdm_value classes = tdm_input(graph, MODEL_CLASSES, TDM_INT64, tdm_shape_of(1, batch));

  tdm_place(graph, "cpu:0");
  tdm_value x = tdm_embedding(graph, "embedding", characters, word_set_character_count(words),
                              EMBEDDING_SIZE); /* (length, batch, 32) */
  if (accelerator) tdm_place(graph, accelerator);
  char first[DEVICE_TEXT];
  if (parallel) tdm_place(graph, first_device(parallel, first));
  const tdm_value steps = tdm_rnn(graph, "rnn", x, HIDDEN_SIZE, NULL, NULL); /* (..., 128) */
  const tdm_value last = tdm_last_step(graph, "last", steps);                /* (batch, 128) */
  const tdm_value scores = tdm_linear(graph, "linear", last, languages); /* (batch, languages) */
  if (parallel) wrap_recurrent(graph, x, parallel);
  tdm_output(graph, MODEL_SCORES, scores);
  tdm_output(graph, MODEL_PROBABILITIES, tdm_softmax(graph, "softmax", scores, 1));
  return tdm_cross_entropy(graph, "loss", scores, classes);
}

tdm_status model_create(tdm_context *context, word_set *words, const options *given,
                        model *out_model) {
  *out_model = (model){.context = context, .words = words};
  out_model->graph = tdm_graph_create(context);
  out_model->accelerator = second_device(&given->common, context);
  const tdm_value loss =
      describe(out_model->graph, words, out_model->accelerator, given->common.parallel);
  tdm_optimizer adam = tdm_adam(given->common.learning_rate);
  adam.clip_norm = CLIP_NORM;
  tdm_session_options wanted = session_options_for(&given->common, loss, &adam);
  wanted.plan_limit = PLAN_LIMIT;
  out_model->session = tdm_session_create(out_model->graph, &wanted);
  if (out_model->session) return TDM_OK;
  model_release(out_model);
  return TDM_INVALID_ARGUMENT;
}

void model_release(model *released) {
  tdm_session_release(released->session);
  tdm_graph_release(released->graph);
  *released = (model){.context = NULL};
}

/* Files contain the words in addition to the parameters. */
static const tdm_name_rule words_rule = {NULL, "words."};

tdm_status model_load(model *loaded, const tdm_tensor_list *list, const char *path) {
  tdm_state_dict_options with_words = tdm_state_dict_options_default();
  with_words.rules = &words_rule;
  with_words.rule_count = 1;
  const tdm_status status = tdm_session_load_state_dict(loaded->session, list, &with_words);
  return status == TDM_OK ? TDM_OK : fail_within(status, path);
}

tdm_status model_save(const model *saved, const char *path) {
  tdm_tensor_list *list;
  tdm_status status = tdm_session_state_dict(saved->session, NULL, &list);
  if (status == TDM_OK) status = word_set_save(saved->words, list);
  status = write_list(saved->context, status, list, path);
  tdm_tensor_list_release(list);
  return status;
}
