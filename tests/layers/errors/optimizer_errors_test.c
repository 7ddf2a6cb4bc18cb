/* Optimizers refuse illegal options and gradients. The message names the optimizer and the illegal
 * value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"
#include "tests/options.h"

static tdm_value floats(tdm_graph *graph, const char *name, tdm_shape shape) {
  return tdm_input(graph, name, TDM_FLOAT32, shape);
}

static void expect_words(const char *message, const char *const *words, size_t count) {
  for (size_t i = 0; i < count && words[i]; i++)
    if (!strstr(message, words[i])) fail_msg("\"%s\" does not say \"%s\"", message, words[i]);
}

/* The message with which training is refused: at creation, or when a plan is prepared. */
static void expect_refused(tdm_optimizer optimizer, bool sparse, const char *const *words) {
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_embedding_options options = OPTIONS(tdm_embedding_options, o.sparse = sparse);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, 3));
  const tdm_value rows = tdm_embedding_with(graph, "table", ids, 7, 5, &options);
  const tdm_value target = floats(graph, "target", tdm_shape_of(2, 3, 5));
  const tdm_session_options training = OPTIONS(
      tdm_session_options, o.loss = tdm_mse(graph, "loss", rows, target), o.optimizer = &optimizer);
  tdm_session *session = tdm_session_create(graph, &training);
  assert_null(session);
  expect_words(tdm_last_message(), words, 4);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
}

static void test_optimizers_that_refuse(void **state) {
  (void)state;
  const tdm_sgd_options momentum =
      OPTIONS(tdm_sgd_options, o.learning_rate = 0.1, o.momentum = 0.9);
  const tdm_sgd_options decay =
      OPTIONS(tdm_sgd_options, o.learning_rate = 0.1, o.weight_decay = 0.1);
  const tdm_sgd_options nesterov =
      OPTIONS(tdm_sgd_options, o.learning_rate = 0.1, o.nesterov = true);
  const tdm_adam_options beta = OPTIONS(tdm_adam_options, o.beta1 = 1.0);
  const tdm_adagrad_options shrinking = OPTIONS(tdm_adagrad_options, o.weight_decay = 0.1);
  const tdm_adagrad_options slowing = OPTIONS(tdm_adagrad_options, o.rate_decay = -0.5);
  const tdm_rmsprop_options momentous = OPTIONS(tdm_rmsprop_options, o.momentum = -2.0);
  tdm_optimizer norm = tdm_sgd(0.1);
  norm.clip_norm = -1.0;
  expect_refused(tdm_sgd_with(&momentum), true, (const char *[4]){"sgd", "table.weight"});
  expect_refused(tdm_sgd_with(&decay), true, (const char *[4]){"sgd", "table.weight"});
  expect_refused(tdm_adam(0.1), true, (const char *[4]){"adam", "table.weight", "sparse"});
  expect_refused(tdm_adamw(0.1), true, (const char *[4]){"adamw", "table.weight", "sparse"});
  expect_refused(tdm_sparse_adam(0.1), false,
                 (const char *[4]){"sparse_adam", "table.weight", "dense"});
  expect_refused(tdm_sgd_with(&nesterov), false, (const char *[4]){"sgd", "nesterov"});
  expect_refused(tdm_adam_with(&beta), false,
                 (const char *[4]){"adam", "beta1 is 1", "less than 1"});
  expect_refused(tdm_sgd(-1.0), false, (const char *[4]){"sgd", "learning rate -1"});
  expect_refused(tdm_adagrad_with(&shrinking), true,
                 (const char *[4]){"adagrad with weight decay", "table.weight", "sparse"});
  expect_refused(tdm_adagrad_with(&slowing), false,
                 (const char *[4]){"adagrad", "rate_decay is -0.5"});
  expect_refused(tdm_rmsprop(0.1), true, (const char *[4]){"rmsprop", "table.weight", "sparse"});
  expect_refused(tdm_rmsprop_with(&momentous), false,
                 (const char *[4]){"rmsprop", "momentum is -2"});
  expect_refused(norm, false, (const char *[4]){"clip_norm", "-1"});
  const tdm_adam_options largest = OPTIONS(tdm_adam_options, o.amsgrad = true);
  const tdm_nadam_options slower = OPTIONS(tdm_nadam_options, o.momentum_decay = -0.5);
  const tdm_adamax_options unlike = OPTIONS(tdm_adamax_options, o.beta2 = 1.5);
  const tdm_adadelta_options forgetful = OPTIONS(tdm_adadelta_options, o.rho = 1.5);
  const tdm_adafactor_options growing = OPTIONS(tdm_adafactor_options, o.beta2_decay = 0.8),
                              tight = OPTIONS(tdm_adafactor_options, o.d = 0.5);
  expect_refused(tdm_sparse_adam_with(&largest), true,
                 (const char *[4]){"sparse_adam", "amsgrad is 1, expected 0"});
  expect_refused(tdm_nadam_with(&slower), false,
                 (const char *[4]){"nadam", "momentum_decay is -0.5", "at least 0"});
  const tdm_adam_options decaying = OPTIONS(tdm_adam_options, o.weight_decay = 0.1);
  expect_refused(tdm_sparse_adam_with(&decaying), true,
                 (const char *[4]){"sparse_adam", "weight_decay is 0.1, expected 0"});
  expect_refused(tdm_radam(0.1), true, (const char *[4]){"radam", "table.weight", "sparse"});
  expect_refused(tdm_adamax_with(&unlike), false, (const char *[4]){"adamax", "beta2 is 1.5"});
  expect_refused(tdm_adadelta(0.1), true, (const char *[4]){"adadelta", "table.weight", "sparse"});
  expect_refused(tdm_adadelta_with(&forgetful), false,
                 (const char *[4]){"adadelta", "rho is 1.5", "0 to 1"});
  expect_refused(tdm_adafactor(0.1), true, (const char *[4]){"adafactor", "table.weight"});
  expect_refused(tdm_adafactor_with(&growing), false,
                 (const char *[4]){"adafactor", "beta2_decay is 0.8"});
  expect_refused(tdm_adafactor_with(&tight), false,
                 (const char *[4]){"adafactor", "d is 0.5", "at least 1"});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_optimizers_that_refuse),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
