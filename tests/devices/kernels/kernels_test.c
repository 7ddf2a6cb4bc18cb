/* Every kernel of every instruction set of this machine, against its float64 reference. Tensors are
 * between sentinels and are aligned only to their element, outputs and workspace are poisoned. The
 * results have the same bits on one thread, on a team, and with `deterministic`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/host/team.h"
#include "devices/kernels/cpu/kernels.h"
#include "tests/devices/kernels/cases.h"
#include "tests/devices/kernels/kernel_set.h"

enum { GUARD_BYTES = 64, SENTINEL = 0xA5, POISON = 0xFF /* NaN in floats */ };

static const char *const isas[] = {"baseline", "avx2", "avx512"};
enum { ISA_COUNT = sizeof isas / sizeof isas[0] };

/* ---- Guarded memory -------------------------------------------------------------------------- */

typedef struct guarded {
  unsigned char *block;
  unsigned char *data;
  size_t bytes;
} guarded;

static guarded guarded_create(size_t bytes, size_t misalignment, int fill) {
  guarded memory = {.bytes = bytes};
  const size_t total = (GUARD_BYTES + misalignment + bytes + GUARD_BYTES + 63) / 64 * 64;
  memory.block = aligned_alloc(64, total);
  assert_non_null(memory.block);
  memset(memory.block, SENTINEL, total);
  memory.data = memory.block + GUARD_BYTES + misalignment;
  memset(memory.data, fill, bytes);
  return memory;
}

static void guarded_check(const guarded *memory, const char *name, const char *where) {
  const unsigned char *after = memory->data + memory->bytes;
  for (const unsigned char *p = memory->block; p < memory->data; p++)
    if (*p != SENTINEL) fail_msg("%s, %s: wrote before a tensor", name, where);
  for (size_t i = 0; i < GUARD_BYTES; i++)
    if (after[i] != SENTINEL) fail_msg("%s, %s: wrote %zu bytes past a tensor", name, where, i);
}

/* ---- One case -------------------------------------------------------------------------------- */

/* A case with its inputs and the expected outputs. */
typedef struct prepared_case {
  const kernel_case *test;
  void *inputs[TDM_KERNEL_MAX_INPUTS];
  double *expected[TDM_KERNEL_MAX_OUTPUTS];
  unsigned char *first[TDM_KERNEL_MAX_OUTPUTS]; /* results of the first run of an instruction set */
} prepared_case;

static void *checked_allocation(size_t bytes) {
  void *memory = malloc(bytes + 1);
  assert_non_null(memory);
  return memory;
}

static size_t bytes_of(const tdm_spec *spec) {
  return (size_t)tdm_shape_bytes(&spec->shape, spec->dtype);
}

static void case_prepare(prepared_case *prepared, const kernel_case *test) {
  double *values[TDM_KERNEL_MAX_INPUTS] = {NULL};
  *prepared = (prepared_case){.test = test};
  for (size_t i = 0; i < test->input_count; i++) {
    const tdm_spec *spec = &test->inputs[i].spec;
    if (spec->dtype == TDM_DTYPE_NONE) continue;
    prepared->inputs[i] = checked_allocation(bytes_of(spec));
    kernel_input_generate(test, i, prepared->inputs[i]);
    values[i] = checked_allocation((size_t)input_count_of(test, i) * sizeof(double));
    kernel_values_read(spec->dtype, prepared->inputs[i], input_count_of(test, i), values[i]);
  }
  for (size_t i = 0; i < test->output_count; i++) {
    const int64_t count = tdm_shape_count(&test->outputs[i].shape);
    prepared->expected[i] = checked_allocation((size_t)count * sizeof(double));
    prepared->first[i] = checked_allocation(bytes_of(&test->outputs[i]));
  }
  test->reference(test, (const double *const *)values, prepared->expected);
  for (size_t i = 0; i < test->input_count; i++)
    free(values[i]);
}

