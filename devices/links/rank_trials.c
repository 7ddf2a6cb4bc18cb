/* Messages between two ranks, or all-reduces over all ranks of a job, in one flight on each rank:
 *
 *     leads    sends     ask ---.                   .-> wait, ask ---.
 *              receives          \       ,-- ahead, 0, 1, ...         \
 *     follows  receives           `-> ask \                            `-> ask
 *              sends                  wait, ahead, 0, 1, ...               wait, ...
 *
 * Invariant: the calling thread waits for the end, so everything that the flight refers to may be
 * on its stack. */
#include <assert.h>

#include "devices/context/context.h"
#include "devices/links/trial.h"

enum {
  SENDS, /* programs */
  RECEIVES,
  PROGRAMS,
  MOST_COMMANDS = TDM_RANK_TRAIN_MOST_MESSAGES + 3, /* maximum per program; the program of a train
                                                     * is the longest */
  MOST_NUMBERS = TDM_RANK_TRAIN_MOST_MESSAGES + 2,
  FIRST_WAIT = 2 * MOST_NUMBERS, /* ids; a message has one as sent and one as received */
  IDS = FIRST_WAIT + TDM_RANK_TRAIN_MOST_ROUNDS,
};

typedef struct trains {
  tdm_command commands[PROGRAMS][MOST_COMMANDS];
  tdm_program programs[PROGRAMS];
} trains;

static void add(tdm_program *program, const tdm_command *command) {
  program->commands[program->count++] = *command;
}

/* Returns where a train is received while another one is sent. */
static size_t second_half(const tdm_rank_train *train) {
  if (!train->both_ways) return 0;
  return train->ahead_bytes > train->bytes ? train->ahead_bytes : train->bytes;
}

static void add_message(const tdm_rank_train *train, trains *made, bool sends, uint32_t number,
                        size_t bytes) {
  add(&made->programs[sends ? SENDS : RECEIVES],
      &(tdm_command){.kind = sends ? TDM_COMMAND_SEND : TDM_COMMAND_RECEIVE,
                     .signals = !sends,
                     .id = 2 * number + (sends ? 0 : 1),
                     .message = {.number = number,
                                 .peer = (uint32_t)train->peer,
                                 .at = {.offset = sends ? 0 : second_half(train)},
                                 .bytes = bytes}});
}

/* Adds a wait for the latest receive, which is the only command of its round on that queue. */
static void add_wait(trains *made, uint32_t round) {
  add(&made->programs[SENDS], &(tdm_command){.kind = TDM_COMMAND_WAIT,
                                             .id = FIRST_WAIT + round,
                                             .wait = {.program = RECEIVES, .position = round}});
}

static void add_train(const tdm_rank_train *train, trains *made, bool sends, uint32_t ask) {
  add_message(train, made, sends, ask + 1, train->ahead_bytes);
  for (uint32_t i = 0; i < train->messages; i++)
    add_message(train, made, sends, ask + 2 + i, train->bytes);
}

static void make_programs(const tdm_rank_train *train, trains *made) {
  const tdm_device *host = tdm_context_host(train->context);
  for (uint32_t i = 0; i < PROGRAMS; i++)
    made->programs[i] =
        (tdm_program){.queue = host->queues[i == SENDS ? TDM_QUEUE_SEND : TDM_QUEUE_RECEIVE],
                      .commands = made->commands[i]};
  for (uint32_t round = 0; round < train->rounds; round++) {
    if (train->leads && round > 0) add_wait(made, round - 1);
    add_message(train, made, train->leads, 2 * round, train->ask_bytes);
    if (!train->leads) add_wait(made, round);
    add_train(train, made, !train->leads, 2 * round);
    if (train->both_ways) add_train(train, made, train->leads, 2 * round);
  }
}

tdm_status tdm_rank_train_run(const tdm_rank_train *train, double *out_ns) {
  assert(train->rounds == 1 || train->messages == 0);
  trains made = {.programs = {{0}}};
  make_programs(train, &made);
  tdm_address base = (tdm_address)train->memory;
  uint8_t failed_ids[IDS] = {0};
  tdm_command_times times[IDS] = {{0}};
  tdm_flight flight = {
      .programs = made.programs, .bases = &base, .failed_ids = failed_ids, .times = times};
  const tdm_status status = tdm_trial_fly(train->context, &flight, PROGRAMS, IDS);
  const tdm_command_times *ahead = &times[2 * 1 + 1]; /* times of the received messages in the first
                                                       * round */
  if (train->messages > 0) *out_ns = tdm_trial_ns(ahead->end_ns, ahead[2 * train->messages].end_ns);
  for (uint32_t round = 0; round < train->rounds && train->messages == 0; round++)
    out_ns[round] = tdm_trial_ns(times[4 * round].begin_ns, ahead[4 * round].end_ns) / 2;
  return status;
}

tdm_status tdm_rank_sums_run(const tdm_rank_sums *sums, double *out_ns) {
  tdm_command commands[MOST_COMMANDS] = {{0}};
  const uint32_t count = sums->count + 1; /* the first one is not timed */
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
  uint8_t failed_ids[MOST_COMMANDS] = {0};
  tdm_command_times times[MOST_COMMANDS] = {{0}};
  tdm_flight flight = {
      .programs = &program, .bases = &base, .failed_ids = failed_ids, .times = times};
  const tdm_status status = tdm_trial_fly(sums->context, &flight, 1, MOST_COMMANDS);
  *out_ns = tdm_trial_ns(times[0].end_ns, times[count - 1].end_ns);
  return status;
}
