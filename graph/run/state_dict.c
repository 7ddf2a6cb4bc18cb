/* Maps names of a session's parameters to names in files, and back. Invariants: the names in files
 * of one session are distinct. A load that does not fit changes nothing, and its message lists
 * every mismatch. */
#include "tandem/graph/state_dict.h"

#include <stdio.h>
#include <string.h>

#include "core/map.h"
#include "core/options.h"
#include "devices/network/network.h"
#include "graph/run/session.h"
#include "graph/store/store.h"

/* A parameter, or another name of a tied one, and its tensor in a list. */
typedef struct dict_entry dict_entry;
struct dict_entry {
  tdm_store_entry *entry;
  const char *name;      /* name in files */
  const char *source;    /* name in the list; NULL: not found */
  tdm_listed_tensor has; /* the tensor of the list */
  dict_entry *tied;      /* first entry in files of which this is another name; NULL: this is the
                          * first */
};

typedef struct dict {
  tdm_state_dict_options options;
  tdm_region region;
  tdm_map by_file; /* maps a name in files to its dict_entry */
  tdm_map by_own;  /* maps a name in the store to its dict_entry */
  tdm_map firsts;  /* maps an entry's name in the store to its first dict_entry */
  dict_entry *entries;
  size_t count;
} dict;

/* ---- Names ----------------------------------------------------------------------------------- */

static bool begins(const char *name, const char *prefix) {
  return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Converts the store's name to the name in files; *out_name is NULL if files do not contain it. */
static tdm_status name_in_files(dict *self, const char *own, const char **out_name) {
  *out_name = NULL;
  char *dotted = tdm_region_string(&self->region, own);
  if (!dotted) return TDM_OUT_OF_MEMORY;
  for (char *at = dotted; (at = strchr(at, '/')) != NULL;)
    *at = '.';
  for (size_t i = 0; i < self->options.rule_count; i++) {
    const tdm_name_rule *rule = &self->options.rules[i];
    if (!rule->model || !begins(dotted, rule->model)) continue;
    if (!rule->file) return TDM_OK;
    *out_name = tdm_region_format(&self->region, "%s%s", rule->file, dotted + strlen(rule->model));
    return *out_name ? TDM_OK : TDM_OUT_OF_MEMORY;
  }
  *out_name = dotted;
  return TDM_OK;
}

/* own: the name of the entry, or a name that is tied to it. */
static tdm_status add_entry(dict *self, tdm_store_entry *entry, const char *own) {
  const char *name;
  if (tdm_store_is_later_shard(entry) || entry->is_constant) return TDM_OK;
  TDM_TRY(name_in_files(self, own, &name));
  if (!name) return TDM_OK;
  const dict_entry *other = tdm_map_get(&self->by_file, name);
  if (other)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s and %s would both be %s in files",
                    tdm_store_entry_table(other->entry), own, name);
  dict_entry *added = &self->entries[self->count++];
  const char *table = tdm_store_entry_table(entry);
  *added = (dict_entry){.entry = entry, .name = name, .tied = tdm_map_get(&self->firsts, table)};
  if (!added->tied) TDM_TRY(tdm_map_put(&self->firsts, table, added));
  TDM_TRY(tdm_map_put(&self->by_file, name, added));
  return tdm_map_put(&self->by_own, own, added);
}

static tdm_status read_options(const char *function, const tdm_session *session,
                               const tdm_state_dict_options *options,
                               tdm_state_dict_options *out_options) {
  *out_options = tdm_state_dict_options_default();
  if (!session) return tdm_fail_null("%s: the session", function);
  TDM_TRY(tdm_context_check(session->context));
  TDM_TRY(TDM_OPTIONS_READ(function, state_dict, options, out_options));
  options = out_options;
  if (options->rule_count > 0 && !options->rules)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: rule_count is %zu, and rules is NULL", function,
                    options->rule_count);
  for (size_t i = 0; i < options->rule_count; i++)
    if (!options->rules[i].model && !options->rules[i].file)
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s: rule %zu names nothing", function, i);
  return TDM_OK;
}

static void dict_deinit(dict *self) {
  tdm_map_deinit(&self->by_file);
  tdm_map_deinit(&self->by_own);
  tdm_map_deinit(&self->firsts);
  tdm_region_deinit(&self->region);
}

