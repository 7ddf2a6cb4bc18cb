/* Groups of GPUs: joining, the sums and transfers on a queue, and ending them when a rank is lost.
 * Invariant: see sums.h. A member that has failed has no communicator. */
#include "devices/cuda/sums.h"

#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "devices/context/context.h"
#include "devices/cuda/device.h"
#include "devices/cuda/library/errors.h"
#include "devices/cuda/library/nccl.h"

_Static_assert(TDM_ENGINE_KEY_BYTES == (int)TDM_NCCL_ID_BYTES, "a key is NCCL's id");

/* A sum on the stream. from is the queue's first point that shows that the stream has reached it;
 * end is the point after it. */
typedef struct sum_under_way {
  uint64_t from;
  uint64_t end;
  tdm_group_wait wait;
} sum_under_way;

struct tdm_member {
  const tdm_nccl_api *api;
  tdm_device *device;
  tdm_group *group;                   /* NULL: nothing was put on the stream yet */
  tdm_nccl_communicator communicator; /* NULL: it has failed */
  bool in_progress;                   /* a sum is being enqueued */
  tdm_member *next; /* next in the queue's list of members with sums in progress */
  bool listed;
  sum_under_way sums[TDM_CUDA_MARKS]; /* number i at i modulo its size */
  uint64_t ended;                     /* number of sums that have ended */
  uint64_t begun;                     /* number of sums that have begun */
  uint64_t made;                      /* number of sums that were enqueued */
  uint64_t left_ns;
  uint64_t failing_ns; /* time of NCCL's first report of a failure; 0: it reports none */
  tdm_nccl_code code;  /* the code of that failure */
  tdm_status failure;
  char words[TDM_MESSAGE_BYTES];
};

/* ---- Codes ----------------------------------------------------------------------------------- */

static tdm_status status_of(tdm_nccl_code code) {
  switch (code) {
  case TDM_NCCL_CUDA_ERROR:
    return TDM_DEVICE_LOST;
  case TDM_NCCL_SYSTEM_ERROR:
  case TDM_NCCL_REMOTE_ERROR:
    return TDM_UNAVAILABLE;
  default:
    return TDM_INTERNAL;
  }
}

static tdm_status fail_code(const tdm_nccl_api *api, tdm_nccl_communicator communicator,
                            tdm_nccl_code code, const char *what) {
  char words[160];
  (void)snprintf(words, sizeof(words), "%s", api->last_error(communicator));
  return tdm_fail(status_of(code),
                  "%s: NCCL failed: %s%s%s (code %d); with TANDEM_NCCL=0 sums go through hosts",
                  what, api->error_text(code), words[0] ? ", " : "", words, code);
}

static bool is_begun(tdm_nccl_code code) {
  return code == TDM_NCCL_SUCCESS || code == TDM_NCCL_IN_PROGRESS;
}

/* Gets the result of what was begun; fails if it has failed. */
static tdm_status progress(tdm_member *member, const char *what, bool *out_over) {
  tdm_nccl_code error = TDM_NCCL_SUCCESS;
  const tdm_nccl_code code = member->api->async_error(member->communicator, &error);
  *out_over = error != TDM_NCCL_IN_PROGRESS;
  if (code != TDM_NCCL_SUCCESS) error = code;
  if (is_begun(error)) return TDM_OK;
  member->code = error;
  return fail_code(member->api, member->communicator, error, what);
}

/* How long a GPU whose peer has failed waits for the peer's reason, within one process. */
enum { TOLD_NS = 100000000 };

/* NCCL reports a lost peer only as an unspecified failure. Returns true while the control channel
 * or the peer's own thread may still report the reason. */
static bool may_be_named(tdm_member *member) {
  const tdm_messenger *messenger = tdm_context_messenger(member->device->context);
  const uint64_t now_ns = tdm_time_ns();
  if (member->failing_ns == 0) member->failing_ns = now_ns;
  return now_ns - member->failing_ns < (messenger ? messenger->naming_ns : TOLD_NS);
}

/* ---- The engine ------------------------------------------------------------------------------ */

static tdm_status make_key(tdm_device *device, unsigned char *out_key) {
  const tdm_nccl_api *api = tdm_cuda_device_of(device)->nccl;
  const tdm_nccl_code code = api->unique_id(out_key);
  return code == TDM_NCCL_SUCCESS ? TDM_OK : fail_code(api, NULL, code, "making a group of GPUs");
}

