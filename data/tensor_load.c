/* Loads one tensor of a safetensors file. Invariant: only the names of the other tensors are
 * read. */
#include <string.h>

#include "core/choices.h"
#include "data/safetensors/parts.h"
#include "data/safetensors/safetensors.h"
#include "devices/context/context.h"

/* Returns the entry named `name`, or the only entry. If there is none, returns NULL and sets the
 * message. */
static const tdm_safetensors_entry *find_entry(const tdm_safetensors_header *header,
                                               const char *name) {
  tdm_choices tensors;
  tdm_choices_init(&tensors, name);
  for (size_t i = 0; i < header->count; i++) {
    if (name && strcmp(header->entries[i].name, name) == 0) return &header->entries[i];
    tdm_choices_add(&tensors, header->entries[i].name);
  }
  if (!name && header->count == 1) return &header->entries[0];
  const char *text = tdm_choices_text(&tensors, "tensors");
  if (name)
    (void)tdm_fail(TDM_INVALID_ARGUMENT, "there is no tensor '%.64s'; %s", name, text);
  else
    (void)tdm_fail(TDM_INVALID_ARGUMENT, "there is not one tensor alone; %s", text);
  return NULL;
}

tdm_tensor *tdm_tensor_load(tdm_context *context, const char *path, const char *name) {
  if (!context || !path) {
    (void)tdm_fail_null("tdm_tensor_load: the context or the path");
    return NULL;
  }
  if (tdm_context_check(context) != TDM_OK) return NULL;
  if (tdm_safetensors_is_index(path)) {
    (void)tdm_fail(TDM_INVALID_ARGUMENT,
                   "%s: is an index of several files: tdm_safetensors_load and "
                   "tdm_safetensors_map read what it names",
                   path);
    return NULL;
  }
  tdm_safetensors_file file;
  tdm_tensor *tensor = NULL;
  if (tdm_safetensors_open(tdm_context_allocator(context), path, &file) == TDM_OK) {
    const tdm_safetensors_entry *entry = find_entry(&file.header, name);
    tdm_status status = entry ? TDM_OK : TDM_INVALID_ARGUMENT;
    if (entry) status = tdm_safetensors_read_tensor(context, &file, entry, &tensor);
    if (status != TDM_OK) (void)tdm_fail_within(status, "%s", path);
  }
  tdm_safetensors_close(&file);
  return tensor;
}
