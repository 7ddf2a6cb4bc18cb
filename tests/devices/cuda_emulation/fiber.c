/* Fibers with a hand-written switch, which saves the registers that a call must preserve and
 * exchanges stacks; ucontext would make a system call each time. Invariant: every switch is
 * announced to the sanitizer before and confirmed after. */
#include "tests/devices/cuda_emulation/fiber.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ADDRESS_SANITIZER 1
#endif
#if __has_feature(thread_sanitizer)
#define WITH_THREAD_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define WITH_ADDRESS_SANITIZER 1
#endif
#if defined(__SANITIZE_THREAD__)
#define WITH_THREAD_SANITIZER 1
#endif

#ifdef WITH_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
/* With GRID_RACES this file is linked with ThreadSanitizer and not instrumented itself: fibers look
 * like threads that nothing orders. */
#ifdef GRID_RACES
#define WITH_THREAD_SANITIZER 1
enum { SWITCH_FLAGS = 1 /* __tsan_switch_to_fiber_no_sync */, CONTEXT_USES = INT32_MAX };
#else
enum { SWITCH_FLAGS = 0, CONTEXT_USES = 1000 };
#endif
#ifdef WITH_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

enum { GUARD_BYTES = 4096, STACK_BYTES = 64 << 10 };
/* Bytes at the top of a stack that calls which never return (entry, leave) may leave poisoned. */
enum { ENTRY_BYTES = 1024 };

/* ---- The switch ------------------------------------------------------------------------------ */

/* Stores the current stack pointer in *save and continues where `to` was stored. */
void tdm_fiber_switch(void **save, void *to);

#if defined(__x86_64__)
/* It jumps where it could return: the processor foresees a return to who called, which is never
 * where this leads, and a jump to where it led before. */
__asm__(".text\n"
        ".globl tdm_fiber_switch\n"
        ".hidden tdm_fiber_switch\n"
        ".type tdm_fiber_switch,@function\n"
        "tdm_fiber_switch:\n"
        "  pushq %rbp\n"
        "  pushq %rbx\n"
        "  pushq %r12\n"
        "  pushq %r13\n"
        "  pushq %r14\n"
        "  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n"
        "  popq %r14\n"
        "  popq %r13\n"
        "  popq %r12\n"
        "  popq %rbx\n"
        "  popq %rbp\n"
        "  popq %rcx\n"
        "  jmpq *%rcx\n"
        ".size tdm_fiber_switch,.-tdm_fiber_switch\n");
enum { SAVED_WORDS = 6, ENTRY_WORD = 6, FRAME_WORDS = 8 }; /* the last one: no return address */
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl tdm_fiber_switch\n"
        ".hidden tdm_fiber_switch\n"
        ".type tdm_fiber_switch,%function\n"
        "tdm_fiber_switch:\n"
        "  stp x29, x30, [sp, #-160]!\n"
        "  stp x19, x20, [sp, #16]\n"
        "  stp x21, x22, [sp, #32]\n"
        "  stp x23, x24, [sp, #48]\n"
        "  stp x25, x26, [sp, #64]\n"
        "  stp x27, x28, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n"
        "  stp d10, d11, [sp, #112]\n"
        "  stp d12, d13, [sp, #128]\n"
        "  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n"
        "  str x9, [x0]\n"
        "  mov sp, x1\n"
        "  ldp x19, x20, [sp, #16]\n"
        "  ldp x21, x22, [sp, #32]\n"
        "  ldp x23, x24, [sp, #48]\n"
        "  ldp x25, x26, [sp, #64]\n"
        "  ldp x27, x28, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n"
        "  ldp d10, d11, [sp, #112]\n"
        "  ldp d12, d13, [sp, #128]\n"
        "  ldp d14, d15, [sp, #144]\n"
        "  ldp x29, x30, [sp], #160\n"
        "  ret\n"
        ".size tdm_fiber_switch,.-tdm_fiber_switch\n");
enum { ENTRY_WORD = 1, FRAME_WORDS = 20 };
#else
#error "no switch of fibers for this processor"
#endif

/* The fiber that is about to run for the first time, which finds itself here. */
static _Thread_local fiber *starting;

static void leave(fiber *self) {
#ifdef WITH_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(self->done ? NULL : &self->fake_stack, self->bottom,
                                 self->bottom_bytes);
#endif
#ifdef WITH_THREAD_SANITIZER
  __tsan_switch_to_fiber(self->resumer->context, SWITCH_FLAGS);
#endif
  tdm_fiber_switch(&self->stack_pointer, self->resumer->stack_pointer);
#ifdef WITH_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(self->fake_stack, &self->bottom, &self->bottom_bytes);
#endif
}

static void entry(void) {
  fiber *self = starting;
#ifdef WITH_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(NULL, &self->bottom, &self->bottom_bytes);
#endif
  self->body(self->user);
  self->done = true;
  leave(self);
  abort(); /* a fiber that has ended is never resumed */
}

/* ---- A fiber's life -------------------------------------------------------------------------- */

static void stack_create(fiber *self) {
  char *memory = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, GUARD_BYTES, PROT_NONE) != 0) {
    fprintf(stderr, "emulated CUDA: no memory for the stack of a thread\n");
    abort();
  }
#ifdef WITH_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(memory + GUARD_BYTES, STACK_BYTES);
#endif
  self->stack = memory;
}

/* Replaces the context from time to time. A body that ends leaves calls that never return, which a
 * context counts. */
static void context_renew(fiber *self) {
#ifdef WITH_THREAD_SANITIZER
  if (self->context && ++self->begun < CONTEXT_USES) return;
  if (self->context) __tsan_destroy_fiber(self->context);
  self->context = __tsan_create_fiber(0);
#endif
  self->begun = 0;
}

void fiber_begin(fiber *self, void (*body)(void *user), void *user) {
  if (!self->stack) stack_create(self);
  context_renew(self);
#ifdef WITH_ADDRESS_SANITIZER
  char *top =
      self->stack + GUARD_BYTES + STACK_BYTES; /* the frames of a body that ended are clean */
  __asan_unpoison_memory_region(top - ENTRY_BYTES, ENTRY_BYTES);
#endif
  self->body = body;
  self->user = user;
  self->done = false;
  self->fake_stack = NULL;
  void **frame = (void **)(void *)(self->stack + GUARD_BYTES + STACK_BYTES) - FRAME_WORDS;
  for (int i = 0; i < FRAME_WORDS; i++)
    frame[i] = NULL;
  frame[ENTRY_WORD] = (void *)(uintptr_t)entry;
  self->stack_pointer = frame;
}

void fiber_resume(fiber *self, fiber *resumer) {
  self->resumer = resumer;
  starting = self;
#ifdef WITH_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(&resumer->fake_stack, self->stack + GUARD_BYTES, STACK_BYTES);
#endif
#ifdef WITH_THREAD_SANITIZER
  resumer->context = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(self->context, SWITCH_FLAGS);
#endif
  tdm_fiber_switch(&resumer->stack_pointer, self->stack_pointer);
#ifdef WITH_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(resumer->fake_stack, NULL, NULL);
#endif
}

void fiber_yield(fiber *self) {
  leave(self);
}

void fiber_deinit(fiber *self) {
  if (!self->stack) return;
#ifdef WITH_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(self->stack, GUARD_BYTES + STACK_BYTES);
#endif
#ifdef WITH_THREAD_SANITIZER
  __tsan_destroy_fiber(self->context);
#endif
  (void)munmap(self->stack, GUARD_BYTES + STACK_BYTES);
  *self = (fiber){0};
}
