/* Removes or exchanges each wait, and each end of each message, in the plans of a job's ranks. Each
 * change is refused, with names, by verify on a rank or by the proof over all ranks. Built with
 * messages between hosts, and with those that emulated GPUs exchange (HOME, REPLICA: devices). */
#define _GNU_SOURCE /* usleep */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "graph/run/session.h"
#include "graph/schedule/verify_ranks.h"
#include "tests/graph/job.h"
#include "tests/options.h"

enum { ROWS = 12, REPLICAS = 4 };

/* The plans of all ranks, which live in one process. */
typedef struct job_plans {
  tdm_graph *(*build)(const job_rank *rank, tdm_value *out_loss);
  tdm_plan *plans[JOB_MOST_RANKS];
  tdm_step_message *messages[JOB_MOST_RANKS];
  tdm_rank_steps ranks[JOB_MOST_RANKS];
  tdm_allocator allocator;
  int count;
  int waits, ends; /* numbers of mutated waits and ends */
  int exchanges;   /* the ends of exchanges between devices among them */
  _Atomic int planned;
  _Atomic bool over;
} job_plans;

/* In a rank's thread, which cmocka cannot leave. */
static void end_test(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void end_test(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  abort();
}

/* ---- Models ---------------------------------------------------------------------------------- */

static tdm_graph *build_replicas(const job_rank *rank, tdm_value *out_loss) {
  char devices[REPLICAS * 16] = "";
  for (int i = 0; i < REPLICAS; i++) {
    const size_t length = strlen(devices);
    (void)snprintf(devices + length, sizeof devices - length, "%shost:%d/" REPLICA,
                   i > 0 ? "," : "", i * rank->rank_count / REPLICAS);
  }
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value targets =
      tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_place(graph, "host:0/" HOME);
  tdm_scope_push(graph, "model");
  const tdm_value words = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, MODEL_WIDTH);
  const tdm_value hidden = tdm_tanh(graph, "bend", tdm_linear(graph, "hidden", words, 8));
  const tdm_value scores = tdm_linear(graph, "scores", hidden, MODEL_WIDTH);
  tdm_scope_pop(graph);
  *out_loss = tdm_cross_entropy(graph, "loss", scores, targets);
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = devices);
  tdm_data_parallel(graph, "model", &options);
  return graph;
}

