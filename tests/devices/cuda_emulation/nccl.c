/* Test double of NCCL: fills devices/cuda/library/nccl.h's table. Members are emulated GPUs of any
 * contexts. A sum is an operation on each member's stream, which ends when the last member has
 * reached it; a transfer does the same for its two members. Invariant: behaviour that NCCL leaves
 * undefined ends the test with a message: sums of members that differ in order, count or dtype,
 * calls while one is in progress, two streams, a destroyed communicator. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cuda/library/nccl.h"
#include "tests/devices/cuda_emulation/emulation.h"

enum { NEWEST = 22809, MOST_MEMBERS = 16, MOST_LOOKS = 8 };

/* One sum, or what one member sends another, as its members come to it. */
typedef struct sum {
  struct sum *next;
  uint64_t number; /* among the sums of its team, or the transfers between two members */
  int from;        /* -1: all take part */
  int to;
  size_t count;
  tdm_dtype dtype;
  int first; /* the member that called it first */
  int arrived;
  void *memory[MOST_MEMBERS]; /* the host's pointers, by member; of two the sender's first */
  bool done;
} sum;

/* Data that members of one id share. It is kept until the process ends. */
typedef struct team {
  struct team *next;
  uint64_t number;
  int count; /* 0: no member has joined */
  int joined;
  bool broken; /* a member has aborted */
  tdm_nccl_communicator members[MOST_MEMBERS];
  sum *sums; /* newest first */
} team;

struct tdm_nccl_communicator_opaque {
  tdm_nccl_communicator next; /* list of all ever created, to recognize destroyed ones */
  team *of;
  int index;
  int ordinal;
  bool joined;     /* it has learned that all have joined */
  int looks;       /* polls until the operation in progress is over */
  uint64_t called; /* sums */
  uint64_t sent[MOST_MEMBERS];
  uint64_t received[MOST_MEMBERS];
  tdm_cuda_stream stream;
  struct sum_data *ready; /* sum that is appended to the stream when its enqueuing is complete */
  bool aborted;
  tdm_nccl_code error; /* error of this communicator */
};

typedef struct sum_data {
  tdm_nccl_communicator communicator;
  sum *of;
  void *memory; /* the host's pointer */
  bool never;   /* ends: the communicator has failed */
} sum_data;

static _Thread_local int version_here = NEWEST;

static struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  team *teams;
  tdm_nccl_communicator communicators;
  uint64_t team_count;
  uint64_t random;
  uint64_t calls;
  uint64_t fail_at;
  int fail_code;
  bool fails_later;
  unsigned stalls; /* emulated_stall */
  uint64_t sums;
  uint64_t transfers;
} state = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .random = 1};

static void lock(void) {
  (void)pthread_mutex_lock(&state.mutex);
}

static void unlock(void) {
  (void)pthread_mutex_unlock(&state.mutex);
}

/* ---- What tests set -------------------------------------------------------------------------- */

void emulation_set_nccl(int version) {
  version_here = version;
}

void emulation_set_nccl_jitter(uint64_t seed) {
  lock();
  state.random = seed;
  unlock();
}

void emulation_fail_nccl_at(uint64_t n, int code, bool later) {
  lock();
  state.calls = 0;
  state.fail_at = n;
  state.fail_code = code;
  state.fails_later = later;
  unlock();
}

void emulation_stall_nccl(unsigned stalls) {
  lock();
  state.stalls = stalls;
  unlock();
}

uint64_t emulation_nccl_calls(void) {
  lock();
  const uint64_t calls = state.calls;
  unlock();
  return calls;
}

uint64_t emulation_nccl_sums(void) {
  lock();
  const uint64_t sums = state.sums;
  unlock();
  return sums;
}

uint64_t emulation_nccl_transfers(void) {
  lock();
  const uint64_t transfers = state.transfers;
  unlock();
  return transfers;
}

/* ---- Under the lock -------------------------------------------------------------------------- */

/* Counts a call; true: it is the one to fail. */
static bool strike(void) {
  return ++state.calls == state.fail_at;
}

