/* Public part of data/: datasets, loaders and safetensors files. It uses devices/ and does not
 * depend on graph/ and layers/. */
#ifndef TANDEM_DATA_DATA_H
#define TANDEM_DATA_DATA_H

#include "tandem/devices/devices.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Datasets -------------------------------------------------------------------------------- */

/* Maximum number of fields of an item. */
#define TDM_DATASET_MAX_FIELDS 8

/* One field of an item. */
typedef struct tdm_field {
  const char *name; /* Name of the field, in messages and in tdm_loader_options.whole. */
  tdm_dtype dtype;  /* Dtype of its elements. */
  tdm_shape shape;  /* Its shape, without the batch dimension; sizes only. */
} tdm_field;

/* A sequence of items with the same fields, by index (torch.utils.data.Dataset). Reference counted.
 */
typedef struct tdm_dataset tdm_dataset;

/* A dataset of the program's own. */
typedef struct tdm_dataset_source {
  size_t struct_size; /* sizeof(tdm_dataset_source). */
  /* First argument of item and destroy. It must outlive the dataset. */
  void *user;
  int64_t length;          /* Number of items, 0 or more. */
  const tdm_field *fields; /* (field_count): fields of each item; copied. */
  size_t field_count;      /* 1 to TDM_DATASET_MAX_FIELDS. */
  /* Writes the fields of item `index` to out_fields (field_count), each contiguous in row-major
   * order. May be called from a loader's thread. */
  tdm_status (*item)(void *user, int64_t index, void *const *out_fields);
  void (*destroy)(void *user); /* Called when the dataset is destroyed; may be NULL. */
  /* true: item skips fields whose pointer in out_fields is NULL, so that loaders can read some
   * fields only. */
  bool skips_fields;
} tdm_dataset_source;

/* Creates a dataset from functions of the program.
 * @code
 * const tdm_field fields[] = {
 *     {"image", TDM_FLOAT32, tdm_shape_of(3, 1, 28, 28)},
 *     {"label", TDM_INT64, tdm_shape_scalar()},
 * };
 * const tdm_dataset_source source = {
 *     .struct_size = sizeof source,
 *     .length = 60000,
 *     .fields = fields,
 *     .field_count = 2,
 *     .item = read_item,
 * };
 * tdm_dataset *dataset = tdm_dataset_create(context, &source);
 * @endcode
 * @param source copied. */
TDM_API tdm_dataset *tdm_dataset_create(tdm_context *context, const tdm_dataset_source *source);

/* Creates a dataset whose items are the rows (dimension 0) of tensors
 * (torch.utils.data.TensorDataset).
 * @param names (count): names of the fields.
 * @param tensors (count): on the host, with equal numbers of rows; retained.
 * @param count 1 to TDM_DATASET_MAX_FIELDS. */
TDM_API tdm_dataset *tdm_dataset_from_tensors(tdm_context *context, const char *const *names,
                                              tdm_tensor *const *tensors, size_t count);

/* Adds a reference to the dataset and returns it. */
TDM_API tdm_dataset *tdm_dataset_retain(tdm_dataset *dataset);

/* Gives back a reference to the dataset. */
TDM_API void tdm_dataset_release(tdm_dataset *dataset);

/* Returns the number of items. */
TDM_API int64_t tdm_dataset_length(const tdm_dataset *dataset);

/* ---- Loaders --------------------------------------------------------------------------------- */

