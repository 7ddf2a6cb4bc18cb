/* The order of things in an example on Fashion-MNIST. Invariant: everything a run of the program
 * holds is in one struct, released in one place. */
#include "examples/clothes/clothes.h"

#include <stdio.h>

#include "examples/common/confusion.h"
#include "examples/common/program.h"
#include "tools/options/command_line.h"

enum { EVALUATION_BATCH = 500, PREFETCHED = 2 };

#define FIELD(name) offsetof(clothes_options, name)
const option clothes_rows[CLOTHES_ROW_COUNT] = {
    {"--data", "FOLDER", "folder of the four files of Fashion-MNIST", OPTION_TEXT, FIELD(data), 0,
     0, 0, NULL},
    {"--images", "N", "train on the first N images; 0: all", OPTION_INTEGER, FIELD(training_images),
     0, INT32_MAX, 0, NULL},
    {"--test-images", "N", "evaluate on the first N images; 0: all", OPTION_INTEGER,
     FIELD(test_images), 0, INT32_MAX, 0, NULL},
};

typedef struct program {
  clothes_options given;
  tdm_context *context;
  tdm_dataset *sets[2]; /* [training] */
  tdm_loader *loaders[2];
  const char *accelerator; /* name of the accelerator; NULL: the options select the devices */
  tdm_graph *graph;
  tdm_session *session;
  confusion counted;
} program;

static tdm_status open_set(program *self, bool training) {
  const clothes_options *given = &self->given;
  self->sets[training] = fashion_mnist_read(self->context, given->data, training,
                                            training ? given->training_images : given->test_images);
  if (!self->sets[training]) return check_made(NULL);
  tdm_loader_options wanted = tdm_loader_options_default();
  wanted.batch_size = training ? given->common.batch_size : EVALUATION_BATCH;
  wanted.shuffle = training;
  wanted.seed = (uint64_t)given->common.seed;
  wanted.prefetch = PREFETCHED;
  self->loaders[training] = tdm_loader_create(self->sets[training], &wanted);
  return check_made(self->loaders[training]);
}

static tdm_value describe(program *self, const clothes_model *model) {
  const tdm_dim rows = TDM_DIM("batch");
  const tdm_value images = tdm_input(self->graph, "images", TDM_FLOAT32,
                                     tdm_shape_of(4, rows, 1, IMAGE_SIZE, IMAGE_SIZE));
  const tdm_value classes = tdm_input(self->graph, "classes", TDM_INT64, tdm_shape_of(1, rows));
  tdm_value scores;
  const tdm_value loss = model->describe(self->graph, images, classes, self->accelerator,
                                         self->given.common.parallel, &scores);
  tdm_output(self->graph, "scores", scores);
  return loss;
}

static tdm_status open_session(program *self, const clothes_model *model) {
  const common_options *given = &self->given.common;
  self->graph = tdm_graph_create(self->context);
  self->accelerator = second_device(given, self->context);
  const tdm_value loss = describe(self, model);
  const tdm_optimizer adam = tdm_adam(given->learning_rate);
  const tdm_session_options wanted = session_options_for(given, loss, &adam);
  self->session = tdm_session_create(self->graph, &wanted);
  if (!self->session || !given->load_path) return check_made(self->session);
  return tdm_state_dict_load(self->session, given->load_path, NULL);
}

static tdm_status learn(program *self) {
  static const char *const inputs[IMAGE_FIELDS] = {[IMAGES] = "images", [CLASSES] = "classes"};
  self->counted = (confusion){.class_count = CLASS_COUNT, .class_field = CLASSES};
  const learner learns = {
      .session = self->session,
      .training = self->loaders[true],
      .held_out = self->loaders[false],
      .inputs = inputs,
      .input_count = IMAGE_FIELDS,
      .question_count = IMAGES + 1,
      .answer = "scores",
      .unit = "images",
      .judging = confusion_judge(&self->counted, "test accuracy"),
  };
  const tdm_status status = learner_train(&learns, &self->given.common);
  return status == TDM_OK ? learner_explain(&learns, &self->given.common) : status;
}

static void report(const confusion *counted) {
  for (int64_t i = 0; i < CLASS_COUNT; i++)
    printf("%-10s %.3f\n", fashion_mnist_class_name(i), confusion_recall(counted, i));
  printf("accuracy %.4f on %lld test images\n", confusion_accuracy(counted),
         (long long)confusion_total(counted));
}

static tdm_status run(program *self, const clothes_model *model, int argc, char **argv) {
  const common_options *given = &self->given.common;
  tdm_status status = program_open(model->table, argc, argv, &self->given, &self->context);
  if (status != TDM_OK || given->help) return status;
  if (model->prepare) status = model->prepare(self->context);
  if (status == TDM_OK) status = open_set(self, true);
  if (status == TDM_OK) status = open_set(self, false);
  if (status == TDM_OK) status = open_session(self, model);
  if (status == TDM_OK) status = learn(self);
  if (status == TDM_OK && given->save_path)
    status = tdm_state_dict_save(self->session, given->save_path, NULL);
  if (status == TDM_OK) report(&self->counted);
  return status;
}

int clothes_main(const clothes_model *model, int argc, char **argv) {
  program self = {.context = NULL};
  const int exit_code = program_end(model->table, &self.given, run(&self, model, argc, argv));
  tdm_session_release(self.session);
  tdm_graph_release(self.graph);
  for (int i = 0; i < 2; i++) {
    tdm_loader_release(self.loaders[i]);
    tdm_dataset_release(self.sets[i]);
  }
  tdm_context_release(self.context);
  return exit_code;
}