/* Looks until something is over. */
static int draw_looks(void) {
  if (state.random == 0) return 1;
  state.random = state.random * 6364136223846793005u + 1442695040888963407u;
  return 1 + (int)((state.random >> 33) % MOST_LOOKS);
}

static void check_alive(tdm_nccl_communicator communicator) {
  if (!communicator || communicator->aborted)
    emulated_misuse("a call of a communicator that is gone");
}

/* ---- The library ----------------------------------------------------------------------------- */

static const char *absence(void) {
  return version_here == 0 ? "libnccl.so.2: emulated as missing" : NULL;
}

static tdm_nccl_code version(int *out_version) {
  *out_version = version_here;
  return TDM_NCCL_SUCCESS;
}

static const char *error_text(tdm_nccl_code code) {
  static const char *const texts[] = {"no error",
                                      "unhandled cuda error",
                                      "unhandled system error",
                                      "internal error",
                                      "invalid argument",
                                      "invalid usage",
                                      "remote process exited or there was a network error",
                                      "NCCL operation in progress"};
  return texts[code];
}

static const char *last_error(tdm_nccl_communicator communicator) {
  return communicator ? "as the emulation was asked to" : "";
}

static tdm_nccl_code unique_id(unsigned char *out_id) {
  memset(out_id, 0, TDM_NCCL_ID_BYTES);
  lock();
  const int code = strike() ? state.fail_code : TDM_NCCL_SUCCESS;
  if (code != TDM_NCCL_SUCCESS) {
    unlock();
    return code;
  }
  team *made = calloc(1, sizeof *made);
  if (!made) emulated_misuse("no memory");
  made->number = ++state.team_count;
  made->next = state.teams;
  state.teams = made;
  memcpy(out_id, &made->number, sizeof made->number);
  unlock();
  return TDM_NCCL_SUCCESS;
}

/* ---- Joining --------------------------------------------------------------------------------- */

static team *find_team(const unsigned char *id) {
  uint64_t number;
  memcpy(&number, id, sizeof(number));
  team *found = state.teams;
  while (found && found->number != number)
    found = found->next;
  return found;
}

static tdm_nccl_code join(tdm_nccl_communicator *out, int count, const unsigned char *id,
                          int index) {
  team *of = find_team(id);
  if (!of || count < 1 || count > MOST_MEMBERS || index < 0 || index >= count)
    return TDM_NCCL_INVALID_ARGUMENT;
  if (of->count != 0 && of->count != count)
    emulated_misuse("member %d joins %d others, and another %d", index, count, of->count);
  if (of->members[index]) emulated_misuse("two members have number %d", index);
  const int ordinal = emulated_ordinal();
  if (emulated_is_lost(ordinal)) return TDM_NCCL_CUDA_ERROR;
  const bool fails = strike();
  if (fails && !state.fails_later) return state.fail_code;
  emulated_open(ordinal);
  tdm_nccl_communicator made = calloc(1, sizeof *made);
  if (!made) emulated_misuse("no memory");
  *made = (struct tdm_nccl_communicator_opaque){.next = state.communicators,
                                                .of = of,
                                                .index = index,
                                                .ordinal = ordinal,
                                                .looks = draw_looks(),
                                                .error = fails ? state.fail_code : 0};
  of->count = count;
  of->joined++;
  of->members[index] = state.communicators = made;
  emulated_count(1);
  *out = made;
  return TDM_NCCL_IN_PROGRESS;
}

static tdm_nccl_code init(tdm_nccl_communicator *out, int count, const unsigned char *id,
                          int index) {
  *out = NULL;
  lock();
  const tdm_nccl_code code = join(out, count, id, index);
  unlock();
  return code;
}

