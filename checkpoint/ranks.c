/* Files of a job of several ranks. A list of tensors is sent as its size, then a table of names,
 * dtypes and shapes, then the values tensor by tensor. Invariant: see ranks.h. A rank that cannot
 * continue reports so before the next transfer. */
#include "checkpoint/ranks.h"

#include <string.h>

#include "core/allocate.h"
#include "data/safetensors/safetensors.h"
#include "devices/context/context.h"
#include "devices/network/network.h"
#include "devices/tensors/tensor.h"

/* A row of the table. It is followed by its name and its dtype's name, both terminated, and its
 * dimensions. */
typedef struct list_row {
  uint64_t bytes; /* size of the tensor's values */
  uint64_t name_bytes;
  uint64_t dtype_bytes;
  int32_t rank;
  int32_t dtype;
  bool is_supported;
} list_row;

typedef struct list_table {
  const tdm_allocator *allocator;
  char *rows;
  uint64_t bytes;
} list_table;

/* ---- The table ------------------------------------------------------------------------------- */

static list_row row_of(const tdm_listed_tensor *listed) {
  list_row row;
  memset(&row, 0, sizeof row); /* padding is sent too */
  row.bytes = listed->bytes;
  row.name_bytes = strlen(listed->name) + 1;
  row.dtype_bytes = strlen(listed->dtype_name) + 1;
  row.rank = listed->rank;
  row.dtype = (int32_t)listed->dtype;
  row.is_supported = listed->tensor != NULL;
  return row;
}

static uint64_t count_table(const tdm_tensor_list *list) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++) {
    const tdm_listed_tensor listed = tdm_tensor_list_entry(list, i);
    const list_row row = row_of(&listed);
    bytes += sizeof row + row.name_bytes + row.dtype_bytes + (size_t)row.rank * sizeof(tdm_dim);
  }
  return bytes;
}

static char *put(char *to, const void *from, size_t bytes) {
  if (bytes > 0) memcpy(to, from, bytes);
  return to + bytes;
}

static void write_table(const tdm_tensor_list *list, char *to) {
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++) {
    const tdm_listed_tensor listed = tdm_tensor_list_entry(list, i);
    const list_row row = row_of(&listed);
    to = put(to, &row, sizeof row);
    to = put(to, listed.name, row.name_bytes);
    to = put(to, listed.dtype_name, row.dtype_bytes);
    to = put(to, listed.dims, (size_t)row.rank * sizeof(tdm_dim));
  }
}

/* Adds a tensor whose values come next, or one without values. */
static tdm_status add_row(tdm_context *context, const tdm_listed_tensor *listed, bool is_supported,
                          tdm_tensor_list *list) {
  if (!is_supported) return tdm_tensor_list_add_unsupported(list, listed);
  tdm_shape shape = {.rank = listed->rank};
  for (int d = 0; d < shape.rank; d++)
    shape.dims[d] = listed->dims[d];
  tdm_tensor *tensor = tdm_tensor_create(context, "cpu:0", listed->dtype, shape);
  if (!tensor) return TDM_OUT_OF_MEMORY;
  const tdm_status status = tdm_tensor_list_add(list, listed->name, tensor);
  tdm_tensor_release(tensor);
  return status;
}

/* Copies a row's dimensions, which may be unaligned. Returns NULL if memory is short. */
static tdm_dim *copy_dims(const tdm_allocator *allocator, const char *from, int32_t rank) {
  const size_t bytes = (size_t)rank * sizeof(tdm_dim);
  tdm_dim *dims = tdm_allocate(allocator, bytes, "a shape");
  if (dims && bytes > 0) memcpy(dims, from, bytes);
  return dims;
}

