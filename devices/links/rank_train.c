/* A train of messages from one rank to another, in one flight on each:
 *
 *     leads    sends     ask ---.
 *              receives          \       ,-- ahead, 0, 1, 2, ...
 *     follows  receives           `-> ask \
 *              sends                  wait, ahead, 0, 1, 2, ...
 *
 * With both_ways the leading rank sends the same after its request.
 *
 * Invariant: the calling thread waits for the end, so everything that the flight refers to may be
 * on its stack. */
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
  MOST_COMMANDS = FIRST_MESSAGE + TDM_RANK_TRAIN_MOST_MESSAGES, /* per program */
  OUTWARD = MOST_COMMANDS, /* the leading rank's own train has ids from here on */
  IDS = 2 * MOST_COMMANDS,
};

typedef struct train {
  tdm_command commands[PROGRAMS][MOST_COMMANDS];
  tdm_program programs[PROGRAMS];
} train;

static void add(tdm_program *program, const tdm_command *command) {
  program->commands[program->count++] = *command;
}

/* Returns where a train is received while another one is sent. */
static size_t second_half(const tdm_rank_train *asked) {
  if (!asked->both_ways) return 0;
  return asked->ahead_bytes > asked->bytes ? asked->ahead_bytes : asked->bytes;
}

static void add_message(const tdm_rank_train *asked, tdm_program *program, bool sends,
                        uint32_t number, size_t bytes) {
  const bool outward = number != ASK && sends == asked->leads;
  add(program, &(tdm_command){.kind = sends ? TDM_COMMAND_SEND : TDM_COMMAND_RECEIVE,
                              .signals = !sends,
                              .id = number + (outward ? OUTWARD : 0),
                              .message = {.number = number,
                                          .peer = (uint32_t)asked->peer,
                                          .at = {.offset = sends ? 0 : second_half(asked)},
                                          .bytes = bytes}});
}

static void add_train(const tdm_rank_train *asked, tdm_program *program, bool sends) {
  add_message(asked, program, sends, AHEAD, asked->ahead_bytes);
  for (uint32_t i = 0; i < asked->messages; i++)
    add_message(asked, program, sends, FIRST_MESSAGE + i, asked->bytes);
}

static void make_programs(const tdm_rank_train *asked, train *made) {
  const tdm_device *host = tdm_context_host(asked->context);
  for (uint32_t i = 0; i < PROGRAMS; i++)
    made->programs[i] =
        (tdm_program){.queue = host->queues[i == SENDS ? TDM_QUEUE_SEND : TDM_QUEUE_RECEIVE],
                      .commands = made->commands[i]};
  add_message(asked, &made->programs[asked->leads ? SENDS : RECEIVES], asked->leads, ASK, 0);
  if (!asked->leads)
    add(&made->programs[SENDS], &(tdm_command){.kind = TDM_COMMAND_WAIT,
                                               .id = WAIT_ASKED,
                                               .wait = {.program = RECEIVES, .position = 0}});
  add_train(asked, &made->programs[asked->leads ? RECEIVES : SENDS], !asked->leads);
  if (asked->both_ways)
    add_train(asked, &made->programs[asked->leads ? SENDS : RECEIVES], asked->leads);
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
