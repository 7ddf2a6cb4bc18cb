/* recommender: DLRM on two devices learns which offers are clicked, its embedding tables in host
 * memory. This file is its command line, its judge, and the order of things. */
#include <stdio.h>
#include <stdlib.h>

#include "examples/common/learner.h"
#include "examples/common/program.h"
#include "examples/recommender/clicks.h"
#include "examples/recommender/model.h"
#include "tools/options/command_line.h"

/* ---- Options --------------------------------------------------------------------------------- */

typedef struct options {
  common_options common;
  int64_t tables;
  int64_t rows;
  int64_t dim;
  int64_t lookups;
  int64_t hidden;
  int64_t samples;
  int64_t held_out;
  const char *shards;
  bool whole_tables;
} options;

#define FIELD(name) offsetof(options, name)
static const option rows[] = {
    {"--tables", "N", "embedding tables", OPTION_INTEGER, FIELD(tables), 1, MOST_TABLES, 0, NULL},
    {"--rows", "N", "of a table: as many as memory holds", OPTION_INTEGER, FIELD(rows), 1,
     INT64_C(1) << 40, 0, NULL},
    {"--dim", "N", "numbers of a row", OPTION_INTEGER, FIELD(dim), 1, 4096, 0, NULL},
    {"--lookups", "N", "rows that a sample sums of each table", OPTION_INTEGER, FIELD(lookups), 1,
     1000, 0, NULL},
    {"--hidden", "N", "of both multilayer perceptrons", OPTION_INTEGER, FIELD(hidden), 1, 65536, 0,
     NULL},
    {"--samples", "N", "to train on, made by the model of clicks.h", OPTION_INTEGER, FIELD(samples),
     1, INT64_C(1) << 40, 0, NULL},
    {"--held-out", "N", "samples to judge by", OPTION_INTEGER, FIELD(held_out), 2, INT64_C(1) << 30,
     0, NULL},
    {"--shard", "LIST", "the tables over devices, as cpu:0,cpu:1 or host:*/cpu:0", OPTION_TEXT,
     FIELD(shards), 0, 0, 0, NULL},
    {"--whole-tables", NULL, "each of these has some of the tables, and not some rows of each",
     OPTION_FLAG, FIELD(whole_tables), 0, 0, 0, NULL},
};

static const option_help helps[] = {
    {"--epochs", "how often training sees every sample; 0: only evaluate"},
    {"--batch", "samples in one training step"},
    {"--seed", "of initial values, samples and their order"},
    {"--place", "devices of layers, as tables=cpu:0,*=sim:0 or *=cpu:0"},
    {"--data-parallel", "all but the tables over devices, as cpu:0,cpu:1"},
};

static const options defaults = {
    .common = {.epochs = 3, .batch_size = 256, .seed = 1, .learning_rate = 1},
    .tables = 26,
    .rows = 1000,
    .dim = 16,
    .lookups = 1,
    .hidden = 64,
    .samples = 100000,
    .held_out = 10000,
};

static const option_table table = {
    .program = "recommender",
    .about = "learns which offers are clicked: 26 embedding tables on cpu:0, two multilayer\n"
             "perceptrons and the products of all pairs of vectors on the accelerator (a GPU, or\n"
             "a simulated one). A documented model makes the clicks.",
    EXAMPLE_TABLE_PARTS(defaults, rows, helps),
};

/* ---- The judge: the area under the curve of true over false alarms --------------------------- */

typedef struct answer {
  float logit;
  float click;
} answer;

typedef struct answers {
  answer *items; /* (capacity) */
  int64_t count;
  int64_t capacity;
} answers;

static void answers_begin(void *user) {
  ((answers *)user)->count = 0;
}

/* logits float32 (rows, 1). */
static tdm_status answers_count(void *user, const batch *asked, const tdm_tensor *logits) {
  answers *counted = user;
  const float *given = tdm_tensor_data(logits);
  const float *clicked = tdm_tensor_data(asked->fields[CLICKS_CLICK]);
  for (int64_t i = 0; i < asked->rows && counted->count < counted->capacity; i++)
    counted->items[counted->count++] = (answer){given[i], clicked[i]};
  return TDM_OK;
}

static int compare_answers(const void *a, const void *b) {
  const float left = ((const answer *)a)->logit, right = ((const answer *)b)->logit;
  return (left > right) - (left < right);
}

/* The share of pairs, a click and none, in which the click has the higher logit; of equal ones
 * half. */
static double area_under_curve(const void *user) {
  const answers *counted = user;
  double below = 0, pairs = 0, clicked = 0;
  qsort(counted->items, (size_t)counted->count, sizeof *counted->items, compare_answers);
  for (int64_t i = 0; i < counted->count;) {
    double equal[2] = {0, 0}; /* [clicked] */
    const float logit = counted->items[i].logit;
    for (; i < counted->count && !(counted->items[i].logit > logit); i++)
      equal[counted->items[i].click > 0.5f]++;
    pairs += equal[1] * (below + equal[0] / 2);
    below += equal[0];
    clicked += equal[1];
  }
  return clicked > 0 && below > 0 ? pairs / (clicked * below) : 0.5;
}

