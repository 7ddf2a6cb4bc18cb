/* One convolution and its gradients as different libraries compute them, on one thread or more:
 * what bench/convolutions compares. Sizes come from the command line, so that every program of the
 * comparison has the same. */
#ifndef BENCH_CONVOLUTIONS_SUBJECT_H
#define BENCH_CONVOLUTIONS_SUBJECT_H

#include <stdbool.h>
#include <stdint.h>

/* x (images, in, height, width) * weight (out, in / groups, kernel_height, kernel_width). */
typedef struct convolution_sizes {
  int64_t images;
  int64_t groups;
  int64_t in;
  int64_t out;
  int64_t height;
  int64_t width;
  int64_t kernel[2];
  int64_t stride[2];
  int64_t padding[2];
} convolution_sizes;

typedef enum convolution_pass {
  PASS_FORWARD,
  PASS_INPUT_GRADIENT,
  PASS_WEIGHT_GRADIENT, /* gradients of the weight and the bias */
  PASS_COUNT
} convolution_pass;

/* The arrays of one comparison, all dense; every pass writes one of them. */
typedef struct convolution_arrays {
  float *x;        /* (images, in, height, width) */
  float *weight;   /* (out, in / groups, kernel) */
  float *bias;     /* (out) */
  float *y;        /* (images, out, out height, out width) */
  float *d_y;      /* (same shape as y) */
  float *d_x;      /* (same shape as x) */
  float *d_weight; /* (same shape as weight) */
  float *d_bias;   /* (out) */
} convolution_arrays;

/* A computation that can be repeated: run(state). */
typedef struct convolution_subject {
  const char *name;
  void (*run)(void *state);
  void (*release)(void *state);
  void *state; /* NULL: this library can not */
} convolution_subject;

enum { MOST_SUBJECTS = 4 };

static inline int64_t convolution_out(const convolution_sizes *of, int axis) {
  const int64_t size = axis == 0 ? of->height : of->width;
  return (size + 2 * of->padding[axis] - of->kernel[axis]) / of->stride[axis] + 1;
}

/* Tandem's own kernel, its workspace allocated beforehand. Ends the program if it can not. */
convolution_subject convolution_ours(convolution_pass pass, const convolution_sizes *sizes,
                                     const convolution_arrays *arrays, int threads);

/* How oneDNN is given its operands. */
typedef enum onednn_way {
  ONEDNN_PLAIN,     /* x and y are dense; oneDNN selects the weight's layout, which is packed in
                     * every call */
  ONEDNN_REORDERED, /* oneDNN selects all layouts; tensors are reordered from and to dense in every
                     * call */
  ONEDNN_BLOCKED,   /* oneDNN selects all layouts, without reorders, as inside a model with blocked
                     * layouts */
  ONEDNN_WAYS
} onednn_way;

/* oneDNN's primitive, made beforehand; its threads are OpenMP's. */
convolution_subject convolution_onednn(onednn_way way, convolution_pass pass,
                                       const convolution_sizes *sizes,
                                       const convolution_arrays *arrays);

#endif
