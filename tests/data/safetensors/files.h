/* Safetensors files made by hand for tests. */
#ifndef TANDEM_TESTS_DATA_SAFETENSORS_FILES_H
#define TANDEM_TESTS_DATA_SAFETENSORS_FILES_H

#include <string.h>

#include "tests/data/support.h"

/* The text of one tensor's fields. */
#define FIELDS(dtype, shape, offsets)                                                              \
  "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

enum { FILE_LIMIT = 4096 };

/* Builds the bytes of a file: header_size as its first 8, the header, data_size bytes 0 and 1 in
 * turn. Returns their number; out_file has FILE_LIMIT. */
static inline size_t build_file(char *out_file, uint64_t header_size, const char *header,
                                size_t header_bytes, size_t data_size) {
  assert_true(8 + header_bytes + data_size <= FILE_LIMIT);
  for (int i = 0; i < 8; i++)
    out_file[i] = (char)(header_size >> 8 * i & 0xFF);
  memcpy(out_file + 8, header, header_bytes);
  for (size_t i = 0; i < data_size; i++)
    out_file[8 + header_bytes + i] = (char)(i % 2);
  return 8 + header_bytes + data_size;
}

#endif
