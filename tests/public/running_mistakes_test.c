/* Typical mistakes of a program that trains and runs a graph, or works with tensors: each message
 * names the option or the name, the given value and the legal ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"
#include "tests/options.h"

/* x float32 (batch, 8) -> block/fc -> scores (batch, 4), with classes a loss. */
typedef struct program {
  tdm_context *context;
  tdm_graph *graph;
  tdm_value loss;
  tdm_tensor *x;       /* (2, 8) */
  tdm_tensor *classes; /* (2) */
} program;

typedef struct mistake {
  void (*make)(program *self);
  const char *says; /* expected in the message */
} mistake;

#define MISTAKE(name) static void name(program *self)

/* ---- Options of a session -------------------------------------------------------------------- */

static tdm_session_options options_of(const program *self, const tdm_optimizer *optimizer) {
  return OPTIONS(tdm_session_options, o.loss = self->loss, o.optimizer = optimizer);
}

static void refuse(const program *self, const tdm_session_options *options) {
  assert_null(tdm_session_create(self->graph, options));
}

MISTAKE(options_without_size) {
  refuse(self, UNMADE(tdm_session_options));
}
MISTAKE(optimizer_without_loss) {
  const tdm_optimizer adam = tdm_adam(1e-3);
  tdm_session_options options = options_of(self, &adam);
  options.loss = (tdm_value){0, 0};
  refuse(self, &options);
}
MISTAKE(negative_learning_rate) {
  const tdm_optimizer adam = tdm_adam(-1e-3);
  const tdm_session_options options = options_of(self, &adam);
  refuse(self, &options);
}
MISTAKE(negative_clip_norm) {
  tdm_optimizer adam = tdm_adam(1e-3);
  adam.clip_norm = -1;
  const tdm_session_options options = options_of(self, &adam);
  refuse(self, &options);
}
MISTAKE(depth_too_large) {
  tdm_session_options options = options_of(self, NULL);
  options.depth = 5000;
  refuse(self, &options);
}
MISTAKE(micro_batches_of_no_dimension) {
  tdm_session_options options = options_of(self, NULL);
  options.micro_batches = 2;
  options.batch_dimension = "rows";
  refuse(self, &options);
}
MISTAKE(layer_misspelt_in_a_map) {
  tdm_session_options options = options_of(self, NULL);
  options.device_map = "blok/fc=cpu:0";
  refuse(self, &options);
}
MISTAKE(scope_misspelt_in_a_map) {
  tdm_session_options options = options_of(self, NULL);
  options.device_map = "blck=cpu:0";
  refuse(self, &options);
}
MISTAKE(device_misspelt_in_a_map) {
  tdm_session_options options = options_of(self, NULL);
  options.device_map = "block=cpu:999";
  refuse(self, &options);
}
MISTAKE(map_without_a_device) {
  tdm_session_options options = options_of(self, NULL);
  options.device_map = "block";
  refuse(self, &options);
}
MISTAKE(group_of_no_parameter) {
  const tdm_optimizer adam = tdm_adam(1e-3);
  const tdm_parameter_group group = {.parameters = "block/fc.wieght"};
  tdm_session_options options = options_of(self, &adam);
  options.groups = &group;
  options.group_count = 1;
  refuse(self, &options);
}
MISTAKE(groups_without_an_optimizer) {
  const tdm_parameter_group group = {.parameters = "block"};
  tdm_session_options options = options_of(self, NULL);
  options.groups = &group;
  options.group_count = 1;
  refuse(self, &options);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static void run(program *self, bool trains, const char *name, tdm_tensor *x, const char *output) {
  const tdm_optimizer sgd = tdm_sgd(0.1);
  const tdm_session_options options = options_of(self, trains ? &sgd : NULL);
  tdm_session *session = tdm_session_create(self->graph, &options);
  assert_non_null(session);
  const tdm_feed feeds[] = {{name, x, false}, {"classes", self->classes, false}};
  tdm_fetch fetch = {output, NULL};
  assert_int_not_equal(tdm_run(session, feeds, 2, &fetch, 1), TDM_OK);
  tdm_session_release(session);
}

static tdm_tensor *other(program *self, tdm_dtype dtype, int64_t features) {
  tdm_tensor_release(self->x);
  self->x = tdm_tensor_zeros(self->context, "cpu:0", dtype, tdm_shape_of(2, 2, features));
  return self->x;
}

MISTAKE(input_misspelt) {
  run(self, false, "y", self->x, "scores");
}
MISTAKE(class_input_misspelt) {
  run(self, false, "clases", self->x, "scores");
}
MISTAKE(output_misspelt) {
  run(self, false, "x", self->x, "score");
}
MISTAKE(input_of_another_dtype) {
  run(self, false, "x", other(self, TDM_FLOAT64, 8), "scores");
}
MISTAKE(input_of_another_shape) {
  run(self, false, "x", other(self, TDM_FLOAT32, 9), "scores");
}
MISTAKE(input_of_nothing) {
  run(self, false, "x", NULL, "scores");
}
MISTAKE(input_forgotten) {
  tdm_session *session = tdm_session_create(self->graph, NULL);
  tdm_fetch fetch = {"scores", NULL};
  assert_int_not_equal(tdm_run(session, NULL, 0, &fetch, 1), TDM_OK);
  tdm_session_release(session);
}

static void train(program *self, const tdm_session_options *options) {
  tdm_session *session = tdm_session_create(self->graph, options);
  assert_non_null(session);
  const tdm_feed feeds[] = {{"x", self->x, false}, {"classes", self->classes, false}};
  assert_int_not_equal(tdm_train_step(session, feeds, 2, NULL, 0, NULL), TDM_OK);
  tdm_session_release(session);
}

MISTAKE(training_without_an_optimizer) {
  const tdm_session_options options = options_of(self, NULL);
  train(self, &options);
}
MISTAKE(training_without_a_loss) {
  train(self, NULL);
}

/* ---- Tensors and files ----------------------------------------------------------------------- */

MISTAKE(tensor_on_no_device) {
  assert_null(tdm_tensor_zeros(self->context, "cpu:999", TDM_FLOAT32, tdm_shape_of(1, 2)));
}
MISTAKE(tensor_of_a_named_dimension) {
  assert_null(
      tdm_tensor_zeros(self->context, "cpu", TDM_FLOAT32, tdm_shape_of(1, TDM_DIM("batch"))));
}
MISTAKE(tensor_read_in_part) {
  float values[3];
  assert_int_not_equal(tdm_tensor_read(self->x, values, sizeof values), TDM_OK);
}
MISTAKE(random_integers) {
  assert_null(tdm_tensor_randn(self->context, "cpu", TDM_INT64, tdm_shape_of(1, 2), 0));
}
MISTAKE(file_that_is_not_there) {
  assert_null(tdm_safetensors_load(self->context, "no_such_file.safetensors"));
}

static const mistake mistakes[] = {
    {options_without_size,
     "tdm_session_create: its options were not made by tdm_session_options_default()"},
    {optimizer_without_loss,
     "session options: an optimizer without a loss: set loss to the value that is to become less"},
    {negative_learning_rate,
     "session options: adam: learning rate -0.001 must be finite and not negative"},
    {negative_clip_norm, "session options: clip_norm is -1, expected a positive number"},
    {depth_too_large, "session options: depth is 5000, expected 1 to 1024"},
    {micro_batches_of_no_dimension, "micro-batches: no input has a dimension rows"},
    {layer_misspelt_in_a_map, "device map: nothing is named 'blok/fc'; layers are: block/fc, loss "
                              "(did you mean 'block/fc'?)"},
    {scope_misspelt_in_a_map,
     "device map: nothing is named 'blck'; layers are: block/fc, loss (did you mean 'block'?)"},
    {device_misspelt_in_a_map, "device map: block: there is no cpu:999: the context has "},
    {map_without_a_device, "device map: 'block' is not NAME=DEVICE"},
    {group_of_no_parameter,
     "session options: parameter group 0: no parameter is called \"block/fc.wieght\", or is below "
     "a scope of that name; parameters are: block/fc.weight, block/fc.bias (did you mean "
     "'block/fc.weight'?)"},
    {groups_without_an_optimizer,
     "session options: parameter groups without an optimizer for the others"},
    {input_misspelt, "the graph has no input 'y'; inputs are: x, classes"},
    {class_input_misspelt,
     "the graph has no input 'clases'; inputs are: x, classes (did you mean 'classes'?)"},
    {output_misspelt,
     "the graph has no output 'score'; outputs are: scores (did you mean 'scores'?)"},
    {input_of_another_dtype, "input x is float32 and was fed float64"},
    {input_of_another_shape, "input x is declared [batch, 8] and was fed [2, 9]"},
    {input_of_nothing, "input x was fed no tensor"},
    {input_forgotten, "input x is needed and was not fed"},
    {training_without_an_optimizer, "the session has a loss and no optimizer: it cannot train "
                                    "without one (tdm_session_options.optimizer)"},
    {training_without_a_loss, "the session has no loss: it cannot train without one "
                              "(tdm_session_options.loss, and optimizer)"},
    {tensor_on_no_device, "there is no cpu:999: the context has "},
    {tensor_of_a_named_dimension, "a tensor cannot have shape [batch]: each dimension is a size"},
    {tensor_read_in_part, "the tensor has 64 bytes, not 12"},
    {random_integers, "randn fills tensors of floating dtypes, not int64"},
    {file_that_is_not_there,
     "safetensors: cannot open no_such_file.safetensors: No such file or directory"},
};

static void each_message_says_what_to_mend(void **state) {
  (void)state;
  program self = {.context = tdm_context_create(NULL)};
  const tdm_dim batch = TDM_DIM("batch");
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
    self.graph = tdm_graph_create(self.context);
    const tdm_value x = tdm_input(self.graph, "x", TDM_FLOAT32, tdm_shape_of(2, batch, 8));
    const tdm_value classes = tdm_input(self.graph, "classes", TDM_INT64, tdm_shape_of(1, batch));
    tdm_scope_push(self.graph, "block");
    const tdm_value scores = tdm_linear(self.graph, "fc", x, 4);
    tdm_scope_pop(self.graph);
    tdm_output(self.graph, "scores", scores);
    self.loss = tdm_cross_entropy(self.graph, "loss", scores, classes);
    self.x = tdm_tensor_zeros(self.context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 2, 8));
    self.classes = tdm_tensor_zeros(self.context, "cpu:0", TDM_INT64, tdm_shape_of(1, 2));
    mistakes[i].make(&self);
    if (!strstr(tdm_last_message(), mistakes[i].says))
      fail_msg("mistake %zu: \"%s\" does not say \"%s\"", i, tdm_last_message(), mistakes[i].says);
    tdm_tensor_release(self.classes);
    tdm_tensor_release(self.x);
    tdm_graph_release(self.graph);
  }
  tdm_context_release(self.context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_message_says_what_to_mend)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
