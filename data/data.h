/* Public part of data/: datasets, loaders with prefetch, word lists, safetensors files. Stands
 * beside graph/ and layers/, on devices/. */
#ifndef TANDEM_DATA_DATA_H
#define TANDEM_DATA_DATA_H

#include "tandem/devices/devices.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Datasets: a length and an item --------------------------------------------------------- */

/* The most fields of an item. */
#define TDM_DATASET_MAX_FIELDS 8

/* One field of an item: shape without the batch dimension. */
typedef struct tdm_field {
  const char *name; /* what batches and loaders call it */
  tdm_dtype dtype;
  tdm_shape shape;
} tdm_field;

/* Items by number, each of the same fields. Counted references. */
typedef struct tdm_dataset tdm_dataset;

/* A dataset of a user's own. item writes one item's fields, each dense, to out_fields; it may be
 * called from a loader's thread. user outlives the dataset; destroy (may be NULL) ends it. With
 * skips_fields it leaves out those whose place is NULL, for loaders that read some of an item's
 * fields alone. */
typedef struct tdm_dataset_source {
  size_t struct_size;
  void *user;
  int64_t length;          /* items */
  const tdm_field *fields; /* copied */
  size_t field_count;
  tdm_status (*item)(void *user, int64_t index, void *const *out_fields);
  void (*destroy)(void *user);
  bool skips_fields;
} tdm_dataset_source;

/* source is copied. NULL on failure: INVALID_ARGUMENT where it is none, OUT_OF_MEMORY. */
TDM_API tdm_dataset *tdm_dataset_create(tdm_context *context, const tdm_dataset_source *source);
/* Items are the rows (dimension 0) of tensors on the host, which are retained; equal row counts. */
TDM_API tdm_dataset *tdm_dataset_from_tensors(tdm_context *context, const char *const *names,
                                              tdm_tensor *const *tensors, size_t count);
TDM_API tdm_dataset *tdm_dataset_retain(tdm_dataset *dataset);
TDM_API void tdm_dataset_release(tdm_dataset *dataset);
TDM_API int64_t tdm_dataset_length(const tdm_dataset *dataset);

/* ---- Loaders -------------------------------------------------------------------------------- */

typedef struct tdm_loader_options {
  size_t struct_size;
  int64_t batch_size; /* 1 or more, default 1; more than the dataset has: all of it */
  bool shuffle;       /* a new order every epoch, from (seed, epoch) alone */
  uint64_t seed;
  bool drop_last;
  /* Batches made ahead on the loader's own thread, all of which may lie in memory at once; more
   * than an epoch has: all of them; 0: made when asked for. */
  int prefetch;
  /* Batches hold only items of one group (words of one length, say): group[i] of item i, borrowed;
   * NULL: one group. Each group's last batch may be short; the order of batches is shuffled too. */
  const int32_t *groups;
  /* The device that batches will be copied to ("cuda:0"): they are made in staging buffers near it,
   * as tdm_tensor_staging does; hand them over to tdm_submit, and no byte is moved twice. NULL:
   * plain memory. */
  const char *near;
  /* The devices of a parallel region that batches are fed to, as tdm_parallel_options has them, and
   * its weights (a number a device; NULL: none). A batch is the global one, but of a job of several
   * ranks each reads only the items of the rows that its own devices get; in place of the others
   * stand -1, NaN or false. Fields that something outside of the region reads, as labels that a
   * loss reads, are named by `whole` ("label,weight"; NULL: none): these every rank reads of all
   * items, of a dataset that skips fields, as those of tensors do; a loader of words has its
   * classes whole and takes no names. Not where the session cuts batches into micro-batches, whose
   * rows go elsewhere. devices NULL: every rank reads everything. */
  const char *devices;
  const char *whole;
  const double *weights;
  /* Items are dealt out to so many replicas as PyTorch's DistributedSampler does: of the epoch's
   * order replica r takes items r, r + replicas, ..., equally many each, the first items again
   * where some are missing; with drop_last the rest is left out. batch_size is that of all, a
   * multiple of their number; a batch holds replica 0's items, then replica 1's, as that many equal
   * devices of a parallel region take them. More than 1 not with groups. Default 1: items
   * follow one another. */
  int replicas;
} tdm_loader_options;
static inline tdm_loader_options tdm_loader_options_default(void) {
  tdm_loader_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_loader_options);
  options.batch_size = 1;
  options.replicas = 1;
  return options;
}

/* Batches of a dataset, epoch by epoch. One thread at a time. */
typedef struct tdm_loader tdm_loader;

/* Retains the dataset; options may be NULL. NULL on failure, with a message that names the option.
 */
TDM_API tdm_loader *tdm_loader_create(tdm_dataset *dataset, const tdm_loader_options *options);
TDM_API void tdm_loader_release(tdm_loader *loader); /* ends its thread; NULL is legal */
TDM_API int64_t tdm_loader_batch_count(const tdm_loader *loader); /* an epoch's */
/* How many rows of an epoch are items that it has had (replicas), and how many items it leaves out
 * (drop_last); either may be NULL. */
