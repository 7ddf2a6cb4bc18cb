/* Loaders: an order of batches, which are created on demand or ahead on a thread. Invariant: the
 * results of next() do not depend on prefetch. After a failure an epoch delivers only the same
 * failure again, until it is restarted. */
#include <string.h>

#include "core/allocate.h"
#include "core/options.h"
#include "data/dataset.h"
#include "data/loader_state.h"
#include "data/order.h"
#include "data/prefetch.h"
#include "devices/context/context.h"
#include "devices/tensors/chunks.h"

struct tdm_loader {
  tdm_dataset *dataset; /* retained */
  tdm_loader_options options;
  tdm_device *near;  /* NULL: plain memory */
  size_t part_count; /* parts of the region that batches are for; 0: none */
  bool part_is_own[TDM_MAX_DEVICES];
  bool has_weights;
  double weights[TDM_MAX_DEVICES];
  uint32_t whole; /* bit set of fields that contain all rows, one bit per field */
  tdm_order order;
  tdm_prefetch *prefetch; /* NULL: next() creates batches */
  atomic_bool never;      /* always false: the `abandon` flag of batches created by next() */
  bool started;
  uint64_t epoch;
  int64_t next_batch;
  tdm_status failure; /* failure of this epoch */
  char message[TDM_MESSAGE_BYTES];
};

static tdm_status make_batch(void *user, int64_t batch, const atomic_bool *abandon,
                             tdm_tensor **out_fields) {
  tdm_loader *loader = user;
  const tdm_batch_range range = loader->order.batches[batch];
  tdm_batch_rows rows = {.items = loader->order.items + range.begin,
                         .count = range.rows,
                         .part_count = loader->part_count,
                         .part_is_own = loader->part_is_own,
                         .whole = loader->whole};
  if (rows.part_count > 0)
    (void)tdm_chunk_sizes(rows.count, rows.part_count, loader->has_weights ? loader->weights : NULL,
                          rows.part_sizes);
  return tdm_batch_stack(loader->dataset, loader->near, &rows, abandon, out_fields);
}

static tdm_status check_options(const tdm_loader_options *options) {
  if (options->batch_size < 1) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "loader: batch_size is %lld, expected 1 or more",
                    (long long)options->batch_size);
  }
  if (options->replicas < 1 || (options->replicas > 1 && options->groups)) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "loader: replicas is %d, expected %s", options->replicas,
                    options->groups ? "1, since items have groups" : "1 or more");
  }
  if (options->batch_size % options->replicas != 0) {
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "loader: batch_size is %lld, that of all %d replicas: a multiple of these",
                    (long long)options->batch_size, options->replicas);
  }
  if ((options->weights || options->whole) && !options->devices) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "loader: %s without devices",
                    options->weights ? "weights" : "whole fields");
  }
  if (options->prefetch < 0) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "loader: prefetch is %d, expected 0 or more",
                    options->prefetch);
  }
  return TDM_OK;
}

/* Reads the list of fields that are made of all rows. */
static tdm_status read_whole(const tdm_dataset *dataset, const char *list, uint32_t *out_whole) {
  *out_whole = 0;
  if (list && !dataset->skips_fields)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "loader: %s would be whole, of a dataset that does not skip fields", list);
  for (const char *at = list; at && *at != '\0';) {
    const size_t length = strcspn(at, ",");
    size_t i = 0;
    while (i < dataset->field_count && (strncmp(dataset->fields[i].name, at, length) != 0 ||
                                        dataset->fields[i].name[length] != '\0'))
      i++;
    if (i == dataset->field_count)
      return tdm_fail(TDM_INVALID_ARGUMENT, "loader: the dataset has no field \"%.*s\"",
                      (int)length, at);
    *out_whole |= 1u << i;
    at += length + (at[length] == ',');
  }
  return TDM_OK;
}

/* Determines which parts of a batch belong to this rank. */
static tdm_status find_parts(tdm_loader *loader) {
  tdm_context *context = loader->dataset->context;
  tdm_device *devices[TDM_MAX_DEVICES];
  TDM_TRY(tdm_context_find_placements(context, loader->options.devices, TDM_MAX_DEVICES, devices,
                                      &loader->part_count));
  loader->has_weights = loader->options.weights;
  double sum = 0;
  for (size_t i = 0; i < loader->part_count; i++) {
    loader->part_is_own[i] = devices[i]->rank == tdm_context_rank(context);
    loader->weights[i] = loader->options.weights ? loader->options.weights[i] : 1;
    if (!(loader->weights[i] >= 0 && loader->weights[i] < 1e300))
      return tdm_fail(TDM_INVALID_ARGUMENT, "loader: weight %g of device %zu is not possible",
                      loader->weights[i], i);
    sum += loader->weights[i];
  }
  if (!(sum > 0)) return tdm_fail(TDM_INVALID_ARGUMENT, "loader: all weights are 0");
  return read_whole(loader->dataset, loader->options.whole, &loader->whole);
}

