/* The state of a training: the store's values with the numbers of its sessions (session_numbers.c),
 * as one list of host tensors. Invariant: a load that does not fit changes nothing, and its message
 * names the tensor. */
#include <stdio.h>
#include <string.h>

#include "devices/network/network.h"
#include "graph/run/session.h"
#include "graph/store/store.h"

tdm_context *tdm_session_context(tdm_session *session) {
  return session ? session->context : NULL;
}

uint64_t tdm_session_step(tdm_session *session) {
  if (!session) return 0;
  if (tdm_context_is_inherited(session->context)) return session->trainer.steps;
  (void)pthread_mutex_lock(&session->store->lock);
  const uint64_t steps = session->trainer.steps;
  (void)pthread_mutex_unlock(&session->store->lock);
  return steps;
}

/* ---- Saving ---------------------------------------------------------------------------------- */

static tdm_status save_locked(tdm_session *session, int reader, tdm_tensor_list *list) {
  tdm_network *network = tdm_context_network(session->context);
  const char *before = tdm_network_intend(network, "save a session");
  tdm_status status = tdm_store_save_locked(session->store, true, reader, list);
  if (status == TDM_OK)
    status = tdm_context_agree(session->context, tdm_session_numbers_save(session, list));
  (void)tdm_network_intend(network, before);
  return status;
}

static tdm_status check_session(const tdm_session *session, const char *function) {
  if (!session) return tdm_fail_null("%s: the session", function);
  TDM_TRY(tdm_context_check(session->context));
  if (session->can_train) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s: the session does not train", function);
}

tdm_status tdm_session_save(tdm_session *session, tdm_tensor_list **out_list) {
  return tdm_session_save_for(session, TDM_EVERY_RANK, out_list);
}

tdm_status tdm_session_save_for(tdm_session *session, int reader, tdm_tensor_list **out_list) {
  if (!out_list) return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_session_save: no place for the list");
  *out_list = NULL;
  TDM_TRY(check_session(session, "tdm_session_save"));
  tdm_tensor_list *list = tdm_tensor_list_create(session->context);
  tdm_admission place;
  tdm_store_enter_alone(session->store, &place);
  const tdm_status status = save_locked(session, reader, list);
  tdm_store_leave_alone(session->store);
  if (status == TDM_OK) {
    *out_list = list;
    return TDM_OK;
  }
  tdm_tensor_list_release(list);
  return status;
}

/* ---- Loading --------------------------------------------------------------------------------- */

/* Checks a state that no plan has used yet. It has the dtype and shape of its parameter, or is one
 * number, or has size 1 in a dimension. In dimension 0 it may have one element for each former
 * shard. */
static tdm_status check_new_state(tdm_store *store, const char *name, const tdm_tensor *tensor) {
  const tdm_store_entry *parameter = tdm_store_parameter_of(store, name);
  if (!parameter)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s is no parameter or state of the session", name);
  const tdm_shape shape = tdm_tensor_shape(tensor);
  const tdm_spec table = tdm_store_table_spec(parameter);
  const tdm_shape *wanted = &table.shape;
  bool fits = tdm_tensor_dtype(tensor) == table.dtype;
  for (int i = 0; fits && shape.rank > 0 && i < wanted->rank; i++)
    fits = shape.rank == wanted->rank && (shape.dims[i] == wanted->dims[i] || shape.dims[i] == 1 ||
                                          (i == 0 && shape.dims[i] < wanted->dims[i]));
  if (fits && (shape.rank == 0 || shape.rank == wanted->rank)) return TDM_OK;
  char has[TDM_SHAPE_TEXT];
  char wants[TDM_SHAPE_TEXT];
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s is %s %s, and %s is %s %s", name,
                  tdm_dtype_name(tdm_tensor_dtype(tensor)), tdm_shape_text(&shape, has, sizeof has),
                  tdm_store_entry_table(parameter), tdm_dtype_name(table.dtype),
                  tdm_shape_text(wanted, wants, sizeof wants));
}

/* Checks that everything in the store is in the list, and nothing else except states of its
 * parameters. values gets the values of the store. */
static tdm_status check_names(tdm_store *store, const tdm_tensor_list *list,
                              tdm_tensor_list *values) {
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++) {
    const char *name = tdm_tensor_list_name(list, i);
    if (strncmp(name, TDM_CHECKPOINT_PREFIX, sizeof TDM_CHECKPOINT_PREFIX - 1) == 0) continue;
    tdm_tensor *tensor;
    TDM_TRY(tdm_tensor_list_use(list, i, &tensor));
    if (!tdm_store_entry_called(store, name)) TDM_TRY(check_new_state(store, name, tensor));
    TDM_TRY(tdm_tensor_list_add(values, name, tensor));
  }
  for (const tdm_store_entry *entry = store->first; entry; entry = entry->next)
    if (!entry->is_constant && tdm_store_entry_holds_values(entry) &&
        tdm_store_stands_for_table(store, entry) &&
        !tdm_tensor_list_find(values, tdm_store_entry_table(entry)))
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s is missing", tdm_store_entry_table(entry));
  return TDM_OK;
}

/* The parts of a list for the store's sessions and for the store. */
typedef struct loaded {
  tdm_region region;
  uint64_t store_step;
  const tdm_session_numbers **numbers; /* per trainer of the store; NULL: missing in the list */
  tdm_tensor_list *values;             /* values of the store */
} loaded;

static tdm_status read_all(tdm_session *session, const tdm_tensor_list *list, loaded *it) {
  it->values = tdm_tensor_list_create(session->context);
  if (!it->values) return TDM_OUT_OF_MEMORY;
  TDM_TRY(tdm_session_numbers_read(session, list, &it->region, &it->store_step, &it->numbers));
  return check_names(session->store, list, it->values);
}

static tdm_status load_locked(tdm_session *session, const tdm_tensor_list *list, loaded *it) {
  TDM_TRY(tdm_context_agree(session->context, read_all(session, list, it)));
  TDM_TRY(tdm_store_load_locked(session->store, it->values));
  tdm_session_numbers_apply(session, it->store_step, it->numbers);
  return TDM_OK;
}

tdm_status tdm_session_load(tdm_session *session, const tdm_tensor_list *list) {
  TDM_TRY(check_session(session, "tdm_session_load"));
  if (!list) return tdm_fail_null("tdm_session_load: the list");
  loaded it = {.store_step = 0};
  tdm_region_init(&it.region, session->allocator);
  tdm_admission place;
  tdm_store_enter_alone(session->store, &place);
  tdm_network *network = tdm_context_network(session->context);
  const char *before = tdm_network_intend(network, "load a session");
  const tdm_status status = load_locked(session, list, &it);
  (void)tdm_network_intend(network, before);
  tdm_store_leave_alone(session->store);
  tdm_tensor_list_release(it.values);
  tdm_region_deinit(&it.region);
  return status;
}