/* Collects the parameters that the session reads, by name. Deinit it, on failure too. */
static tdm_status dict_init(dict *self, const tdm_session *session,
                            const tdm_state_dict_options *options) {
  *self = (dict){.options = *options};
  tdm_region_init(&self->region, session->allocator);
  tdm_map_init(&self->by_file, session->allocator);
  tdm_map_init(&self->by_own, session->allocator);
  tdm_map_init(&self->firsts, session->allocator);
  const tdm_graph *graph = session->graph;
  const size_t count = graph->persistents.count;
  self->entries = tdm_region_take(
      &self->region, (count + graph->described->aliases.count + 1) * sizeof *self->entries,
      "names of parameters");
  if (!self->entries) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < count; i++)
    if (session->bound[i])
      TDM_TRY(add_entry(self, session->bound[i],
                        session->averages ? tdm_persistent_table(&graph->persistents.items[i])
                                          : tdm_store_entry_table(session->bound[i])));
  for (size_t i = 0; i < graph->described->aliases.count; i++) {
    tdm_store_entry *entry = session->bound[graph->described->aliases.items[i].persistent];
    if (entry) TDM_TRY(add_entry(self, entry, graph->described->aliases.items[i].path));
  }
  return TDM_OK;
}

/* ---- Saving ---------------------------------------------------------------------------------- */

static tdm_status save_entries(dict *self, tdm_store *store, int reader, tdm_tensor_list *list) {
  tdm_saved_entry *saved =
      tdm_region_take(&self->region, (self->count + 1) * sizeof *saved, "names of parameters");
  size_t count = 0;
  for (size_t i = 0; saved && i < self->count; i++)
    if (!self->entries[i].tied || self->options.every_tied_name)
      saved[count++] = (tdm_saved_entry){self->entries[i].entry, self->entries[i].name};
  tdm_admission place;
  tdm_store_enter_alone(store, &place);
  const tdm_status status = tdm_store_copy_out(store, saved, count, reader, list);
  tdm_store_leave_alone(store);
  return status;
}

tdm_status tdm_session_state_dict(tdm_session *session, const tdm_state_dict_options *options,
                                  tdm_tensor_list **out_list) {
  return tdm_session_state_dict_for(session, options, TDM_EVERY_RANK, out_list);
}

tdm_status tdm_session_state_dict_for(tdm_session *session, const tdm_state_dict_options *options,
                                      int reader, tdm_tensor_list **out_list) {
  if (!out_list)
    return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_session_state_dict: no place for the list");
  *out_list = NULL;
  tdm_state_dict_options chosen;
  TDM_TRY(read_options("tdm_session_state_dict", session, options, &chosen));
  tdm_tensor_list *list = tdm_tensor_list_create(session->context);
  dict self;
  tdm_network *network = tdm_context_network(session->context);
  const char *before = tdm_network_intend(network, "save parameters");
  tdm_status status = dict_init(&self, session, &chosen);
  status = tdm_context_agree(session->context, status);
  if (status == TDM_OK) status = save_entries(&self, session->store, reader, list);
  (void)tdm_network_intend(network, before);
  dict_deinit(&self);
  if (status == TDM_OK) {
    *out_list = list;
    return TDM_OK;
  }
  tdm_tensor_list_release(list);
  return status;
}

/* ---- Finding a list's names ------------------------------------------------------------------ */

/* Finds an entry by its name in files, or by its name in the store. */
static dict_entry *find_exactly(const dict *self, const char *name) {
  dict_entry *found = tdm_map_get(&self->by_file, name);
  return found || !strchr(name, '/') ? found : tdm_map_get(&self->by_own, name);
}

static tdm_status find_entry(dict *self, const char *name, dict_entry **out_entry) {
  *out_entry = find_exactly(self, name);
  if (*out_entry || !strstr(name, TDM_MODULE_PART)) return TDM_OK;
  char *plain = tdm_region_string(&self->region, name);
  if (!plain) return TDM_OUT_OF_MEMORY;
  if (begins(name, TDM_MODULE_PART))
    *out_entry = find_exactly(self, name + strlen(TDM_MODULE_PART));
  tdm_store_strip_modules(name, plain);
  if (!*out_entry) *out_entry = find_exactly(self, plain);
  return TDM_OK;
}

/* Returns true for tensors that are known not to be parameters. */
static bool is_passed_over(const dict *self, const char *name) {
  if (self->options.allow_unexpected || begins(name, TDM_CHECKPOINT_PREFIX) ||
      begins(name, "optimizer/"))
    return true;
  for (size_t i = 0; i < self->options.rule_count; i++)
    if (!self->options.rules[i].model && begins(name, self->options.rules[i].file)) return true;
  return false;
}

