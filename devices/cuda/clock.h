/* When a GPU executed something, told by the host's clock: events around a command, and an anchor,
 * an event whose time on the host is known. Invariant: streams of one device go by the same
 * anchors, so that their times are ordered as the GPU has ordered them; an anchor is not recorded
 * anew while a span that goes by it is on its way. Nothing is opened before the first span. */
#ifndef TANDEM_DEVICES_CUDA_CLOCK_H
#define TANDEM_DEVICES_CUDA_CLOCK_H

#include <pthread.h>

#include "devices/contract/device.h"
#include "devices/cuda/library/api.h"

enum { TDM_CUDA_ANCHORS = 2 }; /* one is in use while the other one grows old */

typedef struct tdm_cuda_anchor {
  tdm_cuda_event event;
  uint64_t host_ns; /* when it was reached, to some microseconds; 0: was not */
  uint32_t users;   /* spans on their way that go by it */
} tdm_cuda_anchor;

/* Of one device. */
typedef struct tdm_cuda_clock {
  const tdm_cuda_api *api;
  pthread_mutex_t mutex;
  tdm_cuda_stream stream; /* of its own: an anchor waits for nobody's work */
  tdm_cuda_event spare;   /* for the next try at an anchor */
  tdm_cuda_anchor anchors[TDM_CUDA_ANCHORS];
  uint32_t newest;
} tdm_cuda_clock;

/* One command on its way, between two events. */
typedef struct tdm_cuda_span {
  tdm_cuda_event events[2]; /* kept for the next one */
  tdm_cuda_anchor *anchor;  /* NULL: nothing is timed here */
  uint64_t enqueued_ns;
  tdm_command_times *times;
} tdm_cuda_span;

tdm_status tdm_cuda_clock_init(tdm_cuda_clock *clock, const tdm_cuda_api *api) TDM_WARN_UNUSED;
/* Frees what spans have opened; the device is the calling thread's, and its feeders are joined. */
void tdm_cuda_clock_close(tdm_cuda_clock *clock);
void tdm_cuda_clock_deinit(tdm_cuda_clock *clock);

/* Begins to time what is enqueued on stream from here on; times gets it once the span is read. On a
 * thread whose device is the clock's. A span that had begun begins anew. */
tdm_cuda_code tdm_cuda_span_begin(tdm_cuda_clock *clock, tdm_cuda_span *span,
                                  tdm_cuda_stream stream, tdm_command_times *times);
/* What was enqueued since is timed; nothing where the span has not begun. */
tdm_cuda_code tdm_cuda_span_end(const tdm_cuda_clock *clock, const tdm_cuda_span *span,
                                tdm_cuda_stream stream);
/* Fills the span's times, its events being reached, and lets the anchor go. A span lies within what
 * the host saw, enqueued before and reached by now, and behind *in_out_until_ns, the end of the one
 * read before of the same stream, which it moves. */
tdm_cuda_code tdm_cuda_span_read(tdm_cuda_clock *clock, tdm_cuda_span *span,
                                 uint64_t *in_out_until_ns);
/* Lets the anchor go without times. */
void tdm_cuda_span_drop(tdm_cuda_clock *clock, tdm_cuda_span *span);
/* Frees the events. */
void tdm_cuda_span_close(const tdm_cuda_clock *clock, tdm_cuda_span *span);

#endif
