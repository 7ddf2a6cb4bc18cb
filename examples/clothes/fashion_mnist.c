/* Reads IDX files (LeCun's format of MNIST: a big-endian header, then bytes), compressed by gzip.
 * Invariant: nothing of a header is believed before it fits what the file has to be. */
#include "examples/clothes/fashion_mnist.h"

#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#include "tools/options/command_line.h"

enum { MAGIC_OF_CLASSES = 0x801, MAGIC_OF_IMAGES = 0x803, PIXELS = IMAGE_SIZE * IMAGE_SIZE };

/* Statistics of the training part's pixels, between 0 and 1. */
static const double PIXEL_MEAN = 0.2860;
static const double PIXEL_DEVIATION = 0.3530;

/* The bytes of a file after its header, for count items. */
typedef struct item_bytes {
  unsigned char *data;
  int64_t count;
} item_bytes;

static tdm_status read_number(gzFile file, uint32_t *out_number) {
  unsigned char bytes[4];
  if (gzread(file, bytes, sizeof bytes) != (int)sizeof bytes) return TDM_CORRUPT_DATA;
  *out_number = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
                (uint32_t)bytes[3];
  return TDM_OK;
}

static tdm_status read_header(gzFile file, bool images, uint32_t *out_count) {
  uint32_t magic = 0, height = IMAGE_SIZE, width = IMAGE_SIZE;
  tdm_status status = read_number(file, &magic);
  if (status == TDM_OK) status = read_number(file, out_count);
  if (status == TDM_OK && images) status = read_number(file, &height);
  if (status == TDM_OK && images) status = read_number(file, &width);
  const bool fits = magic == (images ? MAGIC_OF_IMAGES : MAGIC_OF_CLASSES) &&
                    height == IMAGE_SIZE && width == IMAGE_SIZE && *out_count <= 1000000;
  return status == TDM_OK && fits ? TDM_OK : TDM_CORRUPT_DATA;
}

static tdm_status read_items(gzFile file, bool images, item_bytes *out) {
  uint32_t count = 0;
  if (read_header(file, images, &count) != TDM_OK) return TDM_CORRUPT_DATA;
  const size_t bytes = (size_t)count * (images ? PIXELS : 1);
  out->count = count;
  out->data = malloc(bytes + 1);
  if (!out->data) return TDM_OUT_OF_MEMORY;
  return gzread(file, out->data, (unsigned)bytes) == (int)bytes ? TDM_OK : TDM_CORRUPT_DATA;
}

static tdm_status read_file(const char *folder, const char *name, bool images, item_bytes *out) {
  char path[4096];
  (void)snprintf(path, sizeof path, "%s/%s", folder, name);
  gzFile file = gzopen(path, "rb");
  if (!file)
    return tdm_fail(TDM_UNAVAILABLE,
                    "%s cannot be read; Debian's package dataset-fashion-mnist "
                    "brings it, or --data names another folder",
                    path);
  const tdm_status status = read_items(file, images, out);
  gzclose(file);
  return status == TDM_OK ? TDM_OK
                          : tdm_fail(status, "%s is not a whole IDX file of its kind", path);
}

/* ---- The dataset: the files' bytes, made numbers item by item -------------------------------- */

typedef struct part {
  item_bytes images;
  item_bytes classes;
} part;

static void part_release(void *user) {
  part *released = user;
  free(released->images.data);
  free(released->classes.data);
  free(released);
}

static tdm_status copy_item(void *user, int64_t index, void *const *out_fields) {
  const part *from = user;
  const unsigned char *bytes = from->images.data + index * PIXELS;
  float *pixels = out_fields[IMAGES]; /* (1, 28, 28) */
  for (int i = 0; i < PIXELS; i++)
    pixels[i] = (float)((bytes[i] / 255.0 - PIXEL_MEAN) / PIXEL_DEVIATION);
  *(int64_t *)out_fields[CLASSES] = from->classes.data[index];
  return TDM_OK;
}

static tdm_status read_part(const char *folder, bool training, part *out) {
  tdm_status status =
      read_file(folder, training ? "train-images-idx3-ubyte.gz" : "t10k-images-idx3-ubyte.gz", true,
                &out->images);
  if (status == TDM_OK)
    status =
        read_file(folder, training ? "train-labels-idx1-ubyte.gz" : "t10k-labels-idx1-ubyte.gz",
                  false, &out->classes);
  if (status == TDM_OK && out->images.count != out->classes.count)
    status = tdm_fail(TDM_CORRUPT_DATA, "%s has %lld images and %lld classes", folder,
                      (long long)out->images.count, (long long)out->classes.count);
  for (int64_t i = 0; status == TDM_OK && i < out->classes.count; i++)
    if (out->classes.data[i] >= CLASS_COUNT)
      status =
          tdm_fail(TDM_CORRUPT_DATA, "%s has an image of class %d", folder, out->classes.data[i]);
  return status;
}

tdm_dataset *fashion_mnist_read(tdm_context *context, const char *folder, bool training,
                                int64_t count) {
  static const tdm_field fields[IMAGE_FIELDS] = {
      [IMAGES] = {"image", TDM_FLOAT32, {3, {1, IMAGE_SIZE, IMAGE_SIZE}}},
      [CLASSES] = {"class", TDM_INT64, {0, {0}}}};
  part *read = calloc(1, sizeof *read);
  if (!read) {
    (void)tdm_fail(TDM_OUT_OF_MEMORY, "%s", folder);
    return NULL;
  }
  tdm_dataset *dataset = NULL;
  if (read_part(folder, training, read) == TDM_OK) {
    const tdm_dataset_source source = {
        .struct_size = sizeof source,
        .user = read,
        .length = count == 0 || count > read->images.count ? read->images.count : count,
        .fields = fields,
        .field_count = IMAGE_FIELDS,
        .item = copy_item,
        .destroy = part_release,
    };
    dataset = tdm_dataset_create(context, &source);
  }
  if (!dataset) part_release(read);
  return dataset;
}

const char *fashion_mnist_class_name(int64_t index) {
  static const char *const names[CLASS_COUNT] = {"t-shirt", "trousers", "pullover", "dress",
                                                 "coat",    "sandal",   "shirt",    "sneaker",
                                                 "bag",     "boot"};
  return index >= 0 && index < CLASS_COUNT ? names[index] : "?";
}
