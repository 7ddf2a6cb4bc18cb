/* Round trips between two ranks, in one flight on each rank:
 *
 *     leads    sends     0 ----.        .-> wait, 2 ----.
 *              receives         \   .--'   1             \  ...
 *     follows  receives          `-/---> 0                `-> 2
 *              sends              `----- wait, 1
 *
 * Invariant: the calling thread waits for the end, so everything that the flight refers to may be
 * on its stack. */
#include "devices/context/context.h"
#include "devices/links/trial.h"

enum {
  SENDS, /* programs */
  RECEIVES,
  PROGRAMS,
  MOST_COMMANDS = 2 * TDM_RANK_TRIAL_MOST_TRIPS,
  IDS = 3 * TDM_RANK_TRIAL_MOST_TRIPS, /* a send, its wait, a receive */
};

typedef struct trips {
  tdm_command commands[PROGRAMS][MOST_COMMANDS];
  tdm_program programs[PROGRAMS];
} trips;

static uint32_t send_id(uint32_t trip) {
  return 3 * trip;
}

static uint32_t receive_id(uint32_t trip) {
  return 3 * trip + 1;
}

static void add(tdm_program *program, const tdm_command *command) {
  program->commands[program->count++] = *command;
}

static void add_message(const tdm_rank_trial *trial, tdm_program *program, tdm_command_kind kind,
                        uint32_t id, uint32_t number) {
  add(program,
      &(tdm_command){
          .kind = (uint8_t)kind,
          .signals = kind == TDM_COMMAND_RECEIVE,
          .id = id,
          .message = {.number = number, .peer = (uint32_t)trial->peer, .bytes = trial->bytes}});
}

/* Adds a wait for the receive of a trip, which is the trip's only command on its queue. */
static void add_wait(tdm_program *program, uint32_t trip, uint32_t received) {
  add(program, &(tdm_command){.kind = TDM_COMMAND_WAIT,
                              .id = send_id(trip) + 2,
                              .wait = {.program = RECEIVES, .position = received}});
}

static void make_programs(const tdm_rank_trial *trial, trips *made) {
  const tdm_device *host = tdm_context_host(trial->context);
  const uint32_t back = trial->leads ? 1 : 0; /* which of a trip's messages is received here */
  for (uint32_t i = 0; i < PROGRAMS; i++)
    made->programs[i] =
        (tdm_program){.queue = host->queues[i == SENDS ? TDM_QUEUE_SEND : TDM_QUEUE_RECEIVE],
                      .commands = made->commands[i]};
  tdm_program *sends = &made->programs[SENDS];
  for (uint32_t trip = 0; trip < trial->trips; trip++) {
    if (!trial->leads) add_wait(sends, trip, trip);
    if (trial->leads && trip > 0) add_wait(sends, trip, trip - 1);
    add_message(trial, sends, TDM_COMMAND_SEND, send_id(trip), 2 * trip + 1 - back);
    add_message(trial, &made->programs[RECEIVES], TDM_COMMAND_RECEIVE, receive_id(trip),
                2 * trip + back);
  }
}

tdm_status tdm_rank_trial_run(const tdm_rank_trial *trial, double *out_ns) {
  trips made = {.programs = {{0}}};
  make_programs(trial, &made);
  tdm_address base = (tdm_address)trial->memory;
  uint8_t failed_ids[IDS] = {0};
  tdm_command_times times[IDS] = {{0}};
  tdm_flight flight = {
      .programs = made.programs, .bases = &base, .failed_ids = failed_ids, .times = times};
  const tdm_status status = tdm_trial_fly(trial->context, &flight, PROGRAMS, IDS);
  for (uint32_t trip = 0; trip < trial->trips; trip++)
    out_ns[trip] = tdm_trial_ns(times[send_id(trip)].begin_ns, times[receive_id(trip)].end_ns) / 2;
  return status;
}
