/* Parses JSON. Invariant: *out_root is NULL on failure. */
#include "core/json_load.h"

#include "core/file.h"
#include "core/number.h"

tdm_status tdm_json_load(const char *text, size_t bytes, const char *source, json_t **out_root) {
  json_error_t error;
  tdm_plain_locale locale;
  tdm_plain_locale_enter(&locale);
  *out_root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
  tdm_plain_locale_leave(&locale);
  if (*out_root) return TDM_OK;
  if (json_error_code(&error) == json_error_out_of_memory)
    return tdm_fail(TDM_OUT_OF_MEMORY, "%s: no memory for what it says", source);
  return tdm_fail(TDM_CORRUPT_DATA, "%s:%d: is no JSON: %.100s", source, error.line, error.text);
}

tdm_status tdm_json_load_file(const tdm_allocator *allocator, const char *what, const char *path,
                              size_t limit_bytes, json_t **out_root) {
  char *text = NULL;
  size_t bytes = 0;
  *out_root = NULL;
  TDM_TRY(tdm_file_read(allocator, what, path, limit_bytes, &text, &bytes));
  const tdm_status status = tdm_json_load(text, bytes, path, out_root);
  tdm_release(allocator, text, bytes + 1);
  return status;
}
