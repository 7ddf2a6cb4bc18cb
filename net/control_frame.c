/* Packs and unpacks the control channel's frames. Invariant: see control_frame.h. */
#include "net/control_frame.h"

#include <sodium.h>
#include <string.h>

#define MAGIC 0x634d4454u /* "TDMc" */

_Static_assert(CONTROL_KEY_BYTES == crypto_auth_hmacsha256_KEYBYTES, "the key is libsodium's");
_Static_assert(CONTROL_CODE_BYTES == crypto_auth_hmacsha256_BYTES, "the code is libsodium's");
enum {
  BEAT_BYTES = 1 + 8 * TDM_CONTROL_WAYS + 8 + 8 + 4 + 2, /* bytes without those of queues, 8 each */
  REFUSAL_BYTES = 8 + 4,                                 /* plus the bytes of a failure */
};
_Static_assert(BEAT_BYTES + 8 * TDM_CONTROL_QUEUES <= CONTROL_PAYLOAD_BYTES, "a beat fits");
_Static_assert(REFUSAL_BYTES + TDM_CONTROL_REASON_BYTES <= CONTROL_PAYLOAD_BYTES, "a reason fits");

/* ---- Numbers --------------------------------------------------------------------------------- */

static void put(unsigned char **cursor, uint64_t number, int bytes) {
  for (int i = 0; i < bytes; i++)
    *(*cursor)++ = (unsigned char)(number >> (8 * i));
}

static uint64_t get(const unsigned char **cursor, int bytes) {
  uint64_t number = 0;
  for (int i = 0; i < bytes; i++)
    number |= (uint64_t) * (*cursor)++ << (8 * i);
  return number;
}

/* ---- Packing --------------------------------------------------------------------------------- */

static void put_failure(unsigned char **cursor, tdm_status status, const char *reason) {
  const size_t length = strnlen(reason, TDM_CONTROL_REASON_BYTES - 1);
  put(cursor, (uint64_t)status, 1);
  memcpy(*cursor, reason, length);
  *cursor += length;
}

static void put_payload(unsigned char **cursor, const control_message *message) {
  switch (message->kind) {
  case CONTROL_BEAT:
    put(cursor, message->waits, 1);
    for (int way = 0; way < TDM_CONTROL_WAYS; way++)
      put(cursor, message->posted[way], 8);
    put(cursor, message->runs, 8);
    put(cursor, message->history, 8);
    put(cursor, message->under_way, 4);
    put(cursor, (uint64_t)message->queue_count, 2);
    for (int i = 0; i < message->queue_count; i++)
      put(cursor, message->progress[i], 8);
    return;
  case CONTROL_LOST:
    put(cursor, (uint64_t)message->lost_rank, 4);
    put(cursor, (uint64_t)message->cause, 1);
    put(cursor, message->silent_ms, 4);
    return;
  case CONTROL_GIVE_UP:
    put_failure(cursor, message->status, message->reason);
    return;
  case CONTROL_REFUSAL:
    put(cursor, message->refusal.run, 8);
    put(cursor, message->refusal.count, 4);
    put_failure(cursor, message->refusal.status, message->refusal.reason);
    return;
  case CONTROL_HELLO:
  case CONTROL_LEAVE:
  case CONTROL_PART:
  case CONTROL_KIND_END:
    return;
  }
}

size_t control_pack(const control_message *message, const unsigned char *key,
                    unsigned char *frame) {
  unsigned char *cursor = frame + CONTROL_HEAD_BYTES;
  put_payload(&cursor, message);
  const size_t signed_bytes = (size_t)(cursor - frame);
  cursor = frame;
  put(&cursor, MAGIC, 4);
  put(&cursor, signed_bytes + CONTROL_CODE_BYTES, 2);
  put(&cursor, (uint64_t)message->kind, 1);
  put(&cursor, 0, 1);
  put(&cursor, (uint64_t)message->from, 4);
  put(&cursor, (uint64_t)message->to, 4);
  put(&cursor, message->sequence, 8);
  (void)crypto_auth_hmacsha256(frame + signed_bytes, frame, signed_bytes, key);
  return signed_bytes + CONTROL_CODE_BYTES;
}

/* ---- Unpacking ------------------------------------------------------------------------------- */

