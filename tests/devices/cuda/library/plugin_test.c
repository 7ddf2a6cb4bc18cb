/* The library of kernels as nvcc builds it, opened on any machine: it was built from the same
 * headers, has the kernels of the emulation, and its runtime reports a driver or none. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/status.h"
#include "devices/cuda/library/kernels.h"
#include "devices/cuda/library/plugin.h"

static const char *plugin_path;

enum { MOST_KERNELS = 4096 };

typedef struct kernel_names {
  const char *names[MOST_KERNELS];
  size_t count;
} kernel_names;

static tdm_status keep(void *user, const tdm_kernel *kernel) {
  kernel_names *kept = user;
  assert_true(kept->count < MOST_KERNELS);
  kept->names[kept->count++] = kernel->operation;
  return TDM_OK;
}

static void the_plugin_has_the_kernels(void **state) {
  (void)state;
  static kernel_names here, there;
  static const tdm_cuda_host host;
  void *object = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);
  if (!object) fail_msg("%s", dlerror());
  const tdm_cuda_plugin *plugin = dlsym(object, TDM_CUDA_PLUGIN_SYMBOL);
  assert_non_null(plugin);
  assert_string_equal(plugin->interface, TDM_CUDA_INTERFACE);
  const tdm_cuda_library *library = plugin->open(&host);
  assert_int_equal(library->each_kernel(keep, &there), TDM_OK);
  assert_int_equal(tdm_cuda_each_kernel(keep, &here), TDM_OK);
  assert_true(here.count > 100);
  assert_int_equal(there.count, here.count);
  for (size_t i = 0; i < here.count; i++)
    assert_string_equal(there.names[i], here.names[i]);
  const tdm_cuda_api *api = library->api();
  int count = -1;
  assert_true(api->runtime_version() >= 12050);
  const tdm_cuda_code code = api->device_count(&count);
  assert_true((code == TDM_CUDA_SUCCESS) == (count > 0));
  assert_non_null(api->error_text(code));
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  plugin_path = argv[1];
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_plugin_has_the_kernels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