static void case_release(prepared_case *prepared) {
  for (size_t i = 0; i < TDM_KERNEL_MAX_INPUTS; i++)
    free(prepared->inputs[i]);
  for (size_t i = 0; i < TDM_KERNEL_MAX_OUTPUTS; i++) {
    free(prepared->expected[i]);
    free(prepared->first[i]);
  }
}

/* ---- One run --------------------------------------------------------------------------------- */

typedef struct run_tensors {
  guarded inputs[TDM_KERNEL_MAX_INPUTS];
  guarded outputs[TDM_KERNEL_MAX_OUTPUTS]; /* block NULL: an input's memory */
  guarded workspace;
} run_tensors;

static void tensors_create(run_tensors *tensors, const prepared_case *prepared,
                           size_t workspace_bytes) {
  const kernel_case *test = prepared->test;
  for (size_t i = 0; i < test->input_count; i++) {
    const tdm_spec *spec = &test->inputs[i].spec;
    if (spec->dtype == TDM_DTYPE_NONE) continue;
    tensors->inputs[i] = guarded_create(bytes_of(spec), tdm_dtype_bytes(spec->dtype), 0);
    memcpy(tensors->inputs[i].data, prepared->inputs[i], bytes_of(spec));
  }
  for (size_t i = 0; i < test->output_count; i++) {
    const tdm_spec *spec = &test->outputs[i];
    if (test->overwrites[i] >= 0) {
      tensors->outputs[i].data = tensors->inputs[test->overwrites[i]].data;
    } else {
      tensors->outputs[i] = guarded_create(bytes_of(spec), tdm_dtype_bytes(spec->dtype), POISON);
    }
  }
  tensors->workspace = guarded_create(workspace_bytes, 0, POISON);
}

static bool is_overwritten(const kernel_case *test, size_t input) {
  for (size_t i = 0; i < test->output_count; i++)
    if (test->overwrites[i] == (int)input) return true;
  return false;
}

static void tensors_check(const run_tensors *tensors, prepared_case *prepared, const char *where,
                          bool first) {
  const kernel_case *test = prepared->test;
  for (size_t i = 0; i < test->input_count; i++) {
    const guarded *input = &tensors->inputs[i];
    if (!input->block) continue;
    guarded_check(input, test->name, where);
    if (!is_overwritten(test, i) && memcmp(input->data, prepared->inputs[i], input->bytes) != 0)
      fail_msg("%s, %s: input %zu was changed", test->name, where, i);
  }
  for (size_t i = 0; i < test->output_count; i++) {
    const size_t bytes = bytes_of(&test->outputs[i]);
    if (tensors->outputs[i].block) guarded_check(&tensors->outputs[i], test->name, where);
    kernel_output_check(test, i, where, tensors->outputs[i].data, prepared->expected[i]);
    if (!tensors->outputs[i].data) continue; /* no elements */
    if (first) memcpy(prepared->first[i], tensors->outputs[i].data, bytes);
    if (memcmp(prepared->first[i], tensors->outputs[i].data, bytes) != 0)
      fail_msg("%s, %s: output %zu differs in its bits from the first run", test->name, where, i);
  }
  guarded_check(&tensors->workspace, test->name, where);
}

static void tensors_release(run_tensors *tensors) {
  for (size_t i = 0; i < TDM_KERNEL_MAX_INPUTS; i++)
    free(tensors->inputs[i].block);
  for (size_t i = 0; i < TDM_KERNEL_MAX_OUTPUTS; i++)
    free(tensors->outputs[i].block);
  free(tensors->workspace.block);
}

static const tdm_kernel *kernel_of(const char *isa, const kernel_case *test) {
  kernel_set set = {.count = 0};
  assert_int_equal(tdm_cpu_each_kernel_of(isa, kernel_set_add, &set), TDM_OK);
  const tdm_kernel *kernel = kernel_set_find(&set, test->operation, test->dtype);
  if (!kernel) fail_msg("%s: no kernel", test->name);
  return kernel;
}

