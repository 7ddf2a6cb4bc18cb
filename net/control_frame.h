/* The control channel's messages as bytes: little-endian, of any length up to a limit, each with
 * its code at the end. Invariant: nothing of a frame is believed before its code was checked, and
 * what was checked is read within its bounds all the same.
 *
 *     0      4     6     7     8     12    16        24         size - 32
 *     | magic | size | kind | 0 | from | to | sequence | payload ... | code |
 */
#ifndef TANDEM_NET_CONTROL_FRAME_H
#define TANDEM_NET_CONTROL_FRAME_H

#include "core/status.h"
#include "net/control_terms.h"

#define CONTROL_KEY_BYTES 32
#define CONTROL_CODE_BYTES 32
#define CONTROL_HEAD_BYTES 24
#define CONTROL_PAYLOAD_BYTES 528 /* the most */
#define CONTROL_FRAME_BYTES (CONTROL_HEAD_BYTES + CONTROL_PAYLOAD_BYTES + CONTROL_CODE_BYTES)

typedef enum control_kind {
  CONTROL_HELLO = 1, /* the first on a connection, by who connects */
  CONTROL_BEAT,      /* waits as uint8; posted, runs, history as uint64s; runs under way as uint32;
                        count as uint16, so many uint64 */
  CONTROL_LOST,      /* of another rank: uint32, cause as uint8, silent ms as uint32 */
  CONTROL_GIVE_UP,   /* status as uint8, then words */
  CONTROL_LEAVE,
  CONTROL_PART,    /* it leaves as soon as all do, and goes on to beat */
  CONTROL_REFUSAL, /* run as uint64, how often as uint32, status as uint8, then words */
  CONTROL_KIND_END,
} control_kind;

/* A run that a rank was asked for in a wrong way, and has not begun. */
typedef struct control_refusal {
  uint64_t run;   /* its so many-th; 0: none was refused */
  uint32_t count; /* how often it was */
  tdm_status status;
  char reason[TDM_CONTROL_REASON_BYTES];
} control_refusal;

typedef struct control_message {
  control_kind kind;
  int from;
  int to;
  uint64_t sequence;
  /* BEAT */
  int queue_count;
  uint64_t progress[TDM_CONTROL_QUEUES];
  bool waits;
  uint64_t posted[TDM_CONTROL_WAYS];
  uint64_t runs;
  uint64_t history;
  uint32_t under_way;
  /* LOST */
  int lost_rank;
  tdm_control_cause cause;
  uint32_t silent_ms;
  /* GIVE_UP */
  tdm_status status;
  char reason[TDM_CONTROL_REASON_BYTES];
  control_refusal refusal;
} control_message;

/* Writes message into frame (CONTROL_FRAME_BYTES); answers its bytes. */
size_t control_pack(const control_message *message, const unsigned char *key, unsigned char *frame);

typedef enum control_verdict {
  CONTROL_MORE,      /* it goes on behind these bytes */
  CONTROL_TAKEN,     /* *out_message is filled */
  CONTROL_MALFORMED, /* this is no frame, nor is what follows */
  CONTROL_FORGED,    /* a frame with a wrong code */
} control_verdict;

/* What the bytes begin with; *out_bytes are those of a whole frame, TAKEN or FORGED. A frame is
 * taken if its code is right and its payload is what its kind has, in a job of rank_count ranks. */
control_verdict control_unpack(const unsigned char *bytes, size_t count, const unsigned char *key,
                               int rank_count, control_message *out_message, size_t *out_bytes);

#endif
