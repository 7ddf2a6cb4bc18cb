/* Safetensors files: the first byte selects how the file is made from the rest. Invariant: an
 * accepted file describes existing bytes, all of it can be read, and all memory is released. */
#include <stdlib.h>
#include <string.h>

#include "data/safetensors/safetensors.h"
#include "tests/fuzz/support.h"

enum { WHOLE, SIZED, FORMS };

static uint64_t sum_bytes(const tdm_tensor_list *list) {
  uint64_t sum = 0;
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++) {
    const tdm_listed_tensor listed = tdm_tensor_list_entry(list, i);
    const uint8_t *bytes = tdm_tensor_data(listed.tensor);
    for (size_t k = 0; listed.tensor && k < listed.bytes; k++)
      sum += bytes[k];
    for (int32_t d = 0; d < listed.rank; d++)
      sum += (uint64_t)listed.dims[d];
    sum += strlen(listed.dtype_name);
    fuzz_expect(tdm_tensor_list_find(list, listed.name) == listed.tensor,
                "%s is not found by its name", listed.name);
    fuzz_expect(listed.tensor || tdm_last_status() == TDM_UNSUPPORTED, "%s is not refused",
                listed.name);
  }
  return sum;
}

static void load(const uint8_t *bytes, size_t size) {
  tdm_context *context = fuzz_context(1, 1);
  const int64_t before = fuzz_outstanding();
  tdm_tensor_list *list = tdm_safetensors_load(context, fuzz_file(0, bytes, size));
  if (fuzz_judge_made(list)) {
    size_t total = 0;
    for (size_t i = 0; i < tdm_tensor_list_count(list); i++)
      total += tdm_tensor_list_entry(list, i).bytes;
    fuzz_expect(total + TDM_SAFETENSORS_SIZE_BYTES <= size, "%zu bytes of a file of %zu", total,
                size);
    volatile uint64_t sum = sum_bytes(list);
    (void)sum;
  }
  tdm_tensor_list_release(list);
  fuzz_expect(fuzz_outstanding() == before, "%lld bytes are lost",
              (long long)(fuzz_outstanding() - before));
}

/* The header is the text up to the separator, and the data is the rest. */
static void load_sized(fuzz_input *input) {
  size_t bytes = 0;
  char *header = fuzz_text(input, &bytes);
  const size_t size = TDM_SAFETENSORS_SIZE_BYTES + bytes + input->size;
  uint8_t *file = malloc(size);
  fuzz_expect(file != NULL, "no memory");
  for (size_t i = 0; i < TDM_SAFETENSORS_SIZE_BYTES; i++)
    file[i] = (uint8_t)(bytes >> (8 * i));
  memcpy(file + TDM_SAFETENSORS_SIZE_BYTES, header, bytes);
  if (input->size) memcpy(file + TDM_SAFETENSORS_SIZE_BYTES + bytes, input->bytes, input->size);
  load(file, size);
  free(file);
  free(header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input = {data, size};
  if (fuzz_below(&input, FORMS) == WHOLE)
    load(input.bytes, input.size);
  else
    load_sized(&input);
  return 0;
}
