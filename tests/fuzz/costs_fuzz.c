/* Files of kernels' times. Invariant: accepted times can be found again, above 0; refused files add
 * none. */
#include <string.h>

#include "graph/forecast/costs.h"
#include "tests/fuzz/support.h"

static void check_entries(const tdm_costs *costs) {
  for (const tdm_cost_entry *entry = costs->first; entry; entry = entry->next) {
    const size_t bytes = entry->class_bytes;
    fuzz_expect(bytes > 0 && strlen(entry->key) > bytes + 1, "a key without a device or a kernel");
    fuzz_expect(entry->cost.alone_ns >= 0 && entry->cost.crowded_ns >= 0, "a time below 0");
    char class_name[TDM_COST_KEY];
    memcpy(class_name, entry->key, bytes);
    class_name[bytes] = '\0';
    const tdm_cost found = tdm_costs_find(costs, class_name, entry->key + bytes + 1);
    fuzz_expect(found.alone_ns == entry->cost.alone_ns &&
                    found.crowded_ns == entry->cost.crowded_ns,
                "%s is not found", entry->key);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tdm_context *context = fuzz_context(1, 1);
  const int64_t before = fuzz_outstanding();
  tdm_costs *costs = tdm_costs_create(context);
  fuzz_expect(costs != NULL, "no costs");
  if (fuzz_judge(tdm_costs_load(costs, fuzz_file(0, data, size))))
    check_entries(costs);
  else
    fuzz_expect(!costs->first, "a refused file left a time");
  tdm_costs_release(costs);
  fuzz_expect(fuzz_outstanding() == before, "memory is lost");
  return 0;
}