static bool get_beat(const unsigned char *payload, size_t bytes, control_message *message) {
  if (bytes < BEAT_BYTES) return false;
  const uint64_t waits = get(&payload, 1);
  message->waits = waits != 0;
  for (int way = 0; way < TDM_CONTROL_WAYS; way++)
    message->posted[way] = get(&payload, 8);
  message->runs = get(&payload, 8);
  message->history = get(&payload, 8);
  message->under_way = (uint32_t)get(&payload, 4);
  const uint64_t count = get(&payload, 2);
  if (waits > 1 || count > TDM_CONTROL_QUEUES || bytes != BEAT_BYTES + 8 * (size_t)count)
    return false;
  message->queue_count = (int)count;
  for (uint64_t i = 0; i < count; i++)
    message->progress[i] = get(&payload, 8);
  return true;
}

static bool get_lost(const unsigned char *payload, size_t bytes, int rank_count,
                     control_message *message) {
  if (bytes != 9) return false;
  const uint64_t rank = get(&payload, 4);
  const uint64_t cause = get(&payload, 1);
  message->silent_ms = (uint32_t)get(&payload, 4);
  message->lost_rank = (int)rank;
  message->cause = (tdm_control_cause)cause;
  return rank < (uint64_t)rank_count && (cause == TDM_CONTROL_SILENT || cause == TDM_CONTROL_ENDED);
}

static bool get_failure(const unsigned char *payload, size_t bytes, tdm_status *out_status,
                        char *out_reason) {
  if (bytes < 1 || bytes > TDM_CONTROL_REASON_BYTES) return false;
  const uint64_t status = get(&payload, 1);
  *out_status = (tdm_status)status;
  memcpy(out_reason, payload, bytes - 1); /* the rest is zeros */
  return status != TDM_OK && strcmp(tdm_status_name((tdm_status)status), "UNKNOWN") != 0;
}

static bool get_refusal(const unsigned char *payload, size_t bytes, control_refusal *refusal) {
  if (bytes < REFUSAL_BYTES) return false;
  refusal->run = get(&payload, 8);
  refusal->count = (uint32_t)get(&payload, 4);
  return refusal->run > 0 &&
         get_failure(payload, bytes - REFUSAL_BYTES, &refusal->status, refusal->reason);
}

static bool get_payload(const unsigned char *payload, size_t bytes, int rank_count,
                        control_message *message) {
  switch (message->kind) {
  case CONTROL_BEAT:
    return get_beat(payload, bytes, message);
  case CONTROL_LOST:
    return get_lost(payload, bytes, rank_count, message);
  case CONTROL_GIVE_UP:
    return get_failure(payload, bytes, &message->status, message->reason);
  case CONTROL_REFUSAL:
    return get_refusal(payload, bytes, &message->refusal);
  case CONTROL_HELLO:
  case CONTROL_LEAVE:
  case CONTROL_PART:
    return bytes == 0;
  case CONTROL_KIND_END:
    break;
  }
  return false;
}

control_verdict control_unpack(const unsigned char *bytes, size_t count, const unsigned char *key,
                               int rank_count, control_message *out_message, size_t *out_bytes) {
  *out_bytes = 0;
  if (count < CONTROL_HEAD_BYTES) return CONTROL_MORE;
  const unsigned char *cursor = bytes;
  const uint64_t magic = get(&cursor, 4);
  const size_t size = (size_t)get(&cursor, 2);
  const uint64_t kind = get(&cursor, 1);
  const uint64_t zero = get(&cursor, 1);
  const uint64_t from = get(&cursor, 4);
  const uint64_t to = get(&cursor, 4);
  if (magic != MAGIC || size < CONTROL_HEAD_BYTES + CONTROL_CODE_BYTES ||
      size > CONTROL_FRAME_BYTES || kind == 0 || kind >= CONTROL_KIND_END || zero != 0 ||
      from >= (uint64_t)rank_count || to >= (uint64_t)rank_count)
    return CONTROL_MALFORMED;
  if (count < size) return CONTROL_MORE;
  *out_bytes = size;
  const size_t signed_bytes = size - CONTROL_CODE_BYTES;
  if (crypto_auth_hmacsha256_verify(bytes + signed_bytes, bytes, signed_bytes, key) != 0)
    return CONTROL_FORGED;
  memset(out_message, 0, sizeof *out_message);
  out_message->kind = (control_kind)kind;
  out_message->from = (int)from;
  out_message->to = (int)to;
  out_message->sequence = get(&cursor, 8);
  return get_payload(cursor, signed_bytes - CONTROL_HEAD_BYTES, rank_count, out_message)
             ? CONTROL_TAKEN
             : CONTROL_MALFORMED;
}
