/* The kernels of devices/cpu, called as a worker calls them. */
#include <stdlib.h>
#include <string.h>

#include "bench/convolutions/subject.h"
#include "bench/timing.h"
#include "core/allocate.h"
#include "devices/host/team.h"
#include "devices/kernels.h"
#include "devices/kernels/cpu/kernels.h"

typedef struct ours {
  const tdm_kernel *kernel;
  tdm_convolution_attributes attributes;
  tdm_spec specs[5];
  const void *inputs[3];
  void *outputs[2];
  tdm_kernel_call call;
  tdm_allocator allocator; /* allocator of the team */
} ours;

static const char *const operations[PASS_COUNT] = {
    TDM_OP_CONVOLUTION, TDM_OP_CONVOLUTION_INPUT_GRADIENT, TDM_OP_CONVOLUTION_PARAMETER_GRADIENT};

typedef struct search {
  const char *operation;
  const tdm_kernel *found;
} search;

static tdm_status compare_kernel(void *user, const tdm_kernel *kernel) {
  search *wanted = user;
  if (kernel->dtype == TDM_FLOAT32 && strcmp(kernel->operation, wanted->operation) == 0)
    wanted->found = kernel;
  return TDM_OK;
}

static const tdm_kernel *find_kernel(const char *operation) {
  search wanted = {operation, NULL};
  bench_check(tdm_cpu_each_kernel(compare_kernel, &wanted), "the kernels");
  if (!wanted.found) bench_fail(operation);
  return wanted.found;
}

static void run(void *state) {
  ours *self = state;
  bench_check(self->kernel->execute(&self->call), "convolution");
}

static void release(void *state) {
  ours *self = state;
  self->kernel->release(self->call.state);
  tdm_team_destroy(self->call.team);
  free(self->call.workspace);
  free(self);
}

static void set_operands(ours *self, convolution_pass pass, const convolution_sizes *sizes,
                         const convolution_arrays *arrays) {
  const tdm_shape x = tdm_shape_of(4, sizes->images, sizes->in, sizes->height, sizes->width);
  const tdm_shape weight =
      tdm_shape_of(4, sizes->out, sizes->in / sizes->groups, sizes->kernel[0], sizes->kernel[1]);
  const tdm_shape bias = tdm_shape_of(1, sizes->out);
  const tdm_shape y = tdm_shape_of(4, sizes->images, sizes->out, convolution_out(sizes, 0),
                                   convolution_out(sizes, 1));
  const tdm_shape shapes[PASS_COUNT][4] = {
      {x, weight, bias, y}, {y, weight, x, x}, {y, x, weight, bias}};
  const void *inputs[PASS_COUNT][3] = {{arrays->x, arrays->weight, arrays->bias},
                                       {arrays->d_y, arrays->weight, NULL},
                                       {arrays->d_y, arrays->x, NULL}};
  void *outputs[PASS_COUNT][2] = {
      {arrays->y, NULL}, {arrays->d_x, NULL}, {arrays->d_weight, arrays->d_bias}};
  memcpy(self->inputs, inputs[pass], sizeof self->inputs);
  memcpy(self->outputs, outputs[pass], sizeof self->outputs);
  for (int i = 0; i < 4; i++)
    self->specs[i] = (tdm_spec){.dtype = TDM_FLOAT32, .shape = shapes[pass][i]};
}

convolution_subject convolution_ours(convolution_pass pass, const convolution_sizes *sizes,
                                     const convolution_arrays *arrays, int threads) {
  ours *self = calloc(1, sizeof *self);
  if (!self) bench_fail("memory");
  self->kernel = find_kernel(operations[pass]);
  self->attributes.groups = sizes->groups;
  for (int axis = 0; axis < 2; axis++) {
    self->attributes.kernel[axis] = sizes->kernel[axis];
    self->attributes.stride[axis] = sizes->stride[axis];
    self->attributes.padding[axis] = sizes->padding[axis];
    self->attributes.dilation[axis] = 1;
    self->attributes.input[axis] = axis == 0 ? sizes->height : sizes->width;
  }
  set_operands(self, pass, sizes, arrays);
  const size_t input_count = pass == PASS_FORWARD ? 3 : 2;
  const tdm_kernel_request request = {.attributes = &self->attributes,
                                      .inputs = self->specs,
                                      .input_count = input_count,
                                      .outputs = self->specs + input_count,
                                      .output_count = pass == PASS_WEIGHT_GRADIENT ? 2 : 1,
                                      .team_size = (size_t)threads};
  tdm_kernel_answer answer = {0};
  bench_check(self->kernel->prepare(&request, &answer), operations[pass]);
  self->call = (tdm_kernel_call){
      .attributes = &self->attributes,
      .state = answer.state,
      .input_specs = self->specs,
      .output_specs = self->specs + input_count,
      .inputs = self->inputs,
      .outputs = self->outputs,
      .workspace = aligned_alloc(64, (answer.workspace_bytes + 127) / 64 * 64),
  };
  self->allocator = tdm_allocator_default();
  if (threads > 1)
    bench_check(tdm_team_create(&self->allocator, NULL, NULL, (size_t)threads, &self->call.team),
                "team");
  return (convolution_subject){"Tandem", run, release, self};
}
