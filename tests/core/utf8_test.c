/* Encodes and decodes every code point in UTF-8, and decodes malformed sequences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/utf8.h"

static void every_code_point_comes_back(void **state) {
  (void)state;
  for (uint32_t point = 0; point <= 0x10FFFF; point++) {
    char bytes[4];
    uint32_t again = 0;
    if (point >= 0xD800 && point <= 0xDFFF) continue;
    const size_t size = tdm_utf8_encode(point, bytes);
    assert_int_equal(tdm_utf8_decode(bytes, size, &again), size);
    assert_int_equal(again, point);
    for (size_t cut = 0; cut < size; cut++)
      assert_int_equal(tdm_utf8_decode(bytes, cut, &again), 0);
  }
}

static void malformed_sequences_are_refused(void **state) {
  (void)state;
  static const char *const malformed[] = {
      "\x80", /* a continuation without a first byte */
      "\xBF",
      "\xC0\xAF", /* overlong */
      "\xC1\xBF",
      "\xE0\x80\xAF",
      "\xE0\x9F\xBF",
      "\xF0\x80\x80\xAF",
      "\xF0\x8F\xBF\xBF",
      "\xED\xA0\x80", /* surrogates */
      "\xED\xBF\xBF",
      "\xF4\x90\x80\x80", /* beyond U+10FFFF */
      "\xF5\x80\x80\x80",
      "\xFE",
      "\xFF",
      "\xC3(",
      "\xE2\x82(",
      "\xF0\x9F\x98(",
  };
  for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
    uint32_t point = 0;
    if (tdm_utf8_decode(malformed[i], strlen(malformed[i]), &point) != 0)
      fail_msg("sequence %zu was taken for U+%04X", i, point);
    assert_false(tdm_utf8_is_valid(malformed[i], strlen(malformed[i])));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_code_point_comes_back),
      cmocka_unit_test(malformed_sequences_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
