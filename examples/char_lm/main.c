/* char_lm: trains a recurrent language model of characters on two devices. This file has its
 * command line and the sequence of steps. */
#include <stdio.h>
#include <string.h>

#include "examples/char_lm/model.h"
#include "examples/char_lm/sample.h"
#include "examples/char_lm/text_files.h"
#include "examples/common/learner.h"
#include "examples/common/losses.h"
#include "examples/common/program.h"
#include "tools/options/command_line.h"

static const double CLIP_NORM = 1.0; /* longest joint norm of all gradients */

/* ---- Options --------------------------------------------------------------------------------- */

typedef struct options {
  common_options common;
  const char *text_path; /* NULL: Debian's bible-kjv */
  const char *prompt;
  int64_t length; /* length of a window */
  int64_t embedding;
  int64_t hidden;
  int64_t layers;
  int64_t characters; /* number of characters to read from the beginning of the text; 0: all */
  int64_t sample;     /* characters to write at the end */
  double temperature;
} options;

#define FIELD(name) offsetof(options, name)
static const option rows[] = {
    {"--text", "FILE", "training text (default: Debian's bible-kjv)", OPTION_TEXT, FIELD(text_path),
     0, 0, 0, NULL},
    {"--characters", "N", "use only the first N characters; 0: all", OPTION_INTEGER,
     FIELD(characters), 0, INT64_MAX, 0, NULL},
    {"--length", "N", "characters per window of backpropagation through time", OPTION_INTEGER,
     FIELD(length), 1, 4096, 0, NULL},
    {"--embedding", "N", "embedding size", OPTION_INTEGER, FIELD(embedding), 1, 4096, 0, NULL},
    {"--hidden", "N", "hidden size of the LSTM", OPTION_INTEGER, FIELD(hidden), 1, 8192, 0, NULL},
    {"--layers", "N", "layers of the LSTM", OPTION_INTEGER, FIELD(layers), 1, MOST_LAYERS, 0, NULL},
    {"--sample", "N", "characters to generate after training", OPTION_INTEGER, FIELD(sample), 0,
     1000000, 0, NULL},
    {"--prompt", "TEXT", "beginning of the generated text", OPTION_TEXT, FIELD(prompt), 0, 0, 0,
     NULL},
    {"--temperature", "R", "sampling temperature; below 1: more likely characters", OPTION_REAL,
     FIELD(temperature), 0, 0, 0, NULL},
};

static const option_help helps[] = {
    {"--epochs", "number of training epochs; 0: only evaluate"},
    {"--batch", "parallel streams of text per training step"},
    {"--seed", "random seed of initial values and of generated text"},
    {"--place", "placement of layers, such as embedding=cpu:0,*=sim:0 or *=cpu:0"},
    {"--data-parallel", "run the LSTM and the output layer data-parallel, such as cpu:0,cpu:1"},
};

static const options defaults = {
    .common = {.epochs = 2, .batch_size = 64, .seed = 1, .learning_rate = 0.005},
    .prompt = "And the LORD said",
    .length = 64,
    .embedding = 32,
    .hidden = 192,
    .layers = 1,
    .sample = 400,
    .temperature = 0.7,
};

static const option_table table = {
    .program = "char_lm",
    .about = "trains an LSTM on text and generates text. The embedding is on cpu:0, the LSTM on\n"
             "the accelerator (a GPU or a simulated one).",
    EXAMPLE_TABLE_PARTS(defaults, rows, helps),
};

/* ---- The order of things --------------------------------------------------------------------- */

typedef struct program {
  options given;
  tdm_context *context;
  text read;
  text_parts parts;
  tdm_tensor *zeros[2]; /* initial state: [0] of a batch, [1] of one row */
  tdm_graph *graph;
  tdm_session *session;
} program;

static tdm_status open_text(program *self) {
  const options *given = &self->given;
  text *read = &self->read;
  tdm_status status = text_read(given->text_path, read);
  if (status != TDM_OK) return status;
  if (given->characters && given->characters < read->byte_count)
    read->byte_count = given->characters;
  status = text_open_parts(self->context, read, given->common.batch_size, given->length, "--length",
                           &self->parts);
  return status == TDM_OK && given->sample ? text_check_prompt(read, given->prompt) : status;
}

