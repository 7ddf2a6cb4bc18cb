/* gpt: trains a small GPT on two devices, and generates text with cached keys and values, which
 * stay on their devices. This file has its command line and the sequence of steps. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "examples/char_lm/text_files.h"
#include "examples/common/learner.h"
#include "examples/common/losses.h"
#include "examples/common/program.h"
#include "examples/gpt/write.h"
#include "tools/options/command_line.h"

static const double CLIP_NORM = 1.0; /* longest joint norm of all gradients */
enum { MOST_STREAMS = 64 };

/* ---- Options --------------------------------------------------------------------------------- */

typedef struct options {
  common_options common;
  const char *text_path; /* NULL: Debian's bible-kjv */
  const char *prompt;
  int64_t window;
  int64_t width;
  int64_t heads;
  int64_t layers;
  int64_t characters; /* number of characters to read from the beginning of the text; 0: all */
  int64_t sample;     /* characters to write at the end, in each stream */
  int64_t texts;      /* number of texts that a stream writes */
  int64_t streams;
  double temperature;
  bool anew;
} options;

#define FIELD(name) offsetof(options, name)
static const option rows[] = {
    {"--text", "FILE", "training text (default: Debian's bible-kjv)", OPTION_TEXT, FIELD(text_path),
     0, 0, 0, NULL},
    {"--characters", "N", "use only the first N characters; 0: all", OPTION_INTEGER,
     FIELD(characters), 0, INT64_MAX, 0, NULL},
    {"--window", "N", "context length in characters", OPTION_INTEGER, FIELD(window), 2, 4096, 0,
     NULL},
    {"--width", "N", "model width", OPTION_INTEGER, FIELD(width), 1, 4096, 0, NULL},
    {"--heads", "N", "attention heads; must divide the width", OPTION_INTEGER, FIELD(heads), 1, 64,
     0, NULL},
    {"--layers", "N", "number of transformer blocks", OPTION_INTEGER, FIELD(layers), 1, 64, 0,
     NULL},
    {"--sample", "N", "characters to generate per text after training", OPTION_INTEGER,
     FIELD(sample), 0, 1000000, 0, NULL},
    {"--texts", "N", "texts generated in one batch", OPTION_INTEGER, FIELD(texts), 1, 4096, 0,
     NULL},
    {"--streams", "N", "threads that generate --texts texts each", OPTION_INTEGER, FIELD(streams),
     1, MOST_STREAMS, 0, NULL},
    {"--anew", NULL, "recompute the whole window for every character, for comparison", OPTION_FLAG,
     FIELD(anew), 0, 0, 0, NULL},
    {"--prompt", "TEXT", "beginning of the generated texts", OPTION_TEXT, FIELD(prompt), 0, 0, 0,
     NULL},
    {"--temperature", "R", "sampling temperature; below 1: more likely characters", OPTION_REAL,
     FIELD(temperature), 0, 0, 0, NULL},
};

static const option_help helps[] = {
    {"--epochs", "number of training epochs; 0: only evaluate"},
    {"--batch", "windows per training step"},
    {"--seed", "random seed of initial values and of generated text"},
    {"--place", "placement of layers, such as block0=cpu:0,*=sim:0 or *=cpu:0"},
    {"--data-parallel", "run the model data-parallel, such as cpu:0,cpu:1"},
};

static const options defaults = {
    .common = {.epochs = 1, .batch_size = 32, .seed = 1, .learning_rate = 0.001},
    .prompt = "And the LORD said",
    .window = 128,
    .width = 128,
    .heads = 4,
    .layers = 4,
    .sample = 400,
    .texts = 1,
    .streams = 1,
    .temperature = 0.7,
};

static const option_table table = {
    .program = "gpt",
    .about = "trains a small GPT on text and generates text with a key/value cache. Half of the\n"
             "layers are on cpu:0, the others on the accelerator.",
    EXAMPLE_TABLE_PARTS(defaults, rows, helps),
};