/* ---- Mismatches ------------------------------------------------------------------------------ */

/* A list of names, limited to a quarter of a message. */
typedef struct names_text {
  char text[TDM_MESSAGE_BYTES / 4];
  size_t length;
  size_t untold; /* number of names without room */
} names_text;

static void names_add(names_text *names, const char *name, const char *remark) {
  const size_t room = sizeof names->text - names->length;
  const int wanted = names->untold ? (int)room
                                   : snprintf(names->text + names->length, room, "%s%s%s",
                                              names->length ? ", " : "", name, remark);
  if (wanted >= 0 && (size_t)wanted < room) {
    names->length += (size_t)wanted;
    return;
  }
  names->text[names->length] = '\0';
  names->untold++;
}

typedef struct misfits {
  names_text missing;
  names_text unexpected;
  names_text other;    /* names of tensors with other shapes or dtypes */
  bool is_convertible; /* convert_dtypes would make a tensor of `other` fit */
} misfits;

/* Writes "[2, 3]", or "of 9 dimensions" if that is more than a shape holds. */
static const char *listed_shape(const tdm_listed_tensor *has, char text[TDM_SHAPE_TEXT]) {
  tdm_shape shape = {.rank = has->rank};
  (void)snprintf(text, TDM_SHAPE_TEXT, "of %d dimensions", (int)has->rank);
  if (has->rank > TDM_MAX_RANK) return text;
  memcpy(shape.dims, has->dims, (size_t)has->rank * sizeof *has->dims);
  return tdm_shape_text(&shape, text, TDM_SHAPE_TEXT);
}

static void add_misfit(misfits *found, const dict_entry *entry) {
  const tdm_spec expected = tdm_store_table_spec(entry->entry);
  char has_text[TDM_SHAPE_TEXT], expected_text[TDM_SHAPE_TEXT];
  char remark[2 * TDM_SHAPE_TEXT + 64];
  (void)snprintf(remark, sizeof remark, " (%s %s, not %s %s)", tdm_dtype_name(expected.dtype),
                 tdm_shape_text(&expected.shape, expected_text, sizeof expected_text),
                 entry->has.dtype_name, listed_shape(&entry->has, has_text));
  names_add(&found->other, entry->name, remark);
}

/* Appends "; missing: a, b and 3 more" to text. */
static void tell(char *text, size_t bytes, const char *what, const names_text *names) {
  if (!names->length && !names->untold) return;
  size_t length = strlen(text);
  length += (size_t)snprintf(text + length, bytes - length, "%s%s%s%s", length ? "; " : "", what,
                             names->length ? ": " : "", names->text);
  if (names->untold)
    (void)snprintf(text + length, bytes - length, "%s%zu%s", names->length ? " and " : ": ",
                   names->untold, names->length ? " more" : "");
}

static tdm_status verdict(const misfits *found) {
  char text[TDM_MESSAGE_BYTES] = "";
  tell(text, sizeof text, "missing", &found->missing);
  tell(text, sizeof text, "unexpected", &found->unexpected);
  tell(text, sizeof text, "of another shape or dtype", &found->other);
  if (found->is_convertible)
    strncat(text, "; convert_dtypes allows other floating dtypes", sizeof text - strlen(text) - 1);
  return *text ? tdm_fail(TDM_INVALID_ARGUMENT, "%s", text) : TDM_OK;
}

/* ---- Loading --------------------------------------------------------------------------------- */

static tdm_status match_list(dict *self, const tdm_tensor_list *list, misfits *found) {
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++) {
    const char *name = tdm_tensor_list_name(list, i);
    dict_entry *entry;
    TDM_TRY(find_entry(self, name, &entry));
    if (!entry) {
      if (!is_passed_over(self, name)) names_add(&found->unexpected, name, "");
      continue;
    }
    if (entry->source)
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s and %s are both there, and are the same parameter",
                      entry->source, name);
    entry->source = name;
    entry->has = tdm_tensor_list_entry(list, i);
  }
  return TDM_OK;
}

static bool has_shape(const tdm_listed_tensor *has, const tdm_shape *shape) {
  const size_t bytes = (size_t)shape->rank * sizeof *shape->dims;
  return has->rank == shape->rank && (bytes == 0 || memcmp(has->dims, shape->dims, bytes) == 0);
}

/* Returns true if the list's tensor can be converted to the dtype of a parameter. */
static bool is_convertible(const tdm_listed_tensor *has, tdm_dtype dtype) {
  return has->tensor && tdm_dtype_is_floating(has->dtype) && tdm_dtype_is_floating(dtype);
}

