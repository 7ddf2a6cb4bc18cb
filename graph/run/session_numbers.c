/* The numbers of sessions in a saved state: steps, seed, learning rates, momenta, optimizers'
 * names.
 *
 *   checkpoint/step, seed, learning_rate, ...  of the session that was saved; step is the store's
 *   checkpoint/session_step                    its own steps, if they differ from the store's
 *   checkpoint/sessions/0/trains, step, ...    if several sessions train with the store: of each
 *
 * `trains` contains the name of a session's loss and the parameters that it may update, by which
 * sessions are found again. Sessions with equal texts are matched in the order of creation.
 * Invariant: reading changes nothing. */
#include <stdio.h>
#include <string.h>

#include "devices/context/context.h"
#include "graph/ir/rewriter.h"
#include "graph/run/session.h"
#include "graph/store/store.h"

enum { PREFIX_BYTES = 48, NAME_BYTES = 96, OPTIMIZER_TEXT = 512 };

static const char session_step_name[] = TDM_CHECKPOINT_PREFIX "session_step";
static const char top[] = TDM_CHECKPOINT_PREFIX;

static const char *name_of(char name[NAME_BYTES], const char *prefix, const char *what) {
  (void)snprintf(name, NAME_BYTES, "%s%s", prefix, what);
  return name;
}

static const char *prefix_of(char prefix[PREFIX_BYTES], size_t number) {
  (void)snprintf(prefix, PREFIX_BYTES, TDM_CHECKPOINT_PREFIX "sessions/%zu/", number);
  return prefix;
}

/* Returns the name of parameter i of the session's graph if the session may update it, otherwise
 * NULL. The first shard of a table has the table's name. */
static const char *trained_name(const tdm_session *session, size_t i) {
  const tdm_graph_persistent *persistent = &session->graph->persistents.items[i];
  const char *name = tdm_persistent_table(persistent);
  if (persistent->shard.table && persistent->shard.index > 0) return NULL;
  if (!tdm_ir_value_at(session->graph, persistent->value)->trainable) return NULL;
  const size_t group = tdm_update_group_of(&session->groups, name);
  return session->groups.optimizers[group].rule ? name : NULL;
}

/* Returns "loss: encoder.weight, encoder.bias" in region; NULL: out of memory. */
static const char *trains_text(const tdm_session *session, tdm_region *region) {
  const char *loss = tdm_value_name(session->graph, session->loss);
  const size_t count = session->graph->persistents.count;
  size_t bytes = strlen(loss) + 2, length = bytes - 1;
  for (size_t i = 0; i < count; i++)
    if (trained_name(session, i)) bytes += strlen(trained_name(session, i)) + 2;
  char *text = tdm_region_take(region, bytes, "a session's parameters");
  if (!text) return NULL;
  (void)snprintf(text, bytes, "%s:", loss);
  const char *separator = " ";
  for (size_t i = 0; i < count; i++) {
    const char *name = trained_name(session, i);
    if (!name) continue;
    length += (size_t)snprintf(text + length, bytes - length, "%s%s", separator, name);
    separator = ", ";
  }
  return text;
}

/* ---- Saving ---------------------------------------------------------------------------------- */

static tdm_status add_tensor(tdm_session *session, tdm_tensor_list *list, const char *prefix,
                             const char *what, tdm_dtype dtype, tdm_shape shape,
                             const void *values) {
  char name[NAME_BYTES];
  tdm_tensor *tensor = tdm_tensor_from(session->context, dtype, shape, values);
  if (!tensor) return TDM_OUT_OF_MEMORY;
  const tdm_status status = tdm_tensor_list_add(list, name_of(name, prefix, what), tensor);
  tdm_tensor_release(tensor);
  return status;
}

/* Writes the optimizers' names, separated by commas: "adam,none,sgd". Returns the length. */
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

static tdm_status save_rates(tdm_session *session, const char *prefix, const double *rates,
                             tdm_tensor_list *list) {
  const size_t groups = session->groups.count - 1;
  TDM_TRY(
      add_tensor(session, list, prefix, "learning_rate", TDM_FLOAT64, tdm_shape_scalar(), rates));
  if (groups == 0) return TDM_OK;
  return add_tensor(session, list, prefix, "group_learning_rates", TDM_FLOAT64,
                    tdm_shape_of(1, (int64_t)groups), rates + 1);
}

/* Saves one number per group, -1 for the optimizer's own; nothing if all are. */
static tdm_status save_momenta(tdm_session *session, const char *prefix, const double *momenta,
                               tdm_tensor_list *list) {
  bool any = false;
  for (size_t g = 0; g < session->groups.count; g++)
    any = any || momenta[g] >= 0;
  if (!any) return TDM_OK;
  return add_tensor(session, list, prefix, "momenta", TDM_FLOAT64,
                    tdm_shape_of(1, (int64_t)session->groups.count), momenta);
}

