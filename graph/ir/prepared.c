/* The cache of prepared kernels. Its table only grows, up to the size that simultaneous plans
 * required. */
#include "graph/ir/prepared.h"

#include <stddef.h>
#include <string.h>

#include "core/allocate.h"
#include "core/park.h"
#include "core/table.h"
#include "core/untold.h"
#include "graph/ir/specs.h"

struct tdm_prepared_cache {
  const tdm_allocator *allocator;
  tdm_table table;
  uint64_t prepare_ns;
  bool deterministic;
};

tdm_status tdm_prepared_cache_create(const tdm_allocator *allocator, bool deterministic,
                                     tdm_prepared_cache **out_cache) {
  *out_cache = NULL;
  tdm_prepared_cache *cache = tdm_allocate(allocator, sizeof *cache, "kernel cache");
  if (!cache) return TDM_OUT_OF_MEMORY;
  cache->allocator = allocator;
  cache->deterministic = deterministic;
  tdm_table_init(&cache->table, allocator);
  *out_cache = cache;
  return TDM_OK;
}

void tdm_prepared_cache_destroy(tdm_prepared_cache *cache) {
  if (!cache) return;
  tdm_table_deinit(&cache->table);
  tdm_release(cache->allocator, cache, sizeof *cache);
}

uint64_t tdm_prepared_cache_prepare_ns(const tdm_prepared_cache *cache) {
  return cache->prepare_ns;
}

static uint64_t hash_key(const tdm_prepare_key *key) {
  uint64_t hash = tdm_hash_mix((uint64_t)(uintptr_t)key->kernel,
                               (uint64_t)key->input_count << 16 | key->team_size);
  hash = tdm_hash_bytes(key->attributes, key->attribute_bytes, hash);
  for (size_t i = 0; i < key->input_count + key->output_count; i++)
    hash = tdm_spec_hash(key->specs[i], hash);
  return hash;
}

static bool is_prepared_for(const void *prepared, const void *sought) {
  const tdm_prepared *entry = prepared;
  const tdm_prepare_key *key = sought;
  if (entry->kernel != key->kernel || entry->attribute_bytes != key->attribute_bytes ||
      entry->input_count != key->input_count || entry->output_count != key->output_count ||
      entry->team_size != key->team_size)
    return false;
  if (key->attribute_bytes && memcmp(entry->attributes, key->attributes, key->attribute_bytes) != 0)
    return false;
  for (size_t i = 0; i < key->input_count + key->output_count; i++)
    if (!tdm_spec_equal(&entry->offered[i], key->specs[i])) return false;
  return true;
}

/* Fails if a kernel requests another size for a dense operand than that of its shape. */
static tdm_status check_answer(const tdm_prepared *entry) {
  const tdm_kernel_answer *answer = &entry->answer;
  for (size_t i = 0; i < entry->output_count && i < TDM_KERNEL_FORMATS; i++) {
    const tdm_spec *spec = &entry->offered[entry->input_count + i];
    const int64_t bytes = tdm_shape_bytes(&spec->shape, spec->dtype);
    if (answer->output_formats[i] != TDM_FORMAT_DENSE || answer->output_bytes[i] == 0 ||
        answer->output_bytes[i] == (size_t)bytes)
      continue;
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "its kernel answers %zu bytes for output %zu, which is dense and has %lld",
                    answer->output_bytes[i], i, (long long)bytes);
  }
  return TDM_OK;
}

