/* The table of element types: sizes, names, and the names that safetensors files use. Invariant:
 * each dtype has one row, and every property of a dtype is read from its row. */
#include <string.h>

#include "tandem/core/core.h"

typedef struct dtype_row {
  const char *name;
  const char *safetensors_name;
  size_t bytes;
  bool floating;
} dtype_row;

static const dtype_row dtype_rows[TDM_DTYPE_COUNT] = {
    [TDM_DTYPE_NONE] = {"none", NULL, 0, false},    [TDM_FLOAT32] = {"float32", "F32", 4, true},
    [TDM_FLOAT64] = {"float64", "F64", 8, true},    [TDM_INT32] = {"int32", "I32", 4, false},
    [TDM_INT64] = {"int64", "I64", 8, false},       [TDM_UINT8] = {"uint8", "U8", 1, false},
    [TDM_BOOL] = {"bool", "BOOL", 1, false},        [TDM_FLOAT16] = {"float16", "F16", 2, true},
    [TDM_BFLOAT16] = {"bfloat16", "BF16", 2, true},
};

static const dtype_row *row_of(tdm_dtype dtype) {
  const bool known = (int)dtype > TDM_DTYPE_NONE && (int)dtype < TDM_DTYPE_COUNT;
  return &dtype_rows[known ? dtype : TDM_DTYPE_NONE];
}

size_t tdm_dtype_bytes(tdm_dtype dtype) {
  return row_of(dtype)->bytes;
}

const char *tdm_dtype_name(tdm_dtype dtype) {
  return row_of(dtype)->name;
}

bool tdm_dtype_is_floating(tdm_dtype dtype) {
  return row_of(dtype)->floating;
}

tdm_dtype tdm_dtype_from_name(const char *name) {
  if (!name) return TDM_DTYPE_NONE;
  for (int i = TDM_DTYPE_NONE + 1; i < TDM_DTYPE_COUNT; i++) {
    if (strcmp(name, dtype_rows[i].name) == 0 ||
        strcmp(name, dtype_rows[i].safetensors_name) == 0) {
      return (tdm_dtype)i;
    }
  }
  return TDM_DTYPE_NONE;
}