TDM_API void tdm_loader_counts(const tdm_loader *loader, int64_t *out_padded, int64_t *out_dropped);
/* Starts (again) at the first batch of that epoch. */
TDM_API tdm_status tdm_loader_start(tdm_loader *loader, uint64_t epoch) TDM_WARN_UNUSED;
/* The same, at the batch of that number. */
TDM_API tdm_status tdm_loader_start_at(tdm_loader *loader, uint64_t epoch,
                                       int64_t batch) TDM_WARN_UNUSED;
/* The epoch, and how many of its batches have been delivered; either may be NULL. */
TDM_API void tdm_loader_position(const tdm_loader *loader, uint64_t *out_epoch, int64_t *out_batch);
/* The next batch: out_fields (capacity, at least the number of fields) gets one tensor for each
 * field, on cpu:0, shape (rows, field shape), owned by the caller; *out_rows is 0, and there are no
 * tensors, at the end of the epoch. One thread at a time. */
TDM_API tdm_status tdm_loader_next(tdm_loader *loader, tdm_tensor **out_fields, size_t capacity,
                                   int64_t *out_rows) TDM_WARN_UNUSED;

/* ---- Word lists ----------------------------------------------------------------------------- */

/* Words of several classes, one word a line. Lists are UTF-8, or ISO-8859-1 where they are not
 * UTF-8 and say so by their bytes; words are folded to lower case; every distinct character of all
 * lists gets an id from 1 (0 is padding). Kept: words of letters only (and ' and -), 3 characters
 * or more, that stand in only one list. */
typedef struct tdm_words tdm_words;

typedef struct tdm_words_options {
  size_t struct_size;
  int64_t words_per_class; /* size of a seeded sample of each list, 1 or more; default
                              TDM_DEFAULT_SIZE: all */
  int64_t max_length;      /* longer words are left out; default 24 */
  uint64_t seed;
  double held_out; /* share of each class kept for evaluation, 0 <= share < 1 */
} tdm_words_options;
static inline tdm_words_options tdm_words_options_default(void) {
  tdm_words_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_words_options);
  options.words_per_class = TDM_DEFAULT_SIZE;
  options.max_length = 24;
  return options;
}

typedef struct tdm_word_list {
  const char *name; /* of the class: "french" */
  const char *path;
} tdm_word_list;

/* Reads lists (count), a class each; options may be NULL. NULL on failure, with a message that
 * names the file. The caller releases it; NULL is legal there. */
TDM_API tdm_words *tdm_words_create(tdm_context *context, const tdm_word_list *lists, size_t count,
                                    const tdm_words_options *options);
TDM_API void tdm_words_release(tdm_words *words);
TDM_API int64_t tdm_words_character_count(const tdm_words *words); /* ids are below it; 0 pads */
/* Lists, and the language of one of them; borrowed, NULL where there is none of that number. */
TDM_API size_t tdm_words_class_count(const tdm_words *words);
TDM_API const char *tdm_words_class_name(const tdm_words *words, size_t index);
/* Fields "characters" int64 (length padded to max_length with 0), "length" int64 (), "class" int64
 * (). training: the training part, else the part held out. Retains what it needs. */
TDM_API tdm_dataset *tdm_words_dataset(tdm_words *words, bool training);
/* A loader of such a dataset whose batches hold words of one length; fields "characters" int64
 * (length, rows), time first and without padding, and "class" int64 (rows). */
TDM_API tdm_loader *tdm_words_loader(tdm_words *words, bool training,
                                     const tdm_loader_options *options);
/* The ids of a UTF-8 word (n, 1), time first, for asking a model. Unknown characters are
 * INVALID_ARGUMENT, naming the character. */
TDM_API tdm_tensor *tdm_words_encode(tdm_words *words, const char *word);
/* Everything needed to read words the same way later: tensors "words.characters" (code points) and
 * "words.classes" (names, zero-terminated bytes); and back, without any list. */
TDM_API tdm_status tdm_words_save(const tdm_words *words, tdm_tensor_list *list) TDM_WARN_UNUSED;
TDM_API tdm_words *tdm_words_from_saved(tdm_context *context, const tdm_tensor_list *list);

/* ---- Vocabularies ---------------------------------------------------------------------------- */

/* The distinct tokens of texts and their numbers, from 0 in the order in which they first stand:
 * torchtext's Vocab. Immutable: any thread. Texts are UTF-8 (others are
 * INVALID_ARGUMENT), and nothing is folded; no token has
 * more than 255 bytes. */
typedef struct tdm_vocabulary tdm_vocabulary;

typedef enum tdm_tokens {
  TDM_TOKENS_WORDS,     /* what stands between white space */
  TDM_TOKENS_CHARACTERS /* code points, white space too */
} tdm_tokens;

