/* Reads a safetensors header and checks everything in it. Invariant: no value is used unchecked:
 * names are distinct, shapes match the sizes of their offsets, and the offsets tile the data. */
#define _GNU_SOURCE /* qsort_r */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/safetensors/json.h"
#include "data/safetensors/safetensors.h"

/* ---- One tensor ------------------------------------------------------------------------------ */

static tdm_status read_shape(tdm_json *json, tdm_safetensors_entry *entry) {
  TDM_TRY(tdm_json_expect(json, '['));
  entry->dims_text = json->text + json->at;
  bool more = !tdm_json_accept(json, ']');
  while (more) {
    int64_t size = 0;
    TDM_TRY(tdm_json_whole_number(json, &size));
    if (entry->rank < TDM_MAX_RANK) entry->shape.dims[entry->rank] = size;
    entry->rank++; /* a header has fewer bytes than INT32_MAX */
    TDM_TRY(tdm_json_more(json, ']', &more));
  }
  entry->shape.rank = entry->rank <= TDM_MAX_RANK ? entry->rank : 0;
  return TDM_OK;
}

/* Returns the number at *at and advances *at past it and the comma or bracket after it. The header
 * is not 0-terminated, but it was checked before: digits and that end exist, and the number
 * fits. */
static tdm_dim next_dim(const char **at) {
  const char *text = *at;
  tdm_dim size = 0;
  while (*text < '0' || *text > '9')
    text++;
  for (; *text >= '0' && *text <= '9'; text++)
    size = 10 * size + (*text - '0');
  while (*text != ',' && *text != ']')
    text++;
  *at = text + 1;
  return size;
}

void tdm_safetensors_dims(const tdm_safetensors_entry *entry, tdm_dim *dims) {
  const char *at = entry->dims_text;
  for (int32_t i = 0; i < entry->rank; i++)
    dims[i] = next_dim(&at);
}

static tdm_status read_offsets(tdm_json *json, int64_t *out_begin, int64_t *out_end) {
  TDM_TRY(tdm_json_expect(json, '['));
  TDM_TRY(tdm_json_whole_number(json, out_begin));
  TDM_TRY(tdm_json_expect(json, ','));
  TDM_TRY(tdm_json_whole_number(json, out_end));
  return tdm_json_expect(json, ']');
}

static tdm_status read_dtype(tdm_json *json, const tdm_safetensors_type **out_type) {
  char name[16];
  TDM_TRY(tdm_json_word(json, name, sizeof(name)));
  *out_type = tdm_safetensors_type_called(name);
  return *out_type ? TDM_OK : tdm_fail(TDM_CORRUPT_DATA, "\"%s\" is no dtype", name);
}

static const char *const field_names[] = {"dtype", "shape", "data_offsets"};

static tdm_status read_field(tdm_json *json, size_t field, tdm_safetensors_entry *entry) {
  tdm_status status = TDM_OK;
  if (field == 0) status = read_dtype(json, &entry->type);
  if (field == 1) status = read_shape(json, entry);
  if (field == 2) status = read_offsets(json, &entry->begin, &entry->end);
  return status == TDM_OK ? TDM_OK : tdm_fail_within(status, "%s", field_names[field]);
}

/* Reads {"dtype": ..., "shape": ..., "data_offsets": ...}, each once, in any order. */
static tdm_status read_fields(tdm_json *json, tdm_safetensors_entry *entry) {
  const size_t count = TDM_COUNT_OF(field_names);
  unsigned met = 0;
  TDM_TRY(tdm_json_expect(json, '{'));
  bool more = !tdm_json_accept(json, '}');
  while (more) {
    char name[24];
    TDM_TRY(tdm_json_word(json, name, sizeof(name)));
    TDM_TRY(tdm_json_expect(json, ':'));
    size_t field = 0;
    while (field < count && strcmp(name, field_names[field]) != 0)
      field++;
    if (field == count) return tdm_fail(TDM_CORRUPT_DATA, "unknown field \"%s\"", name);
    if (met >> field & 1u) return tdm_fail(TDM_CORRUPT_DATA, "%s appears twice", name);
    met |= 1u << field;
    TDM_TRY(read_field(json, field, entry));
    TDM_TRY(tdm_json_more(json, '}', &more));
  }
  for (size_t field = 0; field < count; field++) {
    if (!(met >> field & 1u))
      return tdm_fail(TDM_CORRUPT_DATA, "%s is missing", field_names[field]);
  }
  return TDM_OK;
}

