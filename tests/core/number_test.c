/* Numbers as text under a locale that writes a comma. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_writer.h"
#include "core/number.h"
#include "core/status.h"
#include "tests/core/comma_locale.h"

static void numbers_have_a_point(void **state) {
  (void)state;
  static const struct {
    const char *text;
    double number;
  } good[] = {{"1.5", 1.5},        {"-0.25", -0.25}, {"1e3", 1000},
              {"0x1p-2", 0.25},    {" 7", 7},        {"1.7976931348623157e308", DBL_MAX},
              {"1234567", 1234567}};
  static const char *const bad[] = {"", "1,5", "1.5 ", "1.234,5", "1e999", "one", "1.5.2"};
  for (size_t i = 0; i < TDM_COUNT_OF(good); i++) {
    double number = NAN;
    if (!tdm_number_parse(good[i].text, &number)) fail_msg("%s", good[i].text);
    assert_true(number == good[i].number);
  }
  for (size_t i = 0; i < TDM_COUNT_OF(bad); i++) {
    double number = 3;
    if (tdm_number_parse(bad[i], &number)) fail_msg("%s", bad[i]);
    assert_true(number == 3);
  }
}

static void texts_read_back(void **state) {
  (void)state;
  static const double numbers[] = {0, 1, -1, 0.1, 1.5e300, 1e21, DBL_MIN, DBL_MAX, 123456789};
  char text[TDM_NUMBER_TEXT];
  for (size_t i = 0; i < TDM_COUNT_OF(numbers); i++) {
    double again = NAN;
    assert_true(tdm_number_parse(tdm_number_text(numbers[i], 17, text), &again));
    assert_true(again == numbers[i]);
  }
  assert_string_equal(tdm_number_text(1.5, 9, text), "1.5");
  assert_string_equal(tdm_number_text(2, 9, text), "2.0");
  assert_string_equal(tdm_number_text(-DBL_MAX, 99, text), "-1.7976931348623157e+308");
}

static void messages_have_a_point(void **state) {
  (void)state;
  assert_int_equal(tdm_fail(TDM_INVALID_ARGUMENT, "from %g to %.2f", 0.5, 2.25),
                   TDM_INVALID_ARGUMENT);
  assert_string_equal(tdm_last_message(), "from 0.5 to 2.25");
  char text[8];
  (void)snprintf(text, sizeof text, "%g", 1.5); /* the program's own locale is as it was */
  assert_string_equal(text, "1,5");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

typedef struct sink {
  char text[4096];
  size_t length;
  size_t calls;
  size_t fail_at; /* call, from 1; 0: never */
} sink;

static tdm_status take(void *user, const char *bytes, size_t size) {
  sink *self = user;
  if (++self->calls == self->fail_at) return tdm_fail(TDM_IO, "the sink is full");
  assert_true(self->length + size < sizeof self->text);
  memcpy(self->text + self->length, bytes, size);
  self->length += size;
  self->text[self->length] = '\0';
  return TDM_OK;
}

static void write_all(tdm_json_writer *json) {
  tdm_json_open(json, NULL, '{');
  tdm_json_put_real(json, "half", 0.5);
  tdm_json_put_real(json, "none", NAN);
  tdm_json_put_integer(json, "least", INT64_MIN);
  tdm_json_put_string(json, "name", "\"\\\n\xc3\xa4\xff\x7f");
  tdm_json_put_string(json, "null", NULL);
  tdm_json_open(json, "empty", '[');
  tdm_json_close(json, ']');
  tdm_json_open(json, "list", '[');
  tdm_json_put_bool(json, NULL, true);
  tdm_json_put_bool(json, NULL, false);
  tdm_json_close(json, ']');
  tdm_json_close(json, '}');
}

static void json_is_well_formed(void **state) {
  (void)state;
  sink out = {.length = 0};
  tdm_json_writer json;
  tdm_json_writer_init(&json, take, &out);
  json.lines_depth = 0;
  write_all(&json);
  assert_int_equal(tdm_json_writer_finish(&json), TDM_OK);
  assert_string_equal(out.text, "{\"half\":0.5,\"none\":null,\"least\":-9223372036854775808,"
                                "\"name\":\"\\\"\\\\\\u000a\xc3\xa4\\ufffd\x7f\",\"null\":null,"
                                "\"empty\":[],\"list\":[true,false]}");
  sink lines = {.length = 0};
  tdm_json_writer_init(&json, take, &lines);
  json.indent = 1;
  json.lines_depth = 1;
  tdm_json_open(&json, NULL, '{');
  tdm_json_open(&json, "list", '[');
  tdm_json_put_integer(&json, NULL, 1);
  tdm_json_put_integer(&json, NULL, 2);
  tdm_json_close(&json, ']');
  tdm_json_close(&json, '}');
  assert_int_equal(tdm_json_writer_finish(&json), TDM_OK);
  assert_string_equal(lines.text, "{\n \"list\": [1,2]\n}");
}

/* After any failed write nothing more is written, and finishing reports the failure. */
static void a_failed_write_sticks(void **state) {
  (void)state;
  for (size_t fail_at = 1; fail_at <= 3; fail_at++) {
    sink out = {.fail_at = fail_at};
    tdm_json_writer json;
    tdm_json_writer_init(&json, take, &out);
    tdm_json_open(&json, NULL, '[');
    for (int i = 0; i < 600; i++)
      tdm_json_put_integer(&json, NULL, i);
    tdm_json_close(&json, ']');
    assert_int_equal(tdm_json_writer_finish(&json), TDM_IO);
    assert_string_equal(tdm_last_message(), "the sink is full");
    assert_int_equal(out.calls, fail_at);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_have_a_point),  cmocka_unit_test(texts_read_back),
      cmocka_unit_test(messages_have_a_point), cmocka_unit_test(json_is_well_formed),
      cmocka_unit_test(a_failed_write_sticks),
  };
  return cmocka_run_group_tests(tests, enter_comma_locale, leave_comma_locale);
}
