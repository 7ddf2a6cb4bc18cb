/* Dimensions and shapes. The number of a named dimension encodes the name: up to 12 characters,
 * each a digit 1..37 in base 38 (0 ends the name), stored as -2 - number. 38^12 is 1.7% below 2^63,
 * so names are below TDM_INFER (-1) and above the two reserved values at INT64_MIN. Invariant:
 * equal names have equal numbers, so comparing shapes is comparing words. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tandem/core/core.h"

#define NAME_BASE 38
#define NAME_LENGTH 12

static const char name_alphabet[] = "?abcdefghijklmnopqrstuvwxyz0123456789_";
_Static_assert(sizeof name_alphabet == NAME_BASE + 1, "one digit a character");

static int64_t name_limit(void) {
  int64_t limit = 1;
  for (int i = 0; i < NAME_LENGTH; i++)
    limit *= NAME_BASE;
  return limit;
}

/* Returns 1..37, or 0 for a character that a name cannot contain. */
static int name_digit(char character) {
  const char *found = character == '\0' ? NULL : strchr(name_alphabet + 1, character);
  return !found ? 0 : (int)(found - name_alphabet);
}

tdm_dim tdm_dim_named(const char *name) {
  if (!name || name[0] == '\0') return TDM_DIM_INVALID;
  int64_t number = 0;
  int64_t place = 1;
  for (size_t i = 0; name[i] != '\0'; i++) {
    const int digit = i < NAME_LENGTH ? name_digit(name[i]) : 0;
    if (digit == 0) return TDM_DIM_INVALID;
    number += digit * place;
    place *= i + 1 < NAME_LENGTH ? NAME_BASE : 1;
  }
  return -2 - number;
}

/* Decodes the digits from the first character on. Returns false if they are not those of a name. */
static bool decode_name(tdm_dim dim, char text[NAME_LENGTH + 1]) {
  if (dim >= -2 || dim <= TDM_DIM_INVALID) return false;
  int64_t number = -2 - dim;
  if (number >= name_limit()) return false;
  int length = 0;
  for (; number != 0; number /= NAME_BASE) {
    const int digit = (int)(number % NAME_BASE);
    if (digit == 0) return false;
    text[length++] = name_alphabet[digit];
  }
  text[length] = '\0';
  return true;
}

bool tdm_dim_is_named(tdm_dim dim) {
  char text[NAME_LENGTH + 1];
  return decode_name(dim, text);
}

const char *tdm_dim_text(tdm_dim dim, char *text) {
  if (!text) return "";
  char name[NAME_LENGTH + 1];
  if (dim >= -1) {
    (void)snprintf(text, 24, "%" PRId64, dim);
  } else if (decode_name(dim, name)) {
    (void)snprintf(text, 24, "%s", name);
  } else {
    (void)snprintf(text, 24, "%s", dim == TDM_DIM_UNKNOWN ? "?" : "invalid");
  }
  return text;
}

static bool dim_is_legal(tdm_dim dim) {
  return dim >= TDM_INFER || dim == TDM_DIM_UNKNOWN || tdm_dim_is_named(dim);
}

tdm_shape tdm_shape_make(int rank, const tdm_dim *dims) {
  tdm_shape shape = {.rank = -1};
  if (rank < 0 || rank > TDM_MAX_RANK || (rank > 0 && !dims)) return shape;
  for (int i = 0; i < rank; i++) {
    if (!dim_is_legal(dims[i])) return (tdm_shape){.rank = -1};
    shape.dims[i] = dims[i];
  }
  shape.rank = rank;
  return shape;
}

tdm_shape tdm_shape_scalar(void) {
  return (tdm_shape){.rank = 0};
}

bool tdm_shape_is_valid(const tdm_shape *shape) {
  if (!shape) return false;
  if (shape->rank < 0 || shape->rank > TDM_MAX_RANK) return false;
  for (int i = 0; i < shape->rank; i++)
    if (!dim_is_legal(shape->dims[i])) return false;
  return true;
}

bool tdm_shape_equal(const tdm_shape *a, const tdm_shape *b) {
  if (!a || !b) return a == b;
  if (a->rank != b->rank) return false;
  if (a->rank < 0 || a->rank > TDM_MAX_RANK) return true; /* both are invalid in the same way */
  for (int i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

bool tdm_shape_is_concrete(const tdm_shape *shape) {
  if (!shape) return false;
  if (shape->rank < 0 || shape->rank > TDM_MAX_RANK) return false;
  for (int i = 0; i < shape->rank; i++)
    if (!tdm_dim_is_size(shape->dims[i])) return false;
  return true;
}

/* Returns the product of unit and all sizes, 0 if a size is 0, or -1 if the product of the nonzero
 * sizes overflows. So the partial products that a kernel computes on the way to an element do not
 * overflow either. */
static int64_t extent_of(const tdm_shape *shape, int64_t unit) {
  if (!tdm_shape_is_concrete(shape)) return -1;
  int64_t extent = unit;
  bool empty = false;
  for (int i = 0; i < shape->rank; i++) {
    empty |= shape->dims[i] == 0;
    if (shape->dims[i] != 0 && __builtin_mul_overflow(extent, shape->dims[i], &extent)) return -1;
  }
  return empty ? 0 : extent;
}

int64_t tdm_shape_count(const tdm_shape *shape) {
  return extent_of(shape, 1);
}

int64_t tdm_shape_bytes(const tdm_shape *shape, tdm_dtype dtype) {
  return extent_of(shape, (int64_t)tdm_dtype_bytes(dtype));
}

const char *tdm_shape_text(const tdm_shape *shape, char *text, size_t capacity) {
  if (!text) return "";
  if (capacity == 0) return text;
  if (!shape || shape->rank < 0 || shape->rank > TDM_MAX_RANK) {
    (void)snprintf(text, capacity, "invalid");
    return text;
  }
  /* The longest text: 8 dimensions of 23 characters. */
  char full[TDM_MAX_RANK * 26 + 3] = "[";
  size_t used = 1;
  for (int i = 0; i < shape->rank; i++) {
    char dim[24];
    used += (size_t)snprintf(full + used, sizeof full - used, "%s%s", i == 0 ? "" : ", ",
                             tdm_dim_text(shape->dims[i], dim));
  }
  (void)snprintf(text, capacity, "%s]", full);
  return text;
}
