/* What the control channel's messages and its callers both name: limits, causes of failures, ways
 * of posting. */
#ifndef TANDEM_NET_CONTROL_TERMS_H
#define TANDEM_NET_CONTROL_TERMS_H

#include "core/status.h"

#define TDM_CONTROL_QUEUES 32 /* of a rank that tell their progress */
/* Of what a rank says of itself, terminator included: all of a thread's message. */
#define TDM_CONTROL_REASON_BYTES TDM_MESSAGE_BYTES
#define TDM_CONTROL_TEXT_BYTES (2 * TDM_CONTROL_REASON_BYTES) /* of a failure in words, likewise */

typedef enum tdm_control_cause {
  TDM_CONTROL_SILENT = 1, /* nothing came for silence_ns: it was stopped, its host has gone, or the
                             way is cut */
  TDM_CONTROL_ENDED,      /* its connection closed without a word: the process has ended */
  TDM_CONTROL_GAVE_UP,    /* it said so, with a reason */
} tdm_control_cause;

/* Ways in which two ranks post to one another. What one posts first, second, ... by a way meets
 * what the other posts first, second, ... by the facing one. */
typedef enum tdm_control_way {
  TDM_CONTROL_SENDS, /* of plans; face the receives */
  TDM_CONTROL_RECEIVES,
  TDM_CONTROL_GATHER_SENDS, /* outside of plans */
  TDM_CONTROL_GATHER_RECEIVES,
  TDM_CONTROL_COLLECTIVES, /* of all ranks; they face themselves */
  TDM_CONTROL_WAYS,
} tdm_control_way;

#endif
