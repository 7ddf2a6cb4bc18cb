/* What a training run goes on from: the store's state with the count of steps, the seed, the
 * learning rates, momenta and the optimizers' names, as one list of host tensors. Invariant: a load
 * that does not fit changes nothing, and names the tensor. */
#include <stdio.h>
#include <string.h>

#include "devices/network/network.h"
#include "graph/run/session.h"
#include "graph/store/store.h"

static const char step_name[] = TDM_CHECKPOINT_PREFIX "step";
static const char seed_name[] = TDM_CHECKPOINT_PREFIX "seed";
static const char rate_name[] = TDM_CHECKPOINT_PREFIX "learning_rate";
static const char rates_name[] = TDM_CHECKPOINT_PREFIX "group_learning_rates";
static const char momenta_name[] = TDM_CHECKPOINT_PREFIX "momenta"; /* where any was set */
static const char optimizer_name[] = TDM_CHECKPOINT_PREFIX "optimizer";

typedef struct session_numbers {
  uint64_t step;
  uint64_t seed;
  double rates[TDM_MAX_UPDATE_GROUPS];
  double momenta[TDM_MAX_UPDATE_GROUPS];
} session_numbers;

tdm_context *tdm_session_context(tdm_session *session) {
  return session ? session->context : NULL;
}

uint64_t tdm_session_step(tdm_session *session) {
  if (!session) return 0;
  if (tdm_context_is_inherited(session->context)) return session->store->steps;
  pthread_mutex_lock(&session->store->lock);
  const uint64_t steps = session->store->steps;
  pthread_mutex_unlock(&session->store->lock);
  return steps;
}

/* ---- Saving ---- */

static tdm_status add_tensor(tdm_session *session, tdm_tensor_list *list, const char *name,
                             tdm_dtype dtype, tdm_shape shape, const void *values) {
  tdm_tensor *tensor = tdm_tensor_from(session->context, dtype, shape, values);
  if (!tensor) return TDM_OUT_OF_MEMORY;
  const tdm_status status = tdm_tensor_list_add(list, name, tensor);
  tdm_tensor_release(tensor);
  return status;
}

#define OPTIMIZER_TEXT 512

/* The optimizers' names, separated by commas: "adam,none,sgd". Answers the length. */
static size_t write_optimizers(const tdm_session *session, char text[OPTIMIZER_TEXT]) {
  size_t length = 0;
  for (size_t g = 0; g < session->groups.count && length < OPTIMIZER_TEXT; g++) {
    const tdm_optimizer_rule *rule = session->groups.optimizers[g].rule;
    const int written = snprintf(text + length, OPTIMIZER_TEXT - length, "%s%s", g ? "," : "",
                                 rule ? rule->name : "none");
    length += written > 0 ? (size_t)written : 0;
  }
  return length < OPTIMIZER_TEXT ? length : OPTIMIZER_TEXT - 1;
}

static tdm_status save_rates(tdm_session *session, const double *rates, tdm_tensor_list *list) {
  const size_t groups = session->groups.count - 1;
  TDM_TRY(add_tensor(session, list, rate_name, TDM_FLOAT64, tdm_shape_scalar(), rates));
  if (groups == 0) return TDM_OK;
  return add_tensor(session, list, rates_name, TDM_FLOAT64, tdm_shape_of(1, (int64_t)groups),
                    rates + 1);
}

/* One number a group, -1 where it is the optimizer's own; nothing where all are. */
static tdm_status save_momenta(tdm_session *session, const double *momenta, tdm_tensor_list *list) {
  bool any = false;
  for (size_t g = 0; g < session->groups.count; g++)
    any = any || momenta[g] >= 0;
  if (!any) return TDM_OK;
  return add_tensor(session, list, momenta_name, TDM_FLOAT64,
                    tdm_shape_of(1, (int64_t)session->groups.count), momenta);
}

static tdm_status add_numbers(tdm_session *session, tdm_tensor_list *list) {
  const tdm_shape scalar = tdm_shape_scalar();
  const uint64_t seed = atomic_load(&session->seed);
  char optimizers[OPTIMIZER_TEXT];
  const size_t length = write_optimizers(session, optimizers);
  TDM_TRY(add_tensor(session, list, step_name, TDM_INT64, scalar, &session->store->steps));
  TDM_TRY(add_tensor(session, list, seed_name, TDM_INT64, scalar, &seed));
  double rates[TDM_MAX_UPDATE_GROUPS], momenta[TDM_MAX_UPDATE_GROUPS];
  tdm_session_get_rates(session, rates, momenta);
  TDM_TRY(save_rates(session, rates, list));
  TDM_TRY(save_momenta(session, momenta, list));
  return add_tensor(session, list, optimizer_name, TDM_UINT8, tdm_shape_of(1, (int64_t)length),
                    optimizers);
}