static tdm_status add_numbers(tdm_session *session, const char *prefix, uint64_t step,
                              tdm_tensor_list *list) {
  const tdm_shape scalar = tdm_shape_scalar();
  const uint64_t seed = atomic_load(&session->seed);
  char optimizers[OPTIMIZER_TEXT];
  const size_t length = write_optimizers(session, optimizers);
  TDM_TRY(add_tensor(session, list, prefix, "step", TDM_INT64, scalar, &step));
  TDM_TRY(add_tensor(session, list, prefix, "seed", TDM_INT64, scalar, &seed));
  double rates[TDM_MAX_UPDATE_GROUPS], momenta[TDM_MAX_UPDATE_GROUPS];
  tdm_session_get_rates(session, rates, momenta);
  TDM_TRY(save_rates(session, prefix, rates, list));
  TDM_TRY(save_momenta(session, prefix, momenta, list));
  return add_tensor(session, list, prefix, "optimizer", TDM_UINT8, tdm_shape_of(1, (int64_t)length),
                    optimizers);
}

/* Adds the numbers of every session that trains with the store. */
static tdm_status add_sessions(const tdm_store *store, tdm_tensor_list *list) {
  size_t number = 0;
  for (const tdm_store_trainer *trainer = store->trainers; trainer; trainer = trainer->next) {
    char prefix[PREFIX_BYTES];
    tdm_region region;
    tdm_region_init(&region, store->allocator);
    const char *trains = trains_text(trainer->session, &region);
    tdm_status status = trains ? TDM_OK : TDM_OUT_OF_MEMORY;
    if (status == TDM_OK)
      status = add_tensor(trainer->session, list, prefix_of(prefix, number++), "trains", TDM_UINT8,
                          tdm_shape_of(1, (int64_t)strlen(trains)), trains);
    tdm_region_deinit(&region);
    TDM_TRY(status);
    TDM_TRY(add_numbers(trainer->session, prefix, trainer->steps, list));
  }
  return TDM_OK;
}

tdm_status tdm_session_numbers_save(tdm_session *session, tdm_tensor_list *list) {
  const tdm_store *store = session->store;
  TDM_TRY(add_numbers(session, top, store->steps, list));
  if (store->trainers && store->trainers->next) return add_sessions(store, list);
  if (session->trainer.steps == store->steps) return TDM_OK;
  return add_tensor(session, list, "", session_step_name, TDM_INT64, tdm_shape_scalar(),
                    &session->trainer.steps);
}

/* ---- Loading --------------------------------------------------------------------------------- */

/* Reads a scalar of eight bytes. */
static tdm_status read_number(const tdm_tensor_list *list, const char *prefix, const char *what,
                              tdm_dtype dtype, void *out_number) {
  char name[NAME_BYTES];
  const tdm_tensor *tensor = tdm_tensor_list_find(list, name_of(name, prefix, what));
  if (!tensor) return tdm_fail(TDM_INVALID_ARGUMENT, "%s is missing", name);
  const tdm_shape shape = tdm_tensor_shape(tensor);
  if (tdm_tensor_dtype(tensor) != dtype || shape.rank != 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s is no scalar of %s", name, tdm_dtype_name(dtype));
  return tdm_tensor_read(tensor, out_number, tdm_dtype_bytes(dtype));
}

static tdm_status check_optimizers(const tdm_session *session, const char *prefix,
                                   const tdm_tensor_list *list) {
  char text[OPTIMIZER_TEXT] = "", wanted[OPTIMIZER_TEXT] = "", name[NAME_BYTES];
  const tdm_tensor *tensor = tdm_tensor_list_find(list, name_of(name, prefix, "optimizer"));
  if (!tensor) return tdm_fail(TDM_INVALID_ARGUMENT, "%s is missing", name);
  const size_t bytes = tdm_tensor_bytes(tensor);
  if (tdm_tensor_dtype(tensor) != TDM_UINT8 || bytes >= sizeof text)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s is no name", name);
  TDM_TRY(tdm_tensor_read(tensor, text, bytes));
  (void)write_optimizers(session, wanted);
  if (strcmp(text, wanted) == 0) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s is \"%s\", and the session trains with \"%s\"", name,
                  text, wanted);
}

