/* Jobs of ranks of simnet with control channels, for its tests, and messages that a test sends over
 * a socket as a rank that it simulates. A busy machine does not reach the limits here. */
#ifndef TANDEM_TESTS_NET_CONTROL_JOB_H
#define TANDEM_TESTS_NET_CONTROL_JOB_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/park.h"
#include "net/control_state.h"
#include "tests/support/faulty_allocator.h"
#include "tests/support/simnet.h"

#define MOST 3
#define NEVER_NS UINT64_C(300000000000)

typedef struct rank {
  tdm_endpoint *endpoint;
  tdm_control_options options;
  tdm_control *control;
  tdm_status status;
  char message[TDM_NET_TEXT_BYTES];
  pthread_t thread;
  _Atomic int failures; /* calls of failed */
} rank;

typedef struct job {
  tdm_faulty_allocator *memory;
  tdm_simnet *net;
  int count;
  bool other_version; /* ranks played by the test have another version */
  rank ranks[MOST];
} job;

/* Creates endpoints and options of `count` ranks, with limits that suspect no rank. */
void open_net(job *of, int count);
/* Leaves those that were started, and expects all memory back. */
void close_net(job *of);
/* Runs tdm_control_start on a thread of the rank, or on the calling thread. Writes its result to
 * `status` and `message`. */
void begin(rank *one);
void *start_rank(void *one);
/* Starts all ranks, which must succeed. */
void start_all(job *of);
/* Waits until rank `of` has received that its peer's first queue has passed the command. */
void wait_progress(tdm_control *of, int peer, uint64_t command);
/* Waits until the rank has detected a failure. */
tdm_control_failure wait_failure(tdm_control *control);

/* ---- Ranks that the test plays --------------------------------------------------------------- */

typedef struct played {
  unsigned char key[CONTROL_KEY_BYTES];
  control_addresses addresses[MOST];
} played;

/* Plays the engine's exchange for all simulated ranks; a rank is reachable at its port unless that
 * is 0. */
played play(job *of, const uint16_t ports[MOST]);
/* Creates a socket with a new port, without a listener. */
int open_port(uint16_t *out_port);
/* Opens a connection to the port. */
int knock(uint16_t port);
void say(int peer, const unsigned char *bytes, size_t count);
void say_frame(int peer, const played *part, const control_message *message);
/* Sends a message of rank 1 to rank 0; command: of a beat. */
void say_message(int peer, const played *part, control_kind kind, uint64_t sequence,
                 uint64_t command);
/* Waits for the next message of that kind; others are passed over. */
control_message hear(int peer, const played *part, control_kind kind);
/* Waits until the other side closes; ignores its data. */
void wait_end(int peer);

enum { STRANGERS, MALFORMED, FORGED, REPEATED };
/* Waits until at least this many of one of these were dropped. */
void wait_count(tdm_control *control, size_t which, uint64_t least);

#endif
