/* The control channel's messages as bytes: little-endian, of any length up to a limit, each
 * followed by its code. Invariant: no content of a frame is used before its code was checked, and
 * even then it is read within bounds.
 *
 *     0      4     6     7     8     12    16        24         size - 32
 *     | magic | size | kind | 0 | from | to | sequence | payload ... | code | */
#ifndef TANDEM_NET_CONTROL_FRAME_H
#define TANDEM_NET_CONTROL_FRAME_H

#include "core/status.h"
#include "net/control_terms.h"

#define CONTROL_KEY_BYTES 32
#define CONTROL_CODE_BYTES 32
#define CONTROL_HEAD_BYTES 24
#define CONTROL_PAYLOAD_BYTES 528 /* maximum */
#define CONTROL_FRAME_BYTES (CONTROL_HEAD_BYTES + CONTROL_PAYLOAD_BYTES + CONTROL_CODE_BYTES)

typedef enum control_kind {
  CONTROL_HELLO = 1, /* the first message on a connection, sent by the connecting side */
  CONTROL_BEAT,      /* waits as uint8; posted, runs, history as uint64s; runs under way as uint32;
                      * count as uint16, then that many uint64 */
  CONTROL_LOST,      /* another rank is lost: uint32, cause as uint8, silent ms as uint32 */
  CONTROL_GIVE_UP,   /* status as uint8, then the reason */
  CONTROL_LEAVE,
  CONTROL_PART,    /* leaves when all ranks do, and sends beats until then */
  CONTROL_REFUSAL, /* run as uint64, times refused as uint32, status as uint8, then the reason */
  CONTROL_KIND_END,
} control_kind;

/* A run that a rank has not begun because the call for it was invalid. */
typedef struct control_refusal {
  uint64_t run;   /* number of the run; 0: none was refused */
  uint32_t count; /* number of refusals of that run */
  tdm_status status;
  char reason[TDM_CONTROL_REASON_BYTES];
} control_refusal;

typedef struct control_message {
  control_kind kind;
  int from;
  int to;
  uint64_t sequence;
  /* CONTROL_BEAT */
  int queue_count;
  uint64_t progress[TDM_CONTROL_QUEUES];
  bool waits;
  uint64_t posted[TDM_CONTROL_WAYS];
  uint64_t runs;
  uint64_t history;
  uint32_t under_way;
  /* CONTROL_LOST */
  int lost_rank;
  tdm_control_cause cause;
  uint32_t silent_ms;
  /* CONTROL_GIVE_UP */
  tdm_status status;
  char reason[TDM_CONTROL_REASON_BYTES];
  control_refusal refusal;
} control_message;

/* Writes message to frame (CONTROL_FRAME_BYTES) and returns its number of bytes. */
size_t control_pack(const control_message *message, const unsigned char *key, unsigned char *frame);

typedef enum control_verdict {
  CONTROL_MORE,      /* the frame is incomplete */
  CONTROL_TAKEN,     /* a message was written to *out_message */
  CONTROL_MALFORMED, /* the bytes are not a frame, and the rest cannot be parsed */
  CONTROL_FORGED,    /* a frame with a wrong code */
} control_verdict;

/* Parses the first frame in bytes. *out_bytes is the size of a whole frame, for TAKEN and FORGED. A
 * frame is TAKEN if its code is right and its payload is valid for its kind in a job of rank_count
 * ranks. */
control_verdict control_unpack(const unsigned char *bytes, size_t count, const unsigned char *key,
                               int rank_count, control_message *out_message, size_t *out_bytes);

#endif
