/* See inspect.h. Files are mapped, and only the requested elements are read. */
#include "tools/inspect/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_writer.h"
#include "core/utf8.h"
#include "tandem/tandem.h"
#include "tools/options/option_table.h"

typedef struct options {
  tool_options common;
  const char *path;
  const char *tensor; /* tensor whose elements are printed; NULL: none */
  bool json;
} options;

#define FIELD(name) offsetof(options, name)
static const option rows[] = {
    {"--tensor", "NAME", "print the elements of one tensor in PyTorch's format", OPTION_TEXT,
     FIELD(tensor), 0, 0, 0, NULL},
    {"--json", NULL, "print JSON", OPTION_FLAG, FIELD(json), 0, 0, 0, NULL},
};
static const option file_operand = {"FILE", NULL, NULL, OPTION_TEXT, FIELD(path), 0, 0, 0, NULL};
static const options defaults = {.path = NULL};
static tdm_status check(const void *read) {
  const options *given = read;
  if (given->tensor && given->json)
    return tdm_fail(TDM_INVALID_ARGUMENT, "--tensor prints elements, and --json a list: not both");
  return TDM_OK;
}

static const option_table table = {
    .program = "tandem inspect",
    .about = "Prints name, dtype, shape and bytes of each tensor in a safetensors file.",
    OPTION_DEFAULTS(defaults),
    OPTION_ROWS(rows),
    .operand = &file_operand,
    .below = &tool_table,
    .check = check,
};

static int widest_name(const tdm_tensor_list *list) {
  size_t widest = strlen("tensor");
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++) {
    const size_t length = strlen(tdm_tensor_list_name(list, i));
    if (length > widest) widest = length;
  }
  return widest < 60 ? (int)widest : 60;
}

/* Prints a line about the tensor. Its name is untrusted, so control characters are replaced. */
static tdm_status print_line(int width, const tdm_listed_tensor *tensor) {
  char *shown = strdup(tensor->name);
  if (!shown) return tdm_fail_memory(strlen(tensor->name), "a name");
  tdm_utf8_make_printable(shown);
  printf("%-*s  %-11s %14llu  [", width, shown, tensor->dtype_name,
         (unsigned long long)tensor->bytes);
  for (int32_t d = 0; d < tensor->rank; d++)
    printf("%s%lld", d ? ", " : "", (long long)tensor->dims[d]);
  printf("]\n");
  free(shown);
  return TDM_OK;
}

/* Fits into 64 bits unless a dimension is 0, which the reader of the file has checked. */
static unsigned long long count_elements(const tdm_listed_tensor *tensor) {
  unsigned long long count = 1;
  for (int32_t d = 0; d < tensor->rank; d++)
    count *= (unsigned long long)tensor->dims[d];
  return count;
}

static tdm_status print_list(const tdm_tensor_list *list) {
  const int width = widest_name(list);
  const size_t count = tdm_tensor_list_count(list);
  unsigned long long elements = 0, bytes = 0;
  printf("%-*s  %-11s %14s  %s\n", width, "tensor", "dtype", "bytes", "shape");
  for (size_t i = 0; i < count; i++) {
    const tdm_listed_tensor tensor = tdm_tensor_list_entry(list, i);
    TDM_TRY(print_line(width, &tensor));
    elements += count_elements(&tensor);
    bytes += tensor.bytes;
  }
  printf("%zu tensors, %llu elements, %llu bytes\n", count, elements, bytes);
  return TDM_OK;
}

static tdm_status write_json(const tdm_tensor_list *list) {
  tdm_json_writer out;
  tool_json_begin(&out);
  tdm_json_open(&out, "tensors", '[');
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++) {
    const tdm_listed_tensor tensor = tdm_tensor_list_entry(list, i);
    tdm_json_open(&out, NULL, '{');
    tdm_json_put_string(&out, "name", tensor.name);
    tdm_json_put_string(&out, "dtype", tensor.dtype_name);
    tdm_json_open(&out, "shape", '[');
    for (int32_t d = 0; d < tensor.rank; d++)
      tdm_json_put_integer(&out, NULL, tensor.dims[d]);
    tdm_json_close(&out, ']');
    tdm_json_put_integer(&out, "bytes", (int64_t)tensor.bytes);
    tdm_json_close(&out, '}');
  }
  tdm_json_close(&out, ']');
  return tool_json_end(&out);
}

static tdm_status print_tensor(const tdm_tensor_list *list, const options *given) {
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++) {
    if (strcmp(tdm_tensor_list_name(list, i), given->tensor) != 0) continue;
    tdm_tensor *tensor = tdm_tensor_list_tensor(list, i);
    return tensor ? tdm_tensor_print(tensor, stdout)
                  : tdm_fail_within(TDM_UNSUPPORTED, "%s", given->path);
  }
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s has no tensor %s", given->path, given->tensor);
}

static tdm_status inspect(const options *given) {
  tdm_context_options plain = tdm_context_options_default();
  plain.cpu_devices = 1;
  plain.sim_devices = 0;
  tdm_context *context = tdm_context_create(&plain);
  tdm_tensor_list *list = context ? tdm_safetensors_map(context, given->path) : NULL;
  tdm_status status = list ? TDM_OK : TDM_CORRUPT_DATA;
  if (list && given->tensor) {
    status = print_tensor(list, given);
  } else if (list && given->json) {
    status = write_json(list);
  } else if (list) {
    status = print_list(list);
  }
  tdm_tensor_list_release(list);
  tdm_context_release(context);
  return status;
}

static int run(const void *given) {
  return tool_ended(&inspect_tool, inspect(given));
}

const tool inspect_tool = {"inspect", "List the tensors of a safetensors file", &table, run};
