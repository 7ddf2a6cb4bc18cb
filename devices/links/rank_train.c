/* A train of messages from one rank to another, in one flight on each:
 *
 *     leads    sends     ask ---.
 *              receives          \       ,-- ahead, 0, 1, 2, ...
 *     follows  receives           `-> ask \
 *              sends                  wait, ahead, 0, 1, 2, ...
 *
 * Invariant: the calling thread waits for the end, so that whatever the flight refers to lies on
 * its stack. */
#include "devices/context/context.h"
#include "devices/links/trial.h"

enum {
  SENDS, /* programs */
  RECEIVES,
  PROGRAMS,
  ASK = 0, /* ids */
  WAIT_ASKED,
  AHEAD,
  FIRST_MESSAGE,
  IDS = FIRST_MESSAGE + TDM_RANK_TRAIN_MOST_MESSAGES,
};

typedef struct train {
  tdm_command commands[PROGRAMS][IDS];
  tdm_program programs[PROGRAMS];
} train;

static void add(tdm_program *program, const tdm_command *command) {
  program->commands[program->count++] = *command;
}

static void add_message(const tdm_rank_train *asked, tdm_program *program, bool sends, uint32_t id,
                        size_t bytes) {
  add(program,
      &(tdm_command){.kind = sends ? TDM_COMMAND_SEND : TDM_COMMAND_RECEIVE,
                     .signals = !sends,
                     .id = id,
                     .message = {.number = id, .peer = (uint32_t)asked->peer, .bytes = bytes}});
}

static void make_programs(const tdm_rank_train *asked, train *made) {
  const tdm_device *host = tdm_context_host(asked->context);
  for (uint32_t i = 0; i < PROGRAMS; i++)
    made->programs[i] =
        (tdm_program){.queue = host->queues[i == SENDS ? TDM_QUEUE_SEND : TDM_QUEUE_RECEIVE],
                      .commands = made->commands[i]};
  add_message(asked, &made->programs[asked->leads ? SENDS : RECEIVES], asked->leads, ASK, 0);
  tdm_program *program = &made->programs[asked->leads ? RECEIVES : SENDS];
  if (!asked->leads)
    add(program, &(tdm_command){.kind = TDM_COMMAND_WAIT,
                                .id = WAIT_ASKED,
                                .wait = {.program = RECEIVES, .position = 0}});
  add_message(asked, program, !asked->leads, AHEAD, asked->ahead_bytes);
  for (uint32_t i = 0; i < asked->messages; i++)
    add_message(asked, program, !asked->leads, FIRST_MESSAGE + i, asked->bytes);
}

tdm_status tdm_rank_train_run(const tdm_rank_train *asked, double *out_ns) {
  train made = {.programs = {{0}}};
  make_programs(asked, &made);
  tdm_address base = (tdm_address)asked->memory;
  uint8_t failed_ids[IDS] = {0};
  tdm_command_times times[IDS] = {{0}};
  tdm_flight flight = {
      .programs = made.programs, .bases = &base, .failed_ids = failed_ids, .times = times};
  const tdm_status status = tdm_trial_fly(asked->context, &flight, PROGRAMS, IDS);
  const uint32_t last = FIRST_MESSAGE + asked->messages - 1;
  *out_ns = tdm_trial_ns(times[AHEAD].end_ns, times[last].end_ns);
  return status;
}