/* Multiplies *count by the entry's dimensions other than 0. Sets *out_empty if one of them is 0.
 * Returns false on overflow. */
static bool multiply_dims(const tdm_safetensors_entry *entry, int64_t *count, bool *out_empty) {
  const char *at = entry->dims_text;
  *out_empty = false;
  for (int32_t i = 0; i < entry->rank; i++) {
    const tdm_dim size = next_dim(&at);
    if (size == 0)
      *out_empty = true;
    else if (__builtin_mul_overflow(*count, size, count))
      return false;
  }
  return true;
}

/* Computes the bytes of a tensor. Elements of fewer than 8 bits are packed without gaps and have to
 * fill whole bytes. */
static tdm_status count_bytes(const tdm_safetensors_entry *entry, const char *shape,
                              int64_t *out_bytes) {
  const int64_t bits = entry->type->bits;
  int64_t elements = 1, bytes = 0;
  bool is_empty;
  const bool is_counted = multiply_dims(entry, &elements, &is_empty) &&
                          !__builtin_mul_overflow(elements / 8, bits, &bytes) &&
                          !__builtin_add_overflow(bytes, elements % 8 * bits / 8, &bytes);
  *out_bytes = is_empty ? 0 : bytes;
  if (!is_counted)
    return tdm_fail(TDM_CORRUPT_DATA, "shape: %s has more bytes than can be counted", shape);
  if (is_empty || elements % 8 * bits % 8 == 0) return TDM_OK;
  return tdm_fail(TDM_CORRUPT_DATA, "shape: %s of %s, %lld bits each, fills no whole bytes", shape,
                  entry->type->name, (long long)bits);
}

static const char *shape_text(const tdm_safetensors_entry *entry, char text[TDM_SHAPE_TEXT]) {
  if (entry->rank <= TDM_MAX_RANK) return tdm_shape_text(&entry->shape, text, TDM_SHAPE_TEXT);
  (void)snprintf(text, TDM_SHAPE_TEXT, "of %d dimensions", (int)entry->rank);
  return text;
}

static tdm_status check_entry(const tdm_safetensors_entry *entry, int64_t data_bytes) {
  char text[TDM_SHAPE_TEXT];
  int64_t bytes;
  TDM_TRY(count_bytes(entry, shape_text(entry, text), &bytes));
  if (entry->begin > entry->end) {
    return tdm_fail(TDM_CORRUPT_DATA, "data_offsets: %lld to %lld runs backwards",
                    (long long)entry->begin, (long long)entry->end);
  }
  if (entry->end > data_bytes) {
    return tdm_fail(TDM_CORRUPT_DATA, "data_offsets: %lld to %lld, but the data has %lld bytes",
                    (long long)entry->begin, (long long)entry->end, (long long)data_bytes);
  }
  if (entry->end - entry->begin != bytes) {
    return tdm_fail(
        TDM_CORRUPT_DATA, "data_offsets: %lld to %lld, but shape %s of %s has %lld bytes",
        (long long)entry->begin, (long long)entry->end, text, entry->type->name, (long long)bytes);
  }
  return TDM_OK;
}

static tdm_status fail_twice(const char *what, const char *name) {
  return tdm_fail(TDM_CORRUPT_DATA, "%s \"%.80s\" appears twice", what, name);
}

/* ---- Metadata -------------------------------------------------------------------------------- */

/* The keys of the metadata, as places in the decoded text: 4 bytes each, since a key may take 7
 * bytes of a header. */
typedef struct metadata_keys {
  uint32_t *places;
  size_t capacity;
  size_t count;
} metadata_keys;

static int compare_keys(const void *left, const void *right, void *text) {
  const char *begin = text;
  return strcmp(begin + *(const uint32_t *)left, begin + *(const uint32_t *)right);
}

