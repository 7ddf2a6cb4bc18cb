/* Records of operations and the kernels of the kinds: each operation has both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "devices/context/context.h"
#include "devices/context/context_state.h"
#include "devices/contract/device.h"
#include "layers/records.h"
#include "tests/options.h"

static const char machine_text[] =
    "{\"title\": \"one\", \"sources\": [\"this test\"], \"device\": {\"model\": \"any\", "
    "\"flops_per_second\": {\"float32\": 1e9}, \"memory_bytes_per_second\": 1e9}, "
    "\"host_link\": {\"latency_us\": 1, \"bytes_per_second\": 1e9}}";

static tdm_context *make_context(void) {
  char path[] = "/tmp/record_kernels_test_XXXXXX";
  const int file = mkstemp(path);
  assert_true(file >= 0);
  FILE *out = fdopen(file, "w");
  assert_non_null(out);
  fputs(machine_text, out);
  (void)fclose(out);
  const tdm_context_options options = OPTIONS(tdm_context_options, o.machine = path);
  tdm_context *context = tdm_context_create(&options);
  (void)remove(path);
  if (!context) fail_msg("%s", tdm_last_message());
  return context;
}

static const tdm_device *device_of(tdm_context *context, const char *kind) {
  char name[16];
  (void)snprintf(name, sizeof name, "%s:0", kind);
  const tdm_device *device = tdm_context_find_device(context, name);
  if (!device) fail_msg("%s", tdm_last_message());
  return device;
}

/* Checks both real dtypes, or the dtype of a result that is not real. */
static bool has_kernels(tdm_context *context, const char *name, const char *executes) {
  static const tdm_dtype others[] = {TDM_BOOL, TDM_INT64};
  if (tdm_context_find_kernel(context, name, executes, TDM_FLOAT32) &&
      tdm_context_find_kernel(context, name, executes, TDM_FLOAT64))
    return true;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (tdm_context_find_kernel(context, name, executes, others[i])) return true;
  return false;
}

static void check_record(tdm_context *context, const tdm_record *record, const tdm_device *device) {
  const bool found = has_kernels(context, record->operation->name, device->ops->executes);
  const bool wanted = !record->operation->is_view && !record->no_kernel;
  if (wanted && !found) fail_msg("%s has no kernel on %s", record->operation->name, device->name);
  if (record->no_kernel && found)
    fail_msg("%s has a kernel on %s, and is excused: %s", record->operation->name, device->name,
             record->no_kernel);
}

/* KINDS, which the build names, are all there. */
static void every_record_has_kernels_on_every_kind(void **state) {
  (void)state;
  tdm_context *context = make_context();
  static const char *const kinds[] = {KINDS};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const tdm_device *device = device_of(context, kinds[i]);
    for (const tdm_record *const *list = tdm_all_records; *list; list++)
      for (const tdm_record *record = *list; record->operation; record++)
        check_record(context, record, device);
  }
  tdm_context_release(context);
}

/* ---- Fusing ---------------------------------------------------------------------------------- */

/* Returns true if nodes of the kernel can be members of fused nodes. */
static bool has_part(const tdm_kernel *kernel) {
  return kernel->execute_part || kernel->element != 0;
}

static void check_parts(tdm_context *context, const tdm_record *record, const char *executes) {
  static const tdm_dtype dtypes[] = {TDM_FLOAT32, TDM_FLOAT64, TDM_INT32,
                                     TDM_INT64,   TDM_UINT8,   TDM_BOOL};
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    const tdm_kernel *kernel =
        tdm_context_find_kernel(context, record->operation->name, executes, dtypes[i]);
    if (kernel && !has_part(kernel))
      fail_msg("%s is elementwise, and its kernel of %s for %s has no part",
               record->operation->name, executes, tdm_dtype_name(dtypes[i]));
  }
}

static void elementwise_records_fuse_on_every_kind(void **state) {
  (void)state;
  tdm_context *context = make_context();
  static const char *const kinds[] = {KINDS};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const tdm_device *device = device_of(context, kinds[i]);
    for (const tdm_record *const *list = tdm_all_records; *list; list++)
      for (const tdm_record *record = *list; record->operation; record++)
        if (record->operation->elementwise) check_parts(context, record, device->ops->executes);
  }
  tdm_context_release(context);
}

/* ---- Kernels --------------------------------------------------------------------------------- */

static bool is_elementwise(const char *operation) {
  for (const tdm_record *const *list = tdm_all_records; *list; list++)
    for (const tdm_record *record = *list; record->operation; record++)
      if (record->operation->elementwise && strcmp(record->operation->name, operation) == 0)
        return true;
  return false;
}

static bool is_recorded(const char *operation) {
  for (const tdm_record *const *list = tdm_all_records; *list; list++)
    for (const tdm_record *record = *list; record->operation; record++)
      if (strcmp(record->operation->name, operation) == 0) return true;
  return false;
}

static void every_kernel_has_a_record(void **state) {
  (void)state;
  tdm_context *context = make_context();
  const tdm_table *kernels = &context->kernels.table;
  assert_true(kernels->count > 0);
  for (size_t i = 0; i < kernels->capacity; i++) {
    const tdm_kernel *kernel = kernels->slots[i].key;
    if (!kernel) continue;
    if (!is_recorded(kernel->operation))
      fail_msg("%s has a kernel of %s, which has no record", kernel->executes, kernel->operation);
    if (has_part(kernel) && !is_elementwise(kernel->operation))
      fail_msg("%s has a part of %s, whose record is not elementwise", kernel->executes,
               kernel->operation);
  }
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_record_has_kernels_on_every_kind),
      cmocka_unit_test(elementwise_records_fuse_on_every_kind),
      cmocka_unit_test(every_kernel_has_a_record),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
