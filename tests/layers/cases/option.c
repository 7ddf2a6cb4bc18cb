/* Golden files that list their cases: CASE/option.LAYER is a list of numbers, which the
 * builder of that layer reads. Invariant: only the script that made the file lists cases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/layers/layer_cases.h"

static const layer_builder *const all_builders[] = {
    arrays_builders,    blocks_builders, loss_builders,   moves_builders,  pointwise_builders,
    recurrent_builders, table_builders,  vision_builders, volumes_builders};

static layer_case case_of(const char *layer) {
  for (size_t i = 0; i < sizeof all_builders / sizeof all_builders[0]; i++)
    for (const layer_builder *builder = all_builders[i]; builder->layer; builder++)
      if (strcmp(builder->layer, layer) == 0) return builder->options;
  fail_msg("no builder for %s", layer);
  return (layer_case){.name = NULL};
}

/* Parses "CASE/option.LAYER"; the case's name is a borrowed copy that lives as long as the
 * process. */
static bool read_case(const char *full, const tdm_tensor *numbers, layer_case *out_case) {
  static char names[LAYER_CASES_MAX][64];
  static size_t used;
  const char *slash = strchr(full, '/');
  if (!slash || strncmp(slash, "/option.", 8) != 0) return false;
  *out_case = case_of(slash + 8);
  char *name = names[used++ % LAYER_CASES_MAX];
  assert_true((size_t)(slash - full) < sizeof names[0]);
  (void)snprintf(name, sizeof names[0], "%.*s", (int)(slash - full), full);
  out_case->name = name;
  double *values = tensor_values(numbers, &out_case->number_count);
  assert_true(out_case->number_count <= sizeof out_case->numbers / sizeof out_case->numbers[0]);
  memcpy(out_case->numbers, values, out_case->number_count * sizeof *values);
  free(values);
  return true;
}

size_t option_cases_all(const golden_file *golden, layer_case *cases, size_t capacity) {
  size_t count = 0;
  for (size_t i = 0; i < tdm_tensor_list_count(golden->list); i++) {
    layer_case found;
    if (!read_case(tdm_tensor_list_name(golden->list, i), tdm_tensor_list_tensor(golden->list, i),
                   &found))
      continue;
    assert_true(count < capacity);
    cases[count++] = found;
  }
  return count;
}