static void leave(tdm_member *member) {
  if (!member) return;
  if (member->communicator) {
    /* Makes the GPU current. NCCL restores the thread's previous device, which it would otherwise
     * open. */
    tdm_cuda_gpu *gpu = &tdm_cuda_device_of(member->device)->gpu;
    const bool entered = tdm_cuda_gpu_enter(gpu) == TDM_OK;
    (void)member->api->abort(member->communicator);
    if (entered) tdm_cuda_gpu_leave(gpu);
  }
  tdm_release(tdm_context_allocator(member->device->context), member, sizeof *member);
}

static tdm_status join(tdm_device *device, const unsigned char *key, int index, int count,
                       tdm_member **out_member) {
  *out_member = NULL;
  tdm_member *member =
      tdm_allocate(tdm_context_allocator(device->context), sizeof *member, "a place in a group");
  if (!member) return TDM_OUT_OF_MEMORY;
  member->api = tdm_cuda_device_of(device)->nccl;
  member->device = device;
  tdm_cuda_gpu *gpu = &tdm_cuda_device_of(device)->gpu;
  tdm_status status = tdm_cuda_gpu_enter(gpu);
  if (status == TDM_OK) {
    const tdm_nccl_code code = member->api->init(&member->communicator, count, key, index);
    tdm_cuda_gpu_leave(gpu);
    if (!is_begun(code)) status = fail_code(member->api, NULL, code, "joining a group of GPUs");
  }
  if (status != TDM_OK) {
    leave(member);
    return tdm_fail_within(status, "%s", device->name);
  }
  *out_member = member;
  return TDM_OK;
}

static tdm_status joined(tdm_member *member, bool *out_joined) {
  const tdm_status status = progress(member, "joining a group of GPUs", out_joined);
  if (status == TDM_OK) return TDM_OK;
  *out_joined = false;
  if (member->code == TDM_NCCL_REMOTE_ERROR && may_be_named(member)) return TDM_OK;
  return tdm_fail_within(status, "%s", member->device->name);
}

static const tdm_engine engine = {
    .make_key = make_key, .join = join, .joined = joined, .leave = leave};

