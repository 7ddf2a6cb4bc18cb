/* Checkpoints: the state of a session and a loader with checksums, in a safetensors file.
 * Invariant: nothing is changed before the whole file was checked to be complete and to fit. */
#include "tandem/checkpoint/checkpoint.h"

#include <stdio.h>
#include <string.h>

#include "checkpoint/ranks.h"
#include "core/hash.h"
#include "core/status.h"
#include "data/loader_state.h"
#include "devices/context/context.h"
#include "devices/network/network.h"
#include "devices/tensors/tensor.h"
#include "graph/run/session.h"

static const char own_prefix[] = TDM_CHECKPOINT_PREFIX "own/";
static const char checksums_name[] = TDM_CHECKPOINT_PREFIX "checksums";

/* Returns the checksum of name, dtype, shape and contents. tensor is on the host. */
static uint64_t checksum_of(const char *name, const tdm_tensor *tensor) {
  const tdm_shape shape = tdm_tensor_shape(tensor);
  uint64_t hash = tdm_hash_string(name, (uint64_t)tdm_tensor_dtype(tensor));
  for (int i = 0; i < shape.rank; i++)
    hash = tdm_hash_mix(hash, (uint64_t)shape.dims[i]);
  return tdm_hash_bytes(tdm_tensor_data(tensor), tdm_tensor_bytes(tensor), hash);
}

/* ---- Saving ---------------------------------------------------------------------------------- */

static tdm_status add_checksums(tdm_session *session, tdm_tensor_list *list) {
  tdm_context *context = tdm_session_context(session);
  const tdm_allocator *allocator = tdm_context_allocator(context);
  const size_t count = tdm_tensor_list_count(list);
  uint64_t *sums = tdm_allocate(allocator, (count + 1) * sizeof *sums, "checksums");
  if (!sums) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < count; i++)
    sums[i] = checksum_of(tdm_tensor_list_name(list, i), tdm_tensor_list_tensor(list, i));
  tdm_tensor *tensor = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, (int64_t)count), sums);
  const tdm_status status =
      tensor ? tdm_tensor_list_add(list, checksums_name, tensor) : TDM_OUT_OF_MEMORY;
  tdm_tensor_release(tensor);
  tdm_release(allocator, sums, (count + 1) * sizeof *sums);
  return status;
}

/* Adds the caller's own tensors under names with the prefix. Copies those that are on a device to
 * the host. */
static tdm_status add_own(const tdm_tensor_list *own, tdm_tensor_list *list) {
  for (size_t i = 0; i < tdm_tensor_list_count(own); i++) {
    char name[512];
    const char *given = tdm_tensor_list_name(own, i);
    if ((size_t)snprintf(name, sizeof name, "%s%s", own_prefix, given) >= sizeof name)
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s is too long a name", given);
    tdm_tensor *tensor;
    TDM_TRY(tdm_tensor_list_use(own, i, &tensor));
    tensor = tdm_tensor_to(tensor, "cpu:0", TDM_DTYPE_NONE);
    const tdm_status status = tensor ? tdm_tensor_list_add(list, name, tensor) : tdm_last_status();
    tdm_tensor_release(tensor);
    TDM_TRY(status);
  }
  return TDM_OK;
}

tdm_status tdm_checkpoint_save(tdm_session *session, const tdm_loader *loader, const char *path) {
  return tdm_checkpoint_save_with(session, loader, NULL, path);
}

tdm_status tdm_checkpoint_save_with(tdm_session *session, const tdm_loader *loader,
                                    const tdm_tensor_list *own, const char *path) {
  tdm_tensor_list *list;
  TDM_TRY(tdm_session_save_for(session, FILE_RANK, &list));
  tdm_context *context = tdm_session_context(session);
  tdm_status status = TDM_OK;
  if (tdm_context_rank(context) == FILE_RANK) {
    if (loader) status = tdm_loader_save(loader, list);
    if (status == TDM_OK && own) status = add_own(own, list);
    if (status == TDM_OK) status = add_checksums(session, list);
  }
  status = tdm_ranks_write(context, status, list, path);
  tdm_tensor_list_release(list);
  return status;
}

/* ---- Loading --------------------------------------------------------------------------------- */