/* ---- The order of things --------------------------------------------------------------------- */

typedef struct program {
  options given;
  tdm_context *context;
  text read;
  gpt_sizes sizes;
  text_parts parts;
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
  status = text_open_parts(self->context, read, given->common.batch_size, given->window, "--window",
                           &self->parts);
  return status == TDM_OK && given->sample ? text_check_prompt(read, given->prompt) : status;
}

static tdm_value describe(const program *self, const char *accelerator) {
  const options *given = &self->given;
  const tdm_shape window = tdm_shape_of(2, TDM_DIM("batch"), TDM_DIM("length"));
  tdm_graph *graph = self->graph;
  const tdm_value characters = tdm_input(graph, GPT_CHARACTERS, TDM_INT64, window);
  const tdm_value targets = tdm_input(graph, GPT_TARGETS, TDM_INT64, window);
  const tdm_value scores = gpt_learns(graph, &self->sizes, characters, accelerator);
  tdm_parallel_options wrapped = tdm_parallel_options_default();
  wrapped.devices = given->common.parallel;
  if (given->common.parallel) tdm_data_parallel(graph, "", &wrapped);
  const tdm_value loss = tdm_cross_entropy(
      graph, "loss",
      tdm_reshape(graph, "flat", scores, tdm_shape_of(2, TDM_INFER, self->sizes.characters)),
      tdm_reshape(graph, "wanted", targets, tdm_shape_of(1, TDM_INFER)));
  tdm_output(graph, GPT_SCORES, scores);
  tdm_output(graph, GPT_LOSS, loss);
  return loss;
}

static tdm_status open_model(program *self, const char *accelerator) {
  const options *given = &self->given;
  self->sizes = (gpt_sizes){self->read.character_count, given->width, given->heads, given->layers,
                            given->window};
  self->graph = tdm_graph_create(self->context);
  tdm_optimizer adam = tdm_adamw(given->common.learning_rate);
  adam.clip_norm = CLIP_NORM;
  tdm_session_options wanted =
      session_options_for(&given->common, describe(self, accelerator), &adam);
  wanted.batch_dimension = "batch";
  wanted.deterministic = true; /* so that the text does not depend on which keys and values are
                                * kept */
  self->session = tdm_session_create(self->graph, &wanted);
  if (!self->session || !given->common.load_path) return check_made(self->session);
  return text_load(&self->read, self->session, given->common.load_path);
}

static tdm_status learn(const program *self, losses *counted) {
  static const char *const inputs[TEXT_FIELDS] = {GPT_CHARACTERS, GPT_TARGETS};
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
      .answer = GPT_LOSS,
      .unit = "characters",
      .row_units = self->given.window,
      .judging = losses_judge("held-out bits per character", counted),
      .kept = kept,
  };
  if (status == TDM_OK) status = learner_train(&learns, &self->given.common);
  if (status == TDM_OK) status = learner_explain(&learns, &self->given.common);
  tdm_tensor_list_release(kept);
  return status;
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* Texts that are written in the same runs; a thread each. */
typedef struct stream {
  const program *of;
  tdm_sequence *sequence; /* NULL: all is computed anew */
  uint64_t seed;
  char *text; /* (texts, sample) */
  pthread_t thread;
  bool started;
  tdm_status status;
  char message[256];
} stream;

static void *write_stream(void *user) {
  stream *self = user;
  const options *given = &self->of->given;
  const gpt_wish wish = {.like = &self->of->read,
                         .window = given->window,
                         .texts = given->texts,
                         .prompt = given->prompt,
                         .count = given->sample,
                         .temperature = given->temperature,
                         .seed = self->seed};
  self->status = self->sequence
                     ? gpt_write(self->sequence, self->of->context, &wish, self->text)
                     : gpt_write_anew(self->of->session, self->of->context, &wish, self->text);
  if (self->status != TDM_OK)
    (void)snprintf(self->message, sizeof self->message, "%s", tdm_last_message());
  return NULL;
}

