/* Internal side of safetensors files (https://huggingface.co/docs/safetensors):
 *
 *   8 bytes        header bytes   rest of the file
 *   header size    JSON object    data: the tensors one after the other, no holes, no overlaps
 *   (little endian)
 *
 * The header maps each name to {"dtype", "shape", "data_offsets": [begin, end]}, offsets counted
 * from the first byte of data. "__metadata__" maps strings to strings. Invariant: a header that
 * tdm_safetensors_parse accepted describes exactly the bytes of the file. */
#ifndef TANDEM_DATA_SAFETENSORS_SAFETENSORS_H
#define TANDEM_DATA_SAFETENSORS_SAFETENSORS_H

#include "core/allocate.h"
#include "core/file.h"
#include "tandem/data/data.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TDM_SAFETENSORS_SIZE_BYTES 8
/* the limit of the reference library */
#define TDM_SAFETENSORS_HEADER_LIMIT_BYTES ((size_t)100000000)
#define TDM_SAFETENSORS_METADATA "__metadata__"

/* A dtype of the format. */
typedef struct tdm_safetensors_type {
  const char *name; /* "F32" */
  int32_t bits;     /* bits per element */
  tdm_dtype dtype;  /* TDM_DTYPE_NONE: Tandem does not support it */
} tdm_safetensors_type;

typedef struct tdm_safetensors_entry {
  const char *name; /* name, which points into the header's text */
  const tdm_safetensors_type *type;
  tdm_shape shape; /* the shape of a scalar if rank exceeds TDM_MAX_RANK */
  int32_t rank;
  const char *dims_text; /* the `rank` dimensions in the header's text: "2,3]" */
  int64_t begin;         /* offset in data, in bytes */
  int64_t end;
} tdm_safetensors_entry;

typedef struct tdm_safetensors_header {
  const tdm_allocator *allocator;
  tdm_safetensors_entry *entries; /* entries in the order of the header */
  size_t count;
  size_t capacity;
} tdm_safetensors_header;

/* Reads and checks a header. It decodes strings in place: text contains the names from then on.
 * data_bytes is the size of the file after the header. Messages name the position, the tensor and
 * the field, but not the file. Uses memory of at most three times the header's size. On failure
 * header may be passed to deinit. */
tdm_status tdm_safetensors_parse(tdm_safetensors_header *header, const tdm_allocator *allocator,
                                 char *text, size_t bytes, int64_t data_bytes) TDM_WARN_UNUSED;
void tdm_safetensors_header_deinit(tdm_safetensors_header *header);

/* Returns the format's name of a dtype ("F32"), or NULL if it has none. */
const char *tdm_safetensors_dtype_name(tdm_dtype dtype);
/* Returns the dtype of that name, or NULL if the format has none. */
const tdm_safetensors_type *tdm_safetensors_type_called(const char *name);

/* Returns true if a tensor can be created from the entry. Other entries are only listed. */
static inline bool tdm_safetensors_is_supported(const tdm_safetensors_entry *entry) {
  return entry->type->dtype != TDM_DTYPE_NONE && entry->rank <= TDM_MAX_RANK;
}
/* Writes the entry's dimensions to dims (rank). */
void tdm_safetensors_dims(const tdm_safetensors_entry *entry, tdm_dim *dims);

/* An open file whose header was read and checked, and whose data was not read yet. */
typedef struct tdm_safetensors_file {
  const tdm_allocator *allocator;
  tdm_file file;
  char *text; /* text of the header */
  size_t text_bytes;
  uint64_t data_begin; /* offset in the file */
  tdm_safetensors_header header;
} tdm_safetensors_file;

/* Opens a file. Close it, on failure too. Messages name the file. */
tdm_status tdm_safetensors_open(const tdm_allocator *allocator, const char *path,
                                tdm_safetensors_file *out_file) TDM_WARN_UNUSED;
void tdm_safetensors_close(tdm_safetensors_file *file);

/* Reads one tensor into its own host memory. Fails with UNSUPPORTED if the entry is not supported.
 * Messages name the tensor, but not the file. */
tdm_status tdm_safetensors_read_tensor(tdm_context *context, const tdm_safetensors_file *file,
                                       const tdm_safetensors_entry *entry,
                                       tdm_tensor **out_tensor) TDM_WARN_UNUSED;

/* Creates a tensor from an entry, by reading or mapping. Messages name the tensor, but not the
 * file. */
typedef tdm_status (*tdm_safetensors_maker)(tdm_context *context, const tdm_safetensors_file *file,
                                            const tdm_safetensors_entry *entry, void *user,
                                            tdm_tensor **out_tensor);
/* Lists all tensors of an open file. Fails if the file was written to meanwhile. */
tdm_status tdm_safetensors_list(tdm_context *context, const tdm_safetensors_file *file,
                                const char *path, tdm_safetensors_maker maker, void *user,
                                tdm_tensor_list **out_list) TDM_WARN_UNUSED;

/* Reads all tensors of one file. */
tdm_status tdm_safetensors_read_file(tdm_context *context, const char *path,
                                     tdm_tensor_list **out_list) TDM_WARN_UNUSED;
/* Like tdm_safetensors_load, but returns a status. */
tdm_status tdm_safetensors_read(tdm_context *context, const char *path,
                                tdm_tensor_list **out_list) TDM_WARN_UNUSED;

#ifdef __cplusplus
}
#endif
#endif
