/* Tensors in several safetensors files, and the index that maps tensors to files, in the format of
 * Hugging Face's libraries:
 *
 *   model.safetensors.index.json
 *     {"metadata": {"total_size": BYTES},
 *      "weight_map": {"NAME": "model-00001-of-00002.safetensors", ...}}
 *
 * Invariant: an accepted index names only files of its own folder. These contain exactly the
 * tensors that it lists, each once. */
#ifndef TANDEM_DATA_SAFETENSORS_PARTS_H
#define TANDEM_DATA_SAFETENSORS_PARTS_H

#include "data/safetensors/safetensors.h"

#define TDM_SAFETENSORS_INDEX ".safetensors.index.json"
#define TDM_SAFETENSORS_PART_BYTES INT64_C(5000000000) /* Hugging Face's default */

/* Returns true if it is the path of an index. */
bool tdm_safetensors_is_index(const char *path);

/* Reads one file into a list. */
typedef tdm_status (*tdm_safetensors_reader)(tdm_context *context, const char *path,
                                             tdm_tensor_list **out_list);
/* Reads all tensors of the files that the index names, which are in folder ("models/", or "").
 * Messages name the index, and the file if it is at fault. On failure *out_list is NULL. */
tdm_status tdm_safetensors_read_parts(tdm_context *context, const char *index, const char *folder,
                                      tdm_safetensors_reader reader,
                                      tdm_tensor_list **out_list) TDM_WARN_UNUSED;
/* Like tdm_safetensors_read_parts, for files in the index's folder. */
tdm_status tdm_safetensors_read_index(tdm_context *context, const char *index,
                                      tdm_safetensors_reader reader,
                                      tdm_tensor_list **out_list) TDM_WARN_UNUSED;

/* Returns true if the name, relative to the index's folder, refers to a file in that folder and has
 * the suffix of safetensors files. */
bool tdm_safetensors_is_part_name(const char *name);

#endif
