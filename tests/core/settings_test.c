/* Reading "key=value,key=value": accepted and refused texts, under a locale that writes numbers
 * with a comma. */
#include "core/settings.h"

#include <string.h>

#include "tests/core/comma_locale.h"
#include "tests/devices/support.h"

static size_t read_all(const char *text, tdm_setting *settings, tdm_status *out_status) {
  size_t count = 0;
  while (count < 4 && tdm_setting_next(&text, "here", &settings[count], out_status))
    count++;
  return count;
}

static void pairs_are_read(void **state) {
  (void)state;
  tdm_setting settings[4];
  tdm_status status;
  assert_int_equal(read_all("", settings, &status), 0);
  assert_ok(status);
  assert_int_equal(read_all("a=1,bc=2=3", settings, &status), 2);
  assert_ok(status);
  assert_string_equal(settings[0].key, "a");
  assert_string_equal(settings[0].value, "1");
  assert_string_equal(settings[1].key, "bc");
  assert_string_equal(settings[1].value, "2=3");
}

static void other_texts_are_refused(void **state) {
  (void)state;
  static const char *const texts[] = {
      "a", "=1", "a=", ",a=1", "a=1,", "a=1,,b=2", "a=1,b", "a=0123456789012345678901234567890123"};
  for (size_t i = 0; i < TDM_COUNT_OF(texts); i++) {
    tdm_setting settings[4];
    tdm_status status = TDM_OK;
    (void)read_all(texts[i], settings, &status);
    assert_status(status, TDM_INVALID_ARGUMENT);
    assert_message("here");
  }
}

static void numbers_are_checked(void **state) {
  (void)state;
  double number = 7;
  assert_ok(tdm_setting_number("here", "key", "2.5", 0, 10, &number));
  assert_true(number == 2.5);
  assert_ok(tdm_setting_number("here", "key", "0", 0, 10, &number));
  assert_true(number == 0);
  assert_ok(tdm_setting_number("here", "key", "10", 0, 10, &number));
  assert_true(number == 10);
  static const char *const bad_numbers[] = {"", "x", "1x", "-1", "11", "nan", "1e999", "2,5"};
  for (size_t i = 0; i < TDM_COUNT_OF(bad_numbers); i++) {
    assert_status(tdm_setting_number("here", "key", bad_numbers[i], 0, 10, &number),
                  TDM_INVALID_ARGUMENT);
    assert_message("key");
  }
  assert_status(tdm_setting_number("here", "key", "9", 0.5, 2.5, &number), TDM_INVALID_ARGUMENT);
  assert_message("from 0.5 to 2.5");
  uint64_t integer = 0;
  assert_ok(tdm_setting_integer("here", "key", "18446744073709551615", 0, UINT64_MAX, &integer));
  assert_true(integer == UINT64_MAX);
  static const char *const bad_integers[] = {"", "-1", "+1", " 1", "1.5", "18446744073709551616"};
  for (size_t i = 0; i < TDM_COUNT_OF(bad_integers); i++) {
    assert_status(tdm_setting_integer("here", "key", bad_integers[i], 0, UINT64_MAX, &integer),
                  TDM_INVALID_ARGUMENT);
  }
  assert_status(tdm_setting_integer("here", "key", "65", 1, 64, &integer), TDM_INVALID_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pairs_are_read),
      cmocka_unit_test(other_texts_are_refused),
      cmocka_unit_test(numbers_are_checked),
  };
  return cmocka_run_group_tests(tests, enter_comma_locale, leave_comma_locale);
}
