/* When a GPU executed something, by the host's clock: with a driver whose results the test sets,
 * and on an emulated GPU, whose anchors grow old. */
#include "devices/cuda/clock.h"

#include "core/park.h"
#include "devices/cuda/device.h"
#include "devices/cuda/library/kernels.h"
#include "tests/devices/support.h"

enum { MS = 1000000 };

/* ---- Times ----------------------------------------------------------------------------------- */

static char events[3]; /* an anchor, a span's begin, its end */
static double told_ns[2];

static tdm_cuda_code tell_elapsed(double *out_ns, tdm_cuda_event from, tdm_cuda_event to) {
  assert_ptr_equal((void *)from, &events[0]);
  *out_ns = told_ns[(void *)to == &events[2]];
  return TDM_CUDA_SUCCESS;
}

typedef struct reading {
  int64_t begin_ns, end_ns; /* ns after now; end 0: now, which the reading returns */
  int64_t anchor_ns;
} reading;

/* The anchor is reached, and the span enqueued, this long before now. The span begins and ends this
 * long after the anchor. */
static void assert_reading(int64_t anchor_ns, int64_t enqueued_ns, int64_t begin_ns, int64_t end_ns,
                           int64_t until_ns, reading expected) {
  static const tdm_cuda_api api = {.event_elapsed = tell_elapsed};
  tdm_cuda_clock clock = {.api = NULL};
  tdm_command_times times = {0};
  assert_ok(tdm_cuda_clock_init(&clock, &api));
  const int64_t now_ns = (int64_t)tdm_time_ns();
  clock.anchors[1] = (tdm_cuda_anchor){.event = (tdm_cuda_event)(void *)&events[0],
                                       .host_ns = (uint64_t)(now_ns - anchor_ns),
                                       .users = 3};
  tdm_cuda_span span = {
      .events = {(tdm_cuda_event)(void *)&events[1], (tdm_cuda_event)(void *)&events[2]},
      .anchor = &clock.anchors[1],
      .enqueued_ns = (uint64_t)(now_ns - enqueued_ns),
      .times = &times};
  told_ns[0] = (double)begin_ns;
  told_ns[1] = (double)end_ns;
  uint64_t until = (uint64_t)(now_ns + until_ns);
  assert_int_equal(tdm_cuda_span_read(&clock, &span, &until), TDM_CUDA_SUCCESS);
  const int64_t late_ns = expected.end_ns == 0 ? (int64_t)times.end_ns - now_ns : 0;
  assert_true(late_ns >= 0 && now_ns + late_ns <= (int64_t)tdm_time_ns());
  assert_int_equal((int64_t)times.begin_ns - now_ns - late_ns, expected.begin_ns);
  assert_int_equal((int64_t)times.end_ns - now_ns - late_ns, expected.end_ns);
  assert_int_equal(now_ns + late_ns - (int64_t)clock.anchors[1].host_ns, expected.anchor_ns);
  assert_int_equal(until, times.end_ns);
  assert_int_equal(clock.anchors[1].users, 2);
  assert_null(span.anchor);
  tdm_cuda_clock_deinit(&clock);
}

static void a_span_lies_within_what_the_host_saw(void **state) {
  (void)state;
  const int64_t before_ns = -(int64_t)5000 * MS; /* the end of a span long ago */
  /* The times of the GPU. */
  assert_reading(1000 * MS, 600 * MS, 500 * MS, 580 * MS, before_ns,
                 (reading){-500 * MS, -420 * MS, 1000 * MS});
  /* The GPU's begin is before the enqueueing, which is used instead. */
  assert_reading(1000 * MS, 600 * MS, 300 * MS, 380 * MS, before_ns,
                 (reading){-600 * MS, -520 * MS, 900 * MS});
  /* The GPU's end is in the future; now is used instead. */
  const int64_t late_ns = (int64_t)10000000 * MS;
  assert_reading(1000 * MS, 600 * MS, late_ns - 200 * MS, late_ns, before_ns,
                 (reading){-200 * MS, 0, late_ns});
  /* After the previous one, which may have been read by another anchor. */
  assert_reading(1000 * MS, 600 * MS, 500 * MS, 580 * MS, -480 * MS,
                 (reading){-480 * MS, -420 * MS, 1000 * MS});
  assert_reading(1000 * MS, 600 * MS, 500 * MS, 580 * MS, -400 * MS,
                 (reading){-400 * MS, -400 * MS, 1000 * MS});
}

