/* zoo: nine architectures with PyTorch's initial parameters, trained and compared with PyTorch. */
#include <stdio.h>
#include <string.h>

#include "examples/zoo/zoo.h"

static const char help[] =
    "usage: zoo [--place MAP] [--data FOLDER] [MODEL...]\n"
    "Trains models (all of them unless some are named) for 20 steps from the parameters that\n"
    "PyTorch's training began with, and prints the losses of both.\n"
    "  --place MAP    devices of layers, as h/0=cpu:0,*=sim:0; default: all on cpu:0\n"
    "  --data FOLDER  where the zoo_MODEL.safetensors are; default: tests/golden/models\n"
    "Models:";

typedef struct wishes {
  const char *place;
  const char *folder;
  bool named[ZOO_MODELS];
  bool any_named;
} wishes;

static int find_model(const char *name) {
  int i = 0;
  while (i < ZOO_MODELS && strcmp(name, zoo_models[i].name) != 0)
    i++;
  return i;
}

static void print_help(FILE *out) {
  fputs(help, out);
  for (int i = 0; i < ZOO_MODELS; i++)
    fprintf(out, " %s", zoo_models[i].name);
  fputs("\n", out);
}

/* False where the command line is none. */
static bool read_wishes(int argc, char **argv, wishes *out) {
  *out = (wishes){.folder = "tests/golden/models"};
  for (int i = 1; i < argc; i++) {
    const int model = find_model(argv[i]);
    if (strcmp(argv[i], "--place") == 0 && i + 1 < argc) {
      out->place = argv[++i];
    } else if (strcmp(argv[i], "--data") == 0 && i + 1 < argc) {
      out->folder = argv[++i];
    } else if (model < ZOO_MODELS) {
      out->named[model] = out->any_named = true;
    } else {
      fprintf(stderr, "zoo: there is no %s\n", argv[i]);
      return false;
    }
  }
  return true;
}

static bool train(tdm_context *context, const zoo_model *model, const wishes *wished) {
  zoo_run run;
  double losses[ZOO_STEPS];
  const bool trained =
      zoo_open(context, model, wished->folder, wished->place, &run) && zoo_train(&run, losses);
  if (trained) {
    const float *theirs = tdm_tensor_data(tdm_tensor_list_find(run.golden, "losses"));
    printf("%-10s %14s %14s\n", model->name, "loss", "PyTorch's");
    for (int i = 0; i < ZOO_STEPS; i++)
      printf("%10d %14.6f %14.6f\n", i + 1, losses[i], (double)theirs[i]);
  }
  zoo_close(&run);
  return trained;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--help") == 0) {
    print_help(stdout);
    return 0;
  }
  wishes wished;
  if (!read_wishes(argc, argv, &wished)) {
    print_help(stderr);
    return 2;
  }
  tdm_context *context = tdm_context_create(NULL);
  bool done = context != NULL;
  for (int i = 0; i < ZOO_MODELS && done; i++)
    if (!wished.any_named || wished.named[i]) done = train(context, &zoo_models[i], &wished);
  if (!done) fprintf(stderr, "zoo: %s\n", tdm_last_message());
  tdm_context_release(context);
  return done ? 0 : 1;
}
