/* Code that the convolution and its gradients share: sizes, and columns. No columns are used where
 * there are many channels, which lie in the lanes of vectors then (channels.h), or where the stride
 * is 1 and windows slide (slide.h).
 *
 *   columns (k, pixels) of one image and group: column (y, x) holds the elements of the window at
 *   (y, x), k = channels of the group x kernel height x kernel width; outside the image it is 0
 *
 * The convolution is the product weight (out, k) times columns. Columns are made for some rows of
 * the result at a time, as many as stay in the cache. */
#ifndef TANDEM_DEVICES_KERNELS_CONVOLUTION_CPU_CONVOLUTION_H
#define TANDEM_DEVICES_KERNELS_CONVOLUTION_CPU_CONVOLUTION_H

#include "devices/kernels/convolution/cpu/channels.h"
#include "devices/kernels/convolution/cpu/one_tap.h"
#include "devices/kernels/convolution/cpu/slide.h"
#include "devices/kernels/convolution/image_sizes.h"
#include "devices/kernels/cpu/vector.h"
#include "devices/kernels/products/cpu/product.h"

typedef enum convolution_algorithm {
  CONVOLUTION_COLUMNS,
  CONVOLUTION_SLIDES,
  CONVOLUTION_CHANNELS,
  CONVOLUTION_ONE_TAP
} convolution_algorithm;

typedef struct convolution_state {
  convolution_sizes sizes;
  int64_t k;      /* terms of a sum: input channels of a group x kernel elements */
  int64_t pixels; /* elements of a plane of the result */
  int64_t rows;   /* rows of the result whose columns are made at a time */
  int64_t items;  /* units of work, which tasks share */
  int64_t tasks;  /* tasks; each has memory of its own */
  int64_t task_bytes;
  size_t shared_bytes; /* shared part of the workspace, before the memory of tasks */
  bool direct; /* the kernel has one tap and stride 1, so that columns are the image itself */
  bool splits;
  convolution_algorithm algorithm;
  slide_plan slide;    /* plan for the tensor that is read, x or d_y */
  int64_t block_bands; /* bands that the weight's gradient processes together */
  one_tap_plan one_tap;
  channel_plan channels;
  int64_t item_images;  /* images of an item, with channels in lanes */
  int64_t tile_parts;   /* parts that an item's tiles of channels are divided into */
  int64_t part_tiles;   /* tiles of written channels in a part of the weight's gradient */
  int64_t part_columns; /* columns of such a part */
} convolution_state;

/* Reads the sizes; x, weight and y as for the convolution. */
convolution_state *convolution_state_create(const tdm_kernel_request *request,
                                            tdm_kernel_answer *answer, const tdm_spec *x,
                                            const tdm_spec *weight, const tdm_spec *y);

/* Writes columns (k, count x width) of x (in, h, w) for rows first <= y < first + count of the
 * result. Overwrites up to one vector after them. */
void convolution_columns(const convolution_state *state, const real *x, int64_t first,
                         int64_t count, real *columns);

/* Prepares and executes convolutions by sliding windows. prepare sets the workspace in `answer`. */
void convolution_slide_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                               convolution_state *state);
void convolution_slide_back_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                    convolution_state *state);
void convolution_slide_execute(const tdm_kernel_call *call);
void convolution_slide_back_execute(const tdm_kernel_call *call);
/* Plans the gradient of the parameters; returns the bytes of memory that
 * convolution_slide_parameter needs. */
size_t convolution_slide_parameter_bytes(convolution_state *state);
/* Adds the contribution of image_count images to d_weight (out, k) of one group: d_y (image_count,
 * groups, out, pixels) and x (image_count, groups, in, h, w), beginning at that group. */
void convolution_slide_parameter(const convolution_state *state, const real *d_y, const real *x,
                                 int64_t image_count, char *memory, real *d_weight);

/* Returns the fastest algorithm for a convolution of these sizes, for the gradient of x, and for
 * that of the weight. The number of images has no influence. */
convolution_algorithm convolution_algorithm_forward(const convolution_state *state);
convolution_algorithm convolution_algorithm_back(const convolution_state *state);
convolution_algorithm convolution_algorithm_parameter(const convolution_state *state);

/* Prepares and executes convolutions with channels in lanes. prepare sets the workspace in
 * `answer`. The gradient of the parameters excludes the bias. */
void convolution_channels_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                  convolution_state *state);
void convolution_channels_back_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                       convolution_state *state);
void convolution_channels_parameter_prepare(const tdm_kernel_request *request,
                                            tdm_kernel_answer *answer, convolution_state *state);
void convolution_channels_execute(const tdm_kernel_call *call);
void convolution_channels_back_execute(const tdm_kernel_call *call);
void convolution_channels_parameter_execute(const tdm_kernel_call *call);

/* Does the same with pixels in lanes, for kernels of one tap. */
void convolution_one_tap_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                 convolution_state *state);
void convolution_one_tap_back_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                      convolution_state *state);
void convolution_one_tap_execute(const tdm_kernel_call *call);
void convolution_one_tap_back_execute(const tdm_kernel_call *call);

/* The functions of an algorithm, indexed by convolution_algorithm. */
typedef struct convolution_steps {
  void (*prepare)(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                  convolution_state *state);
  void (*execute)(const tdm_kernel_call *call);
} convolution_steps;

/* Returns a number of tasks that gives every thread several, so that no thread waits long for the
 * last one. */
static inline int64_t convolution_wanted_tasks(const convolution_state *state,
                                               const tdm_kernel_request *request) {
  return state->splits ? 4 * (int64_t)request->team_size : 1;
}

/* Divides items among at most `wanted` tasks. Each task has task_bytes of the workspace, after its
 * first shared_bytes. */
void convolution_share_items(convolution_state *state, tdm_kernel_answer *answer, int64_t items,
                             int64_t wanted, size_t shared_bytes, size_t task_bytes);
/* Runs item(job, i, the task's memory) for all items, on the call's team. */
typedef void (*convolution_item)(const void *job, int64_t item, char *memory);
void convolution_run_items(const tdm_kernel_call *call, convolution_item item, const void *job);

/* Returns the bytes of the columns of one block of rows. */
static inline size_t columns_bytes(const convolution_state *state) {
  const int64_t count = state->k * state->rows * state->sizes.out_size[1];
  return aligned_bytes((size_t)count * sizeof(real));
}

/* The elements of a row of x that tap `tap` of the kernel's rows reads: columns first <= j < end of
 * the result read element j stride + shift; the other columns read padding. */
typedef struct row_span {
  int64_t first;
  int64_t end;
  int64_t shift;
} row_span;

static inline row_span span_of(const convolution_state *state, int64_t tap) {
  const int64_t width = state->sizes.out_size[1], stride = state->sizes.stride[1];
  row_span span = {.shift = tap * state->sizes.dilation[1] - state->sizes.padding[1]};
  if (span.shift < 0) span.first = lesser_of((-span.shift + stride - 1) / stride, width);
  const int64_t room = state->sizes.size[1] - span.shift;
  if (room > 0) span.end = lesser_of((room + stride - 1) / stride, width);
  if (span.end < span.first) span.end = span.first;
  return span;
}

#endif
