/* Copies and messages like those of plans: through the queues that plans use. */
#ifndef TANDEM_DEVICES_LINKS_TRIAL_H
#define TANDEM_DEVICES_LINKS_TRIAL_H

#include "devices/contract/device.h"

/* ---- A copy: its source just written by the device that it comes from, its target used last by
 * the one that it goes to ---- */

typedef struct tdm_link_trial {
  tdm_device *from_device; /* source and destination device; both started, with a direct route */
  tdm_device *to_device;
  tdm_address from; /* an end on the host is used as described above; others are not touched */
  tdm_address to;
  size_t bytes;
  bool stale;           /* the source is not the last memory written, so that both sides are outside
                         * caches */
  tdm_address between;  /* host memory that is touched to evict a target on the host */
  size_t between_bytes; /* 0: none */
} tdm_link_trial;

/* Returns the time of the copy, at least 1 ns, in *out_ns. Blocks; any thread. */
tdm_status tdm_link_trial_run(const tdm_link_trial *trial, double *out_ns) TDM_WARN_UNUSED;

/* ---- Messages between this rank and another -------------------------------------------------- */

enum { TDM_RANK_TRAIN_MOST_ROUNDS = 16, TDM_RANK_TRAIN_MOST_MESSAGES = 256 };

/* In each round the leading rank requests a train by a message, and receives it. The train's first
 * message uses up the bytes that a rate-limited link lets pass at once. */
typedef struct tdm_rank_train {
  tdm_context *context; /* started */
  int peer;
  bool leads;         /* true on the rank that requests the train, false on its peer */
  bool both_ways;     /* the leading rank sends the same train meanwhile; equal on both ranks, like
                       * all below */
  void *memory;       /* host memory of the largest size; with both_ways twice that */
  size_t ask_bytes;   /* size of the request */
  size_t ahead_bytes; /* size of the train's first message */
  size_t bytes;       /* size of the messages after it */
  uint32_t messages;  /* number of these messages, up to TDM_RANK_TRAIN_MOST_MESSAGES. 0: round
                       * trips are measured */
  uint32_t rounds;    /* 1 to TDM_RANK_TRAIN_MOST_ROUNDS; 1 if there are messages */
} tdm_rank_train;

/* Both ranks call it. On the leading rank *out_ns is the time from the arrival of the train's first
 * message to that of its last one; for round trips, out_ns (rounds) has half the time of each. At
 * least half a nanosecond. Blocks. */
tdm_status tdm_rank_train_run(const tdm_rank_train *train, double *out_ns) TDM_WARN_UNUSED;

/* ---- Trains of all-reduces over all ranks of a job ------------------------------------------- */

typedef struct tdm_rank_sums {
  tdm_context *context; /* started */
  void *memory;         /* host memory of the larger size, zeros */
  size_t ahead_bytes;   /* equal on all ranks, like the next two */
  size_t bytes;
  uint32_t count; /* 1 to TDM_RANK_TRAIN_MOST_MESSAGES */
} tdm_rank_sums;

/* All ranks call it. *out_ns is the time from the end of the preceding sum to the end of the last
 * one. Blocks. */
tdm_status tdm_rank_sums_run(const tdm_rank_sums *sums, double *out_ns) TDM_WARN_UNUSED;

/* ---- Common functions ------------------------------------------------------------------------ */

enum { TDM_TRIAL_MOST_PROGRAMS = 3 };

/* Submits the flight's programs and waits for its end. The caller has set programs, bases,
 * failed_ids (id_count) and times. */
tdm_status tdm_trial_fly(tdm_context *context, tdm_flight *flight, uint32_t program_count,
                         uint32_t id_count) TDM_WARN_UNUSED;
/* Returns at least 1, because a clock may not have advanced. */
double tdm_trial_ns(uint64_t begin_ns, uint64_t end_ns);

#endif
