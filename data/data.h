/* Public part of data/: datasets, loaders, word lists, vocabularies and safetensors files. It uses
 * devices/ and is independent of graph/ and layers/. */
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
   * as datasets of tensors do. A loader of words reads all classes, and takes no names. Default
   * NULL: none. */
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

/* ---- Word lists ------------------------------------------------------------------------------ */

/* Words of several classes, read from lists with one word per line.
 *
 * Lists are UTF-8, or ISO-8859-1 if they contain bytes that are not UTF-8. Words are converted to
 * lower case. Every distinct character of all lists has an id from 1; 0 is padding. Words are kept
 * if they consist of letters, ' and - only, have 3 or more characters, and occur in one list only.
 */
typedef struct tdm_words tdm_words;

/* Options of tdm_words_create. */
typedef struct tdm_words_options {
  size_t struct_size;
  /* Size of a random sample of each list, 1 or more. Default TDM_DEFAULT_SIZE: all words. */
  int64_t words_per_class;
  /* Maximum number of characters; longer words are left out. Default 24. */
  int64_t max_length;
  uint64_t seed; /* Seed of the sample and of the held-out part. Default 0. */
  /* Share of each class that is held out for evaluation, 0 or more and less than 1. Default 0. */
  double held_out;
} tdm_words_options;
static inline tdm_words_options tdm_words_options_default(void) {
  tdm_words_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_words_options);
  options.words_per_class = TDM_DEFAULT_SIZE;
  options.max_length = 24;
  return options;
}

/* A list of words of one class. */
typedef struct tdm_word_list {
  const char *name; /* Name of the class: "french". */
  const char *path; /* Path of the file. */
} tdm_word_list;

/* Reads word lists. On failure the message names the file.
 * @param lists (count): one per class.
 * @param options NULL: all defaults. */
TDM_API tdm_words *tdm_words_create(tdm_context *context, const tdm_word_list *lists, size_t count,
                                    const tdm_words_options *options);

/* Releases the words. */
TDM_API void tdm_words_release(tdm_words *words);

/* Returns the number of character ids, padding included: all ids are less than it. */
TDM_API int64_t tdm_words_character_count(const tdm_words *words);

/* Returns the number of classes. */
TDM_API size_t tdm_words_class_count(const tdm_words *words);

/* Returns the name of a class; borrowed. NULL if there is no such class. */
TDM_API const char *tdm_words_class_name(const tdm_words *words, size_t index);

/* Returns a dataset of the words with the fields "characters" int64 (max_length), padded with 0,
 * "length" int64 () and "class" int64 (). It retains what it needs.
 * @param training true: the words for training. false: the held-out words. */
TDM_API tdm_dataset *tdm_words_dataset(tdm_words *words, bool training);

/* Returns a loader whose batches have words of one length, with the fields "characters" int64
 * (length, rows), without padding, and "class" int64 (rows).
 * @param training true: the words for training. false: the held-out words.
 * @param options NULL: all defaults. */
TDM_API tdm_loader *tdm_words_loader(tdm_words *words, bool training,
                                     const tdm_loader_options *options);

/* Returns the character ids of a word, int64 (n, 1), as input of a model. INVALID_ARGUMENT for a
 * character without id; the message names it. */
TDM_API tdm_tensor *tdm_words_encode(tdm_words *words, const char *word);

/* Adds to list what is needed to encode words in the same way later: the tensors "words.characters"
 * (code points) and "words.classes" (names, each with a zero byte at its end). */
TDM_API tdm_status tdm_words_save(const tdm_words *words, tdm_tensor_list *list) TDM_WARN_UNUSED;

/* Creates words from what tdm_words_save added to list. It has the characters and classes, but no
 * words. */
TDM_API tdm_words *tdm_words_from_saved(tdm_context *context, const tdm_tensor_list *list);

/* ---- Vocabularies ---------------------------------------------------------------------------- */

/* The distinct tokens of texts, numbered from 0 in the order of their first occurrence (torchtext's
 * Vocab). It cannot be changed. Texts must be UTF-8; otherwise functions fail with
 * INVALID_ARGUMENT. Upper and lower case differ. A token has at most 255 bytes. Reference counted.
 */
typedef struct tdm_vocabulary tdm_vocabulary;

/* How a text is divided into tokens. */
typedef enum tdm_tokens {
  TDM_TOKENS_WORDS,     /* Words, separated by white space. */
  TDM_TOKENS_CHARACTERS /* Code points, white space included. */
} tdm_tokens;

/* Creates a vocabulary of the tokens of texts. The texts are not retained.
 * @code
 * const char *text = "to be or not to be";
 * tdm_vocabulary *words = tdm_vocabulary_create(context, TDM_TOKENS_WORDS, &text, 1);
 * tdm_tensor *numbers = tdm_vocabulary_encode(words, &text, 1, NULL); // 0 1 2 3 0 1
 * @endcode
 * @param kind how texts are divided.
 * @param texts (count). */
TDM_API tdm_vocabulary *tdm_vocabulary_create(tdm_context *context, tdm_tokens kind,
                                              const char *const *texts, size_t count);

/* Adds a reference to the vocabulary and returns it. */
TDM_API tdm_vocabulary *tdm_vocabulary_retain(tdm_vocabulary *vocabulary);

/* Gives back a reference to the vocabulary. */
TDM_API void tdm_vocabulary_release(tdm_vocabulary *vocabulary);

/* Returns the number of tokens. */
TDM_API int64_t tdm_vocabulary_size(const tdm_vocabulary *vocabulary);

/* Returns a token by its number; borrowed. NULL, with a message, if there is none. */
TDM_API const char *tdm_vocabulary_token(const tdm_vocabulary *vocabulary, int64_t number);

/* Returns the number of a token. -1, with a message that lists tokens, if there is none. */
TDM_API int64_t tdm_vocabulary_number(const tdm_vocabulary *vocabulary, const char *token);

/* Returns the numbers of the tokens of all texts, one text after the other, as int64 (tokens) on
 * cpu:0. INVALID_ARGUMENT for a token that the vocabulary does not have.
 * @param texts (count).
 * @param out_offsets receives where each text begins, int64 (count), as tdm_embedding_bag takes it;
 *     NULL: not needed. */
TDM_API tdm_tensor *tdm_vocabulary_encode(const tdm_vocabulary *vocabulary,
                                          const char *const *texts, size_t count,
                                          tdm_tensor **out_offsets);

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