static void print_version(int version, char out_text[16]) {
  (void)snprintf(out_text, 16, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

void tdm_cuda_engine_find(tdm_device *device, bool allowed) {
  char *absence = device->engine_absence;
  const size_t capacity = sizeof device->engine_absence;
  if (!allowed) {
    (void)snprintf(absence, capacity, "TANDEM_NCCL is 0");
    return;
  }
  const tdm_nccl_api *api = tdm_cuda_device_of(device)->nccl;
  const char *reason = api->absence();
  if (reason) {
    (void)snprintf(absence, capacity, "no NCCL: %s", reason);
    return;
  }
  int version = 0;
  const tdm_nccl_code code = api->version(&version);
  char has[16], least[16];
  print_version(version, has);
  print_version(TDM_NCCL_LEAST_VERSION, least);
  if (code != TDM_NCCL_SUCCESS || version < TDM_NCCL_LEAST_VERSION) {
    (void)snprintf(absence, capacity, "NCCL %s is too old: %s or newer is needed", has, least);
    return;
  }
  device->engine = &engine;
  (void)snprintf(device->engine_name, sizeof device->engine_name, "NCCL %s", has);
}

/* ---- Failing --------------------------------------------------------------------------------- */

/* Fails the member's sums among commands [first, end) with its reason. */
static void fail_sums(const tdm_member *member, const tdm_submission *submission, uint32_t first,
                      uint32_t end) {
  const tdm_program *program = &submission->flight->programs[submission->program];
  for (uint32_t i = first; i < end; i++) {
    const tdm_command *command = &program->commands[i];
    if (!tdm_cuda_command_is_of_group(command)) continue;
    if (command->message.group->members[command->message.peer] != member) continue;
    tdm_flight_fail(submission->flight, command->id, member->failure, member->words);
  }
}

/* Fails a member with the thread's message: ends its operations in progress and fails all of them.
 * Notifies the other ranks, unless they were notified, and this rank's other members detect it. */
static void fail_member(tdm_cuda_queue *queue, tdm_member *member, tdm_status status) {
  member->failure = status;
  (void)snprintf(member->words, sizeof member->words, "%s", tdm_last_message());
  tdm_messenger *messenger = tdm_context_messenger(member->device->context);
  uint64_t left_ns = 0;
  if (messenger && messenger->check(messenger, &left_ns) == TDM_OK) {
    (void)tdm_fail(status, "%s", member->words);
    messenger->give_up(messenger, status);
  }
  tdm_member *none = NULL;
  if (member->group) (void)atomic_compare_exchange_strong(&member->group->lost, &none, member);
  if (member->communicator) (void)member->api->abort(member->communicator);
  member->communicator = NULL;
  member->in_progress = false;
  for (uint64_t i = queue->retired; i != queue->marked; i++) {
    const tdm_cuda_mark *mark = &queue->marks[i % TDM_CUDA_MARKS];
    fail_sums(member, mark->submission, mark->first, mark->end);
  }
  if (queue->head) fail_sums(member, queue->head, queue->marked_cursor, queue->head->cursor);
}

/* Implements the queue's end_sums. */
static void lose_sums(tdm_cuda_queue *queue, tdm_status status) {
  char words[TDM_MESSAGE_BYTES];
  if (!queue->summing) return;
  (void)snprintf(words, sizeof(words), "%s", tdm_last_message());
  for (tdm_member *member = queue->summing; member; member = member->next) {
    if (member->failure != TDM_OK) continue;
    (void)tdm_fail(status, "%s", words);
    fail_member(queue, member, status);
  }
  (void)tdm_fail(status, "%s", words);
}

/* ---- Sums ------------------------------------------------------------------------------------ */

static const char *what_of(const tdm_command *command) {
  return command->kind == TDM_COMMAND_ALL_REDUCE ? "a sum over GPUs" : "bytes between GPUs";
}

static tdm_nccl_code call(const tdm_member *member, const tdm_command *command, void *memory,
                          tdm_cuda_stream stream) {
  const tdm_message *message = &command->message;
  const tdm_nccl_api *api = member->api;
  const int partner = (int)message->partner;
  if (command->kind == TDM_COMMAND_SEND)
    return api->send(member->communicator, memory, message->bytes, partner, stream);
  if (command->kind == TDM_COMMAND_RECEIVE)
    return api->receive(member->communicator, memory, message->bytes, partner, stream);
  return api->all_reduce(member->communicator, memory,
                         message->bytes / tdm_dtype_bytes(message->dtype), message->dtype, stream);
}

/* Records a sum from its enqueuing until it has ended. */
static void note_sum(tdm_member *member, const tdm_submission *submission,
                     const tdm_command *command) {
  const tdm_message *message = &command->message;
  const bool sends = command->kind == TDM_COMMAND_SEND;
  const bool between = command->kind != TDM_COMMAND_ALL_REDUCE;
  const uint64_t from = submission->base + submission->cursor;
  member->sums[member->made++ % TDM_CUDA_MARKS] =
      (sum_under_way){.from = from,
                      .end = from + 1,
                      .wait = {.what = between ? "the transfer" : "the sum",
                               .group = message->group,
                               .between = between,
                               .members = {sends ? message->peer : message->partner,
                                           sends ? message->partner : message->peer},
                               .position = tdm_group_position(submission->flight, message),
                               .bytes = message->bytes,
                               .step = submission->flight->scalars->step,
                               .name = command->name}};
}

static tdm_status begin_sum(tdm_cuda_queue *queue, const tdm_submission *submission,
                            const tdm_command *command, tdm_member *member) {
  const tdm_message *sum = &command->message;
  const tdm_flight *flight = submission->flight;
  tdm_device *device = queue->base.device;
  void *memory;
  TDM_TRY(tdm_cuda_queue_refusal(queue));
  TDM_TRY(device->ops->translate(device, flight->bases[sum->at.base] + sum->at.offset, sum->bytes,
                                 &memory));
  if (flight->times) TDM_TRY(tdm_cuda_queue_time(queue, &flight->times[command->id]));
  const tdm_nccl_code code = call(member, command, memory, queue->kernel_stream.stream);
  if (!is_begun(code)) return fail_code(member->api, member->communicator, code, what_of(command));
  member->in_progress = code == TDM_NCCL_IN_PROGRESS;
  note_sum(member, submission, command);
  if (member->listed) return TDM_OK;
  member->listed = true;
  member->next = queue->summing;
  queue->summing = member;
  queue->end_sums = lose_sums;
  return TDM_OK;
}

/* Returns true if a sum may be put on the stream, which requires a mark before it. The mark shows
 * when the stream has reached the sum; until then the GPU computes, or waits for other work. */
static bool is_marked(tdm_cuda_queue *queue, const tdm_submission *submission,
                      const tdm_member *member) {
  if (queue->marked_cursor < submission->cursor)
    tdm_cuda_queue_mark(queue, submission->cursor, false);
  return tdm_cuda_queue_has_room(queue) && member->made - member->ended < TDM_CUDA_MARKS;
}

/* Enqueues a sum. If its members' inputs were not computed, it is summed all the same, because the
 * others wait for it. The vote then fails. */
bool tdm_cuda_sum_enqueue(tdm_cuda_queue *queue, const tdm_submission *submission,
                          const tdm_command *command) {
  tdm_flight *flight = submission->flight;
  tdm_member *member = command->message.group->members[command->message.peer];
  if (!tdm_cuda_command_works(flight, command)) return true;
  member->group = command->message.group;
  bool over = true;
  tdm_status status = TDM_OK;
  if (member->in_progress) {
    status = progress(member, what_of(command), &over);
    if (status != TDM_OK) return false; /* tdm_cuda_sums_look handles it */
    member->in_progress = !over;
    return over;
  }
  if (member->failure == TDM_OK && !is_marked(queue, submission, member)) return false;
  (void)tdm_flight_spoiled(flight, command);
  if (member->failure != TDM_OK) {
    tdm_flight_fail(flight, command->id, member->failure, member->words);
    return true;
  }
  const tdm_cuda_api *api = tdm_cuda_device_of(queue->base.device)->gpu.api;
  api->range_begin(!command->name ? "exchange" : command->name);
  status = begin_sum(queue, submission, command, member);
  api->range_end();
  if (status == TDM_OK) return !member->in_progress;
  fail_member(queue, member, status);
  tdm_flight_fail(flight, command->id, member->failure, member->words);
  return true;
}

/* Finds which of the member's sums have begun and ended, and reports the newest that has begun. */
static void note_begun(tdm_cuda_queue *queue, tdm_member *member) {
  const uint64_t completed = atomic_load(&queue->base.completed);
  const uint64_t before = member->begun;
  while (member->begun < member->made &&
         completed >= member->sums[member->begun % TDM_CUDA_MARKS].from)
    member->begun++;
  while (member->ended < member->begun &&
         completed >= member->sums[member->ended % TDM_CUDA_MARKS].end)
    member->ended++;
  tdm_messenger *messenger = tdm_context_messenger(member->device->context);
  if (!messenger || member->begun == before) return;
  const sum_under_way *newest = &member->sums[(member->begun - 1) % TDM_CUDA_MARKS];
  if (newest->from < queue->summing_from) return; /* a sum of another group was after it */
  queue->summing_from = newest->from;
  const tdm_group *group = newest->wait.group;
  size_t own = 0;
  while (group->members[own] != member)
    own++;
  messenger->begun(messenger, group->slots[own], newest->wait.position);
}

/* Fails if the member's sums will never end. */
static tdm_status check_member(tdm_member *member) {
  tdm_messenger *messenger = tdm_context_messenger(member->device->context);
  bool over;
  if (messenger) TDM_TRY(messenger->check(messenger, &member->left_ns));
  const tdm_member *lost = messenger ? NULL : atomic_load(&member->group->lost);
  if (lost) return tdm_fail(lost->failure, "%s", lost->words);
  const tdm_status status = progress(member, "what GPUs do together", &over);
  if (status == TDM_OK && messenger && member->ended < member->begun)
    return messenger->check_group(messenger, &member->sums[member->ended % TDM_CUDA_MARKS].wait);
  if (status == TDM_OK || status == TDM_INTERNAL) return status;
  if (!messenger && member->code != TDM_NCCL_REMOTE_ERROR) return status;
  return may_be_named(member) ? TDM_OK : status;
}

bool tdm_cuda_sums_look(tdm_cuda_queue *queue) {
  bool moved = false;
  tdm_member **at = &queue->summing;
  while (*at) {
    tdm_member *member = *at;
    note_begun(queue, member);
    bool over = member->failure != TDM_OK || member->ended == member->made;
    const tdm_status status = over ? TDM_OK : check_member(member);
    if (status != TDM_OK) {
      fail_member(queue, member, status);
      over = moved = true;
    }
    if (over) {
      *at = member->next;
      member->listed = false;
      member->left_ns = member->failing_ns = 0;
    } else {
      at = &member->next;
    }
  }
  return moved;
}
