/* The check of ids, which is compiled once, for no instruction set in particular. */
#include "devices/kernels/cpu/family.h"

#include <inttypes.h>

#include "core/status.h"

/* Uses one pass without branches or comparisons, which compilers vectorize for every instruction
 * set: the sign bit is set if id or limit - 1 - id is negative and id is not `ignored`. */
static bool ids_stray(const tdm_cpu_ids *ids, uint64_t limit, int64_t ignored) {
  uint64_t stray = 0;
  if (ids->wide) {
    const uint64_t *data = ids->data, other = (uint64_t)ignored;
    for (int64_t i = 0; i < ids->count; i++) {
      const uint64_t id = data[i], apart = id ^ other;
      stray |= (id | (limit - 1 - id)) & (apart | (0 - apart));
    }
  } else {
    const int32_t *data = ids->data;
    for (int64_t i = 0; i < ids->count; i++) {
      const uint64_t id = (uint64_t)(int64_t)data[i], apart = id ^ (uint64_t)ignored;
      stray |= (id | (limit - 1 - id)) & (apart | (0 - apart));
    }
  }
  return stray >> 63 != 0;
}

bool tdm_cpu_ids_inside(const tdm_cpu_ids *ids, int64_t first, int64_t count, int64_t rows) {
  const size_t id_bytes = ids->wide ? sizeof(int64_t) : sizeof(int32_t);
  const tdm_cpu_ids some = {(const char *)ids->data + (size_t)first * id_bytes, count, ids->wide};
  if (rows == 0) return count == 0;
  return !ids_stray(&some, (uint64_t)rows, 0);
}

/* Returns the position of the first id out of range, which must exist. */
static int64_t ids_first_stray(const tdm_cpu_ids *ids, uint64_t limit, int64_t ignored) {
  int64_t position = 0;
  while ((uint64_t)tdm_cpu_id(ids, position) < limit || tdm_cpu_id(ids, position) == ignored)
    position++;
  return position;
}

tdm_status tdm_cpu_ids_check(const tdm_cpu_ids *ids, int64_t rows) {
  const int64_t ignored = 0; /* inside every table that has a row, so that nothing is ignored */
  if (rows == 0 ? ids->count == 0 : !ids_stray(ids, (uint64_t)rows, ignored)) return TDM_OK;
  if (rows == 0)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "ids %" PRId64 " at position 0 is outside a table of 0 rows",
                    tdm_cpu_id(ids, 0));
  const int64_t position = ids_first_stray(ids, (uint64_t)rows, ignored);
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "ids %" PRId64 " at position %" PRId64 " is outside 0 to %" PRId64,
                  tdm_cpu_id(ids, position), position, rows - 1);
}

tdm_status tdm_cpu_indices_check(const tdm_cpu_ids *indices, int64_t size) {
  const int64_t ignored = 0; /* legal */
  if (size == 0 && indices->count > 0)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "index %" PRId64 " at position 0 is outside a dimension of size 0",
                    tdm_cpu_id(indices, 0));
  if (indices->count == 0 || !ids_stray(indices, (uint64_t)size, ignored)) return TDM_OK;
  const int64_t position = ids_first_stray(indices, (uint64_t)size, ignored);
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "index %" PRId64 " at position %" PRId64 " is outside 0 to %" PRId64,
                  tdm_cpu_id(indices, position), position, size - 1);
}

tdm_status tdm_cpu_offsets_check(const tdm_cpu_ids *offsets, int64_t ids_count) {
  int64_t least = 0;
  for (int64_t i = 0; i < offsets->count; i++) {
    const int64_t offset = tdm_cpu_id(offsets, i), most = i == 0 ? 0 : ids_count;
    if (offset < least || offset > most)
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "offsets %" PRId64 " at position %" PRId64 " is outside %" PRId64
                      " to %" PRId64,
                      offset, i, least, most);
    least = offset;
  }
  return TDM_OK;
}

tdm_status tdm_cpu_targets_check(const tdm_cpu_ids *targets, int64_t classes, int64_t ignored) {
  if (!ids_stray(targets, (uint64_t)classes, ignored)) return TDM_OK;
  const int64_t position = ids_first_stray(targets, (uint64_t)classes, ignored);
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "targets %" PRId64 " at position %" PRId64 " is outside 0 to %" PRId64,
                  tdm_cpu_id(targets, position), position, classes - 1);
}

tdm_status tdm_cpu_lengths_check(const tdm_cpu_ids *lengths, int64_t longest) {
  const int64_t ignored = 0; /* legal */
  if (!ids_stray(lengths, (uint64_t)longest + 1, ignored)) return TDM_OK;
  const int64_t position = ids_first_stray(lengths, (uint64_t)longest + 1, ignored);
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "lengths %" PRId64 " at position %" PRId64 " is outside 0 to %" PRId64,
                  tdm_cpu_id(lengths, position), position, longest);
}
