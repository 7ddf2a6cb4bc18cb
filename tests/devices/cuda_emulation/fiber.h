/* Fibers: stacks that one thread switches between, with annotations for the sanitizers. Invariant:
 * a fiber is resumed only by the thread that began it. */
#ifndef TANDEM_TESTS_DEVICES_CUDA_EMULATION_FIBER_H
#define TANDEM_TESTS_DEVICES_CUDA_EMULATION_FIBER_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fiber {
  void *stack_pointer; /* stack position while another fiber runs */
  char *stack;         /* the lowest byte of its memory, a guard page; NULL: of the thread itself */
  void (*body)(void *user);
  void *user;
  struct fiber *resumer; /* the fiber that continues when it yields */
  void *fake_stack;      /* stack of AddressSanitizer */
  const void *bottom;    /* bottom of the previous stack, for AddressSanitizer */
  size_t bottom_bytes;
  void *context; /* fiber of ThreadSanitizer */
  int begun;     /* number of times that it was begun with that context */
  bool done;
} fiber;

/* Makes a zeroed or finished fiber ready to run body(user); keeps the stack it has. Ends the
 * process where there is no memory. */
void fiber_begin(fiber *self, void (*body)(void *user), void *user);
/* Runs self until it yields or its body returns (done), on behalf of resumer, the caller. */
void fiber_resume(fiber *self, fiber *resumer);
/* Suspends the fiber and returns to its resumer. Only `body` may call it. */
void fiber_yield(fiber *self);
/* The fiber must not be running. */
void fiber_deinit(fiber *self);

#ifdef __cplusplus
}
#endif
#endif