/* ---- Anchors --------------------------------------------------------------------------------- */

static void anchors_are_renewed_when_they_are_old_and_free(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  tdm_cuda_device *cuda = tdm_cuda_device_of(test_device(context, "cuda:0"));
  tdm_cuda_clock *clock = &cuda->clock;
  tdm_cuda_stream stream = NULL;
  tdm_cuda_span spans[3] = {{.anchor = NULL}};
  tdm_command_times times;
  uint64_t until_ns = 0;
  assert_ok(tdm_cuda_gpu_enter(&cuda->gpu));
  assert_int_equal(clock->api->stream_create(&stream, false), TDM_CUDA_SUCCESS);
  const uint64_t begin_ns = tdm_time_ns();
  /* the span was not begun */
  assert_int_equal(tdm_cuda_span_end(clock, &spans[0], stream), TDM_CUDA_SUCCESS);
  assert_int_equal(tdm_cuda_span_read(clock, &spans[0], &until_ns), TDM_CUDA_SUCCESS);
  for (int i = 0; i < 2; i++) /* begun anew: one user */
    assert_int_equal(tdm_cuda_span_begin(clock, &spans[0], stream, &times), TDM_CUDA_SUCCESS);
  const uint32_t first = clock->newest, second = 1 - first;
  assert_ptr_equal(spans[0].anchor, &clock->anchors[first]);
  assert_int_equal(clock->anchors[first].users, 1);
  assert_in_range(clock->anchors[first].host_ns, begin_ns, tdm_time_ns());
  assert_in_range(spans[0].enqueued_ns, clock->anchors[first].host_ns, tdm_time_ns());
  assert_int_equal(clock->anchors[second].host_ns, 0);

  /* not old enough to be replaced */
  clock->anchors[first].host_ns = tdm_time_ns() - (uint64_t)4000 * MS;
  assert_int_equal(tdm_cuda_span_begin(clock, &spans[1], stream, &times), TDM_CUDA_SUCCESS);
  assert_ptr_equal(spans[1].anchor, &clock->anchors[first]);
  assert_int_equal(clock->anchors[first].users, 2);
  clock->anchors[first].host_ns = tdm_time_ns() - (uint64_t)8001 * MS;
  assert_int_equal(tdm_cuda_span_begin(clock, &spans[1], stream, &times), TDM_CUDA_SUCCESS);
  assert_ptr_equal(spans[1].anchor, &clock->anchors[second]);
  assert_int_equal(clock->newest, second);
  assert_int_equal(clock->anchors[first].users, 1);
  assert_int_equal(clock->anchors[second].users, 1);
  assert_in_range(clock->anchors[second].host_ns, begin_ns, tdm_time_ns());

  clock->anchors[second].host_ns =
      tdm_time_ns() - (uint64_t)9000 * MS; /* old, the other one used */
  assert_int_equal(tdm_cuda_span_begin(clock, &spans[2], stream, &times), TDM_CUDA_SUCCESS);
  assert_ptr_equal(spans[2].anchor, &clock->anchors[second]);
  tdm_cuda_span_drop(clock, &spans[0]);
  tdm_cuda_span_drop(clock, &spans[0]); /* has none */
  assert_int_equal(clock->anchors[first].users, 0);
  assert_int_equal(tdm_cuda_span_begin(clock, &spans[2], stream, &times), TDM_CUDA_SUCCESS);
  assert_ptr_equal(spans[2].anchor, &clock->anchors[first]);
  for (size_t i = 0; i < TDM_COUNT_OF(spans); i++) {
    tdm_cuda_span_drop(clock, &spans[i]);
    tdm_cuda_span_close(clock, &spans[i]);
    assert_true(!spans[i].events[0] && !spans[i].events[1]);
  }
  assert_int_equal(clock->anchors[0].users + clock->anchors[1].users, 0);
  assert_int_equal(clock->api->stream_destroy(stream), TDM_CUDA_SUCCESS);
  tdm_cuda_gpu_leave(&cuda->gpu);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_span_lies_within_what_the_host_saw),
      cmocka_unit_test(anchors_are_renewed_when_they_are_old_and_free),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