static tdm_status read_numbers(const tdm_tensor_list *list, const char *prefix, const char *what,
                               size_t count, double *out_numbers) {
  char name[NAME_BYTES];
  const tdm_tensor *tensor = tdm_tensor_list_find(list, name_of(name, prefix, what));
  if (!tensor) return tdm_fail(TDM_INVALID_ARGUMENT, "%s is missing", name);
  const tdm_shape shape = tdm_tensor_shape(tensor);
  if (tdm_tensor_dtype(tensor) != TDM_FLOAT64 || shape.rank != 1 || shape.dims[0] != (tdm_dim)count)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s does not have %zu numbers of float64", name, count);
  return tdm_tensor_read(tensor, out_numbers, count * sizeof *out_numbers);
}

static tdm_status read_rates(const tdm_session *session, const char *prefix,
                             const tdm_tensor_list *list, double *out_rates) {
  const size_t groups = session->groups.count - 1;
  TDM_TRY(read_number(list, prefix, "learning_rate", TDM_FLOAT64, out_rates));
  if (groups > 0)
    TDM_TRY(read_numbers(list, prefix, "group_learning_rates", groups, out_rates + 1));
  for (size_t g = 0; g <= groups; g++)
    if (!tdm_is_learning_rate(out_rates[g]))
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s%s has %g, which is no learning rate", prefix,
                      g == 0 ? "learning_rate" : "group_learning_rates", out_rates[g]);
  return TDM_OK;
}

/* If the list has none, each is the optimizer's own. */
static tdm_status read_momenta(const tdm_session *session, const char *prefix,
                               const tdm_tensor_list *list, double *momenta) {
  const size_t count = session->groups.count;
  char name[NAME_BYTES];
  for (size_t g = 0; g < count; g++)
    momenta[g] = -1;
  if (!tdm_tensor_list_has(list, name_of(name, prefix, "momenta"))) return TDM_OK;
  TDM_TRY(read_numbers(list, prefix, "momenta", count, momenta));
  for (size_t g = 0; g < count; g++)
    if (momenta[g] != -1 &&
        !(tdm_is_momentum(momenta[g]) && tdm_update_group_has_momentum(&session->groups, g)))
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s has %g, which is no momentum of group %zu", name,
                      momenta[g], g);
  return TDM_OK;
}

static tdm_status read_all(const tdm_session *session, const char *prefix,
                           const tdm_tensor_list *list, tdm_session_numbers *numbers) {
  TDM_TRY(check_optimizers(session, prefix, list));
  TDM_TRY(read_number(list, prefix, "step", TDM_INT64, &numbers->step));
  TDM_TRY(read_number(list, prefix, "seed", TDM_INT64, &numbers->seed));
  TDM_TRY(read_rates(session, prefix, list, numbers->rates));
  return read_momenta(session, prefix, list, numbers->momenta);
}

/* ---- Matching sessions of a list with those of the store ------------------------------------- */

/* Reads what session `number` of the list trains, in region; NULL, with TDM_OK: there is none. */
static tdm_status read_trains(const tdm_tensor_list *list, size_t number, tdm_region *region,
                              const char **out_text) {
  char prefix[PREFIX_BYTES], name[NAME_BYTES];
  *out_text = NULL;
  if (!tdm_tensor_list_has(list, name_of(name, prefix_of(prefix, number), "trains"))) return TDM_OK;
  const tdm_tensor *tensor = tdm_tensor_list_find(list, name);
  if (!tensor || tdm_tensor_dtype(tensor) != TDM_UINT8)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s is no text", name);
  const size_t bytes = tdm_tensor_bytes(tensor);
  char *text = tdm_region_take(region, bytes + 1, "a session's parameters");
  if (!text) return TDM_OUT_OF_MEMORY;
  TDM_TRY(tdm_tensor_read(tensor, text, bytes));
  text[bytes] = '\0';
  *out_text = text;
  return TDM_OK;
}

/* Counts the links before trainer with the same text. */
static tdm_status count_equal(const tdm_store_trainer *first, const tdm_store_trainer *trainer,
                              const char *trains, tdm_region *region, size_t *out_count) {
  *out_count = 0;
  for (; first != trainer; first = first->next) {
    const char *other = trains_text(first->session, region);
    if (!other) return TDM_OUT_OF_MEMORY;
    *out_count += strcmp(other, trains) == 0;
  }
  return TDM_OK;
}

