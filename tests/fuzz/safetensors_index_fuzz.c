/* Indexes of safetensors files: the input is one, in a folder with a.safetensors, which has t0, and
 * b.safetensors, which has t1 and t2. Invariant: an accepted index has each of its tensors, and no
 * others; all memory is released. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/safetensors/parts.h"
#include "tests/fuzz/support.h"

static char folder[512];

static void remove_files(void) {
  char path[600];
  (void)snprintf(path, sizeof path, "%sa.safetensors", folder);
  (void)unlink(path);
  (void)snprintf(path, sizeof path, "%sb.safetensors", folder);
  (void)unlink(path);
  (void)rmdir(folder);
}

static void save(tdm_context *context, const char *file, const char *const *names, size_t count) {
  char path[600];
  (void)snprintf(path, sizeof path, "%s%s", folder, file);
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  for (size_t i = 0; i < count; i++) {
    tdm_tensor *tensor = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(1, 3));
    fuzz_expect(tdm_tensor_list_add(list, names[i], tensor) == TDM_OK, "no list");
    tdm_tensor_release(tensor);
  }
  fuzz_expect(tdm_safetensors_save(list, path) == TDM_OK, "%s", tdm_last_message());
  tdm_tensor_list_release(list);
}

static void make_files(tdm_context *context) {
  static const char *const names[] = {"t0", "t1", "t2"};
  const char *temporary = getenv("TEST_TMPDIR");
  (void)snprintf(folder, sizeof folder, "%s/index_XXXXXX", temporary ? temporary : "/tmp");
  fuzz_expect(mkdtemp(folder) != NULL, "no folder");
  strcat(folder, "/");
  save(context, "a.safetensors", names, 1);
  save(context, "b.safetensors", names + 1, 2);
  (void)atexit(remove_files);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tdm_context *context = fuzz_context(1, 1);
  if (!folder[0]) make_files(context);
  const int64_t before = fuzz_outstanding();
  tdm_tensor_list *list;
  const tdm_status status = tdm_safetensors_read_parts(context, fuzz_file(0, data, size), folder,
                                                       tdm_safetensors_read_file, &list);
  if (fuzz_judge(status)) {
    const size_t count = tdm_tensor_list_count(list);
    fuzz_expect(count <= 3, "%zu tensors", count);
    for (size_t i = 0; i < count; i++)
      fuzz_expect(tdm_tensor_list_find(list, tdm_tensor_list_name(list, i)) != NULL, "no %s",
                  tdm_tensor_list_name(list, i));
  } else {
    fuzz_expect(!list, "a list in spite of a failure");
  }
  tdm_tensor_list_release(list);
  fuzz_expect(fuzz_outstanding() == before, "%lld bytes are lost",
              (long long)(fuzz_outstanding() - before));
  return 0;
}
