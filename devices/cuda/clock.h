/* When a GPU executed something, in the host's time: events around a command, and an anchor, an
 * event whose time on the host is known. Invariant: streams of one device use the same anchors, so
 * that their times are in the GPU's order. An anchor is not recorded again while a span that uses
 * it is in progress. Nothing is opened before the first span. */
#ifndef TANDEM_DEVICES_CUDA_CLOCK_H
#define TANDEM_DEVICES_CUDA_CLOCK_H

#include <pthread.h>

#include "devices/contract/device.h"
#include "devices/cuda/library/api.h"

enum { TDM_CUDA_ANCHORS = 2 }; /* two, because one is in use while the other one ages */

typedef struct tdm_cuda_anchor {
  tdm_cuda_event event;
  uint64_t host_ns; /* time at which it was reached, within some microseconds; 0: not reached */
  uint32_t users;   /* spans in progress that use it */
} tdm_cuda_anchor;

/* The clock of one device. */
typedef struct tdm_cuda_clock {
  const tdm_cuda_api *api;
  pthread_mutex_t mutex;
  tdm_cuda_stream stream; /* separate stream, so that an anchor waits for no other work */
  tdm_cuda_event spare;   /* event for the next attempt to record an anchor */
  tdm_cuda_anchor anchors[TDM_CUDA_ANCHORS];
  uint32_t newest;
} tdm_cuda_clock;

/* One command in progress, between two events. */
typedef struct tdm_cuda_span {
  tdm_cuda_event events[2]; /* reused by later spans */
  tdm_cuda_anchor *anchor;  /* NULL: nothing is timed here */
  uint64_t enqueued_ns;
  tdm_command_times *times;
} tdm_cuda_span;

tdm_status tdm_cuda_clock_init(tdm_cuda_clock *clock, const tdm_cuda_api *api) TDM_WARN_UNUSED;
/* Frees what spans have opened. The device is current on the calling thread, and its feeders are
 * joined. */
void tdm_cuda_clock_close(tdm_cuda_clock *clock);
void tdm_cuda_clock_deinit(tdm_cuda_clock *clock);

/* Begins to time what is enqueued on stream from here on; times is filled when the span is read.
 * Call it on a thread whose current device is the clock's. A span that had begun is restarted. */
tdm_cuda_code tdm_cuda_span_begin(tdm_cuda_clock *clock, tdm_cuda_span *span,
                                  tdm_cuda_stream stream, tdm_command_times *times);
/* Ends the timed section. Does nothing if the span has not begun. */
tdm_cuda_code tdm_cuda_span_end(const tdm_cuda_clock *clock, const tdm_cuda_span *span,
                                tdm_cuda_stream stream);
/* Fills the span's times after its events were reached, and releases the anchor. A span is within
 * the host's observation, from its enqueuing until now, and after *in_out_until_ns. That is the end
 * of the previous span of the same stream, and is set to the end of this one. */
tdm_cuda_code tdm_cuda_span_read(tdm_cuda_clock *clock, tdm_cuda_span *span,
                                 uint64_t *in_out_until_ns);
/* Releases the anchor without reading times. */
void tdm_cuda_span_drop(tdm_cuda_clock *clock, tdm_cuda_span *span);
/* Frees the events. */
void tdm_cuda_span_close(const tdm_cuda_clock *clock, tdm_cuda_span *span);

#endif