/* Returns the error of a communicator. The caller holds the lock. */
static tdm_nccl_code error_of(tdm_nccl_communicator communicator) {
  const team *of = communicator->of;
  if (communicator->error != 0) return communicator->error;
  if (of->broken) return TDM_NCCL_REMOTE_ERROR;
  if (emulated_is_lost(communicator->ordinal)) return TDM_NCCL_CUDA_ERROR;
  const bool joins =
      of->joined < of->count || ((state.stalls & EMULATED_JOINING) != 0 && !communicator->joined);
  if (joins || (communicator->looks > 0 && --communicator->looks > 0)) return TDM_NCCL_IN_PROGRESS;
  communicator->joined = true;
  return TDM_NCCL_SUCCESS;
}

static void run_sum(void *data);

static tdm_nccl_code async_error(tdm_nccl_communicator communicator, tdm_nccl_code *out_error) {
  lock();
  check_alive(communicator);
  *out_error = error_of(communicator);
  sum_data *ready = *out_error == TDM_NCCL_SUCCESS ? communicator->ready : NULL;
  if (ready) communicator->ready = NULL;
  unlock();
  if (ready) emulated_enqueue(communicator->stream, run_sum, ready);
  return TDM_NCCL_SUCCESS;
}

/* An operation on a stream ends soon. One that was only in progress never begins. */
static tdm_nccl_code abort_communicator(tdm_nccl_communicator communicator) {
  lock();
  check_alive(communicator);
  sum_data *ready = communicator->ready;
  communicator->ready = NULL;
  communicator->aborted = true;
  communicator->of->members[communicator->index] = NULL;
  communicator->of->broken = true;
  emulated_count(-1);
  (void)pthread_cond_broadcast(&state.changed);
  unlock();
  free(ready);
  return TDM_NCCL_SUCCESS;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* Returns the number of the member's next operation of this kind. The caller holds the lock. */
static uint64_t count_next(tdm_nccl_communicator communicator, int from, int to) {
  if (from < 0) return communicator->called++;
  return from == communicator->index ? communicator->sent[to]++ : communicator->received[from]++;
}

/* Returns the member's next sum, which is the same as the others'. The caller must hold the
 * lock. */
static sum *find_sum(tdm_nccl_communicator communicator, int from, int to, size_t count,
                     tdm_dtype dtype) {
  team *of = communicator->of;
  const uint64_t number = count_next(communicator, from, to);
  sum *found = of->sums;
  while (found && (found->number != number || found->from != from || found->to != to))
    found = found->next;
  if (!found) {
    found = calloc(1, sizeof *found);
    if (!found) emulated_misuse("no memory");
    *found = (sum){.next = of->sums,
                   .number = number,
                   .from = from,
                   .to = to,
                   .count = count,
                   .dtype = dtype,
                   .first = communicator->index};
    of->sums = found;
  }
  if (found->count != count || found->dtype != dtype)
    emulated_misuse(
        "sum %d of member %d is of %zu of dtype %d, and that of member %d of %zu of dtype %d",
        (int)number, communicator->index, count, (int)dtype, found->first, found->count,
        (int)found->dtype);
  return found;
}

/* From another member on for each sum: in which order NCCL adds is its own business. */
static void add_up(const sum *of, int members) {
  const int begin = (int)(of->number % (uint64_t)members);
  for (size_t i = 0; i < of->count; i++) {
    double wide = 0;
    float narrow = 0;
    for (int m = 0; m < members; m++) {
      const void *memory = of->memory[(begin + m) % members];
      if (of->dtype == TDM_FLOAT64)
        wide += ((const double *)memory)[i];
      else
        narrow += ((const float *)memory)[i];
    }
    for (int m = 0; m < members; m++) {
      if (of->dtype == TDM_FLOAT64)
        ((double *)of->memory[m])[i] = wide;
      else
        ((float *)of->memory[m])[i] = narrow;
    }
  }
}

/* Runs on a member's stream: waits for the others there, as a kernel of NCCL does, until it is
 * aborted. The last to arrive adds, while the other streams wait. */
static void run_sum(void *data) {
  const sum_data *mine = data;
  tdm_nccl_communicator communicator = mine->communicator;
  sum *of = mine->of;
  const int members = of->from < 0 ? communicator->of->count : 2;
  const int place = of->from < 0 ? communicator->index : communicator->index == of->to;
  lock();
  const bool stalls = (state.stalls & (of->from < 0 ? EMULATED_SUMS : EMULATED_TRANSFERS)) != 0;
  of->memory[place] = mine->memory;
  if (!mine->never && !communicator->aborted) of->arrived++;
  if (of->arrived == members && !communicator->of->broken && !of->done && !stalls) {
    if (of->from < 0)
      add_up(of, members);
    else
      memcpy(of->memory[1], of->memory[0], of->count);
    of->done = true;
    *(of->from < 0 ? &state.sums : &state.transfers) += 1;
    (void)pthread_cond_broadcast(&state.changed);
  }
  while ((!of->done || mine->never) && !communicator->aborted)
    (void)pthread_cond_wait(&state.changed, &state.mutex);
  unlock();
}

/* from, to: -1: all take part. */
static tdm_nccl_code put_on(tdm_nccl_communicator communicator, int from, int to, void *memory,
                            size_t count, tdm_dtype dtype, tdm_cuda_stream stream) {
  lock();
  check_alive(communicator);
  if (communicator->ready || communicator->of->joined < communicator->of->count)
    emulated_misuse("a sum while a call of its communicator is in progress");
  if (communicator->stream && communicator->stream != stream)
    emulated_misuse("sums of a communicator on two streams");
  const bool fails = strike();
  tdm_nccl_code code = fails && !state.fails_later ? state.fail_code : communicator->error;
  if (emulated_is_lost(communicator->ordinal)) code = TDM_NCCL_CUDA_ERROR;
  void *block = emulated_block(memory, count * tdm_dtype_bytes(dtype), communicator->ordinal);
  if (code == TDM_NCCL_SUCCESS && !block) code = TDM_NCCL_INVALID_ARGUMENT;
  sum_data *made = code == TDM_NCCL_SUCCESS ? malloc(sizeof *made) : NULL;
  if (made) {
    sum *of = find_sum(communicator, from, to, count, dtype);
    *made = (sum_data){communicator, of, block, fails};
    if (fails) communicator->error = state.fail_code;
    communicator->stream = stream;
    communicator->looks = draw_looks();
    if (communicator->looks > 1) {
      communicator->ready = made;
      code = TDM_NCCL_IN_PROGRESS;
    }
  }
  unlock();
  if (made && code == TDM_NCCL_SUCCESS) emulated_enqueue(stream, run_sum, made);
  return code;
}

static tdm_nccl_code all_reduce(tdm_nccl_communicator communicator, void *memory, size_t count,
                                tdm_dtype dtype, tdm_cuda_stream stream) {
  return put_on(communicator, -1, -1, memory, count, dtype, stream);
}

static void check_partner(tdm_nccl_communicator communicator, int partner) {
  if (partner < 0 || partner >= communicator->of->count || partner == communicator->index)
    emulated_misuse("member %d has no partner %d", communicator->index, partner);
}

static tdm_nccl_code send_bytes(tdm_nccl_communicator communicator, const void *memory,
                                size_t bytes, int partner, tdm_cuda_stream stream) {
  check_partner(communicator, partner);
  return put_on(communicator, communicator->index, partner, (void *)(uintptr_t)memory, bytes,
                TDM_UINT8, stream);
}

static tdm_nccl_code receive_bytes(tdm_nccl_communicator communicator, void *memory, size_t bytes,
                                   int partner, tdm_cuda_stream stream) {
  check_partner(communicator, partner);
  return put_on(communicator, partner, communicator->index, memory, bytes, TDM_UINT8, stream);
}

const tdm_nccl_api *tdm_nccl_api_linked(void) {
  static const tdm_nccl_api api = {
      .absence = absence,
      .version = version,
      .error_text = error_text,
      .last_error = last_error,
      .unique_id = unique_id,
      .init = init,
      .async_error = async_error,
      .abort = abort_communicator,
      .all_reduce = all_reduce,
      .send = send_bytes,
      .receive = receive_bytes,
  };
  return &api;
}