static tdm_status make_list(tdm_context *context, const list_table *table, tdm_tensor_list *list) {
  const char *end = table->rows + table->bytes;
  for (const char *at = table->rows; at < end;) {
    list_row row;
    memcpy(&row, at, sizeof row);
    const char *name = at + sizeof row, *dtype = name + row.name_bytes;
    const char *dims_at = dtype + row.dtype_bytes;
    tdm_dim *dims = copy_dims(table->allocator, dims_at, row.rank);
    if (!dims) return TDM_OUT_OF_MEMORY;
    const tdm_listed_tensor listed = {.name = name,
                                      .dtype = (tdm_dtype)row.dtype,
                                      .dtype_name = dtype,
                                      .dims = dims,
                                      .rank = row.rank,
                                      .bytes = row.bytes};
    const tdm_status status = add_row(context, &listed, row.is_supported, list);
    tdm_release(table->allocator, dims, (size_t)row.rank * sizeof(tdm_dim));
    TDM_TRY(status);
    at = dims_at + (size_t)row.rank * sizeof(tdm_dim);
  }
  return TDM_OK;
}

/* ---- Over ranks ------------------------------------------------------------------------------ */

static tdm_status pass_table(tdm_context *context, const tdm_tensor_list *list,
                             list_table *out_table) {
  tdm_network *network = tdm_context_network(context);
  const bool reads = tdm_context_rank(context) == FILE_RANK;
  out_table->bytes = reads ? count_table(list) : 0;
  TDM_TRY(tdm_network_pass(network, FILE_RANK, -1, &out_table->bytes, sizeof out_table->bytes));
  out_table->rows = tdm_allocate(out_table->allocator, out_table->bytes + 1, "names of tensors");
  TDM_TRY(tdm_network_agree(network, out_table->rows ? TDM_OK : TDM_OUT_OF_MEMORY));
  if (reads) write_table(list, out_table->rows);
  return tdm_network_pass(network, FILE_RANK, -1, out_table->rows, out_table->bytes);
}

static tdm_status pass_values(tdm_context *context, const tdm_tensor_list *list) {
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++) {
    const tdm_tensor *tensor = tdm_tensor_list_entry(list, i).tensor;
    if (!tensor) continue; /* unsupported, on all ranks */
    TDM_TRY(tdm_network_pass(tdm_context_network(context), FILE_RANK, -1,
                             (void *)tdm_tensor_address(tensor), tdm_tensor_bytes(tensor)));
  }
  return TDM_OK;
}

/* Sends rank 0's *list to the other ranks, whose *list it sets. */
static tdm_status pass_list(tdm_context *context, tdm_tensor_list **list) {
  const tdm_allocator *allocator = tdm_context_allocator(context);
  list_table table = {.allocator = allocator};
  tdm_status status = pass_table(context, *list, &table);
  if (status == TDM_OK) {
    tdm_status made = TDM_OK;
    if (!*list) {
      *list = tdm_tensor_list_create(context);
      made = *list ? make_list(context, &table, *list) : TDM_OUT_OF_MEMORY;
    }
    status = tdm_context_agree(context, made);
  }
  tdm_release(allocator, table.rows, table.rows ? table.bytes + 1 : 0);
  return status == TDM_OK ? pass_values(context, *list) : status;
}

/* ---- Files ----------------------------------------------------------------------------------- */

tdm_status tdm_ranks_read(tdm_context *context, const char *path, tdm_tensor_list **out_list) {
  tdm_network *network = tdm_context_network(context);
  *out_list = NULL;
  tdm_status status = TDM_OK;
  if (tdm_context_rank(context) == FILE_RANK)
    status = tdm_safetensors_read(context, path, out_list);
  if (!network) return status;
  const char *before = tdm_network_intend(network, "read a file");
  status = tdm_context_agree(context, status);
  if (status == TDM_OK) status = pass_list(context, out_list);
  (void)tdm_network_intend(network, before);
  if (status == TDM_OK) return TDM_OK;
  tdm_tensor_list_release(*out_list);
  *out_list = NULL;
  return status;
}

tdm_status tdm_ranks_write(tdm_context *context, tdm_status status, const tdm_tensor_list *list,
                           const char *path) {
  if (status == TDM_OK && tdm_context_rank(context) == FILE_RANK)
    status = tdm_safetensors_save(list, path);
  tdm_network *network = tdm_context_network(context);
  const char *before = tdm_network_intend(network, "write a file");
  status = tdm_context_agree(context, status);
  (void)tdm_network_intend(network, before);
  return status;
}
