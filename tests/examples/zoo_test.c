/* Compares the zoo's models with PyTorch: parameters load by PyTorch's names, and outputs and the
 * losses of 20 training steps agree, on every placement of the kind that the argument names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "examples/zoo/zoo.h"

#define ANSWER_TOLERANCE 2e-5 /* limit relative to the largest element */
#define LOSS_TOLERANCE 2e-5   /* relative limit: rounding errors grow from step to step */

static const char golden[] = "tests/golden/models";

/* Devices for the layers of each model, in the order of zoo_models. */
static const char *const mixed[ZOO_MODELS] = {
    "wte=cpu:0,wpe=cpu:0,h/0=cpu:0,*=sim:0",
    "layer1=cpu:0,layer3=cpu:0,*=sim:0",
    "embeddings=cpu:0,encoder/layer/1=cpu:0,*=sim:0",
    "emb_l=cpu:0,*=sim:0",
    "decoder=cpu:0,*=sim:0",
    "inc=cpu:0,up2=cpu:0,*=sim:0",
    "conv_proj=cpu:0,layers/1=cpu:0,*=sim:0",
    "embed_tokens=cpu:0,layers/0/mlp=cpu:0,*=sim:0",
    "embedding=cpu:0,hidden2tag=cpu:0,*=sim:0",
};

static void check_answer(const zoo_model *model, const zoo_run *run) {
  tdm_tensor *answer;
  if (!zoo_answer(run, &answer)) fail_msg("%s: %s", model->name, tdm_last_message());
  const tdm_tensor *wanted = tdm_tensor_list_find(run->golden, "output");
  assert_non_null(wanted);
  const tdm_shape shapes[] = {tdm_tensor_shape(answer), tdm_tensor_shape(wanted)};
  assert_true(tdm_shape_equal(&shapes[0], &shapes[1]));
  const float *a = tdm_tensor_data(answer);
  const float *b = tdm_tensor_data(wanted);
  double largest = 0;
  double difference = 0;
  for (int64_t i = 0; i < tdm_shape_count(&shapes[0]); i++) {
    largest = fmax(largest, fabs((double)b[i]));
    difference = isnan(a[i]) ? INFINITY : fmax(difference, fabs((double)a[i] - (double)b[i]));
  }
  print_message("%s: answer off by %.1e", model->name, difference / largest);
  if (difference > ANSWER_TOLERANCE * largest)
    fail_msg("%s: the answer differs by %g of %g", model->name, difference, largest);
  tdm_tensor_release(answer);
}

static void check_losses(const zoo_model *model, const zoo_run *run) {
  double losses[ZOO_STEPS];
  if (!zoo_train(run, losses)) fail_msg("%s: %s", model->name, tdm_last_message());
  const float *wanted = tdm_tensor_data(tdm_tensor_list_find(run->golden, "losses"));
  double most = 0;
  for (int i = 0; i < ZOO_STEPS; i++) {
    const double off = fabs(losses[i] - (double)wanted[i]) / fabs((double)wanted[i]);
    most = fmax(most, isnan(losses[i]) ? INFINITY : off);
    if (most > LOSS_TOLERANCE)
      fail_msg("%s: loss %d is %.8g, PyTorch's %.8g", model->name, i + 1, losses[i],
               (double)wanted[i]);
  }
  print_message(", losses by %.1e\n", most);
}

static void check_model(tdm_context *context, const zoo_model *model, const char *device_map) {
  zoo_run run;
  if (!zoo_open(context, model, golden, device_map, &run))
    fail_msg("%s: %s", model->name, tdm_last_message());
  check_answer(model, &run);
  check_losses(model, &run);
  zoo_close(&run);
}

static void models_are_pytorchs(void **state) {
  for (int i = 0; i < ZOO_MODELS; i++)
    check_model(*state, &zoo_models[i], NULL);
}

static void models_on_two_devices_are_pytorchs(void **state) {
  for (int i = 0; i < ZOO_MODELS; i++)
    check_model(*state, &zoo_models[i], mixed[i]);
}

/* Those without convolutions, which take minutes on an emulated GPU. */
static void models_on_a_gpu_are_pytorchs(void **state) {
  static const char *const names[] = {"gpt2", "dlrm", "tagger"};
  int found = 0;
  for (int i = 0; i < ZOO_MODELS; i++)
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
      if (strcmp(zoo_models[i].name, names[k]) == 0) {
        check_model(*state, &zoo_models[i], "*=cuda:0");
        found++;
      }
  assert_int_equal(found, sizeof names / sizeof *names);
}

static void a_missing_file_is_told(void **state) {
  const zoo_model nobody = {"nobody", zoo_gpt2};
  zoo_run run;
  assert_false(zoo_open(*state, &nobody, golden, NULL, &run));
  assert_non_null(strstr(tdm_last_message(), "zoo_nobody.safetensors"));
  zoo_close(&run);
}

static int open_context(void **state) {
  *state = tdm_context_create(NULL);
  return *state ? 0 : -1;
}

static int close_context(void **state) {
  tdm_context_release(*state);
  return 0;
}

int main(int argc, char **argv) {
  const struct CMUnitTest on_cpu[] = {
      cmocka_unit_test(models_are_pytorchs),
      cmocka_unit_test(models_on_two_devices_are_pytorchs),
      cmocka_unit_test(a_missing_file_is_told),
  };
  const struct CMUnitTest on_cuda[] = {cmocka_unit_test(models_on_a_gpu_are_pytorchs)};
  if (argc == 2 && strcmp(argv[1], "cuda") == 0)
    return cmocka_run_group_tests(on_cuda, open_context, close_context);
  return cmocka_run_group_tests(on_cpu, open_context, close_context);
}
