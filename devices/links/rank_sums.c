/* All-reduces over the ranks of a job, in one flight of one program on each rank. Invariant: the
 * calling thread waits for the end, so everything that the flight refers to may be on its stack. */
#include "devices/context/context.h"
#include "devices/links/trial.h"

enum { IDS = TDM_RANK_TRAIN_MOST_MESSAGES + 1 }; /* plus the first one, which is not timed */

tdm_status tdm_rank_sums_run(const tdm_rank_sums *sums, double *out_ns) {
  tdm_command commands[IDS] = {{0}};
  const uint32_t count = sums->count + 1;
  for (uint32_t i = 0; i < count; i++)
    commands[i] = (tdm_command){.kind = TDM_COMMAND_ALL_REDUCE,
                                .id = i,
                                .message = {.number = i,
                                            .dtype = TDM_FLOAT32,
                                            .bytes = i == 0 ? sums->ahead_bytes : sums->bytes}};
  tdm_program program = {.queue = tdm_context_host(sums->context)->queues[TDM_QUEUE_SEND],
                         .commands = commands,
                         .count = count};
  tdm_address base = (tdm_address)sums->memory;
  uint8_t failed_ids[IDS] = {0};
  tdm_command_times times[IDS] = {{0}};
  tdm_flight flight = {
      .programs = &program, .bases = &base, .failed_ids = failed_ids, .times = times};
  const tdm_status status = tdm_trial_fly(sums->context, &flight, 1, IDS);
  *out_ns = tdm_trial_ns(times[0].end_ns, times[count - 1].end_ns);
  return status;
}
