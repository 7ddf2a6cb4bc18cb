/* Detects the launcher of a process by its environment; missing and invalid plug-ins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/launch.h"

static const char *set_variable; /* the one that is set */

static const char *variable(const char *name) {
  return set_variable && strcmp(set_variable, name) == 0 ? "2" : NULL;
}

static void test_launchers(void **state) {
  (void)state;
  const char *told = NULL;
  set_variable = NULL;
  assert_null(tdm_launcher_name(variable, &told));
  set_variable = "OMPI_COMM_WORLD_SIZE";
  assert_string_equal(tdm_launcher_name(variable, &told), "openmpi");
  assert_string_equal(told, set_variable);
  set_variable = "PMIX_RANK";
  assert_string_equal(tdm_launcher_name(variable, NULL), "openmpi");
  set_variable = "PMI_RANK";
  assert_string_equal(tdm_launcher_name(variable, &told), "mpich");
}

static void clear(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "TANDEM_NET",
                                      "TANDEM_NET_PATH"};
  for (size_t i = 0; i < sizeof(names) / sizeof names[0]; i++)
    (void)unsetenv(names[i]);
}

static void test_alone(void **state) {
  (void)state;
  clear();
  const tdm_allocator allocator = tdm_allocator_default();
  tdm_endpoint *endpoint;
  assert_int_equal(tdm_net_open(&allocator, 0, &endpoint), TDM_OK);
  assert_null(endpoint);
  (void)setenv("PMI_RANK", "0", 1);
  (void)setenv("TANDEM_NET", "none", 1);
  assert_int_equal(tdm_net_open(&allocator, 0, &endpoint), TDM_OK);
  assert_null(endpoint);
}

static void test_not_there(void **state) {
  (void)state;
  clear();
  const tdm_transport *transport;
  (void)setenv("TANDEM_NET", "tin cans", 1);
  assert_int_equal(tdm_transport_find(&transport), TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(tdm_last_message(), "tin cans"));
  (void)setenv("TANDEM_NET", "", 1); /* equivalent to an unset variable */
  (void)setenv("PMI_RANK", "0", 1);
  (void)setenv("TANDEM_NET_PATH", "/nowhere::/nor here", 1);
  assert_int_equal(tdm_transport_find(&transport), TDM_UNAVAILABLE);
  assert_null(transport);
  assert_non_null(strstr(tdm_last_message(), "PMI_RANK"));
  assert_non_null(strstr(tdm_last_message(), "libtandem_mpich.so"));
}

static void test_no_plugin(void **state) {
  (void)state;
  clear();
  char path[512];
  const char *folder = getenv("TEST_TMPDIR") ? getenv("TEST_TMPDIR") : "/tmp";
  (void)snprintf(path, sizeof path, "%s/libtandem_openmpi.so", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs("no shared object\n", file);
  (void)fclose(file);
  (void)setenv("TANDEM_NET", "openmpi", 1);
  (void)setenv("TANDEM_NET_PATH", folder, 1);
  const tdm_transport *transport;
  assert_int_equal(tdm_transport_find(&transport), TDM_UNAVAILABLE);
  assert_non_null(strstr(tdm_last_message(), path));
  (void)unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_launchers),
      cmocka_unit_test(test_alone),
      cmocka_unit_test(test_not_there),
      cmocka_unit_test(test_no_plugin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
