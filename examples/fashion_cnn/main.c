/* fashion_cnn: trains a convolutional network on two devices to classify clothes. */
#include "examples/clothes/clothes.h"
#include "examples/fashion_cnn/network.h"

static const option_help helps[] = {
    {"--epochs", "number of training epochs; 0: only evaluate"},
    {"--batch", "images per training step"},
    {"--seed", "random seed of initial values, dropout and the order of images"},
    {"--place", "placement of layers, such as features=cpu:0,*=sim:0 or *=cpu:0"},
    {"--data-parallel", "run the convolutions data-parallel, such as cpu:0,cpu:1"},
};

static const clothes_options defaults = {
    .common = {.epochs = 3, .batch_size = 64, .seed = 1, .learning_rate = 0.002},
    .data = FASHION_MNIST_FOLDER,
};

static const option_table table = {
    .program = "fashion_cnn",
    .about = "classifies the images of Fashion-MNIST. Two convolutions are on cpu:0, two linear\n"
             "layers on the accelerator (a GPU or a simulated one).",
    EXAMPLE_TABLE_PARTS(defaults, clothes_rows, helps),
};

static tdm_value describe(tdm_graph *graph, tdm_value images, tdm_value classes,
                          const char *accelerator, const char *parallel, tdm_value *out_scores) {
  const fashion_network_sizes sizes = {
      .image = IMAGE_SIZE, .channels = {16, 32}, .hidden = 128, .classes = CLASS_COUNT};
  return fashion_network_describe(graph, &sizes, images, classes, accelerator, parallel,
                                  out_scores);
}

int main(int argc, char **argv) {
  const clothes_model model = {.table = &table, .describe = describe};
  return clothes_main(&model, argc, argv);
}
