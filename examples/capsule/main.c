/* capsule: trains a network of capsules on two devices to classify clothes. Its routing is a custom
 * operation. */
#include "examples/capsule/capsules.h"
#include "examples/capsule/network.h"
#include "examples/clothes/clothes.h"

static const option_help helps[] = {
    {"--epochs", "number of training epochs; 0: only evaluate"},
    {"--batch", "images per training step"},
    {"--seed", "random seed of initial values and of the order of images"},
    {"--place", "placement of layers, such as features=cpu:0,*=sim:0 or *=cpu:0"},
    {"--data-parallel", "run the network data-parallel, such as cpu:0,cpu:1"},
};

static const clothes_options defaults = {
    .common = {.epochs = 3, .batch_size = 64, .seed = 1, .learning_rate = 0.002},
    .data = FASHION_MNIST_FOLDER,
};

static const option_table table = {
    .program = "capsule",
    .about =
        "classifies the images of Fashion-MNIST. The convolutions are on the accelerator (a GPU\n"
        "or a simulated one), the capsules with dynamic routing on cpu:0.",
    EXAMPLE_TABLE_PARTS(defaults, clothes_rows, helps),
};

static tdm_value describe(tdm_graph *graph, tdm_value images, tdm_value classes,
                          const char *accelerator, const char *parallel, tdm_value *out_scores) {
  const capsule_network_sizes sizes = {
      .kernel = 9, .channels = 32, .types = 8, .classes = CLASS_COUNT};
  return capsule_network_describe(graph, &sizes, images, classes, accelerator, parallel,
                                  out_scores);
}

int main(int argc, char **argv) {
  const clothes_model model = {.table = &table, .prepare = capsules_register, .describe = describe};
  return clothes_main(&model, argc, argv);
}
