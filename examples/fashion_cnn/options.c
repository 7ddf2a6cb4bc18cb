/* Reads the command line: a table of options, each with the function that takes its value. The help
 * text and the parser both read that table. */
#include "examples/fashion_cnn/options.h"

#include <stdio.h>
#include <string.h>

#include "examples/common/command_line.h"

typedef struct option {
  const char *name;
  const char *value; /* what follows it, as help calls it; NULL: nothing does */
  const char *help;
  tdm_status (*take)(options *out, const char *name, const char *text);
} option;

static tdm_status take_data(options *out, const char *name, const char *text) {
  (void)name;
  out->data = text;
  return TDM_OK;
}

static tdm_status take_epochs(options *out, const char *name, const char *text) {
  return read_integer(name, text, 0, 10000, &out->epochs);
}

static tdm_status take_batch(options *out, const char *name, const char *text) {
  return read_integer(name, text, 1, 1 << 16, &out->batch_size);
}

static tdm_status take_images(options *out, const char *name, const char *text) {
  return read_integer(name, text, 0, INT32_MAX, &out->training_images);
}

static tdm_status take_test_images(options *out, const char *name, const char *text) {
  return read_integer(name, text, 0, INT32_MAX, &out->test_images);
}

static tdm_status take_learning_rate(options *out, const char *name, const char *text) {
  return read_positive_real(name, text, &out->learning_rate);
}

static tdm_status take_seed(options *out, const char *name, const char *text) {
  int64_t seed = 0;
  const tdm_status status = read_integer(name, text, 0, INT64_MAX, &seed);
  out->seed = (uint64_t)seed;
  return status;
}

static tdm_status take_place(options *out, const char *name, const char *text) {
  (void)name;
  out->place = text;
  return TDM_OK;
}

static tdm_status take_data_parallel(options *out, const char *name, const char *text) {
  (void)name;
  out->parallel = text;
  return TDM_OK;
}

static tdm_status take_trace(options *out, const char *name, const char *text) {
  out->trace_path = text;
  return check_writable(name, text);
}

static tdm_status take_save(options *out, const char *name, const char *text) {
  out->save_path = text;
  return check_writable(name, text);
}

static tdm_status take_explain(options *out, const char *name, const char *text) {
  (void)name, (void)text;
  out->explain = true;
  return TDM_OK;
}

static tdm_status take_help(options *out, const char *name, const char *text) {
  (void)name, (void)text;
  out->help = true;
  return TDM_OK;
}

static const option table[] = {
    {"--data", "FOLDER", "where Fashion-MNIST's four files are (that of Debian's package)",
     take_data},
    {"--epochs", "N", "how often training sees every image; 0: only evaluate (3)", take_epochs},
    {"--batch", "N", "images in one training step (64)", take_batch},
    {"--images", "N", "train on the first N images; 0: all (0)", take_images},
    {"--test-images", "N", "evaluate on the first N images; 0: all (0)", take_test_images},
    {"--learning-rate", "R", "of the first step; falls to 0 at the last (0.002)",
     take_learning_rate},
    {"--seed", "N", "of initial values, dropout and the order of images (1)", take_seed},
    {"--place", "MAP", "devices of layers, as features=cpu:0,*=sim:0 or *=cpu:0", take_place},
    {"--data-parallel", "LIST", "the convolutions over devices, as cpu:0,cpu:1",
     take_data_parallel},
    {"--save", "FILE", "write the trained model, as safetensors with PyTorch's names", take_save},
    {"--explain", NULL, "print the plan of a training step with every transfer", take_explain},
    {"--trace", "FILE", "write a timeline of the last steps for Perfetto", take_trace},
    {"--help", NULL, "print this", take_help},
};
enum { OPTION_COUNT = sizeof table / sizeof *table };

void options_print_help(void) {
  puts("fashion_cnn: tells ten kinds of clothes apart. Two convolutions on cpu:0, two linear "
       "layers\n"
       "on the accelerator (a GPU, or a simulated one), trained on Fashion-MNIST.\n");
  for (int i = 0; i < OPTION_COUNT; i++) {
    char left[64];
    snprintf(left, sizeof left, "%s %s", table[i].name, table[i].value ? table[i].value : "");
    printf("  %-24s %s\n", left, table[i].help);
  }
}

/* Takes the option at arguments[0] with its value. */
static tdm_status take_option(options *out, char **arguments, int *out_taken) {
  const char *name = arguments[0];
  for (int i = 0; i < OPTION_COUNT; i++) {
    if (strcmp(name, table[i].name) != 0) continue;
    if (table[i].value && !arguments[1])
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s needs %s", name, table[i].value);
    *out_taken = table[i].value ? 1 : 0;
    return table[i].take(out, name, arguments[1]);
  }
  return tdm_fail(TDM_INVALID_ARGUMENT, "there is no option \"%s\"; --help tells them", name);
}

tdm_status options_read(int argc, char **argv, options *out_options) {
  *out_options = (options){
      .data = "/usr/share/datasets/fashion-mnist",
      .epochs = 3,
      .batch_size = 64,
      .seed = 1,
      .learning_rate = 0.002,
  };
  for (int i = 1; i < argc; i++) {
    int taken = 0;
    const tdm_status status = take_option(out_options, argv + i, &taken);
    if (status != TDM_OK) return status;
    i += taken;
  }
  return TDM_OK;
}