/* Of the tokens of texts (count), which are not kept. NULL on failure, with a message. The caller
 * releases it. */
TDM_API tdm_vocabulary *tdm_vocabulary_create(tdm_context *context, tdm_tokens kind,
                                              const char *const *texts, size_t count);
TDM_API tdm_vocabulary *tdm_vocabulary_retain(tdm_vocabulary *vocabulary);
TDM_API void tdm_vocabulary_release(tdm_vocabulary *vocabulary); /* NULL is legal */
/* How many tokens. */
TDM_API int64_t tdm_vocabulary_size(const tdm_vocabulary *vocabulary);
/* Borrowed; NULL, with a message, where there is none of that number. */
TDM_API const char *tdm_vocabulary_token(const tdm_vocabulary *vocabulary, int64_t number);
/* -1, with a message that names those that there are, where there is none of that text. */
TDM_API int64_t tdm_vocabulary_number(const tdm_vocabulary *vocabulary, const char *token);
/* The numbers of all texts' tokens, one text behind the other, int64 (tokens), on cpu:0.
 * out_offsets, unless NULL, gets where each text begins, int64 (count): what tdm_embedding_bag
 * takes. The caller owns both. NULL on failure: INVALID_ARGUMENT for a token that the vocabulary
 * does not have. */
TDM_API tdm_tensor *tdm_vocabulary_encode(const tdm_vocabulary *vocabulary,
                                          const char *const *texts, size_t count,
                                          tdm_tensor **out_offsets);

/* ---- Safetensors ---------------------------------------------------------------------------- */

/* Reads a safetensors file into host memory, every field of its header checked before anything is
 * believed (lengths, offsets, overlaps, holes, dtypes, shapes, duplicate names, nesting). The
 * tensors lie on cpu:0 and have nothing to do with the file any more. NULL on failure: UNAVAILABLE
 * (no such file), IO, or CORRUPT_DATA, naming the file and the tensor or field; also where the file
 * was found cut off or written to while it was read.
 *
 * This, the next and tdm_safetensors_save take the path of an index, "NAME.safetensors.index.json",
 * too, as Hugging Face's libraries have it: the tensors are in several files, which the index names
 * and which lie beside it. One that names files elsewhere, or in which other tensors are than it
 * says, is CORRUPT_DATA.
 *
 * This and tdm_safetensors_map list tensors of every dtype of the format. Those of a dtype that
 * Tandem does not support, or of more than TDM_MAX_RANK dimensions, have no values in the list
 * (tdm_tensor_list_entry). */
TDM_API tdm_tensor_list *tdm_safetensors_load(tdm_context *context, const char *path);
/* The same without reading what the tensors hold: they lie over a private mapping of the file,
 * which they keep alive, and pages are read when they are first touched. For files that are larger
 * than memory, or of which little is used. The price: nobody may write to the file or shorten it
 * while a tensor of it lives. Bytes of the file that are not there any more, or that the disk
 * cannot give, end the process with SIGBUS when a tensor's are touched. A file that is replaced by
 * renaming, as tdm_safetensors_save does, or removed, is none of these. Bools, and tensors that do
 * not lie aligned, are read at once. */
TDM_API tdm_tensor_list *tdm_safetensors_map(tdm_context *context, const char *path);
/* Reads one tensor of a safetensors file to cpu:0, without reading the others. name may be NULL if
 * the file has exactly one tensor. The caller owns the reference. Returns NULL on failure: as
 * tdm_safetensors_load does, with INVALID_ARGUMENT and a list of names if no tensor has that name,
 * and with UNSUPPORTED if Tandem does not support its dtype or number of dimensions. */
TDM_API tdm_tensor *tdm_tensor_load(tdm_context *context, const char *path, const char *name);
/* Writes list to path: to a temporary file beside it, flushed, then renamed, so that path is whole
 * or untouched. Where path is a symbolic link, what it leads to is written. The temporary file is
 * ".NAME.tandem-00"; where a process is killed while it saves, it stays until path is next saved
 * to. Tensors of any device. */
TDM_API tdm_status tdm_safetensors_save(const tdm_tensor_list *list,
                                        const char *path) TDM_WARN_UNUSED;
/* The same in files "NAME-00001-of-00003.safetensors" beside path, which is that of an index, each
 * of at most part_bytes of tensors, in the list's order, or of one larger tensor;
 * tdm_safetensors_save makes them of 5,000,000,000. The index is written last: until then what it
 * named before stays, then that is removed. Saves beside one another write files of their own, and
 * the last index stays. Files of a save that was killed, or whose index another has replaced
 * meanwhile, may stay, and are named by no index. INVALID_ARGUMENT for an empty list, and for a
 * path that is no index's. */
TDM_API tdm_status tdm_safetensors_save_parts(const tdm_tensor_list *list, const char *path,
                                              int64_t part_bytes) TDM_WARN_UNUSED;

#ifdef __cplusplus
}
#endif
#endif
