/* Internal side of safetensors files (https://huggingface.co/docs/safetensors):
 *
 *   8 bytes        header bytes   rest of the file
 *   header size    JSON object    data: the tensors one after the other, no holes, no overlaps
 *   (little endian)
 *
 * The header maps each name to {"dtype", "shape", "data_offsets": [begin, end]}, offsets counted
 * from the first byte of data; "__metadata__" maps strings to strings. Invariant: a header that
 * tdm_safetensors_parse accepted describes exactly the bytes that are there. */
#ifndef TANDEM_DATA_SAFETENSORS_H
#define TANDEM_DATA_SAFETENSORS_H

#include "core/allocate.h"
#include "data/data.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TDM_SAFETENSORS_SIZE_BYTES 8
#define TDM_SAFETENSORS_HEADER_LIMIT_BYTES ((size_t)100000000) /* as in the reference library */
#define TDM_SAFETENSORS_METADATA "__metadata__"

typedef struct tdm_safetensors_entry {
  const char *name;
  tdm_dtype dtype;
  tdm_shape shape;
  int64_t begin; /* in bytes of data */
  int64_t end;
} tdm_safetensors_entry;

typedef struct tdm_safetensors_header {
  const tdm_allocator *allocator;
  tdm_region region;              /* the names */
  tdm_safetensors_entry *entries; /* in the order of the header */
  size_t count;
  size_t capacity;
} tdm_safetensors_header;

/* Reads and checks a header. data_bytes: what follows it in the file. Messages say where in the
 * header, and which tensor and field, but not which file. On failure header may be deinited. */
tdm_status tdm_safetensors_parse(tdm_safetensors_header *header, const tdm_allocator *allocator,
                                 const char *text, size_t bytes,
                                 int64_t data_bytes) TDM_WARN_UNUSED;
void tdm_safetensors_header_deinit(tdm_safetensors_header *header);

/* The format's name of a dtype ("F32"); NULL for one that it has no name for. */
const char *tdm_safetensors_dtype_name(tdm_dtype dtype);
/* UNSUPPORTED: a dtype of the format that Tandem does not hold; CORRUPT_DATA: none at all. */
tdm_status tdm_safetensors_dtype(const char *name, tdm_dtype *out_dtype) TDM_WARN_UNUSED;

/* tdm_safetensors_load with a status. */
tdm_status tdm_safetensors_read(tdm_context *context, const char *path,
                                tdm_tensor_list **out_list) TDM_WARN_UNUSED;

#ifdef __cplusplus
}
#endif
#endif
