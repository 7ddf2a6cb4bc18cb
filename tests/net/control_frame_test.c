/* Frames of the control channel: each kind is received as it was sent. A frame with any changed bit
 * is ignored. A truncated frame waits for its rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "net/control_frame.h"

#define RANKS 5

static const unsigned char key[CONTROL_KEY_BYTES] = "a key that is known to this test";

static const control_message messages[] = {
    {.kind = CONTROL_HELLO, .from = 4, .to = 1, .sequence = 1},
    {.kind = CONTROL_BEAT,
     .from = 1,
     .to = 4,
     .sequence = UINT64_MAX,
     .queue_count = 3,
     .progress = {1, UINT64_MAX, 4211},
     .waits = true,
     .posted = {1, 2, UINT64_MAX, 4, 5},
     .runs = UINT64_MAX,
     .history = 81,
     .under_way = 3},
    {.kind = CONTROL_BEAT, .to = 1, .sequence = 7},
    {.kind = CONTROL_LOST,
     .to = 3,
     .sequence = 8,
     .lost_rank = 4,
     .cause = TDM_CONTROL_SILENT,
     .silent_ms = 712},
    {.kind = CONTROL_GIVE_UP, .to = 2, .sequence = 9, .status = TDM_IO, .reason = "disk is full"},
    {.kind = CONTROL_LEAVE, .from = 2, .sequence = 10},
    {.kind = CONTROL_PART, .from = 2, .sequence = 11},
    {.kind = CONTROL_REFUSAL,
     .from = 3,
     .sequence = 12,
     .refusal = {.run = 5, .count = 2, .status = TDM_UNSUPPORTED, .reason = "no such input"}},
};

enum { MESSAGES = sizeof messages / sizeof messages[0] };

static control_verdict unpack(const unsigned char *frame, size_t count, control_message *message,
                              size_t *bytes) {
  return control_unpack(frame, count, key, RANKS, message, bytes);
}

static void test_there_and_back(void **state) {
  (void)state;
  for (size_t i = 0; i < MESSAGES; i++) {
    unsigned char frame[CONTROL_FRAME_BYTES];
    control_message message;
    size_t bytes;
    const size_t size = control_pack(&messages[i], key, frame);
    assert_int_equal(unpack(frame, size, &message, &bytes), CONTROL_TAKEN);
    assert_int_equal(bytes, size);
    assert_memory_equal(&message, &messages[i], sizeof message);
    for (size_t count = 0; count < size; count++)
      assert_int_equal(unpack(frame, count, &message, &bytes), CONTROL_MORE);
  }
}

static void test_any_bit(void **state) {
  (void)state;
  for (size_t i = 0; i < MESSAGES; i++) {
    unsigned char frame[2 * CONTROL_FRAME_BYTES] = {0};
    control_message message;
    size_t bytes;
    const size_t size = control_pack(&messages[i], key, frame);
    for (size_t bit = 0; bit < 8 * size; bit++) {
      frame[bit / 8] ^= (unsigned char)(1u << (bit % 8));
      assert_int_not_equal(unpack(frame, sizeof frame, &message, &bytes), CONTROL_TAKEN);
      frame[bit / 8] ^= (unsigned char)(1u << (bit % 8));
    }
  }
}

static void test_another_key(void **state) {
  (void)state;
  unsigned char frame[CONTROL_FRAME_BYTES];
  control_message message;
  size_t bytes;
  const unsigned char other[CONTROL_KEY_BYTES] = "some other key that is not right";
  const size_t size = control_pack(&messages[1], other, frame);
  assert_int_equal(unpack(frame, size, &message, &bytes), CONTROL_FORGED);
  assert_int_equal(bytes, size);
}

/* Signed frames with invalid contents are refused. */
static void test_signed_nonsense(void **state) {
  (void)state;
  control_message nonsense[6];
  nonsense[0] = nonsense[1] = nonsense[2] = messages[3];
  nonsense[0].lost_rank = RANKS;
  nonsense[1].cause = TDM_CONTROL_GAVE_UP;
  nonsense[2].from = RANKS;
  nonsense[3] = messages[4];
  nonsense[3].status = TDM_OK;
  nonsense[4] = nonsense[5] = messages[MESSAGES - 1];
  nonsense[4].refusal.run = 0;
  nonsense[5].refusal.status = TDM_OK;
  for (size_t i = 0; i < 6; i++) {
    unsigned char frame[CONTROL_FRAME_BYTES];
    control_message message;
    size_t bytes;
    const size_t size = control_pack(&nonsense[i], key, frame);
    assert_int_equal(unpack(frame, size, &message, &bytes), CONTROL_MALFORMED);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_there_and_back),
      cmocka_unit_test(test_any_bit),
      cmocka_unit_test(test_another_key),
      cmocka_unit_test(test_signed_nonsense),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