static tdm_value describe(program *self) {
  const options *given = &self->given;
  const char_model_sizes sizes = {self->read.character_count, given->embedding, given->hidden,
                                  given->layers};
  const tdm_shape window = tdm_shape_of(2, TDM_DIM("batch"), TDM_DIM("length"));
  const tdm_shape state = tdm_shape_of(3, given->layers, TDM_DIM("batch"), given->hidden);
  tdm_graph *graph = self->graph;
  const char *accelerator = second_device(&given->common, self->context);
  const tdm_value characters = tdm_input(graph, CHAR_LM_CHARACTERS, TDM_INT64, window);
  const tdm_value targets = tdm_input(graph, CHAR_LM_TARGETS, TDM_INT64, window);
  const tdm_value h0 = tdm_input(graph, CHAR_LM_H0, TDM_FLOAT32, state);
  const tdm_value c0 = tdm_input(graph, CHAR_LM_C0, TDM_FLOAT32, state);
  const char_model_values made = char_model_describe(graph, &sizes, characters, targets, h0, c0,
                                                     accelerator, given->common.parallel);
  tdm_output(graph, CHAR_LM_SCORES, made.scores);
  tdm_output(graph, CHAR_LM_H_N, made.h_n);
  tdm_output(graph, CHAR_LM_C_N, made.c_n);
  tdm_output(graph, CHAR_LM_LOSS, made.loss);
  return made.loss;
}

static tdm_status open_model(program *self) {
  const options *given = &self->given;
  const int64_t row_counts[] = {given->common.batch_size, 1};
  for (int i = 0; i < 2; i++) {
    self->zeros[i] = tdm_tensor_zeros(self->context, "cpu:0", TDM_FLOAT32,
                                      tdm_shape_of(3, given->layers, row_counts[i], given->hidden));
    if (!self->zeros[i]) return check_made(NULL);
  }
  self->graph = tdm_graph_create(self->context);
  tdm_optimizer adam = tdm_adam(given->common.learning_rate);
  adam.clip_norm = CLIP_NORM;
  tdm_session_options wanted = session_options_for(&given->common, describe(self), &adam);
  wanted.batch_dimension = "batch";
  self->session = tdm_session_create(self->graph, &wanted);
  if (!self->session || !given->common.load_path) return check_made(self->session);
  return text_load(&self->read, self->session, given->common.load_path);
}

static tdm_status learn(program *self, losses *counted) {
  static const char *const inputs[TEXT_FIELDS] = {CHAR_LM_CHARACTERS, CHAR_LM_TARGETS};
  const carried carries[] = {{CHAR_LM_H0, CHAR_LM_H_N, self->zeros[0]},
                             {CHAR_LM_C0, CHAR_LM_C_N, self->zeros[0]}};
  tdm_tensor_list *kept = tdm_tensor_list_create(self->context);
  tdm_status status = check_made(kept);
  if (status == TDM_OK) status = text_add_characters(&self->read, self->context, kept);
  const learner learns = {
      .session = self->session,
      .training = self->parts.loaders[true],
      .held_out = self->parts.loaders[false],
      .inputs = inputs,
      .input_count = TEXT_FIELDS,
      .question_count = TEXT_FIELDS,
      .answer = CHAR_LM_LOSS,
      .unit = "characters",
      .row_units = self->given.length,
      .judging = losses_judge("held-out bits per character", counted),
      .carries = carries,
      .carry_count = sizeof carries / sizeof *carries,
      .kept = kept,
  };
  if (status == TDM_OK) status = learner_train(&learns, &self->given.common);
  if (status == TDM_OK) status = learner_explain(&learns, &self->given.common);
  tdm_tensor_list_release(kept);
  return status;
}

static tdm_status run(program *self, int argc, char **argv) {
  const options *given = &self->given;
  losses counted = {0};
  tdm_status status = program_open(&table, argc, argv, &self->given, &self->context);
  if (status != TDM_OK || given->common.help) return status;
  status = open_text(self);
  if (status == TDM_OK) status = open_model(self);
  if (status == TDM_OK) status = learn(self, &counted);
  if (status == TDM_OK && given->common.save_path)
    status = text_save(&self->read, self->session, given->common.save_path);
  const sample_options writing = {given->prompt, given->sample, given->temperature,
                                  (uint64_t)given->common.seed};
  if (status == TDM_OK)
    status = sample(self->context, self->session, &self->read, &writing, self->zeros[1]);
  if (status == TDM_OK)
    printf("bits per character %.4f on %lld held-out characters\n", losses_bits(&counted),
           (long long)counted.batch_count * given->common.batch_size * given->length);
  return status;
}

int main(int argc, char **argv) {
  program self = {.context = NULL};
  const int exit_code = program_end(&table, &self.given, run(&self, argc, argv));
  tdm_session_release(self.session);
  tdm_graph_release(self.graph);
  for (int i = 0; i < 2; i++)
    tdm_tensor_release(self.zeros[i]);
  text_parts_release(&self.parts);
  text_release(&self.read);
  tdm_context_release(self.context);
  return exit_code;
}
