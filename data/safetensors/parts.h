/* Tensors in several safetensors files, and the index that tells which is in which, as Hugging
 * Face's libraries have them:
 *
 *   model.safetensors.index.json
 *     {"metadata": {"total_size": BYTES}, "weight_map": {"NAME":
 * "model-00001-of-00002.safetensors",
 *      ...}}
 *
 * Invariant: an index that is accepted names files of its own folder alone, and these hold the
 * tensors that it says, each once, and no others. */
#ifndef TANDEM_DATA_SAFETENSORS_PARTS_H
#define TANDEM_DATA_SAFETENSORS_PARTS_H

#include "data/safetensors/safetensors.h"

#define TDM_SAFETENSORS_INDEX ".safetensors.index.json"
#define TDM_SAFETENSORS_PART_BYTES INT64_C(5000000000) /* as in Hugging Face's libraries */

/* Is it the path of an index? */
bool tdm_safetensors_is_index(const char *path);

/* How one file becomes a list. */
typedef tdm_status (*tdm_safetensors_reader)(tdm_context *context, const char *path,
                                             tdm_tensor_list **out_list);
/* All tensors of the files that the index names, which lie in folder ("models/", or ""). Messages
 * name the index, and where it is about one the file. On failure *out_list is NULL. */
tdm_status tdm_safetensors_read_parts(tdm_context *context, const char *index, const char *folder,
                                      tdm_safetensors_reader reader,
                                      tdm_tensor_list **out_list) TDM_WARN_UNUSED;
/* The same where the files lie beside the index. */
tdm_status tdm_safetensors_read_index(tdm_context *context, const char *index,
                                      tdm_safetensors_reader reader,
                                      tdm_tensor_list **out_list) TDM_WARN_UNUSED;

/* Does a file of that name, of the folder of an index, stay in that folder, and say what it is? */
bool tdm_safetensors_is_part_name(const char *name);

#endif