static void case_run(prepared_case *prepared, const char *isa, tdm_team *team, bool deterministic,
                     bool first) {
  const kernel_case *test = prepared->test;
  const tdm_kernel *kernel = kernel_of(isa, test);
  tdm_spec inputs[TDM_KERNEL_MAX_INPUTS];
  for (size_t i = 0; i < test->input_count; i++)
    inputs[i] = test->inputs[i].spec;
  const tdm_kernel_request request = {.attributes = &test->attributes,
                                      .inputs = inputs,
                                      .input_count = test->input_count,
                                      .outputs = test->outputs,
                                      .output_count = test->output_count,
                                      .team_size = tdm_team_size(team),
                                      .deterministic = deterministic};
  tdm_kernel_answer answer = {0};
  assert_int_equal(kernel->prepare(&request, &answer), TDM_OK);

  run_tensors tensors = {0};
  tensors_create(&tensors, prepared, answer.workspace_bytes);
  const void *input_data[TDM_KERNEL_MAX_INPUTS] = {NULL};
  void *output_data[TDM_KERNEL_MAX_OUTPUTS] = {NULL};
  for (size_t i = 0; i < test->input_count; i++)
    input_data[i] = tensors.inputs[i].data;
  for (size_t i = 0; i < test->output_count; i++)
    output_data[i] = tensors.outputs[i].data;
  const tdm_kernel_call call = {.attributes = &test->attributes,
                                .state = answer.state,
                                .input_specs = inputs,
                                .output_specs = test->outputs,
                                .inputs = input_data,
                                .outputs = output_data,
                                .workspace = tensors.workspace.data,
                                .team = team,
                                .scalars = &test->scalars};
  if (kernel->execute(&call) != TDM_OK) fail_msg("%s: %s", test->name, tdm_last_message());
  char where[64];
  (void)snprintf(where, sizeof where, "%s team %zu%s", isa, tdm_team_size(team),
                 deterministic ? " deterministic" : "");
  tensors_check(&tensors, prepared, where, first);
  tensors_release(&tensors);
  kernel->release(answer.state);
}

/* ---- The suite ------------------------------------------------------------------------------- */

typedef struct suite {
  const char *isa;
  const kernel_family *family;
  tdm_team *team;
} suite;

static void case_visit(const kernel_case *test, void *user) {
  const suite *self = user;
  prepared_case prepared;
  case_prepare(&prepared, test);
  case_run(&prepared, self->isa, NULL, false, true);
  case_run(&prepared, self->isa, NULL, true, false);
  case_run(&prepared, self->isa, self->team, false, false);
  case_run(&prepared, self->isa, self->team, true, false);
  case_release(&prepared);
}

static void family_test(void **state) {
  suite *self = *state;
  kernel_set set = {.count = 0};
  if (tdm_cpu_each_kernel_of(self->isa, kernel_set_add, &set) != TDM_OK) {
    print_message("[  SKIPPED ] %s\n", tdm_last_message());
    skip();
  }
  const tdm_allocator allocator = tdm_allocator_default();
  assert_int_equal(tdm_team_create(&allocator, NULL, NULL, 2, &self->team), TDM_OK);
  self->family->each(case_visit, self);
  tdm_team_destroy(self->team);
}

int main(void) {
  enum { MOST = 64 };
  static struct CMUnitTest tests[MOST];
  static suite suites[MOST];
  static char names[MOST][64];
  size_t count = 0;
  for (size_t isa = 0; isa < ISA_COUNT; isa++) {
    for (size_t family = 0; family < kernel_family_count && count < MOST; family++, count++) {
      suites[count] = (suite){.isa = isas[isa], .family = &kernel_families[family]};
      (void)snprintf(names[count], sizeof names[count], "%s on %s", kernel_families[family].name,
                     isas[isa]);
      tests[count] = (struct CMUnitTest){names[count], family_test, NULL, NULL, &suites[count]};
    }
  }
  return _cmocka_run_group_tests("kernels", tests, count, NULL, NULL);
}
