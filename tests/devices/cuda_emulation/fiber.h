/* Fibers: stacks that one thread switches between, told to the sanitizers. Invariant: a fiber is
 * resumed by the thread that began it, and by no other. */
#ifndef TANDEM_TESTS_DEVICES_CUDA_EMULATION_FIBER_H
#define TANDEM_TESTS_DEVICES_CUDA_EMULATION_FIBER_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fiber {
  void *stack_pointer; /* where it stands, while another runs */
  char *stack;         /* the lowest byte of its memory, a guard page; NULL: of the thread itself */
  void (*body)(void *user);
  void *user;
  struct fiber *resumer; /* who goes on when it yields */
  void *fake_stack;      /* AddressSanitizer's */
  const void *bottom;    /* of the stack it came from, for AddressSanitizer */
  size_t bottom_bytes;
  void *context; /* ThreadSanitizer's */
  int begun;     /* how often, with that context */
  bool done;
} fiber;

/* Makes a zeroed or finished fiber ready to run body(user); keeps the stack it has. Ends the
 * process where there is no memory. */
void fiber_begin(fiber *self, void (*body)(void *user), void *user);
/* Runs self until it yields or its body returns (done), on behalf of resumer, the caller. */
void fiber_resume(fiber *self, fiber *resumer);
/* From inside body: goes back to the resumer. */
void fiber_yield(fiber *self);
/* Of one that is not running. */
void fiber_deinit(fiber *self);

#ifdef __cplusplus
}
#endif
#endif