/* ---- The order of things --------------------------------------------------------------------- */

typedef struct program {
  options given;
  tdm_context *context;
  clicks from[2];       /* [training] */
  tdm_dataset *sets[2]; /* [training] */
  tdm_loader *loaders[2];
  answers held_out;
  tdm_graph *graph;
  tdm_session *session;
} program;

static tdm_status open_clicks(program *self) {
  const options *given = &self->given;
  tdm_status status = TDM_OK;
  for (int training = 0; status == TDM_OK && training < 2; training++) {
    const tdm_loader_options wanted = {.struct_size = sizeof wanted,
                                       .batch_size = given->common.batch_size,
                                       .shuffle = training,
                                       .seed = (uint64_t)given->common.seed,
                                       .prefetch = 4};
    self->from[training] = (clicks){.seed = (uint64_t)given->common.seed,
                                    .tables = given->tables,
                                    .rows = given->rows,
                                    .lookups = given->lookups,
                                    .first = training ? given->held_out : 0};
    self->sets[training] = clicks_dataset(self->context, &self->from[training],
                                          training ? given->samples : given->held_out);
    if (!self->sets[training]) return check_made(NULL);
    self->loaders[training] = tdm_loader_create(self->sets[training], &wanted);
    status = check_made(self->loaders[training]);
  }
  self->held_out.capacity = given->held_out;
  self->held_out.items = calloc((size_t)given->held_out, sizeof *self->held_out.items);
  return status == TDM_OK && !self->held_out.items
             ? tdm_fail(TDM_OUT_OF_MEMORY, "out of memory: answers to %lld samples",
                        (long long)given->held_out)
             : status;
}

static tdm_value describe(program *self) {
  const options *given = &self->given;
  const recommender_sizes sizes = {given->tables, given->rows,   given->lookups,     given->dim,
                                   given->hidden, given->shards, given->whole_tables};
  const tdm_dim batch_rows = TDM_DIM("batch");
  tdm_graph *graph = self->graph;
  const char *accelerator = second_device(&given->common, self->context);
  const tdm_value dense =
      tdm_input(graph, "dense", TDM_FLOAT32, tdm_shape_of(2, batch_rows, DENSE));
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64,
                                  tdm_shape_of(2, batch_rows, given->tables * given->lookups));
  const tdm_value clicked = tdm_input(graph, "click", TDM_FLOAT32, tdm_shape_of(2, batch_rows, 1));
  tdm_value logits;
  const tdm_value loss = recommender_describe(graph, &sizes, dense, ids, clicked, accelerator,
                                              given->common.parallel, &logits);
  tdm_output(graph, "logits", logits);
  return loss;
}

static tdm_status open_model(program *self) {
  const options *given = &self->given;
  self->graph = tdm_graph_create(self->context);
  const tdm_optimizer sgd = tdm_sgd(given->common.learning_rate);
  tdm_session_options wanted = session_options_for(&given->common, describe(self), &sgd);
  wanted.batch_dimension = "batch";
  self->session = tdm_session_create(self->graph, &wanted);
  if (!self->session || !given->common.load_path) return check_made(self->session);
  return tdm_state_dict_load(self->session, given->common.load_path, NULL);
}

static tdm_status learn(program *self) {
  static const char *const inputs[CLICKS_FIELDS] = {"dense", "ids", "click"};
  const learner learns = {
      .session = self->session,
      .training = self->loaders[true],
      .held_out = self->loaders[false],
      .inputs = inputs,
      .input_count = CLICKS_FIELDS,
      .question_count = CLICKS_CLICK,
      .answer = "logits",
      .unit = "samples",
      .judging = {"held-out AUC", answers_begin, answers_count, area_under_curve, &self->held_out},
  };
  const tdm_status status = learner_train(&learns, &self->given.common);
  return status == TDM_OK ? learner_explain(&learns, &self->given.common) : status;
}

static tdm_status run(program *self, int argc, char **argv) {
  const common_options *given = &self->given.common;
  tdm_status status = program_open(&table, argc, argv, &self->given, &self->context);
  if (status != TDM_OK || given->help) return status;
  status = open_clicks(self);
  if (status == TDM_OK) status = open_model(self);
  if (status == TDM_OK) status = learn(self);
  if (status == TDM_OK && given->save_path)
    status = tdm_state_dict_save(self->session, given->save_path, NULL);
  if (status == TDM_OK)
    printf("AUC %.4f on %lld held-out samples\n", area_under_curve(&self->held_out),
           (long long)self->held_out.count);
  return status;
}

int main(int argc, char **argv) {
  program self = {.context = NULL};
  const int exit_code = program_end(&table, &self.given, run(&self, argc, argv));
  tdm_session_release(self.session);
  tdm_graph_release(self.graph);
  for (int i = 0; i < 2; i++) {
    tdm_loader_release(self.loaders[i]);
    tdm_dataset_release(self.sets[i]);
  }
  free(self.held_out.items);
  tdm_context_release(self.context);
  return exit_code;
}
