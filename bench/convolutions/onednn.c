/* oneDNN's convolution primitives (version 2 of its C interface), with the reorders that dense
 * operands need. */
#include <stdio.h>
#include <stdlib.h>

#include "bench/convolutions/subject.h"
#include "oneapi/dnnl/dnnl.h"

enum { MOST_STEPS = 5, MOST_MEMORIES = 8, MOST_ARGUMENTS = 4 };

typedef struct step {
  dnnl_primitive_t primitive;
  dnnl_exec_arg_t arguments[MOST_ARGUMENTS];
  int argument_count;
} step;

typedef struct onednn {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  step steps[MOST_STEPS]; /* executed in this order */
  int step_count;
  dnnl_memory_t memories[MOST_MEMORIES];
  int memory_count;
} onednn;

/* An operand of a pass, in the order of its descriptor. */
typedef struct operand {
  dnnl_memory_desc_t dense;
  dnnl_memory_desc_t wanted; /* layout that oneDNN selected */
  float *data;
  int argument;
  bool written;
  bool packed; /* packed in every call */
} operand;

typedef struct operands {
  operand x;
  operand weight;
  operand bias;
  operand y;
  dnnl_dims_t stride, dilation, padding;
} operands;

static void check(dnnl_status_t status, const char *what) {
  if (status == dnnl_success) return;
  fprintf(stderr, "onednn: %s: %d\n", what, (int)status);
  exit(1);
}

static operand describe(const dnnl_dims_t dims, int rank, dnnl_format_tag_t dense, bool any,
                        float *data) {
  operand made = {.data = data};
  check(dnnl_memory_desc_init_by_tag(&made.dense, rank, dims, dnnl_f32, dense), "descriptor");
  check(dnnl_memory_desc_init_by_tag(&made.wanted, rank, dims, dnnl_f32,
                                     any ? dnnl_format_tag_any : dense),
        "descriptor");
  return made;
}

static operands describe_all(onednn_way way, convolution_pass pass, const convolution_sizes *of,
                             const convolution_arrays *arrays) {
  const bool any = way != ONEDNN_PLAIN, grouped = of->groups > 1;
  const dnnl_dims_t x = {of->images, of->in, of->height, of->width};
  const dnnl_dims_t y = {of->images, of->out, convolution_out(of, 0), convolution_out(of, 1)};
  const dnnl_dims_t whole = {of->out, of->in, of->kernel[0], of->kernel[1]};
  const dnnl_dims_t parts = {of->groups, of->out / of->groups, of->in / of->groups, of->kernel[0],
                             of->kernel[1]};
  const dnnl_dims_t bias = {of->out};
  const bool back = pass == PASS_WEIGHT_GRADIENT;
  operands made = {
      .x = describe(x, 4, dnnl_nchw, any, pass == PASS_INPUT_GRADIENT ? arrays->d_x : arrays->x),
      .weight = describe(grouped ? parts : whole, grouped ? 5 : 4, grouped ? dnnl_goihw : dnnl_oihw,
                         true, back ? arrays->d_weight : arrays->weight),
      .bias = describe(bias, 1, dnnl_a, false, back ? arrays->d_bias : arrays->bias),
      .y = describe(y, 4, dnnl_nchw, any, pass == PASS_FORWARD ? arrays->y : arrays->d_y),
  };
  for (int axis = 0; axis < 2; axis++) {
    made.stride[axis] = of->stride[axis];
    made.padding[axis] = of->padding[axis];
    made.dilation[axis] = 0; /* oneDNN counts from 0 */
  }
  return made;
}

/* Returns the primitive's description; NULL where oneDNN has none. */
static dnnl_primitive_desc_t make_description(onednn *self, convolution_pass pass,
                                              const operands *of) {
  dnnl_convolution_desc_t forward, wanted;
  dnnl_primitive_desc_t hint = NULL, made = NULL;
  check(dnnl_dilated_convolution_forward_desc_init(
            &forward, pass == PASS_FORWARD ? dnnl_forward_inference : dnnl_forward_training,
            dnnl_convolution_direct, &of->x.wanted, &of->weight.wanted, &of->bias.wanted,
            &of->y.wanted, of->stride, of->dilation, of->padding, of->padding),
        "forward");
  if (dnnl_primitive_desc_create(&hint, &forward, NULL, self->engine, NULL) != dnnl_success)
    return NULL;
  if (pass == PASS_FORWARD) return hint;
  if (pass == PASS_INPUT_GRADIENT)
    check(dnnl_dilated_convolution_backward_data_desc_init(
              &wanted, dnnl_convolution_direct, &of->x.wanted, &of->weight.wanted, &of->y.wanted,
              of->stride, of->dilation, of->padding, of->padding),
          "gradient of x");
  else
    check(dnnl_dilated_convolution_backward_weights_desc_init(
              &wanted, dnnl_convolution_direct, &of->x.wanted, &of->weight.wanted, &of->bias.wanted,
              &of->y.wanted, of->stride, of->dilation, of->padding, of->padding),
          "gradient of the weight");
  if (dnnl_primitive_desc_create(&made, &wanted, NULL, self->engine, hint) != dnnl_success)
    made = NULL;
  dnnl_primitive_desc_destroy(hint);
  return made;
}

static dnnl_memory_t make_memory(onednn *self, const dnnl_memory_desc_t *desc, void *data) {
  dnnl_memory_t *made = &self->memories[self->memory_count++];
  check(dnnl_memory_create(made, desc, self->engine, data), "memory");
  return *made;
}