/* Logs how many items an epoch repeats or leaves out, on rank 0. */
static void tell_counts(const tdm_loader *loader) {
  tdm_context *context = loader->dataset->context;
  int64_t padded, dropped;
  tdm_loader_counts(loader, &padded, &dropped);
  if (tdm_context_rank(context) != 0 || padded + dropped == 0) return;
  tdm_context_log(context, TDM_LOG_INFO, "loader: an epoch of %lld items %s %lld of them",
                  (long long)loader->order.length, padded > 0 ? "repeats" : "leaves out",
                  (long long)(padded + dropped));
}

/* Initializes a loader whose dataset is set. */
static tdm_status init_loader(tdm_loader *loader) {
  const tdm_loader_options *options = &loader->options;
  const tdm_allocator *allocator = tdm_context_allocator(loader->dataset->context);
  if (options->near) {
    loader->near = tdm_context_find_device(loader->dataset->context, options->near);
    if (!loader->near) return TDM_UNAVAILABLE;
    loader->options.near = NULL; /* borrowed until here */
  }
  if (options->devices) TDM_TRY(find_parts(loader));
  loader->options.devices = loader->options.whole = NULL; /* borrowed until here */
  loader->options.weights = NULL;
  const tdm_order_options order = {.batch_size = options->batch_size,
                                   .replicas = options->replicas > 1 ? options->replicas : 0,
                                   .groups = options->groups,
                                   .drop_last = options->drop_last};
  TDM_TRY(tdm_order_init(&loader->order, allocator, loader->dataset->length, &order));
  loader->options.groups = NULL; /* borrowed until here */
  tell_counts(loader);
  const int64_t batch_count = loader->order.batch_count;
  if (options->prefetch == 0 || batch_count == 0) return TDM_OK;
  const int64_t depth = options->prefetch < batch_count ? options->prefetch : batch_count;
  return tdm_prefetch_create(loader->dataset->context, (size_t)depth, loader->dataset->field_count,
                             make_batch, loader, &loader->prefetch);
}

tdm_loader *tdm_loader_create(tdm_dataset *dataset, const tdm_loader_options *given) {
  tdm_loader_options options;
  if (!dataset) {
    (void)tdm_fail_null("loader: the dataset");
    return NULL;
  }
  if (tdm_context_check(dataset->context) != TDM_OK) return NULL;
  if (TDM_OPTIONS_READ("tdm_loader_create", loader, given, &options) != TDM_OK ||
      check_options(&options) != TDM_OK) {
    return NULL;
  }
  const tdm_allocator *allocator = tdm_context_allocator(dataset->context);
  tdm_loader *loader = tdm_allocate(allocator, sizeof *loader, "a loader");
  if (!loader) return NULL;
  loader->dataset = tdm_dataset_retain(dataset);
  loader->options = options;
  if (init_loader(loader) != TDM_OK) {
    tdm_loader_release(loader);
    return NULL;
  }
  return loader;
}

void tdm_loader_release(tdm_loader *loader) {
  if (!loader || tdm_context_is_inherited(loader->dataset->context)) return;
  tdm_dataset *dataset = loader->dataset;
  tdm_prefetch_destroy(loader->prefetch);
  tdm_order_deinit(&loader->order);
  tdm_release(tdm_context_allocator(dataset->context), loader, sizeof *loader);
  tdm_dataset_release(dataset);
}

void tdm_loader_counts(const tdm_loader *loader, int64_t *out_padded, int64_t *out_dropped) {
  int64_t padded = 0, dropped = 0;
  if (loader) tdm_order_counts(&loader->order, &padded, &dropped);
  if (out_padded) *out_padded = padded;
  if (out_dropped) *out_dropped = dropped;
}

int64_t tdm_loader_batch_count(const tdm_loader *loader) {
  return !loader ? 0 : loader->order.batch_count;
}

tdm_status tdm_loader_start_at(tdm_loader *loader, uint64_t epoch, int64_t batch) {
  if (!loader) return tdm_fail_null("loader: it");
  TDM_TRY(tdm_context_check(loader->dataset->context));
  if (batch < 0 || batch > loader->order.batch_count) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "loader: batch %lld, of %lld an epoch", (long long)batch,
                    (long long)loader->order.batch_count);
  }
  if (loader->prefetch) tdm_prefetch_pause(loader->prefetch);
  tdm_order_start(&loader->order, loader->options.shuffle, loader->options.seed, epoch);
  loader->epoch = epoch;
  loader->next_batch = batch;
  loader->failure = TDM_OK;
  loader->started = true;
  if (loader->prefetch) tdm_prefetch_begin(loader->prefetch, batch, loader->order.batch_count);
  return TDM_OK;
}

