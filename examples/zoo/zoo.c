/* The list of models, and one of them with PyTorch's golden data. Invariant: everything is released
 * after any failure. */
#include "examples/zoo/zoo.h"

#include <stdio.h>
#include <string.h>

enum { MOST_FEEDS = 8, PATH_BYTES = 512 };

static const char input_prefix[] = "input.";

const zoo_model zoo_models[ZOO_MODELS] = {
    {"gpt2", zoo_gpt2}, {"resnet18", zoo_resnet18}, {"bert", zoo_bert},
    {"dlrm", zoo_dlrm}, {"seq2seq", zoo_seq2seq},   {"unet", zoo_unet},
    {"vit", zoo_vit},   {"llama", zoo_llama},       {"tagger", zoo_tagger},
};

/* Reads the golden inputs, as the file has them. */
static size_t feeds_of(const zoo_run *self, tdm_feed *feeds) {
  const size_t length = sizeof input_prefix - 1;
  size_t count = 0;
  for (size_t i = 0; i < tdm_tensor_list_count(self->golden) && count < MOST_FEEDS; i++) {
    const char *name = tdm_tensor_list_name(self->golden, i);
    if (strncmp(name, input_prefix, length) == 0)
      feeds[count++] = (tdm_feed){name + length, tdm_tensor_list_tensor(self->golden, i), false};
  }
  return count;
}

/* Loads the parameters; other tensors of the file are ignored. */
static bool load_parameters(const zoo_run *self) {
  static const tdm_name_rule others[] = {{NULL, input_prefix}, {NULL, "output"}, {NULL, "losses"}};
  tdm_state_dict_options options = tdm_state_dict_options_default();
  options.rules = others;
  options.rule_count = 3;
  return tdm_session_load_state_dict(self->session, self->golden, &options) == TDM_OK;
}

bool zoo_open(tdm_context *context, const zoo_model *model, const char *folder,
              const char *device_map, zoo_run *out_run) {
  char path[PATH_BYTES];
  (void)snprintf(path, sizeof path, "%s/zoo_%s.safetensors", folder, model->name);
  *out_run = (zoo_run){.golden = tdm_safetensors_load(context, path)};
  if (!out_run->golden) return false;
  out_run->graph = tdm_graph_create(context);
  const zoo_training training = model->describe(out_run->graph);
  tdm_session_options options = tdm_session_options_default();
  options.loss = training.loss;
  options.optimizer = &training.optimizer;
  options.device_map = device_map;
  out_run->session = tdm_session_create(out_run->graph, &options);
  const bool opened = out_run->session && load_parameters(out_run);
  if (!opened) zoo_close(out_run);
  return opened;
}

void zoo_close(zoo_run *run) {
  tdm_session_release(run->session);
  tdm_graph_release(run->graph);
  tdm_tensor_list_release(run->golden);
  *run = (zoo_run){.session = NULL};
}

bool zoo_answer(const zoo_run *run, tdm_tensor **out_answer) {
  tdm_feed feeds[MOST_FEEDS];
  tdm_fetch fetch = {"output", NULL};
  const tdm_status status = tdm_run(run->session, feeds, feeds_of(run, feeds), &fetch, 1);
  *out_answer = fetch.tensor;
  return status == TDM_OK;
}

bool zoo_train(const zoo_run *run, double *out_losses) {
  tdm_feed feeds[MOST_FEEDS];
  const size_t count = feeds_of(run, feeds);
  tdm_status status = TDM_OK;
  for (int i = 0; i < ZOO_STEPS && status == TDM_OK; i++)
    status = tdm_train_step(run->session, feeds, count, NULL, 0, &out_losses[i]);
  return status == TDM_OK;
}
