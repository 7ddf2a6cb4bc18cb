/* Copies and messages as plans make them: through the queues that plans use. */
#ifndef TANDEM_DEVICES_LINKS_TRIAL_H
#define TANDEM_DEVICES_LINKS_TRIAL_H

#include "devices/contract/device.h"

/* ---- A copy: its source just written by the device that it comes from, its target used last by
 * the one that it goes to ---- */

typedef struct tdm_link_trial {
  tdm_device *from_device; /* both started, with a direct route */
  tdm_device *to_device;
  tdm_address from; /* a host device's end is used as said above; another is left alone */
  tdm_address to;
  size_t bytes;
  bool stale;           /* the source is left first, not written last: both go out of caches */
  tdm_address between;  /* memory of the host that a target in it is driven out of caches by */
  size_t between_bytes; /* 0: none */
} tdm_link_trial;

/* Answers what the copy itself took; at least 1 ns. Blocks; any thread. */
tdm_status tdm_link_trial_run(const tdm_link_trial *trial, double *out_ns) TDM_WARN_UNUSED;

/* ---- Round trips between this rank and another: one sends, the other sends back ---- */

enum { TDM_RANK_TRIAL_MOST_TRIPS = 16 };

typedef struct tdm_rank_trial {
  tdm_context *context; /* started */
  int peer;
  bool leads;     /* sends first; the peer does not */
  void *memory;   /* (bytes) of the host's, sent and received */
  size_t bytes;   /* these two the same on both ranks */
  uint32_t trips; /* 1 to TDM_RANK_TRIAL_MOST_TRIPS */
} tdm_rank_trial;

/* Both ranks call it. Answers half of what each round trip took, at least half a nanosecond, on the
 * rank that leads. Blocks. */
tdm_status tdm_rank_trial_run(const tdm_rank_trial *trial, double *out_ns) TDM_WARN_UNUSED;

/* ---- Trains of messages: as many as a plan's burst has, one way, close behind one another ---- */

enum { TDM_RANK_TRAIN_MOST_MESSAGES = 256 };

/* The rank that leads asks for the train by an empty message, and receives it. A first message,
 * ahead of it, uses up what a link lets pass at once before it slows down to its rate. Both ways:
 * it sends the same train meanwhile. */
typedef struct tdm_rank_train {
  tdm_context *context; /* started */
  int peer;
  bool leads;
  bool both_ways; /* the same on both ranks, as the next three sizes */
  void *memory;   /* of the host's: as much as the larger of the sizes; both ways: twice that */
  size_t ahead_bytes;
  size_t bytes;
  uint32_t messages; /* 1 to TDM_RANK_TRAIN_MOST_MESSAGES */
} tdm_rank_train;

/* Both ranks call it. Answers, on the rank that leads, the time from when the message ahead has
 * come until the last one has. Blocks. */
tdm_status tdm_rank_train_run(const tdm_rank_train *train, double *out_ns) TDM_WARN_UNUSED;

/* ---- The same of all-reduces over all ranks of a job ---- */

typedef struct tdm_rank_sums {
  tdm_context *context; /* started */
  void *memory;         /* of the host's, zeros: as much as the larger of the sizes */
  size_t ahead_bytes;   /* these three the same on all ranks */
  size_t bytes;
  uint32_t count; /* 1 to TDM_RANK_TRAIN_MOST_MESSAGES */
} tdm_rank_sums;

/* All ranks call it. Answers the time from the end of the one ahead until the end of the last one.
 * Blocks. */
tdm_status tdm_rank_sums_run(const tdm_rank_sums *sums, double *out_ns) TDM_WARN_UNUSED;

/* ---- What all share ---- */

enum { TDM_TRIAL_MOST_PROGRAMS = 3 };

/* Submits the flight's programs, and waits for its end. The caller has set programs, bases,
 * failed_ids (id_count) and times. */
tdm_status tdm_trial_fly(tdm_context *context, tdm_flight *flight, uint32_t program_count,
                         uint32_t id_count) TDM_WARN_UNUSED;
/* At least 1: a clock may not have moved on. */
double tdm_trial_ns(uint64_t begin_ns, uint64_t end_ns);

#endif
