/* The cuda kind as built, on the present machine: a program starts either way, and the reason for a
 * missing GPU is reported. */
#include <string.h>

#include "tests/devices/support.h"

static void a_gpu_or_why_there_is_none(void **state) {
  (void)state;
  static const char *const reasons[] = {"no driver: ", "driver too old: ", "no device: ",
                                        "the driver does not start: ", "built without CUDA"};
  tdm_context *context = tdm_context_create(NULL);
  assert_non_null(context);
  const tdm_status status = tdm_device_check(context, "cuda:0");
  bool told = status == TDM_OK;
  for (size_t i = 0; i < TDM_COUNT_OF(reasons) && !told; i++)
    told = status == TDM_UNAVAILABLE && strstr(tdm_last_message(), reasons[i]);
  if (!told) fail_msg("%s: %s", tdm_status_name(status), tdm_last_message());
  const char *accelerator = tdm_accelerator(context);
  assert_string_equal(accelerator, status == TDM_OK ? "cuda:0" : "cpu:0");
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_gpu_or_why_there_is_none)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