static tdm_status check_sums(const tdm_tensor_list *list) {
  const size_t count = tdm_tensor_list_count(list);
  const tdm_tensor *tensor = tdm_tensor_list_find(list, checksums_name);
  if (!tensor || strcmp(tdm_tensor_list_name(list, count - 1), checksums_name) != 0 ||
      tdm_tensor_dtype(tensor) != TDM_INT64 || tdm_tensor_shape(tensor).rank != 1)
    return tdm_fail(TDM_INVALID_ARGUMENT, "it is no checkpoint: %s does not end it",
                    checksums_name);
  const int64_t saved = tdm_tensor_shape(tensor).dims[0];
  if (saved != (int64_t)count - 1)
    return tdm_fail(TDM_CORRUPT_DATA, "%s counts %lld tensors, and there are %zu", checksums_name,
                    (long long)saved, count - 1);
  const uint64_t *sums = tdm_tensor_data(tensor);
  for (size_t i = 0; i + 1 < count; i++) {
    const char *name = tdm_tensor_list_name(list, i);
    tdm_tensor *summed;
    TDM_TRY(tdm_tensor_list_use(list, i, &summed));
    if (checksum_of(name, summed) != sums[i])
      return tdm_fail(TDM_CORRUPT_DATA, "%s is damaged: it is not what its checksum is of", name);
  }
  return TDM_OK;
}

/* The position to which a loader is moved. */
typedef struct loader_place {
  uint64_t epoch;
  int64_t batch;
} loader_place;

/* Adds the caller's own tensors in the file to own. */
static tdm_status take_own(const tdm_tensor_list *list, tdm_tensor_list *own) {
  const size_t length = sizeof own_prefix - 1;
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++) {
    const char *name = tdm_tensor_list_name(list, i);
    if (strncmp(name, own_prefix, length) == 0)
      TDM_TRY(tdm_tensor_list_add(own, name + length, tdm_tensor_list_tensor(list, i)));
  }
  return TDM_OK;
}

/* Checks what a rank can check without the others. Changes only own. */
static tdm_status check_list(const tdm_loader *loader, const tdm_tensor_list *list,
                             tdm_tensor_list *own, loader_place *out_place) {
  TDM_TRY(check_sums(list));
  if (loader)
    TDM_TRY(tdm_loader_saved_position(loader, list, &out_place->epoch, &out_place->batch));
  return own ? take_own(list, own) : TDM_OK;
}

/* Ranks agree before each step in which they exchange data. Otherwise a rank that failed would
 * leave the others waiting. */
static tdm_status load_list(tdm_session *session, tdm_loader *loader, const tdm_tensor_list *list,
                            tdm_tensor_list *own) {
  tdm_context *context = tdm_session_context(session);
  loader_place place = {0};
  TDM_TRY(tdm_context_agree(context, check_list(loader, list, own, &place)));
  tdm_status status = tdm_session_load(session, list);
  if (status == TDM_OK && loader) status = tdm_loader_start_at(loader, place.epoch, place.batch);
  return tdm_context_agree(context, status);
}

static tdm_status load_file(tdm_session *session, tdm_loader *loader, const char *path,
                            tdm_tensor_list *own) {
  tdm_tensor_list *list;
  TDM_TRY(tdm_ranks_read(tdm_session_context(session), path, &list));
  const tdm_status status = load_list(session, loader, list, own);
  tdm_tensor_list_release(list);
  return status == TDM_OK ? TDM_OK : tdm_fail_within(status, "%s", path);
}

static tdm_status check_load(const tdm_session *session, const char *path) {
  if (session && path) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_checkpoint_load: no session, or no path");
}

tdm_status tdm_checkpoint_load(tdm_session *session, tdm_loader *loader, const char *path) {
  TDM_TRY(check_load(session, path));
  return load_file(session, loader, path, NULL);
}

tdm_status tdm_checkpoint_load_with(tdm_session *session, tdm_loader *loader, const char *path,
                                    tdm_tensor_list **out_own) {
  if (!out_own)
    return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_checkpoint_load_with: no place for the list");
  *out_own = NULL;
  TDM_TRY(check_load(session, path));
  tdm_context *context = tdm_session_context(session);
  tdm_tensor_list *own = tdm_tensor_list_create(context);
  tdm_network *network = tdm_context_network(context);
  const char *before = tdm_network_intend(network, "load a checkpoint");
  tdm_status status = tdm_context_agree(context, own ? TDM_OK : TDM_OUT_OF_MEMORY);
  if (status == TDM_OK) status = load_file(session, loader, path, own);
  (void)tdm_network_intend(network, before);
  if (status == TDM_OK) {
    *out_own = own;
    return TDM_OK;
  }
  tdm_tensor_list_release(own);
  return status;
}