/* Reports a key that is there twice. Sorts: no header can make that slow. */
static tdm_status check_keys(metadata_keys *keys, char *text) {
  if (keys->count > 0) qsort_r(keys->places, keys->count, sizeof *keys->places, compare_keys, text);
  for (size_t i = 1; i < keys->count; i++) {
    if (compare_keys(&keys->places[i - 1], &keys->places[i], text) == 0)
      return fail_twice("key", text + keys->places[i]);
  }
  return TDM_OK;
}

static tdm_status add_key(metadata_keys *keys, const tdm_allocator *allocator, size_t place) {
  TDM_TRY(tdm_array_reserve(allocator, (void **)&keys->places, &keys->capacity, keys->count + 1,
                            sizeof *keys->places, "the names of a header"));
  keys->places[keys->count++] = (uint32_t)place;
  return TDM_OK;
}

/* Checks the metadata, which maps strings to strings, and discards it. */
static tdm_status read_metadata(tdm_json *json, const tdm_allocator *allocator) {
  metadata_keys keys = {.count = 0};
  bool more = false;
  tdm_status status = tdm_json_expect(json, '{');
  if (status == TDM_OK) more = !tdm_json_accept(json, '}');
  while (more && status == TDM_OK) {
    char *key = NULL;
    char value[1];
    status = tdm_json_string(json, &key);
    if (status == TDM_OK) status = add_key(&keys, allocator, (size_t)(key - json->text));
    if (status == TDM_OK) status = tdm_json_expect(json, ':');
    if (status == TDM_OK) status = tdm_json_word(json, value, sizeof(value));
    if (status == TDM_OK) status = tdm_json_more(json, '}', &more);
  }
  if (status == TDM_OK) status = check_keys(&keys, json->text);
  tdm_release(allocator, keys.places, keys.capacity * sizeof *keys.places);
  return status;
}

/* ---- The whole header ------------------------------------------------------------------------ */

/* Reads one member of the header's object. */
static tdm_status read_member(tdm_safetensors_header *header, tdm_json *json, int64_t data_bytes,
                              bool *has_metadata) {
  char *name = NULL;
  TDM_TRY(tdm_json_string(json, &name));
  TDM_TRY(tdm_json_expect(json, ':'));
  if (strcmp(name, TDM_SAFETENSORS_METADATA) == 0) {
    if (*has_metadata) return fail_twice("the name", name);
    *has_metadata = true;
    const tdm_status status = read_metadata(json, header->allocator);
    return status == TDM_OK ? TDM_OK : tdm_fail_within(status, TDM_SAFETENSORS_METADATA);
  }
  tdm_safetensors_entry entry = {.name = name};
  tdm_status status = read_fields(json, &entry);
  if (status == TDM_OK) status = check_entry(&entry, data_bytes);
  if (status != TDM_OK) return tdm_fail_within(status, "tensor \"%.80s\"", name);
  header->entries[header->count++] = entry;
  return TDM_OK;
}

/* Returns the number of objects that are members of the outer one: an upper limit of the number of
 * tensors. It inspects only braces outside of strings, and finds as many as the parser does, up to
 * the parser's first failure. */
static size_t count_objects(const char *text, size_t bytes) {
  size_t count = 0;
  size_t depth = 0;
  bool is_string = false;
  for (size_t i = 0; i < bytes; i++) {
    if (is_string && text[i] == '\\') {
      i++;
      continue;
    }
    if (text[i] == '"') is_string = !is_string;
    if (is_string) continue;
    if (text[i] == '{') count += depth++ == 1;
    if (text[i] == '}') depth -= depth > 0;
  }
  return count;
}

/* Allocates all entries at once, because a growing array would briefly exist twice. */
static tdm_status make_entries(tdm_safetensors_header *header, const char *text, size_t bytes) {
  static const char shortest[] = "\"\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,0]},";
  const size_t most = bytes / (sizeof shortest - 1) + 1;
  const size_t count = count_objects(text, bytes);
  header->capacity = count < most ? count : most;
  header->entries = tdm_allocate(header->allocator, header->capacity * sizeof *header->entries,
                                 "the tensors of a file");
  return header->entries ? TDM_OK : TDM_OUT_OF_MEMORY;
}