static tdm_status start_stream(const program *self, tdm_session *writing, int64_t i, stream *out) {
  *out = (stream){.of = self, .seed = (uint64_t)(self->given.common.seed + i * self->given.texts)};
  out->text = malloc((size_t)(self->given.texts * self->given.sample));
  if (!out->text) return tdm_fail(TDM_OUT_OF_MEMORY, "texts");
  if (writing) out->sequence = tdm_sequence_create(writing);
  if (writing && !out->sequence) return check_made(NULL);
  out->started = pthread_create(&out->thread, NULL, write_stream, out) == 0;
  return out->started ? TDM_OK : tdm_fail(TDM_UNAVAILABLE, "no thread for a stream");
}

static tdm_status end_stream(const program *self, stream *ended, bool prints) {
  tdm_status status = TDM_OK;
  if (ended->started) {
    (void)pthread_join(ended->thread, NULL);
    status = ended->status == TDM_OK ? TDM_OK : tdm_fail(ended->status, "%s", ended->message);
  }
  const options *given = &self->given;
  for (int64_t i = 0; ended->started && status == TDM_OK && prints && i < given->texts; i++)
    printf("\n%s%.*s\n\n", given->prompt, (int)given->sample, ended->text + i * given->sample);
  tdm_sequence_release(ended->sequence);
  free(ended->text);
  return status;
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static tdm_status write_texts(const program *self, tdm_session *writing) {
  static stream streams[MOST_STREAMS];
  const int64_t count = self->given.streams;
  const double began = seconds_now();
  tdm_status status = TDM_OK;
  int64_t started = 0;
  while (status == TDM_OK && started < count) {
    status = start_stream(self, writing, started, &streams[started]);
    started++;
  }
  for (int64_t i = 0; i < started; i++) {
    const tdm_status ended = end_stream(self, &streams[i], status == TDM_OK);
    if (status == TDM_OK) status = ended;
  }
  if (status == TDM_OK)
    fprintf(stderr, "%.0f characters a second\n",
            (double)(count * self->given.texts * self->given.sample) / (seconds_now() - began));
  return status;
}

/* Skips writing in a job of several ranks, which keeps nothing between runs. */
static tdm_status write_with(const program *self, const char *accelerator) {
  const options *given = &self->given;
  if (given->sample == 0 || given->common.rank_count > 1) return TDM_OK;
  if (given->anew) return write_texts(self, NULL);
  tdm_session *writing =
      gpt_writing_session(self->context, tdm_session_store(self->session), &self->sizes,
                          accelerator, given->common.place, given->texts, (int)given->streams);
  const tdm_status status = writing ? write_texts(self, writing) : check_made(writing);
  tdm_session_release(writing);
  return status;
}

static tdm_status run(program *self, int argc, char **argv) {
  const options *given = &self->given;
  losses counted = {0};
  tdm_status status = program_open(&table, argc, argv, &self->given, &self->context);
  if (status != TDM_OK || given->common.help) return status;
  const char *accelerator = second_device(&given->common, self->context);
  status = open_text(self);
  if (status == TDM_OK) status = open_model(self, accelerator);
  if (status == TDM_OK) status = learn(self, &counted);
  if (status == TDM_OK && given->common.save_path)
    status = text_save(&self->read, self->session, given->common.save_path);
  if (status == TDM_OK) status = write_with(self, accelerator);
  if (status == TDM_OK)
    printf("bits per character %.4f on %lld held-out characters\n", losses_bits(&counted),
           (long long)counted.batch_count * given->common.batch_size * given->window);
  return status;
}

int main(int argc, char **argv) {
  program self = {.context = NULL};
  const int exit_code = program_end(&table, &self.given, run(&self, argc, argv));
  tdm_session_release(self.session);
  tdm_graph_release(self.graph);
  text_parts_release(&self.parts);
  text_release(&self.read);
  tdm_context_release(self.context);
  return exit_code;
}
