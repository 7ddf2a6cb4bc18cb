/* Decoding UTF-8 and ISO-8859-1, distinguishing them, and the case of letters against the C
 * library's own tables. */
#define _GNU_SOURCE /* towlower_l */
#include "examples/words/text.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <wctype.h>

#include <cmocka.h>

static void every_code_point_comes_back(void **state) {
  (void)state;
  for (uint32_t point = 0; point <= 0x10FFFF; point++) {
    char bytes[4];
    uint32_t again = 0;
    if (point >= 0xD800 && point <= 0xDFFF) continue;
    const size_t size = utf8_encode(point, bytes);
    assert_int_equal(utf8_decode(bytes, size, &again), size);
    assert_int_equal(again, point);
    for (size_t cut = 0; cut < size; cut++)
      assert_int_equal(utf8_decode(bytes, cut, &again), 0);
  }
}

static encoding encoding_of(const char *text, int64_t *out_line) {
  return text_encoding(text, strlen(text), out_line);
}

static void encodings_are_told_apart(void **state) {
  (void)state;
  int64_t line = 0;
  assert_int_equal(encoding_of("", &line), ENCODING_UTF8);
  assert_int_equal(encoding_of("plain\nwords\n", &line), ENCODING_UTF8);
  assert_int_equal(encoding_of("gr\xC3\xBC\xC3\x9F\n", &line), ENCODING_UTF8);
  assert_int_equal(encoding_of("\xE5ngstr\xF6m\nf\xE4"
                               "rg\n",
                               &line),
                   ENCODING_LATIN1);
  /* Both in one file is neither; the line is the first that is not UTF-8. */
  assert_int_equal(encoding_of("gr\xC3\xBCn\nblau\nf\xE4rg\n", &line), ENCODING_NONE);
  assert_int_equal(line, 3);
  assert_int_equal(encoding_of("f\xE4rg\ngr\xC3\xBCn\n", &line), ENCODING_NONE);
  assert_int_equal(line, 1);
  assert_int_equal(encoding_of("fine\nnot\x80\n", &line), ENCODING_NONE);
  assert_int_equal(line, 2);
}

static void latin1_bytes_are_code_points(void **state) {
  (void)state;
  for (int byte = 1; byte < 256; byte++) {
    const char text[] = {(char)byte, '\0'};
    uint32_t point = 0;
    assert_int_equal(text_decode(ENCODING_LATIN1, text, 1, &point), 1);
    assert_int_equal(point, byte);
    assert_int_equal(text_decode(ENCODING_LATIN1, text, 0, &point), 0);
  }
}

static void letters_of_the_eight_languages(void **state) {
  (void)state;
  static const char capitals[] = "AZÀÁÂÃÄÅÇÈÉÊËÌÍÎÏÑÒÓÔÕÖÙÚÛÜÝŒŠŽŁĐ";
  static const char folded[] = "azàáâãäåçèéêëìíîïñòóôõöùúûüýœšžłđ";
  for (size_t at = 0; capitals[at] != '\0';) {
    uint32_t capital = 0;
    uint32_t small = 0;
    const size_t size = utf8_decode(capitals + at, strlen(capitals + at), &capital);
    assert_int_equal(utf8_decode(folded + at, strlen(folded + at), &small), size);
    assert_true(point_is_letter(capital) && point_is_letter(small));
    assert_int_equal(point_fold(capital), small);
    assert_int_equal(point_fold(small), small);
    at += size;
  }
  assert_int_equal(point_fold(0xDF), 0xDF);   /* sharp s has no capital of one letter... */
  assert_int_equal(point_fold(0x1E9E), 0xDF); /* ...but its capital folds */
  assert_int_equal(point_fold(0x178), 0xFF);  /* Y with diaeresis leaves its block */
  const uint32_t others[] = {0,     ' ',   '\n',  '-',    '\'',   '0',   '@',  '[',
                             '`',   '{',   0x7F,  0xA0,   0xAB,   0xB7,  0xD7, 0xF7,
                             0x300, 0x387, 0x482, 0x2019, 0x20AC, 0x4E00};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    assert_false(point_is_letter(others[i]));
}

/* Folding agrees with the C library for letters of both, except letters outside of the basic
 * scripts, which fold does not change, and the dotted I. */
static void folding_agrees_with_the_c_library(void **state) {
  (void)state;
  locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL);
  if (!locale) {
    print_message("no locale C.UTF-8 on this machine: nothing to compare with\n");
    skip();
  }
  int capitals = 0;
  for (uint32_t point = 0; point < 0x2000; point++) {
    const uint32_t theirs = (uint32_t)towlower_l((wint_t)point, locale);
    const uint32_t ours = point_fold(point);
    if (ours != point && point != 0x130) assert_int_equal(ours, theirs);
    if (point_is_letter(point)) {
      if (!iswalpha_l((wint_t)point, locale)) fail_msg("U+%04X is no letter to them", point);
      assert_true(point_is_letter(ours));
    }
    assert_int_equal(point_fold(ours), ours);
    capitals += ours != point;
    /* Latin-1, Latin Extended-A, basic Cyrillic and Latin Extended Additional are complete. */
    const bool complete = point < 0x180 || (point >= 0x400 && point < 0x530) || point >= 0x1E00;
    if (complete && point < 0x1F00 && point != 0x130) assert_int_equal(ours, theirs);
  }
  freelocale(locale);
  assert_true(capitals > 400);
}

/* Every letter is below the limit of code points in an alphabet. */
static void letters_lie_below_the_limit(void **state) {
  (void)state;
  for (uint32_t point = 0; point <= 0x10FFFF; point++) {
    if (!point_is_letter(point)) continue;
    assert_in_range(point, 0, POINT_LIMIT - 1);
    assert_in_range(point_fold(point), 0, POINT_LIMIT - 1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_code_point_comes_back),
      cmocka_unit_test(encodings_are_told_apart),
      cmocka_unit_test(latin1_bytes_are_code_points),
      cmocka_unit_test(letters_of_the_eight_languages),
      cmocka_unit_test(folding_agrees_with_the_c_library),
      cmocka_unit_test(letters_lie_below_the_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