/* Options of a loader. */
typedef struct tdm_loader_options {
  size_t struct_size;
  /* Number of items of a batch, 1 or more. Default 1. A number beyond the dataset's length selects
   * all items. */
  int64_t batch_size;
  /* true: a new order in every epoch, which depends on seed and the epoch's number only. Default
   * false. */
  bool shuffle;
  uint64_t seed; /* Seed of the order. Default 0. */
  /* true: leave out a last batch that is smaller than batch_size. Default false. */
  bool drop_last;
  /* Number of batches that a thread of the loader prepares in advance, all of which may be in
   * memory at once; 0 or more. A number beyond that of an epoch's batches selects all of them.
   * Default 0: batches are prepared when they are requested. */
  int prefetch;
  /* Group of each item, such as the length of a word; borrowed. Each batch then has items of one
   * group only. The last batch of each group may be smaller, and the order of batches is shuffled
   * too. Default NULL: one group. */
  const int32_t *groups;
  /* Device to which batches will be copied ("cuda:0"). They are prepared in staging buffers near it
   * (tdm_tensor_staging); hand them over to tdm_submit, and they are copied once only. Default
   * NULL: plain memory. */
  const char *near;
  /* For jobs of several ranks: the devices of the parallel region to which batches are fed
   * (tdm_parallel_options.devices). A batch is that of all ranks, but each rank reads only the
   * items of the rows that its own devices receive; other rows contain -1, NaN or false. Not
   * possible in sessions with micro-batches, which divide rows differently. Default NULL: every
   * rank reads all items. */
  const char *devices;
  /* With devices: names of fields that every rank reads for all items, because something outside of
   * the region reads them, such as labels for a loss: "label,weight". The dataset must skip fields,
   * as datasets of tensors do. Default NULL: none. */
  const char *whole;
  /* With devices: weights of the parallel region, one per device. Default NULL: none. */
  const double *weights;
  /* Number of replicas among which items are distributed as by PyTorch's DistributedSampler:
   * replica r receives the items r, r + replicas, ... of the epoch's order. All receive equally
   * many. Missing items are replaced by the first ones again; with drop_last, surplus items are
   * left out instead. batch_size is that of all replicas together, and a multiple of replicas. A
   * batch contains replica 0's items, then replica 1's, and so on, as this many equal devices of a
   * parallel region take them. Cannot be more than 1 with groups. Default 1: items in order. */
  int replicas;
} tdm_loader_options;
static inline tdm_loader_options tdm_loader_options_default(void) {
  tdm_loader_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_loader_options);
  options.batch_size = 1;
  options.replicas = 1;
  return options;
}

/* Batches of a dataset, epoch by epoch (torch.utils.data.DataLoader). One thread at a time may use
 * it. */
typedef struct tdm_loader tdm_loader;

/* Creates a loader, which retains the dataset. On failure the message names the option.
 * @code
 * tdm_loader_options options = tdm_loader_options_default();
 * options.batch_size = 64;
 * options.shuffle = true;
 * tdm_loader *loader = tdm_loader_create(dataset, &options);
 * @endcode
 * @param options NULL: all defaults. */
TDM_API tdm_loader *tdm_loader_create(tdm_dataset *dataset, const tdm_loader_options *options);

/* Stops the loader's thread and releases the loader. */
TDM_API void tdm_loader_release(tdm_loader *loader);

/* Returns the number of batches of an epoch. */
TDM_API int64_t tdm_loader_batch_count(const tdm_loader *loader);

/* Returns how many rows of an epoch repeat items (replicas), and how many items it leaves out
 * (drop_last).
 * @param out_padded receives the number of repeated items; may be NULL.
 * @param out_dropped receives the number of items that are left out; may be NULL. */
TDM_API void tdm_loader_counts(const tdm_loader *loader, int64_t *out_padded, int64_t *out_dropped);

/* Starts an epoch at its first batch. May be called at any time. */
TDM_API tdm_status tdm_loader_start(tdm_loader *loader, uint64_t epoch) TDM_WARN_UNUSED;

/* Starts an epoch at a given batch.
 * @param epoch number of the epoch, from 0.
 * @param batch number of the batch, from 0. */
TDM_API tdm_status tdm_loader_start_at(tdm_loader *loader, uint64_t epoch,
                                       int64_t batch) TDM_WARN_UNUSED;

/* Returns the position of the loader.
 * @param out_epoch receives the number of the epoch; may be NULL.
 * @param out_batch receives the number of its batches that have been delivered; may be NULL. */
TDM_API void tdm_loader_position(const tdm_loader *loader, uint64_t *out_epoch, int64_t *out_batch);

