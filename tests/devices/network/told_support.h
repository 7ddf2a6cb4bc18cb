/* A job of three ranks over a simulated, monitored net. Each rank has separate memory. Invariant:
 * all ranks of an open job have joined. */
#ifndef TANDEM_TESTS_DEVICES_NETWORK_TOLD_SUPPORT_H
#define TANDEM_TESTS_DEVICES_NETWORK_TOLD_SUPPORT_H

#include <pthread.h>

#include "devices/network/network.h"
#include "net/control.h"
#include "tests/devices/support.h"
#include "tests/support/simnet.h"

/* The last of three ranks gives up. By then the others have transfers in progress with each
 * other. */
enum { RANKS = 3, TELLERS = 2, LOST = 2, BYTES = 4096 };

/* Mostly no test of silent ranks, which occur on a busy machine. */
#define NEVER_NS UINT64_C(600000000000)

typedef tdm_status (*tell_function)(tdm_network *network, unsigned char *memory);

typedef struct rank {
  tdm_endpoint *endpoint; /* endpoint of the network */
  tdm_network *network;
  tell_function tell;
  uint64_t silence_ns;
  unsigned char *memory; /* ((1 + RANKS) * BYTES), of mmap */
  tdm_status status;
  char message[TDM_MESSAGE_BYTES];
  pthread_t thread;
} rank;

typedef struct job {
  tdm_simnet *net;
  rank ranks[RANKS];
} job;

void open_job(job *in, tell_function tell, uint64_t silence_ns);
void close_job(job *in);
/* Starts threads of the first ranks. tell_main runs a rank's exchange, and stores its result. */
void start(job *in, int count, void *(*begin)(void *user));
void join(job *in, int count);
void *tell_main(void *user);
void await_posts(job *in, int r, uint64_t count);

#endif