static tdm_status save_locked(tdm_session *session, int reader, tdm_tensor_list *list) {
  tdm_network *network = tdm_context_network(session->context);
  const char *before = tdm_network_intend(network, "save a session");
  tdm_status status = tdm_store_save_locked(session->store, true, reader, list);
  if (status == TDM_OK) status = tdm_context_agree(session->context, add_numbers(session, list));
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

/* ---- Loading ---- */

/* Of eight bytes. */
static tdm_status read_number(const tdm_tensor_list *list, const char *name, tdm_dtype dtype,
                              void *out_number) {
  const tdm_tensor *tensor = tdm_tensor_list_find(list, name);
  if (!tensor) return tdm_fail(TDM_INVALID_ARGUMENT, "%s is missing", name);
  const tdm_shape shape = tdm_tensor_shape(tensor);
  if (tdm_tensor_dtype(tensor) != dtype || shape.rank != 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s is no scalar of %s", name, tdm_dtype_name(dtype));
  return tdm_tensor_read(tensor, out_number, tdm_dtype_bytes(dtype));
}

static tdm_status check_optimizers(const tdm_session *session, const tdm_tensor_list *list) {
  char name[OPTIMIZER_TEXT] = "";
  char wanted[OPTIMIZER_TEXT] = "";
  const tdm_tensor *tensor = tdm_tensor_list_find(list, optimizer_name);
  if (!tensor) return tdm_fail(TDM_INVALID_ARGUMENT, "%s is missing", optimizer_name);
  const size_t bytes = tdm_tensor_bytes(tensor);
  if (tdm_tensor_dtype(tensor) != TDM_UINT8 || bytes >= sizeof name)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s is no name", optimizer_name);
  TDM_TRY(tdm_tensor_read(tensor, name, bytes));
  (void)write_optimizers(session, wanted);
  if (strcmp(name, wanted) == 0) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s is \"%s\", and the session trains with \"%s\"",
                  optimizer_name, name, wanted);
}

static tdm_status read_numbers(const tdm_tensor_list *list, const char *name, size_t count,
                               double *out_numbers) {
  const tdm_tensor *tensor = tdm_tensor_list_find(list, name);
  if (!tensor) return tdm_fail(TDM_INVALID_ARGUMENT, "%s is missing", name);
  const tdm_shape shape = tdm_tensor_shape(tensor);
  if (tdm_tensor_dtype(tensor) != TDM_FLOAT64 || shape.rank != 1 || shape.dims[0] != (tdm_dim)count)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s does not have %zu numbers of float64", name, count);
  return tdm_tensor_read(tensor, out_numbers, count * sizeof *out_numbers);
}

static tdm_status read_rates(const tdm_session *session, const tdm_tensor_list *list,
                             double *out_rates) {
  const size_t groups = session->groups.count - 1;
  TDM_TRY(read_number(list, rate_name, TDM_FLOAT64, out_rates));
  return groups == 0 ? TDM_OK : read_numbers(list, rates_name, groups, out_rates + 1);
}

/* Where the file has none, each is the optimizer's own. */
static tdm_status read_momenta(const tdm_session *session, const tdm_tensor_list *list,
                               double *momenta) {
  const size_t count = session->groups.count;
  for (size_t g = 0; g < count; g++)
    momenta[g] = -1;
  if (!tdm_tensor_list_find(list, momenta_name)) return TDM_OK;
  TDM_TRY(read_numbers(list, momenta_name, count, momenta));
  for (size_t g = 0; g < count; g++)
    if (momenta[g] != -1 &&
        !(tdm_is_momentum(momenta[g]) && tdm_update_group_has_momentum(&session->groups, g)))
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s has %g, which is no momentum of group %zu",
                      momenta_name, momenta[g], g);
  return TDM_OK;
}

static tdm_status check_rates(const double *rates, size_t count) {
  for (size_t g = 0; g < count; g++)
    if (!tdm_is_learning_rate(rates[g]))
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s has %g, which is no learning rate",
                      g == 0 ? rate_name : rates_name, rates[g]);
  return TDM_OK;
}

/* A state that no plan has asked for yet has the dtype and shape of its parameter, or is one
 * number, or has 1 of a dimension, for all of it; in dimension 0 one for each shard that there was.
 */
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

/* Everything that the store holds is there, and nothing else but states of its parameters. values
 * gets what is the store's. */
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

static tdm_status read_all(tdm_session *session, const tdm_tensor_list *list,
                           session_numbers *numbers, tdm_tensor_list *values) {
  TDM_TRY(check_optimizers(session, list));
  TDM_TRY(read_number(list, step_name, TDM_INT64, &numbers->step));
  TDM_TRY(read_number(list, seed_name, TDM_INT64, &numbers->seed));
  TDM_TRY(read_rates(session, list, numbers->rates));
  TDM_TRY(check_rates(numbers->rates, session->groups.count));
  TDM_TRY(read_momenta(session, list, numbers->momenta));
  return check_names(session->store, list, values);
}

/* values NULL: this rank had no memory for it, which it tells the others like any failure. */
static tdm_status load_locked(tdm_session *session, const tdm_tensor_list *list,
                              tdm_tensor_list *values) {
  session_numbers numbers = {0};
  const tdm_status status = values ? read_all(session, list, &numbers, values) : TDM_OUT_OF_MEMORY;
  TDM_TRY(tdm_context_agree(session->context, status));
  TDM_TRY(tdm_store_load_locked(session->store, values));
  session->store->steps = numbers.step;
  atomic_store(&session->seed, numbers.seed);
  tdm_session_put_rates(session, numbers.rates, numbers.momenta);
  return TDM_OK;
}

tdm_status tdm_session_load(tdm_session *session, const tdm_tensor_list *list) {
  TDM_TRY(check_session(session, "tdm_session_load"));
  if (!list) return tdm_fail_null("tdm_session_load: the list");
  tdm_tensor_list *values = tdm_tensor_list_create(session->context);
  tdm_admission place;
  tdm_store_enter_alone(session->store, &place);
  tdm_network *network = tdm_context_network(session->context);
  const char *before = tdm_network_intend(network, "load a session");
  const tdm_status status = load_locked(session, list, values);
  (void)tdm_network_intend(network, before);
  tdm_store_leave_alone(session->store);
  tdm_tensor_list_release(values);
  return status;
}