/* Returns the next batch of the epoch.
 * @code
 * tdm_tensor *fields[2];
 * int64_t rows;
 * while (tdm_loader_next(loader, fields, 2, &rows) == TDM_OK && rows > 0) {
 *   ...
 *   tdm_tensor_release(fields[0]);
 *   tdm_tensor_release(fields[1]);
 * }
 * @endcode
 * @param out_fields (capacity): receives one tensor per field on cpu:0, of shape (rows, shape of
 *     the field...).
 * @param capacity at least the number of fields.
 * @param out_rows receives the number of items. 0: the epoch has ended, and there are no tensors.
 */
TDM_API tdm_status tdm_loader_next(tdm_loader *loader, tdm_tensor **out_fields, size_t capacity,
                                   int64_t *out_rows) TDM_WARN_UNUSED;

/* ---- Safetensors ----------------------------------------------------------------------------- */

/* Paths. tdm_safetensors_load, tdm_safetensors_map and tdm_safetensors_save also take the path of
 * an index, "NAME.safetensors.index.json", as Hugging Face's libraries use it: the tensors are then
 * in several files beside the index, which names them. An index is CORRUPT_DATA if it names files
 * in other folders, or if the files contain other tensors than it states.
 *
 * Lists contain tensors of every dtype of the format. Those of a dtype that Tandem does not
 * support, or of more than TDM_MAX_RANK dimensions, are described without values
 * (tdm_tensor_list_entry). */

/* Reads all tensors of a safetensors file to cpu:0. They are independent of the file afterwards.
 *
 * Every field of the header is checked before it is used: lengths, offsets, overlaps, gaps, dtypes,
 * shapes, duplicate names and nesting. Returns NULL on failure: UNAVAILABLE if there is no such
 * file, IO, or CORRUPT_DATA, also if the file is truncated or written to while it is read. The
 * message names the file, and the tensor or field. */
TDM_API tdm_tensor_list *tdm_safetensors_load(tdm_context *context, const char *path);

/* Maps a safetensors file into memory: as tdm_safetensors_load, but elements are read when they are
 * first accessed. Use it for files that are larger than memory, or of which little is needed.
 *
 * While one of the tensors exists, nothing may write to the file or shorten it. Accessing elements
 * that are no longer in the file, or that the disk cannot read, ends the process with SIGBUS.
 * Replacing the file by renaming, as tdm_safetensors_save does, and removing it are allowed. Bools,
 * and tensors that are not aligned, are read immediately. */
TDM_API tdm_tensor_list *tdm_safetensors_map(tdm_context *context, const char *path);

/* Reads one tensor of a safetensors file to cpu:0 without reading the others. Fails as
 * tdm_safetensors_load does, with INVALID_ARGUMENT and a list of names if there is no tensor of
 * that name, and with UNSUPPORTED if Tandem does not support its dtype or number of dimensions.
 * @param name NULL: the file must have exactly one tensor. */
TDM_API tdm_tensor *tdm_tensor_load(tdm_context *context, const char *path, const char *name);

/* Writes the tensors of list, on any devices, to a safetensors file. The file is written under a
 * temporary name in the same folder, flushed, and renamed, so that path has either the old or the
 * complete new contents. If path is a symbolic link, its target is written. The temporary file is
 * ".NAME.tandem-00"; it remains if the process is killed, until path is saved to again. If path is
 * that of an index, files have 5,000,000,000 bytes of tensors each (tdm_safetensors_save_parts). */
TDM_API tdm_status tdm_safetensors_save(const tdm_tensor_list *list,
                                        const char *path) TDM_WARN_UNUSED;

/* Writes the tensors of list to several safetensors files, "NAME-00001-of-00003.safetensors", and
 * an index that names them. The index is written last: until then, the files that it named before
 * remain; then they are removed. Concurrent saves write files of their own, and the last index
 * remains. Files of a save that was killed, or whose index was replaced by a concurrent save, may
 * remain; no index names them. INVALID_ARGUMENT for an empty list, and for a path that does not end
 * in ".safetensors.index.json".
 * @param path path of the index.
 * @param part_bytes 1 or more: maximum number of bytes of tensors in a file, in the order of the
 *     list; a larger tensor has a file of its own. */
TDM_API tdm_status tdm_safetensors_save_parts(const tdm_tensor_list *list, const char *path,
                                              int64_t part_bytes) TDM_WARN_UNUSED;

#ifdef __cplusplus
}
#endif
#endif
