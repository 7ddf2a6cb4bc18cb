/* The dtypes of the safetensors format, version 0.8. Invariant: each dtype of the format has one
 * row, whether or not Tandem supports it. */
#include <string.h>

#include "data/safetensors/safetensors.h"

static const tdm_safetensors_type types[] = {
    {"BOOL", 8, TDM_BOOL},
    {"F4", 4, TDM_DTYPE_NONE},
    {"F6_E2M3", 6, TDM_DTYPE_NONE},
    {"F6_E3M2", 6, TDM_DTYPE_NONE},
    {"U8", 8, TDM_UINT8},
    {"I8", 8, TDM_DTYPE_NONE},
    {"F8_E5M2", 8, TDM_DTYPE_NONE},
    {"F8_E4M3", 8, TDM_DTYPE_NONE},
    {"F8_E8M0", 8, TDM_DTYPE_NONE},
    {"F8_E4M3FNUZ", 8, TDM_DTYPE_NONE},
    {"F8_E5M2FNUZ", 8, TDM_DTYPE_NONE},
    {"I16", 16, TDM_DTYPE_NONE},
    {"U16", 16, TDM_DTYPE_NONE},
    {"F16", 16, TDM_FLOAT16},
    {"BF16", 16, TDM_BFLOAT16},
    {"I32", 32, TDM_INT32},
    {"U32", 32, TDM_DTYPE_NONE},
    {"F32", 32, TDM_FLOAT32},
    {"C64", 64, TDM_DTYPE_NONE},
    {"F64", 64, TDM_FLOAT64},
    {"I64", 64, TDM_INT64},
    {"U64", 64, TDM_DTYPE_NONE},
};

const char *tdm_safetensors_dtype_name(tdm_dtype dtype) {
  for (size_t i = 0; i < TDM_COUNT_OF(types) && dtype != TDM_DTYPE_NONE; i++)
    if (types[i].dtype == dtype) return types[i].name;
  return NULL;
}

const tdm_safetensors_type *tdm_safetensors_type_called(const char *name) {
  for (size_t i = 0; i < TDM_COUNT_OF(types); i++)
    if (strcmp(types[i].name, name) == 0) return &types[i];
  return NULL;
}