/* Finds the number in the list of the store's session. */
static tdm_status find_session(const tdm_store *store, const tdm_store_trainer *trainer,
                               const tdm_tensor_list *list, tdm_region *region,
                               size_t *out_number) {
  const char *trains = trains_text(trainer->session, region), *other;
  if (!trains) return TDM_OUT_OF_MEMORY;
  size_t skipped;
  TDM_TRY(count_equal(store->trainers, trainer, trains, region, &skipped));
  for (size_t i = 0;; i++) {
    TDM_TRY(read_trains(list, i, region, &other));
    if (!other) break;
    *out_number = i;
    if (strcmp(other, trains) == 0 && skipped-- == 0) return TDM_OK;
  }
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "it has no learning rate of the store's session that trains \"%.200s\"", trains);
}

/* Checks that every session of the list is one of the store. */
static tdm_status check_no_other(const tdm_tensor_list *list, const bool *is_found,
                                 tdm_region *region, size_t count) {
  for (size_t i = 0;; i++) {
    const char *trains;
    TDM_TRY(read_trains(list, i, region, &trains));
    if (!trains) return TDM_OK;
    if (i >= count || !is_found[i])
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "it has the learning rate of a session that trains \"%.200s\", and the store "
                      "has no such session: create all sessions before loading",
                      trains);
  }
}

static tdm_status read_sessions(const tdm_store *store, const tdm_tensor_list *list,
                                tdm_region *region, size_t count,
                                const tdm_session_numbers **out_numbers) {
  bool *is_found = tdm_region_take(region, count, "sessions");
  if (!is_found) return TDM_OUT_OF_MEMORY;
  memset(is_found, 0, count);
  const tdm_store_trainer *trainer = store->trainers;
  for (size_t i = 0; i < count; i++, trainer = trainer->next) {
    char prefix[PREFIX_BYTES];
    size_t number = 0;
    TDM_TRY(find_session(store, trainer, list, region, &number));
    tdm_session_numbers *numbers = tdm_region_take(region, sizeof *numbers, "sessions");
    if (!numbers) return TDM_OUT_OF_MEMORY;
    TDM_TRY(read_all(trainer->session, prefix_of(prefix, number), list, numbers));
    if (number < count) is_found[number] = true;
    out_numbers[i] = numbers;
  }
  return check_no_other(list, is_found, region, count);
}

/* Reads files of one session, and those before 0.3, whose numbers belong to the session. */
static tdm_status read_one(const tdm_session *session, const tdm_tensor_list *list,
                           tdm_region *region, const tdm_session_numbers **out_numbers) {
  tdm_session_numbers *numbers = tdm_region_take(region, sizeof *numbers, "sessions");
  if (!numbers) return TDM_OUT_OF_MEMORY;
  TDM_TRY(read_all(session, top, list, numbers));
  if (tdm_tensor_list_has(list, session_step_name))
    TDM_TRY(read_number(list, "", session_step_name, TDM_INT64, &numbers->step));
  const tdm_store_trainer *trainer = session->store->trainers;
  for (size_t i = 0; trainer; trainer = trainer->next, i++) {
    if (trainer->session == session)
      out_numbers[i] = numbers;
    else
      tdm_context_log(
          session->context, TDM_LOG_WARNING,
          "a checkpoint of one session is loaded into a store with several: the learning "
          "rate, momenta and step count of the session that trains \"%.200s\" are not in "
          "it, and stay",
          trains_text(trainer->session, region));
  }
  return TDM_OK;
}

tdm_status tdm_session_numbers_read(tdm_session *session, const tdm_tensor_list *list,
                                    tdm_region *region, uint64_t *out_store_step,
                                    const tdm_session_numbers ***out_numbers) {
  const tdm_store *store = session->store;
  size_t count = 0;
  for (const tdm_store_trainer *trainer = store->trainers; trainer; trainer = trainer->next)
    count++;
  *out_numbers = tdm_region_take(region, (count + 1) * sizeof **out_numbers, "sessions");
  if (!*out_numbers) return TDM_OUT_OF_MEMORY;
  memset((void *)*out_numbers, 0, (count + 1) * sizeof **out_numbers);
  const char *trains;
  TDM_TRY(read_trains(list, 0, region, &trains));
  TDM_TRY(trains ? read_sessions(store, list, region, count, *out_numbers)
                 : read_one(session, list, region, *out_numbers));
  return read_number(list, top, "step", TDM_INT64, out_store_step);
}

void tdm_session_numbers_apply(tdm_session *session, uint64_t store_step,
                               const tdm_session_numbers *const *numbers) {
  session->store->steps = store_step;
  tdm_store_trainer *trainer = session->store->trainers;
  for (size_t i = 0; trainer; trainer = trainer->next, i++) {
    if (!numbers[i]) continue;
    trainer->steps = numbers[i]->step;
    atomic_store(&trainer->session->seed, numbers[i]->seed);
    tdm_session_put_rates(trainer->session, numbers[i]->rates, numbers[i]->momenta);
  }
}