static tdm_status read_members(tdm_safetensors_header *header, tdm_json *json, int64_t data_bytes) {
  if (json->bytes == 0 || json->text[0] != '{')
    return tdm_fail(TDM_CORRUPT_DATA, "header byte 0: expected '{'");
  json->at = 1;
  bool has_metadata = false;
  bool more = !tdm_json_accept(json, '}');
  while (more) {
    TDM_TRY(read_member(header, json, data_bytes, &has_metadata));
    TDM_TRY(tdm_json_more(json, '}', &more));
  }
  return tdm_json_end(json);
}

static int compare_names(const void *left, const void *right) {
  const tdm_safetensors_entry *a = *(const tdm_safetensors_entry *const *)left;
  const tdm_safetensors_entry *b = *(const tdm_safetensors_entry *const *)right;
  return strcmp(a->name, b->name);
}

static int compare_places(const void *left, const void *right) {
  const tdm_safetensors_entry *a = *(const tdm_safetensors_entry *const *)left;
  const tdm_safetensors_entry *b = *(const tdm_safetensors_entry *const *)right;
  if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
  if (a->end != b->end) return a->end < b->end ? -1 : 1;
  return (a > b) - (a < b);
}

/* Reports a name that two of the tensors (count) have. Sorts them by name. */
static tdm_status check_names(const tdm_safetensors_entry **tensors, size_t count) {
  qsort(tensors, count, sizeof *tensors, compare_names);
  for (size_t i = 1; i < count; i++) {
    if (compare_names(&tensors[i - 1], &tensors[i]) == 0)
      return fail_twice("the name", tensors[i]->name);
  }
  return TDM_OK;
}

/* Reports tensors (count) that do not follow each other from 0 to data_bytes. Sorts them by place.
 */
static tdm_status check_tiling(const tdm_safetensors_entry **tensors, size_t count,
                               int64_t data_bytes) {
  qsort(tensors, count, sizeof *tensors, compare_places);
  int64_t reached = 0;
  for (size_t i = 0; i < count; i++) {
    if (tensors[i]->begin != reached) {
      return tdm_fail(TDM_CORRUPT_DATA,
                      "tensor \"%.80s\": data_offsets: begins at %lld, leaving %s with what "
                      "ends at %lld",
                      tensors[i]->name, (long long)tensors[i]->begin,
                      tensors[i]->begin > reached ? "a hole" : "an overlap", (long long)reached);
    }
    reached = tensors[i]->end;
  }
  if (reached == data_bytes) return TDM_OK;
  return tdm_fail(TDM_CORRUPT_DATA,
                  "the tensors end at byte %lld of the data, a hole before its end at %lld",
                  (long long)reached, (long long)data_bytes);
}

static tdm_status check_tensors(const tdm_safetensors_header *header, int64_t data_bytes) {
  const size_t bytes = header->count * sizeof(const tdm_safetensors_entry *);
  const tdm_safetensors_entry **tensors =
      tdm_allocate(header->allocator, bytes, "the places of tensors");
  if (!tensors) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < header->count; i++)
    tensors[i] = &header->entries[i];
  tdm_status status = check_names(tensors, header->count);
  if (status == TDM_OK) status = check_tiling(tensors, header->count, data_bytes);
  tdm_release(header->allocator, tensors, bytes);
  return status;
}

tdm_status tdm_safetensors_parse(tdm_safetensors_header *header, const tdm_allocator *allocator,
                                 char *text, size_t bytes, int64_t data_bytes) {
  *header = (tdm_safetensors_header){.allocator = allocator};
  tdm_json json = {.text = text, .bytes = bytes};
  tdm_status status = make_entries(header, text, bytes);
  if (status == TDM_OK) status = read_members(header, &json, data_bytes);
  return status == TDM_OK ? check_tensors(header, data_bytes) : status;
}

void tdm_safetensors_header_deinit(tdm_safetensors_header *header) {
  if (!header->allocator) return;
  tdm_release(header->allocator, header->entries, header->capacity * sizeof *header->entries);
  memset(header, 0, sizeof *header);
}
