/* Publishes points and requests rings at them. Invariant: publisher and requester both write, then
 * read what the other writes, all sequentially consistent. So either the requester sees the point
 * when it checks again, or the publisher sees the bit and rings. */
#include "devices/context/context_state.h"

/* Wakes a waiter. If the network waits, the publishing thread sends the result itself, because
 * waking another thread would delay it. */
static void tell_waiter(tdm_context *context, uint32_t bell) {
  tdm_attendant *attendant = atomic_load_explicit(&context->attendant, memory_order_acquire);
  if (attendant && attendant->bell == bell)
    attendant->look(attendant);
  else
    tdm_doorbell_ring(tdm_context_bell(context, bell));
}

/* Rare, so it is kept out of the fast path of a queue without waiters. */
static __attribute__((noinline)) void ring_waiters(tdm_queue *queue) {
  uint64_t waiters = atomic_exchange_explicit(&queue->waiters, 0, memory_order_seq_cst);
  while (waiters != 0) {
    const uint32_t bell = (uint32_t)__builtin_ctzll(waiters);
    waiters &= waiters - 1;
    tell_waiter(queue->device->context, bell);
  }
}

void tdm_queue_publish(tdm_queue *queue, uint64_t completed) {
  atomic_store_explicit(&queue->completed, completed, memory_order_seq_cst);
  if (atomic_load_explicit(&queue->waiters, memory_order_seq_cst) != 0) ring_waiters(queue);
}

void tdm_queue_ask(tdm_queue *queue, uint32_t bell) {
  atomic_fetch_or_explicit(&queue->waiters, (uint64_t)1 << bell, memory_order_seq_cst);
}
