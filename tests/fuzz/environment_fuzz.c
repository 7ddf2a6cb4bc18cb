/* Variables of the environment: each text of the input is one's value, in the order below; an empty
 * text leaves it unset. Invariant: a value is taken as a whole or refused with a message that names
 * the variable or the settings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/creation/context_options.h"
#include "devices/kernels/cpu/kernels.h"
#include "devices/links/table.h"
#include "devices/sim/sim.h"
#include "devices/staging/pool.h"
#include "tests/fuzz/support.h"
#include "tests/options.h"

enum { VALUE_BYTES = 512 };

/* Memory for putenv; setenv would keep every earlier value. */
typedef struct variable {
  const char *name;
  char text[VALUE_BYTES + 32]; /* NAME=VALUE */
} variable;

static variable variables[] = {
    {"TANDEM_DEVICES", ""}, {"TANDEM_CPU_DEVICES", ""},   {"TANDEM_SIM", ""},
    {"TANDEM_NCCL", ""},    {"TANDEM_TF32", ""},          {"TANDEM_CUDA_LOGICAL", ""},
    {"TANDEM_CPU_ISA", ""}, {"TANDEM_STAGING_BYTES", ""}, {"TANDEM_LINKS", ""},
    {"TANDEM_CACHE", ""},   {"XDG_CACHE_HOME", ""},       {"HOME", ""},
};

static void set_variables(fuzz_input *input) {
  for (size_t i = 0; i < TDM_COUNT_OF(variables); i++) {
    variable *set = &variables[i];
    char value[VALUE_BYTES];
    (void)fuzz_word(input, value, sizeof value);
    (void)snprintf(set->text, sizeof set->text, "%s=%s", set->name, value);
    if (value[0] == '\0')
      (void)unsetenv(set->name);
    else
      (void)putenv(set->text);
  }
}

static bool message_names(const char *what) {
  return strstr(tdm_last_message(), what) != NULL;
}

static tdm_status count_kernel(void *user, const tdm_kernel *kernel) {
  *(size_t *)user += kernel != NULL;
  return TDM_OK;
}

static void read_plan(const tdm_context_options *options, tdm_context_plan *plan) {
  if (!fuzz_judge(tdm_context_plan_read(options, plan)))
    fuzz_expect(message_names("TANDEM_") || message_names("_devices") || message_names("kind") ||
                    message_names("tf32"),
                "the message names no variable");
  for (size_t i = 0; i < TDM_MAX_KINDS; i++)
    fuzz_expect(plan->kinds[i].count >= 0 && plan->kinds[i].count <= TDM_MAX_DEVICES_OF_KIND,
                "%d devices", plan->kinds[i].count);
}

static void make_sim(tdm_context *context) {
  const tdm_kind_options options = {.count = 1, .settings = getenv("TANDEM_SIM")};
  tdm_device *device = NULL;
  if (fuzz_judge(tdm_sim_kind.create(context, &options, 9, &device)))
    device->ops->destroy(device);
  else
    fuzz_expect(message_names("sim"), "the message does not name sim");
}

static void make_pool(tdm_context *context) {
  tdm_pool *pool = NULL;
  if (!fuzz_judge(tdm_pool_create(context, NULL, &pool)))
    fuzz_expect(message_names("TANDEM_STAGING_BYTES"), "the message names no variable");
  tdm_pool_destroy(pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tdm_context *context = fuzz_context(1, 1);
  const int64_t before = fuzz_outstanding();
  fuzz_input input = {data, size};
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = (int8_t)fuzz_byte(&input),
              o.sim_devices = (int8_t)fuzz_byte(&input), o.tf32 = (int8_t)fuzz_byte(&input));
  set_variables(&input);
  tdm_context_plan plan;
  read_plan(&options, &plan);
  make_sim(context);
  make_pool(context);
  size_t count = 0;
  if (!fuzz_judge(tdm_cpu_each_kernel(count_kernel, &count)))
    fuzz_expect(count == 0 && message_names("TANDEM_CPU_ISA"), "the message names no variable");
  char path[256];
  (void)fuzz_judge(tdm_links_path(context, path, sizeof path));
  fuzz_expect(fuzz_outstanding() == before, "memory is lost");
  return 0;
}
