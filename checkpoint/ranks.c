/* Files of a job of several ranks. A list of tensors travels as its size, a table of names, dtypes
 * and shapes, then the values of one tensor after the other. Invariant: see ranks.h; whoever cannot
 * go on says so before the next transfer. */
#include "checkpoint/ranks.h"

#include <string.h>

#include "core/allocate.h"
#include "data/safetensors/safetensors.h"
#include "devices/context/context.h"
#include "devices/network/network.h"
#include "devices/tensors/tensor.h"

/* A row of the table; its name follows, terminator included. */
typedef struct list_row {
  int64_t dims[TDM_MAX_RANK];
  uint64_t name_bytes;
  int32_t rank;
  int32_t dtype;
} list_row;

typedef struct list_table {
  const tdm_allocator *allocator;
  char *rows;
  uint64_t bytes;
} list_table;

/* ---- The table ------------------------------------------------------------------------------- */

static uint64_t count_table(const tdm_tensor_list *list) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++)
    bytes += sizeof(list_row) + strlen(tdm_tensor_list_name(list, i)) + 1;
  return bytes;
}

static void write_table(const tdm_tensor_list *list, char *to) {
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++) {
    const char *name = tdm_tensor_list_name(list, i);
    const tdm_tensor *tensor = tdm_tensor_list_tensor(list, i);
    const tdm_shape shape = tdm_tensor_shape(tensor);
    list_row row = {.name_bytes = strlen(name) + 1,
                    .rank = shape.rank,
                    .dtype = (int32_t)tdm_tensor_dtype(tensor)};
    for (int d = 0; d < shape.rank; d++)
      row.dims[d] = shape.dims[d];
    memcpy(to, &row, sizeof row);
    memcpy(to + sizeof row, name, row.name_bytes);
    to += sizeof row + row.name_bytes;
  }
}

/* Tensors of the table's shapes, whose values come next. */
static tdm_status make_list(tdm_context *context, const list_table *table, tdm_tensor_list *list) {
  const char *end = table->rows + table->bytes;
  for (const char *at = table->rows; at < end;) {
    list_row row;
    memcpy(&row, at, sizeof row);
    const char *name = at + sizeof row;
    tdm_shape shape = {.rank = row.rank};
    for (int d = 0; d < row.rank; d++)
      shape.dims[d] = row.dims[d];
    tdm_tensor *tensor = tdm_tensor_create(context, "cpu:0", (tdm_dtype)row.dtype, shape);
    if (!tensor) return TDM_OUT_OF_MEMORY;
    const tdm_status status = tdm_tensor_list_add(list, name, tensor);
    tdm_tensor_release(tensor);
    TDM_TRY(status);
    at = name + row.name_bytes;
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
    const tdm_tensor *tensor = tdm_tensor_list_tensor(list, i);
    TDM_TRY(tdm_network_pass(tdm_context_network(context), FILE_RANK, -1,
                             (void *)tdm_tensor_address(tensor), tdm_tensor_bytes(tensor)));
  }
  return TDM_OK;
}

/* *list is rank 0's, and on the others becomes one. */
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
