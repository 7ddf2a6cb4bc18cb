/* Timelines that were saved for Perfetto. Invariant: an accepted timeline is summarised, and all
 * memory is released. */
#include "core/json_load.h"
#include "graph/report/timeline_read.h"
#include "tests/fuzz/support.h"

static FILE *nowhere(void) {
  static FILE *file;
  if (!file) file = fopen("/dev/null", "w");
  return file;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const int64_t before = fuzz_outstanding();
  json_t *root = NULL;
  if (!fuzz_judge(tdm_json_load((const char *)data, size, "timeline", &root))) return 0;
  tdm_timeline timeline;
  if (fuzz_judge(tdm_timeline_read(root, "timeline", fuzz_allocator(), &timeline)))
    (void)fuzz_judge(tdm_timeline_text(&timeline, nowhere()));
  tdm_timeline_deinit(&timeline);
  json_decref(root);
  fuzz_expect(fuzz_outstanding() == before, "memory is lost");
  return 0;
}