/* Calls the kernel's prepare. The results are entry->answer and the formats of entry->specs. */
static tdm_status ask_kernel(tdm_prepared_cache *cache, tdm_prepared *entry) {
  if (!entry->kernel->prepare) return TDM_OK;
  const tdm_kernel_request request = {.attributes = entry->attributes,
                                      .inputs = entry->offered,
                                      .input_count = entry->input_count,
                                      .outputs = entry->offered + entry->input_count,
                                      .output_count = entry->output_count,
                                      .team_size = entry->team_size,
                                      .deterministic = cache->deterministic};
  const uint64_t begin = tdm_time_ns();
  const uint32_t told = tdm_told_count();
  const tdm_status status = tdm_fail_untold(entry->kernel->prepare(&request, &entry->answer), told);
  cache->prepare_ns += tdm_time_ns() - begin;
  if (status != TDM_OK) return status;
  const tdm_status checked = check_answer(entry);
  if (checked != TDM_OK) {
    if (entry->kernel->release) entry->kernel->release(entry->answer.state);
    return checked;
  }
  for (size_t i = 0; i < entry->input_count; i++)
    entry->specs[i].format =
        i < TDM_KERNEL_FORMATS ? entry->answer.input_formats[i] : TDM_FORMAT_DENSE;
  for (size_t i = 0; i < entry->output_count; i++)
    entry->specs[entry->input_count + i].format =
        i < TDM_KERNEL_FORMATS ? entry->answer.output_formats[i] : TDM_FORMAT_DENSE;
  return TDM_OK;
}

/* One allocation for an entry, its attributes and its shapes. */
typedef struct entry_block {
  tdm_prepared entry; /* must be the first field */
  _Alignas(max_align_t) char attributes[];
} entry_block;

/* Returns the bytes of attributes, rounded up to the alignment of shapes. */
static size_t attribute_room(const tdm_prepared *entry) {
  return (entry->attribute_bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) *
         sizeof(max_align_t);
}

static size_t entry_bytes(const tdm_prepared *entry) {
  const size_t spec_count = entry->input_count + entry->output_count;
  return sizeof(entry_block) + attribute_room(entry) + 2 * spec_count * sizeof(tdm_spec);
}

static void free_entry(tdm_prepared *entry) {
  tdm_release(entry->cache->allocator, entry, entry_bytes(entry));
}

static tdm_prepared *make_entry(tdm_prepared_cache *cache, const tdm_prepare_key *key) {
  const tdm_prepared made = {.cache = cache,
                             .kernel = key->kernel,
                             .attribute_bytes = key->attribute_bytes,
                             .input_count = key->input_count,
                             .output_count = key->output_count,
                             .team_size = key->team_size};
  const size_t spec_count = key->input_count + key->output_count;
  entry_block *block = tdm_allocate(cache->allocator, entry_bytes(&made), "prepared kernel");
  if (!block) return NULL;
  tdm_prepared *entry = &block->entry;
  *entry = made;
  tdm_spec *specs = (tdm_spec *)(block->attributes + attribute_room(entry));
  for (size_t i = 0; i < spec_count; i++)
    specs[i] = specs[spec_count + i] = *key->specs[i];
  if (key->attribute_bytes) memcpy(block->attributes, key->attributes, key->attribute_bytes);
  entry->attributes = block->attributes;
  entry->specs = specs;
  entry->offered = specs + spec_count;
  return entry;
}

tdm_status tdm_prepared_get(tdm_prepared_cache *cache, const tdm_prepare_key *key,
                            tdm_prepared **out_prepared) {
  *out_prepared = NULL;
  const uint64_t hash = hash_key(key);
  tdm_prepared *entry = tdm_table_get(&cache->table, hash, key, is_prepared_for);
  if (entry) {
    entry->users++;
    *out_prepared = entry;
    return TDM_OK;
  }
  TDM_TRY(tdm_table_reserve(&cache->table, cache->table.count + 1, "kernel cache"));
  entry = make_entry(cache, key);
  if (!entry) return TDM_OUT_OF_MEMORY;
  const tdm_status status = ask_kernel(cache, entry);
  if (status != TDM_OK) {
    free_entry(entry);
    return status;
  }
  entry->users = 1;
  entry->hash = hash;
  tdm_table_put(&cache->table, hash, entry, entry);
  *out_prepared = entry;
  return TDM_OK;
}

void tdm_prepared_let_go(tdm_prepared *prepared) {
  if (--prepared->users > 0) return;
  tdm_table_remove(&prepared->cache->table, prepared->hash, prepared);
  if (prepared->kernel->release) prepared->kernel->release(prepared->answer.state);
  free_entry(prepared);
}
