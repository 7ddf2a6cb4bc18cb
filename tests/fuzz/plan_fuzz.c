/* Plans that were saved as JSON. Invariant: an accepted plan is drawn, as a graph whose quotes are
 * closed, and all memory is released. */
#define _GNU_SOURCE /* open_memstream */
#include <stdlib.h>

#include "core/json_load.h"
#include "graph/report/picture.h"
#include "tests/fuzz/support.h"

static void check_quotes(const char *dot) {
  bool quoted = false;
  for (; *dot; dot++) {
    if (quoted && *dot == '\\' && dot[1])
      dot++;
    else if (*dot == '"')
      quoted = !quoted;
  }
  fuzz_expect(!quoted, "a quote that stays open");
}

static void draw(tdm_picture *picture) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  fuzz_expect(out != NULL, "no memory");
  const bool drawn = fuzz_judge(tdm_picture_dot(picture, out));
  fuzz_expect(fclose(out) == 0, "no memory");
  if (drawn) check_quotes(text);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const int64_t before = fuzz_outstanding();
  json_t *root = NULL;
  if (!fuzz_judge(tdm_json_load((const char *)data, size, "plan", &root))) return 0;
  tdm_picture picture;
  if (fuzz_judge(tdm_picture_read(root, "plan", fuzz_allocator(), &picture))) draw(&picture);
  tdm_picture_deinit(&picture);
  json_decref(root);
  fuzz_expect(fuzz_outstanding() == before, "memory is lost");
  return 0;
}
