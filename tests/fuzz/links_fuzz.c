/* Files of calibrated links. The separator is replaced by this machine's key, so that inputs are
 * valid on every machine. Invariant: accepted links predict a finite time, 0 or more, for every
 * copy; refused files change nothing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/context/context.h"
#include "devices/links/table.h"
#include "tests/fuzz/support.h"

static void check_estimate(const tdm_link_estimate *estimate) {
  for (double bytes = 1; bytes < 1e12; bytes *= 1000) {
    const double times[] = {tdm_link_predict_ns(estimate, bytes),
                            tdm_link_predict_after_ns(estimate, bytes, 1e6, false),
                            tdm_link_predict_after_ns(estimate, bytes, 1e9, true)};
    for (size_t i = 0; i < TDM_COUNT_OF(times); i++)
      fuzz_expect(isfinite(times[i]) && times[i] >= 0, "%g bytes take %g ns", bytes, times[i]);
  }
}

/* Checks all links of the context; returns a hash. */
static uint64_t check_links(tdm_context *context) {
  uint64_t calibrated = 0;
  const size_t count = tdm_device_count(context);
  for (size_t i = 0; i < 2 * count * count; i++) {
    tdm_link_estimate estimate;
    tdm_context_link(context, tdm_context_device(context, i / 2 / count),
                     tdm_context_device(context, i / 2 % count), i % 2 == 1, &estimate);
    if (estimate.origin == TDM_LINK_CALIBRATED) {
      check_estimate(&estimate);
      calibrated++;
    }
  }
  return calibrated;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tdm_context *context = fuzz_context(1, 1);
  const int64_t outstanding = fuzz_outstanding();
  const uint64_t before = check_links(context);
  char key[17];
  (void)snprintf(key, sizeof key, "%016llx", (unsigned long long)tdm_links_key(context));
  fuzz_input input = {data, size};
  size_t head = 0;
  char *text = fuzz_text(&input, &head);
  const bool has_key = head < size;
  const size_t key_bytes = has_key ? strlen(key) : 0;
  char *file = malloc(head + key_bytes + input.size + 1);
  fuzz_expect(file != NULL, "no memory");
  memcpy(file, text, head);
  memcpy(file + head, key, key_bytes);
  if (input.size) memcpy(file + head + key_bytes, input.bytes, input.size);
  const tdm_status status =
      tdm_links_load(context, fuzz_file(0, file, head + key_bytes + input.size));
  const bool accepted = fuzz_judge(status);
  const uint64_t after = check_links(context);
  fuzz_expect(accepted || after == before, "a refused file changed the links");
  fuzz_expect(fuzz_outstanding() == outstanding, "memory is lost");
  free(file);
  free(text);
  return 0;
}