static bool fits(const dict *self, const dict_entry *entry) {
  const tdm_spec expected = tdm_store_table_spec(entry->entry);
  const tdm_listed_tensor *has = &entry->has;
  if (!has->tensor || !has_shape(has, &expected.shape)) return false;
  return has->dtype == expected.dtype ||
         (self->options.convert_dtypes && is_convertible(has, expected.dtype));
}

/* Returns the list's tensor, which fits, on the host in the parameter's dtype. The caller releases
 * it. */
static tdm_tensor *take_value(const dict_entry *entry) {
  return tdm_tensor_to(entry->has.tensor, "cpu:0", tdm_store_table_spec(entry->entry).dtype);
}

/* Checks that a parameter with several names has one value. */
static tdm_status check_equal(const dict_entry *entry) {
  tdm_tensor *mine = take_value(entry);
  tdm_tensor *other = take_value(entry->tied);
  tdm_status status = mine && other ? TDM_OK : tdm_last_status();
  if (status == TDM_OK &&
      memcmp(tdm_tensor_data(mine), tdm_tensor_data(other), tdm_tensor_bytes(mine)) != 0)
    status = tdm_fail(TDM_INVALID_ARGUMENT, "%s and %s are tied, and differ in the list",
                      entry->tied->source, entry->source);
  tdm_tensor_release(mine);
  tdm_tensor_release(other);
  return status;
}

/* One of the names of a parameter is sufficient. */
static tdm_status merge_tied(dict *self) {
  for (size_t i = 0; i < self->count; i++) {
    const dict_entry *entry = &self->entries[i];
    if (!entry->tied || !entry->source) continue;
    if (!entry->tied->source) {
      entry->tied->source = entry->source;
      entry->tied->has = entry->has;
    } else if (fits(self, entry) && fits(self, entry->tied)) {
      TDM_TRY(check_equal(entry));
    }
  }
  return TDM_OK;
}

static tdm_status add_value(const dict_entry *entry, tdm_tensor_list *values) {
  tdm_tensor *value = take_value(entry);
  if (!value) return tdm_last_status();
  const tdm_status status = tdm_tensor_list_add(values, tdm_store_entry_table(entry->entry), value);
  tdm_tensor_release(value);
  return status;
}

/* Checks the matches; values gets them under the store's names. */
static tdm_status check_matches(const dict *self, misfits *found, tdm_tensor_list *values) {
  for (size_t i = 0; i < self->count; i++) {
    const dict_entry *entry = &self->entries[i];
    if (!entry->source) {
      if (!self->options.allow_missing && !entry->tied) names_add(&found->missing, entry->name, "");
      continue;
    }
    if (!fits(self, entry)) {
      const tdm_spec expected = tdm_store_table_spec(entry->entry);
      add_misfit(found, entry);
      found->is_convertible |= entry->has.dtype != expected.dtype &&
                               has_shape(&entry->has, &expected.shape) &&
                               is_convertible(&entry->has, expected.dtype);
    } else if (!entry->tied) {
      TDM_TRY(add_value(entry, values));
    }
  }
  return verdict(found);
}

tdm_status tdm_session_load_state_dict(tdm_session *session, const tdm_tensor_list *list,
                                       const tdm_state_dict_options *options) {
  tdm_state_dict_options chosen;
  TDM_TRY(read_options("tdm_session_load_state_dict", session, options, &chosen));
  if (!list) return tdm_fail_null("tdm_session_load_state_dict: the list");
  tdm_tensor_list *values = tdm_tensor_list_create(session->context);
  dict self;
  misfits found = {{{0}, 0, 0}, {{0}, 0, 0}, {{0}, 0, 0}, false};
  tdm_status status = dict_init(&self, session, &chosen);
  if (!values) status = TDM_OUT_OF_MEMORY; /* the error is sent to the other ranks */
  if (status == TDM_OK) status = match_list(&self, list, &found);
  if (status == TDM_OK) status = merge_tied(&self);
  if (status == TDM_OK) status = check_matches(&self, &found, values);
  tdm_network *network = tdm_context_network(session->context);
  const char *before = tdm_network_intend(network, "load parameters");
  status = tdm_context_agree(session->context, status);
  if (status == TDM_OK) status = tdm_store_load(session->store, values);
  (void)tdm_network_intend(network, before);
  dict_deinit(&self);
  tdm_tensor_list_release(values);
  return status;
}
