/* Nine known architectures, small, each one C file next to the same model in PyTorch.
 * write_golden.py writes PyTorch's results to tests/golden/models/zoo_NAME.safetensors. A model
 * file uses only tandem.h. It describes inputs, the output "output", and the training. */
#ifndef EXAMPLES_ZOO_ZOO_H
#define EXAMPLES_ZOO_ZOO_H

#include "tandem/tandem.h"

typedef struct zoo_training {
  tdm_value loss;
  tdm_optimizer optimizer;
} zoo_training;

typedef struct zoo_model {
  const char *name; /* name of its file and its golden data */
  zoo_training (*describe)(tdm_graph *graph);
} zoo_model;

zoo_training zoo_gpt2(tdm_graph *graph);
zoo_training zoo_resnet18(tdm_graph *graph);
zoo_training zoo_bert(tdm_graph *graph);
zoo_training zoo_dlrm(tdm_graph *graph);
zoo_training zoo_seq2seq(tdm_graph *graph);
zoo_training zoo_unet(tdm_graph *graph);
zoo_training zoo_vit(tdm_graph *graph);
zoo_training zoo_llama(tdm_graph *graph);
zoo_training zoo_tagger(tdm_graph *graph);

enum { ZOO_MODELS = 9, ZOO_STEPS = 20 };
extern const zoo_model zoo_models[ZOO_MODELS];

/* One model with PyTorch's parameters. All zeros: nothing is open. */
typedef struct zoo_run {
  tdm_tensor_list *golden; /* PyTorch's golden data for the model */
  tdm_graph *graph;
  tdm_session *session;
} zoo_run;

/* All functions return false on failure; tdm_last_message() returns the reason.
 *
 * Reads the golden data in folder, describes the model and loads the parameters that PyTorch's
 * training began with. device_map is the session's; NULL: everything on cpu:0. On failure
 * everything is closed again. */
bool zoo_open(tdm_context *context, const zoo_model *model, const char *folder,
              const char *device_map, zoo_run *out_run);
void zoo_close(zoo_run *run); /* may be called twice, or without opening */
/* Computes the output for the golden inputs; the caller releases it. */
bool zoo_answer(const zoo_run *run, tdm_tensor **out_answer);
/* Steps of training on them: losses (ZOO_STEPS). */
bool zoo_train(const zoo_run *run, double *out_losses);

#endif
