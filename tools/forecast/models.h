/* Models to forecast: each has a front (what its input enters, with the largest parameters) and a
 * body. Invariant: what is fed is drawn from a fixed seed. */
#ifndef TOOLS_FORECAST_MODELS_H
#define TOOLS_FORECAST_MODELS_H

#include "tandem/tandem.h"

enum { MODEL_FEEDS = 2 };

typedef struct model_request {
  const char *name;     /* one of model_names */
  const char *front;    /* the device of the front, and of parameters */
  const char *body;     /* the device of the body, or of all replicas' results */
  const char *replicas; /* devices that the body is wrapped over; NULL: it is not */
  int64_t batch;
  bool profile;
  tdm_collective collective;
  int devices; /* devices paper:0, paper:1, ... that the layers of "gpt-7b" are placed on; 0: 1 */
  int alike_ranks; /* number of equal ranks of the plan (tdm_session_options); 0: none */
} model_request;

typedef struct opened_model {
  tdm_session *session;
  tdm_feed feeds[MODEL_FEEDS];
} opened_model;

/* Names of the models, NULL at the end (tools/forecast/options.c describes them). */
extern const char *const model_names[];
/* Returns true if the model's layers are placed over several devices of a rank. */
bool model_is_placed(const char *name);

/* Describes the model, makes its session and its feeds; on failure *out_model is closed. The plan
 * of a training step is made by model_prepare, without running. */
tdm_status model_open(tdm_context *context, const model_request *request, opened_model *out_model);
tdm_status model_prepare(opened_model *model);
tdm_status model_train(opened_model *model);
void model_close(opened_model *model); /* accepts half-opened ones */

#endif