/* Parts on the first rank and the last, one of them read on both. */
static tdm_graph *build_tied(const job_rank *rank, tdm_value *out_loss) {
  char last[24];
  (void)snprintf(last, sizeof last, "host:%d/" HOME, rank->rank_count - 1);
  return tied_graph(rank->context, "host:0/" HOME, last, out_loss);
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static void list_messages(job_plans *job, int rank) {
  const tdm_plan *plan = job->plans[rank];
  const tdm_schedule *schedule = &plan->lowered.schedule;
  tdm_step_message *messages = calloc(schedule->step_count + 1, sizeof *messages);
  if (!messages) end_test("no memory");
  for (size_t s = 0; s < schedule->step_count; s++) {
    const tdm_ir_node *node = tdm_ir_node_at(&plan->graph, plan->lowered.sources[s].node);
    if (!tdm_ir_is_message(&plan->graph, node)) continue;
    const tdm_ir_value *read = tdm_ir_value_at(&plan->graph, node->inputs[0]);
    const int from = tdm_rank_of(&plan->graph, read->device);
    const int to = tdm_rank_of(&plan->graph, node->device);
    messages[s].end = from == rank ? TDM_MESSAGE_SEND : TDM_MESSAGE_RECEIVE;
    messages[s].number = node->index;
    messages[s].peer = (uint32_t)(from == rank ? to : from);
    messages[s].bytes = tdm_ir_value_at(&plan->graph, node->first_output)->bytes;
    if (!tdm_ir_is_exchange(&plan->graph, node)) continue;
    messages[s].device = (uint32_t)(from == rank ? read->device : node->device) + 1;
    messages[s].partner = (uint32_t)(from == rank ? node->device : read->device) + 1;
    job->exchanges++;
  }
  job->messages[rank] = messages;
  job->ranks[rank] = (tdm_rank_steps){schedule, messages};
}

static tdm_status verify(const job_plans *job) {
  return tdm_verify_ranks(&job->allocator, job->ranks, (uint32_t)job->count);
}

static tdm_schedule *schedule_of(const job_plans *job, int rank) {
  return &job->plans[rank]->lowered.schedule;
}

static const char *name_of(const job_plans *job, int rank, size_t step) {
  const tdm_plan *plan = job->plans[rank];
  return tdm_ir_node_at(&plan->graph, plan->lowered.sources[step].node)->name;
}

/* Expects that a change to a rank's step is refused. */
static void assert_refused(const job_plans *job, int rank, size_t step, const char *change,
                           const char *says) {
  if (verify(job) != TDM_INTERNAL)
    end_test("rank %d of %d, step %zu (%s): %s is not refused", rank, job->count, step,
             name_of(job, rank, step), change);
  if (!strstr(tdm_last_message(), says))
    end_test("rank %d, %s: \"%s\" does not say \"%s\"", rank, change, tdm_last_message(), says);
}

/* ---- Waits ----------------------------------------------------------------------------------- */

/* Asserts that the proof of one rank, or the proof over all ranks, refuses the plan. */
static void assert_wait_refused(const job_plans *job, int rank, size_t step, const char *change) {
  if (tdm_pass_verify(schedule_of(job, rank)) == TDM_INTERNAL || verify(job) == TDM_INTERNAL)
    return;
  end_test("rank %d of %d, step %zu (%s): a wait that is %s is not refused", rank, job->count, step,
           name_of(job, rank, step), change);
}

static void mutate_waits(job_plans *job, int rank) {
  tdm_schedule *schedule = schedule_of(job, rank);
  for (size_t s = 0; s < schedule->step_count; s++) {
    tdm_step *step = &schedule->steps[s];
    tdm_step_wait *waits = schedule->waits + step->first_wait;
    for (uint32_t i = 0; i < step->wait_count; i++) {
      const tdm_step_wait wait = waits[i];
      waits[i] = waits[--step->wait_count];
      assert_wait_refused(job, rank, s, "removed");
      waits[step->wait_count++] = waits[i];
      waits[i] = (tdm_step_wait){.step = (uint32_t)s};
      assert_wait_refused(job, rank, s, "for itself");
      waits[i] = wait;
      job->waits++;
    }
  }
  if (tdm_pass_verify(schedule) != TDM_OK) end_test("%s", tdm_last_message());
}

/* ---- Ends of messages ------------------------------------------------------------------------ */

static void mutate_end(job_plans *job, int rank, size_t step) {
  tdm_step_message *end = &job->messages[rank][step];
  tdm_step *scheduled = &schedule_of(job, rank)->steps[step];
  const tdm_step_message is = *end;
  char message[32];
  (void)snprintf(message, sizeof message, "message %u ", is.number);
  end->end = TDM_MESSAGE_NONE;
  assert_refused(job, rank, step, "an end that is removed", message);
  end->end = is.end == TDM_MESSAGE_SEND ? TDM_MESSAGE_RECEIVE : TDM_MESSAGE_SEND;
  assert_refused(job, rank, step, "an end that is turned round", message);
  *end = is;
  for (uint32_t peer = 0; peer < (uint32_t)job->count; peer++) {
    if (peer == is.peer) continue;
    end->peer = peer;
    assert_refused(job, rank, step, "another peer", message);
  }
  *end = is;
  end->partner++;
  assert_refused(job, rank, step, "another device at the other end", message);
  *end = is;
  end->bytes = is.bytes / 2;
  assert_refused(job, rank, step, "half of the bytes", message);
  *end = is;
  scheduled->phase = TDM_PHASE_UPDATE;
  assert_refused(job, rank, step, "a message in the update phase", message);
  scheduled->phase = TDM_PHASE_MAIN;
  job->ends++;
}

static void exchange_numbers(tdm_step_message *a, tdm_step_message *b) {
  const uint32_t number = a->number;
  a->number = b->number;
  b->number = number;
}

/* Exchanges it with each later end, of either direction and any peer. */
static void exchange_end(job_plans *job, int rank, size_t step) {
  tdm_step_message *messages = job->messages[rank];
  const size_t count = schedule_of(job, rank)->step_count;
  for (size_t other = step + 1; other < count; other++) {
    if (messages[other].end == TDM_MESSAGE_NONE) continue;
    exchange_numbers(&messages[step], &messages[other]);
    assert_refused(job, rank, step, "an exchange of two messages", "message ");
    exchange_numbers(&messages[step], &messages[other]);
  }
}

/* Among several that have one queue, by direction or by device: on another queue. */
static void move_end(job_plans *job, int rank, size_t step) {
  const tdm_schedule *schedule = schedule_of(job, rank);
  const tdm_step_message *messages = job->messages[rank];
  int alike = 0;
  for (size_t s = 0; s < schedule->step_count; s++)
    alike += messages[s].device == messages[step].device &&
             (messages[s].device != 0 ? messages[s].end != TDM_MESSAGE_NONE
                                      : messages[s].end == messages[step].end);
  if (alike < 2 || schedule->queue_count < 2) return;
  const uint32_t queue = schedule->steps[step].queue;
  schedule->steps[step].queue = (queue + 1) % schedule->queue_count;
  assert_refused(job, rank, step, "a message on another queue", "is on queue ");
  schedule->steps[step].queue = queue;
}

static void mutate_messages(job_plans *job, int rank) {
  for (size_t s = 0; s < schedule_of(job, rank)->step_count; s++) {
    if (job->messages[rank][s].end == TDM_MESSAGE_NONE) continue;
    mutate_end(job, rank, s);
    exchange_end(job, rank, s);
    move_end(job, rank, s);
  }
}

/* Makes a receive wait for a send of its own rank that depends on it through messages and waits. */
static void mutate_circles(job_plans *job, int rank) {
  tdm_schedule *schedule = schedule_of(job, rank);
  for (size_t s = 0; s < schedule->step_count; s++) {
    tdm_step *step = &schedule->steps[s];
    if (step->wait_count == 0 || job->messages[rank][s].end != TDM_MESSAGE_SEND) continue;
    tdm_step_wait *wait = &schedule->waits[step->first_wait];
    const tdm_step_wait is = *wait;
    *wait = (tdm_step_wait){.step = (uint32_t)s};
    assert_refused(job, rank, s, "a send that waits for itself", "the ranks wait for one another");
    *wait = is;
  }
}

/* ---- Votes ----------------------------------------------------------------------------------- */

/* One vote a rank, the last command of the main phase on its queue, which has waited for the end of
 * every other program of the phase. */
static void check_vote(const tdm_plan *plan) {
  int votes = 0;
  for (uint32_t p = 0; p < plan->program_count; p++) {
    const tdm_program *program = &plan->programs[p];
    for (uint32_t c = 0; c < program->count; c++) {
      if (program->commands[c].kind != TDM_COMMAND_VOTE) continue;
      votes++;
      if (p >= plan->main_program_count || c != program->count - 1)
        end_test("the vote is command %u of %u of program %u", c, program->count, p);
      uint32_t awaited = 0;
      for (uint32_t w = c; w-- > 0 && program->commands[w].kind == TDM_COMMAND_WAIT;) {
        const tdm_wait *wait = &program->commands[w].wait;
        awaited += wait->position + 1 == plan->programs[wait->program].count;
      }
      if (awaited < plan->main_program_count - plan->early_program_count - 1)
        end_test("the vote waits for the ends of %u programs of %u", awaited,
                 plan->main_program_count);
    }
  }
  if (votes != 1) end_test("%d votes", votes);
}

/* ---- A job ----------------------------------------------------------------------------------- */

static void mutate_all(job_plans *job) {
  for (int r = 0; r < job->count; r++)
    list_messages(job, r);
  if (verify(job) != TDM_OK) end_test("%s", tdm_last_message());
  for (int r = 0; r < job->count; r++) {
    mutate_waits(job, r);
    mutate_messages(job, r);
    mutate_circles(job, r);
    check_vote(job->plans[r]);
  }
  if (verify(job) != TDM_OK) end_test("%s", tdm_last_message());
  for (int r = 0; r < job->count; r++)
    free(job->messages[r]);
}

/* The last rank that has planned mutates all plans while the others wait. */
static tdm_status plan_and_mutate(job_rank *rank) {
  job_plans *job = (job_plans *)(uintptr_t)rank->user;
  const job_model model = {.optimizer = tdm_adam(0.01)};
  tdm_value loss;
  tdm_graph *graph = job->build(rank, &loss);
  tdm_session *session = job_session(graph, loss, &model);
  if (!session) return TDM_INTERNAL;
  test_batch batch;
  test_batch_make(&batch, rank->context, ROWS, 1);
  const tdm_status status = tdm_session_prepare(session, batch.feeds, 2, NULL, 0, true);
  test_batch_release(&batch);
  job->plans[rank->rank] = session->newest;
  const bool last = atomic_fetch_add(&job->planned, 1) == rank->rank_count - 1;
  if (status == TDM_OK && last) {
    mutate_all(job);
    atomic_store(&job->over, true);
  }
  while (status == TDM_OK && !atomic_load(&job->over))
    (void)usleep(1000);
  tdm_session_release(session);
  return status;
}

static void mutate_job(tdm_graph *(*build)(const job_rank *, tdm_value *), int count) {
  job_plans job = {.build = build, .count = count, .allocator = tdm_allocator_default()};
  job_rank ranks[JOB_MOST_RANKS];
  job_must(&(job_options){.rank_count = count, .sim_devices = 1, .user = &job}, plan_and_mutate,
           ranks);
  print_message("%d ranks: %d waits, %d ends of messages\n", count, job.waits, job.ends);
  assert_true(job.waits >= count);
  if (strncmp(REPLICA, "cuda", 4) == 0) assert_true(job.exchanges >= 2 * count);
  assert_true(job.ends >= 2 * count);
}

static void whatever_is_changed_in_plans_of_replicas_is_refused(void **state) {
  (void)state;
  for (int count = 2; count <= 4; count++)
    mutate_job(build_replicas, count);
}

static void whatever_is_changed_in_plans_of_parts_is_refused(void **state) {
  (void)state;
  for (int count = 2; count <= 3; count++)
    mutate_job(build_tied, count);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whatever_is_changed_in_plans_of_replicas_is_refused),
      cmocka_unit_test(whatever_is_changed_in_plans_of_parts_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