static void add_reorder(onednn *self, const dnnl_memory_desc_t *from_desc, dnnl_memory_t from,
                        const dnnl_memory_desc_t *to_desc, dnnl_memory_t to) {
  dnnl_primitive_desc_t made;
  check(dnnl_reorder_primitive_desc_create(&made, from_desc, self->engine, to_desc, self->engine,
                                           NULL),
        "reorder");
  step *added = &self->steps[self->step_count++];
  check(dnnl_primitive_create(&added->primitive, made), "reorder");
  dnnl_primitive_desc_destroy(made);
  added->arguments[0] = (dnnl_exec_arg_t){DNNL_ARG_FROM, from};
  added->arguments[1] = (dnnl_exec_arg_t){DNNL_ARG_TO, to};
  added->argument_count = 2;
}

/* Adds an operand of the primitive, and the reorder that it needs. */
static void add_operand(onednn *self, step *main_step, const operand *of,
                        const dnnl_memory_desc_t *desc) {
  dnnl_memory_t memory;
  if (dnnl_memory_desc_equal(desc, &of->dense)) {
    memory = make_memory(self, desc, of->data);
  } else {
    memory = make_memory(self, desc, DNNL_MEMORY_ALLOCATE);
    if (of->packed) {
      const dnnl_memory_t dense = make_memory(self, &of->dense, of->data);
      if (of->written)
        add_reorder(self, desc, memory, &of->dense, dense);
      else
        add_reorder(self, &of->dense, dense, desc, memory);
    }
  }
  main_step->arguments[main_step->argument_count++] = (dnnl_exec_arg_t){of->argument, memory};
}

static void run(void *state) {
  onednn *self = state;
  for (int i = 0; i < self->step_count; i++)
    check(dnnl_primitive_execute(self->steps[i].primitive, self->stream,
                                 self->steps[i].argument_count, self->steps[i].arguments),
          "execute");
  check(dnnl_stream_wait(self->stream), "wait");
}

static void release(void *state) {
  onednn *self = state;
  for (int i = 0; i < self->step_count; i++)
    dnnl_primitive_destroy(self->steps[i].primitive);
  for (int i = 0; i < self->memory_count; i++)
    dnnl_memory_destroy(self->memories[i]);
  dnnl_stream_destroy(self->stream);
  dnnl_engine_destroy(self->engine);
  free(self);
}

static void name_arguments(operands *of, onednn_way way, convolution_pass pass) {
  const bool input = pass == PASS_INPUT_GRADIENT, weight = pass == PASS_WEIGHT_GRADIENT;
  of->x.argument = input ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
  of->x.written = input;
  of->weight.argument = weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
  of->weight.written = weight;
  of->bias.argument = weight ? DNNL_ARG_DIFF_BIAS : DNNL_ARG_BIAS;
  of->bias.written = weight;
  of->y.argument = pass == PASS_FORWARD ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST;
  of->y.written = pass == PASS_FORWARD;
  of->x.packed = of->y.packed = way == ONEDNN_REORDERED;
  of->weight.packed = way != ONEDNN_BLOCKED;
}

static void add_operands(onednn *self, step *main_step, convolution_pass pass, const operands *of,
                         dnnl_primitive_desc_t description, bool written) {
  const bool input = pass == PASS_INPUT_GRADIENT, weight = pass == PASS_WEIGHT_GRADIENT;
  const operand *all[] = {&of->x, &of->weight, &of->y};
  const dnnl_query_t queries[] = {input ? dnnl_query_diff_src_md : dnnl_query_src_md,
                                  weight ? dnnl_query_diff_weights_md : dnnl_query_weights_md,
                                  pass == PASS_FORWARD ? dnnl_query_dst_md
                                                       : dnnl_query_diff_dst_md};
  for (int i = 0; i < 3; i++)
    if (all[i]->written == written)
      add_operand(self, main_step, all[i],
                  dnnl_primitive_desc_query_md(description, queries[i], 0));
  if (!input && of->bias.written == written)
    add_operand(self, main_step, &of->bias, &of->bias.dense);
}

static void add_steps(onednn *self, convolution_pass pass, const operands *of,
                      dnnl_primitive_desc_t description) {
  step made = {0};
  check(dnnl_primitive_create(&made.primitive, description), "primitive");
  add_operands(self, &made, pass, of, description, false);
  step *placed = &self->steps[self->step_count++];
  *placed = made;
  add_operands(self, placed, pass, of, description, true);
}

convolution_subject convolution_onednn(onednn_way way, convolution_pass pass,
                                       const convolution_sizes *sizes,
                                       const convolution_arrays *arrays) {
  static const char *const names[ONEDNN_WAYS] = {"oneDNN plain", "oneDNN reordered",
                                                 "oneDNN blocked"};
  onednn *self = calloc(1, sizeof *self);
  if (!self) exit(1);
  check(dnnl_engine_create(&self->engine, dnnl_cpu, 0), "engine");
  check(dnnl_stream_create(&self->stream, self->engine, dnnl_stream_default_flags), "stream");
  operands of = describe_all(way, pass, sizes, arrays);
  name_arguments(&of, way, pass);
  const dnnl_primitive_desc_t description = make_description(self, pass, &of);
  if (!description) {
    release(self);
    return (convolution_subject){names[way], run, release, NULL};
  }
  add_steps(self, pass, &of, description);
  dnnl_primitive_desc_destroy(description);
  return (convolution_subject){names[way], run, release, self};
}