tdm_status tdm_loader_start(tdm_loader *loader, uint64_t epoch) {
  return tdm_loader_start_at(loader, epoch, 0);
}

tdm_status tdm_loader_next(tdm_loader *loader, tdm_tensor **out_fields, size_t capacity,
                           int64_t *out_rows) {
  if (!loader || !out_fields || !out_rows)
    return tdm_fail(TDM_INVALID_ARGUMENT, "loader: an argument of tdm_loader_next is NULL");
  *out_rows = 0;
  TDM_TRY(tdm_context_check(loader->dataset->context));
  if (capacity < loader->dataset->field_count)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "tdm_loader_next: capacity is %zu, expected at least %zu, the number of fields",
                    capacity, loader->dataset->field_count);
  memset(out_fields, 0, loader->dataset->field_count * sizeof *out_fields);
  if (!loader->started) TDM_TRY(tdm_loader_start(loader, 0));
  if (loader->failure != TDM_OK) return tdm_fail(loader->failure, "%s", loader->message);
  if (loader->next_batch == loader->order.batch_count) return TDM_OK;
  const int64_t batch = loader->next_batch++;
  const tdm_status status = loader->prefetch
                                ? tdm_prefetch_take(loader->prefetch, out_fields)
                                : make_batch(loader, batch, &loader->never, out_fields);
  if (status != TDM_OK) {
    loader->failure = status;
    memcpy(loader->message, tdm_last_message(), strlen(tdm_last_message()) + 1);
    return status;
  }
  *out_rows = loader->order.batches[batch].rows;
  return TDM_OK;
}

/* ---- Position -------------------------------------------------------------------------------- */

void tdm_loader_position(const tdm_loader *loader, uint64_t *out_epoch, int64_t *out_batch) {
  const bool started = loader && loader->started;
  if (out_epoch) *out_epoch = started ? loader->epoch : 0;
  if (out_batch) *out_batch = started ? loader->next_batch - (loader->failure != TDM_OK) : 0;
}

static const char saved_name[] = "checkpoint/loader";

/* Indices in the saved tensor: the position, and what the order of batches depends on. */
enum { EPOCH, BATCH, LENGTH, BATCH_SIZE, BATCH_COUNT, SHUFFLE, SEED, SAVED_COUNT };

static void describe(const tdm_loader *loader, int64_t *numbers) {
  uint64_t epoch;
  tdm_loader_position(loader, &epoch, &numbers[BATCH]);
  numbers[EPOCH] = (int64_t)epoch;
  numbers[LENGTH] = loader->order.length;
  numbers[BATCH_SIZE] = loader->order.batch_size;
  numbers[BATCH_COUNT] = loader->order.batch_count;
  numbers[SHUFFLE] = loader->options.shuffle + ((int64_t)loader->order.replicas << 1);
  numbers[SEED] = loader->options.shuffle ? (int64_t)loader->options.seed : 0;
}

tdm_status tdm_loader_save(const tdm_loader *loader, tdm_tensor_list *list) {
  int64_t numbers[SAVED_COUNT];
  describe(loader, numbers);
  tdm_tensor *tensor =
      tdm_tensor_from(loader->dataset->context, TDM_INT64, tdm_shape_of(1, SAVED_COUNT), numbers);
  if (!tensor) return TDM_OUT_OF_MEMORY;
  const tdm_status status = tdm_tensor_list_add(list, saved_name, tensor);
  tdm_tensor_release(tensor);
  return status;
}

tdm_status tdm_loader_saved_position(const tdm_loader *loader, const tdm_tensor_list *list,
                                     uint64_t *out_epoch, int64_t *out_batch) {
  static const char *const names[] = {"epoch",       "batch",   "items", "batch size",
                                      "batch count", "shuffle", "seed"};
  int64_t saved[SAVED_COUNT], here[SAVED_COUNT];
  const tdm_tensor *tensor = tdm_tensor_list_find(list, saved_name);
  if (!tensor) return tdm_fail(TDM_INVALID_ARGUMENT, "%s is missing", saved_name);
  if (tdm_tensor_dtype(tensor) != TDM_INT64 || tdm_tensor_bytes(tensor) != sizeof saved)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s is no position", saved_name);
  TDM_TRY(tdm_tensor_read(tensor, saved, sizeof saved));
  describe(loader, here);
  for (int i = LENGTH; i < SAVED_COUNT; i++)
    if (saved[i] != here[i])
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s: %s was %lld, and is %lld here", saved_name,
                      names[i], (long long)saved[i], (long long)here[i]);
  if (saved[BATCH] < 0 || saved[BATCH] > saved[BATCH_COUNT])
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: batch %lld, of %lld an epoch", saved_name,
                    (long long)saved[BATCH], (long long)saved[BATCH_COUNT]);
  *out_epoch = (uint64_t)saved[EPOCH];
  *out_batch = saved[BATCH];
  return TDM_OK;
}
