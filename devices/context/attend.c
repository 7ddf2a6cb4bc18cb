/* Forwards calls of waiting threads to the attendant, which executes the network's queues. */
#include "devices/context/context_state.h"

bool tdm_context_attend(tdm_context *context, tdm_attendance *wait) {
  tdm_attendant *attendant = atomic_load_explicit(&context->attendant, memory_order_acquire);
  return attendant && attendant->attend(attendant, wait);
}

void tdm_context_attend_leave(tdm_context *context, tdm_attendance *wait) {
  tdm_attendant *attendant = atomic_load_explicit(&context->attendant, memory_order_acquire);
  if (attendant) attendant->leave(attendant, wait);
}

void tdm_context_attend_end(tdm_context *context, tdm_attendance *wait) {
  tdm_attendant *attendant = atomic_load_explicit(&context->attendant, memory_order_acquire);
  if (attendant) attendant->end(attendant, wait);
}

void tdm_context_set_attendant(tdm_context *context, tdm_attendant *attendant) {
  atomic_store_explicit(&context->attendant, attendant, memory_order_release);
}
