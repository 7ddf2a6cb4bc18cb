/* Terms shared by the control channel's messages and its callers: limits, causes of failures, and
 * ways of posting. */
#ifndef TANDEM_NET_CONTROL_TERMS_H
#define TANDEM_NET_CONTROL_TERMS_H

#include "core/status.h"

#define TDM_CONTROL_QUEUES 32 /* queues of a rank that report progress */
/* Size of a reason that a rank gives, terminator included: a whole thread's message fits. */
#define TDM_CONTROL_REASON_BYTES TDM_MESSAGE_BYTES
#define TDM_CONTROL_TEXT_BYTES (2 * TDM_CONTROL_REASON_BYTES) /* size of a failure's text */

typedef enum tdm_control_cause {
  TDM_CONTROL_SILENT = 1, /* nothing was received for silence_ns: the process was stopped, its host
                           * is gone, or the path is cut */
  TDM_CONTROL_ENDED,   /* its connection closed without a message, because the process has ended */
  TDM_CONTROL_GAVE_UP, /* the rank gave up and sent a reason */
} tdm_control_cause;

/* Ways in which two ranks post to each other. The nth post of one rank by a way matches the nth
 * post of the other rank by the facing way. */
typedef enum tdm_control_way {
  TDM_CONTROL_SENDS, /* sends of plans; they face the receives */
  TDM_CONTROL_RECEIVES,
  TDM_CONTROL_GATHER_SENDS, /* sends outside of plans */
  TDM_CONTROL_GATHER_RECEIVES,
  TDM_CONTROL_COLLECTIVES, /* collectives of all ranks; they face themselves */
  TDM_CONTROL_WAYS,
} tdm_control_way;

#endif
