/* Fashion-MNIST (Xiao, Rasul, Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking
 * machine learning algorithms", 2017) as datasets. One thread. */
#ifndef EXAMPLES_CLOTHES_FASHION_MNIST_H
#define EXAMPLES_CLOTHES_FASHION_MNIST_H

#include <tandem/tandem.h>

enum { CLASS_COUNT = 10, IMAGE_SIZE = 28 };

/* Fields of a batch. */
enum { IMAGES, CLASSES, IMAGE_FIELDS };

/* Returns the first count items (0: all) of the training or the test part in folder: "image"
 * float32 (1, 28, 28), mean 0 and deviation 1 over the training part, and "class" int64 (). NULL on
 * failure, with a message that names the file. */
tdm_dataset *fashion_mnist_read(tdm_context *context, const char *folder, bool training,
                                int64_t count);
const char *fashion_mnist_class_name(int64_t index);

#endif
