/* The signal and its flag. Invariant: the handler does nothing but set it. */
#include "examples/common/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t came;
static struct sigaction before;

static void keep(int signal_number) {
  (void)signal_number;
  came = 1;
}

void interrupt_watch(void) {
  struct sigaction action = {.sa_handler = keep, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
  (void)sigemptyset(&action.sa_mask);
  (void)sigaction(SIGINT, &action, &before);
  if (before.sa_handler == SIG_IGN) interrupt_leave();
}

void interrupt_leave(void) {
  (void)sigaction(SIGINT, &before, NULL);
}

bool interrupt_came(void) {
  return came != 0;
}
