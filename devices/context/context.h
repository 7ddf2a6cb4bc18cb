/* Internal side of the context: devices, kernels, the loop, the submit lock, bells, faults.
 * Invariant: devices and queues are fixed once the context is created; sequence numbers of all
 * queues are given out under one lock, so that two runs meet every queue in the same order. */
#ifndef TANDEM_DEVICES_CONTEXT_CONTEXT_H
#define TANDEM_DEVICES_CONTEXT_CONTEXT_H

#include <pthread.h>

#include "core/allocate.h"
#include "core/loop.h"
#include "core/oversubscription.h"
#include "devices/contract/device.h"
#include "devices/contract/red_zones.h"

/* Borrowed, valid as long as the context. */
const tdm_allocator *tdm_context_allocator(const tdm_context *context);
tdm_loop *tdm_context_loop(tdm_context *context);
tdm_faults *tdm_context_faults(tdm_context *context);
void tdm_context_log(tdm_context *context, tdm_log_level level, const char *format, ...)
    TDM_PRINTF(3, 4);

/* The devices of all ranks, rank after rank; the same on each. */
tdm_device *tdm_context_device(tdm_context *context, size_t index);
/* "host:1/cpu:0", or "cpu:0" for this rank's own. NULL with a message that tells why: unknown kind,
 * no such index or rank, no driver, not built in. */
tdm_device *tdm_context_find_device(tdm_context *context, const char *name);
/* The same for what describes graphs, which all ranks describe alike: a plain name is rank 0's. */
tdm_device *tdm_context_find_placement(tdm_context *context, const char *name);
/* The devices of a list, "cuda:0,cuda:1": 1 to capacity; one may stand twice. "host:*" in place of
 * a rank stands for all, in their order, "*" in place of an index for all of the kind.
 * INVALID_ARGUMENT for what is no such list, else why a device is not there. */
tdm_status tdm_context_find_devices(tdm_context *context, const char *list, size_t capacity,
                                    tdm_device **out_devices, size_t *out_count) TDM_WARN_UNUSED;
tdm_status tdm_context_find_placements(tdm_context *context, const char *list, size_t capacity,
                                       tdm_device **out_devices, size_t *out_count) TDM_WARN_UNUSED;
/* The kind:index of a device's name, which has its rank where there are several; borrowed. */
const char *tdm_device_plain_name(const tdm_context *context, const tdm_device *device);
/* A rank's cpu:0: through it goes what that rank's other devices exchange with other ranks. */
tdm_device *tdm_context_host_of(tdm_context *context, int rank);
/* This rank's. */
tdm_device *tdm_context_host(tdm_context *context);
/* The device of another rank that corresponds to one of any; NULL: that rank has none. */
tdm_device *tdm_context_counterpart(tdm_context *context, const tdm_device *device, int rank);
/* Which instructions the host's kernels are made of; static. */
const char *tdm_context_instructions(const tdm_context *context);
/* What connects the ranks (devices/network/network.h), and carries messages; NULL for one rank. */
struct tdm_network;
struct tdm_network *tdm_context_network(const tdm_context *context);
tdm_messenger *tdm_context_messenger(const tdm_context *context);
size_t tdm_context_queue_count(const tdm_context *context);

/* The machine, and the cores that a device of a kind on the host was given; NULL for other kinds.
 * They say which node is nearest; tdm_context_divide_cores may narrow them before the start. */
struct tdm_topology;
struct tdm_core_range;
const struct tdm_topology *tdm_context_topology(const tdm_context *context);
const struct tdm_core_range *tdm_context_cores(const tdm_context *context,
                                               const tdm_device *device);

/* The context's staging buffers (devices/staging/pool.h); borrowed, valid as long as the context.
 */
struct tdm_pool;
struct tdm_pool *tdm_context_pool(tdm_context *context);

/* Who keeps memory of devices for later, and gives it back where a device is full; a part of a
 * struct of theirs. */
typedef struct tdm_keeper {
  struct tdm_keeper *before;
  struct tdm_keeper *behind;
  /* Gives back what nobody uses of the device's memory; false: there was nothing. Any thread,
   * whatever it has locked: it waits only for a moment for a lock that somebody holds who takes
   * memory. */
  bool (*give_back)(struct tdm_keeper *keeper, const tdm_device *device);
} tdm_keeper;
void tdm_context_add_keeper(tdm_context *context, tdm_keeper *keeper);
/* Nobody is at it afterwards. One that was not added is legal. */
void tdm_context_remove_keeper(tdm_context *context, tdm_keeper *keeper);
/* Asks all of them. False: there was nothing. */
bool tdm_context_free_kept(tdm_context *context, const tdm_device *device);

/* What copies cost (devices/links/table.h); borrowed, valid as long as the context. */
struct tdm_links;
struct tdm_links *tdm_context_links(tdm_context *context);

/* Groups of devices that sum together (devices/groups/groups.h); NULL for one rank. */
struct tdm_groups;
struct tdm_groups *tdm_context_groups(const tdm_context *context);

/* The machine that the context's options describe; NULL: none. Borrowed. */
struct tdm_machine;
const struct tdm_machine *tdm_context_machine(const tdm_context *context);

tdm_red_zones tdm_context_red_zones(const tdm_context *context);
/* The number of the next run of the context, from 1. Any thread. */
uint64_t tdm_context_count_run(tdm_context *context);

/* Divides the host's cores anew, with cores of their own for the devices on the host beyond the
 * first kind or without. False: the devices have started, there are none of that kind, or the cores
 * are divided like this. */
bool tdm_context_divide_cores(tdm_context *context, bool secondary_cores);
/* Starts the devices' threads; idempotent; the first session calls it. */
tdm_status tdm_context_start(tdm_context *context) TDM_WARN_UNUSED;

/* NULL, without a message, when there is none. */
const tdm_kernel *tdm_context_find_kernel(tdm_context *context, const char *operation,
                                          const char *executes, tdm_dtype dtype);

/* A bell of the context's TDM_MAX_WAITERS: one per worker, the rest lent to host threads.
 * acquire answers the shared last one when all are lent. */
uint32_t tdm_context_bell_acquire(tdm_context *context);
void tdm_context_bell_release(tdm_context *context, uint32_t bell);
tdm_doorbell *tdm_context_bell(tdm_context *context, uint32_t bell);
/* Publishes that every sequence number below `completed` is reached, and rings who waits. */
void tdm_queue_publish(tdm_queue *queue, uint64_t completed);
/* Asks to be rung on bell `bell` (of the context) at the queue's next publish. Read the bell, ask,
 * look at the queue again, park: nothing is missed. */
void tdm_queue_ask(tdm_queue *queue, uint32_t bell);
/* For a thread that waits for what a queue of the network, or what follows one, brings: takes the
 * network's queues on. True: look, and call again; false: there is no network, nothing is out, or
 * it takes too long, so park. leave: before parking; end: when the wait is over, parked or not. */
bool tdm_context_attend(tdm_context *context, tdm_attendance *wait);
void tdm_context_attend_leave(tdm_context *context, tdm_attendance *wait);
void tdm_context_attend_end(tdm_context *context, tdm_attendance *wait);
/* Who executes the network's queues; NULL: nobody any more. */
void tdm_context_set_attendant(tdm_context *context, tdm_attendant *attendant);
/* What its waiting threads know of who else wants their cores. */
tdm_oversubscription *tdm_context_oversubscription(tdm_context *context);
/* Lets the calling thread run on every core that the process may use, whatever its creator was
 * bound to. */
void tdm_context_use_all_cores(const tdm_context *context);
/* Returns true if two devices compute on the same cores of the host. */
bool tdm_context_share_cores(const tdm_context *context, const tdm_device *a, const tdm_device *b);
/* Does a device compute on the host's cores? One that waits for a point does not. */
bool tdm_context_computes(tdm_context *context);
/* tdm_oversubscription_yield, to which it is no loss where a device of ours had the core. */
bool tdm_context_yield(tdm_context *context, uint64_t now_ns);

/* Gives the submissions of one flight their sequence numbers, atomically with respect to other
 * flights, and hands each to its queue. flight->remaining is set to count first. If adopt is true,
 * one submission whose queue is an idle cpu queue and whose program does not split is run on the
 * calling thread, after the others were handed over. Refused with CANCELLED once the context is
 * closing, with UNSUPPORTED where a program is of a device that is only described. */
tdm_status tdm_context_submit(tdm_context *context, tdm_flight *flight, tdm_submission *submissions,
                              size_t count, bool adopt) TDM_WARN_UNUSED;

/* The same for some of a flight's submissions, to a context that was started: the caller has set
 * flight->remaining to as many as it will submit altogether. */
tdm_status tdm_context_submit_part(tdm_context *context, tdm_flight *flight,
                                   tdm_submission *submissions, size_t count,
                                   bool adopt) TDM_WARN_UNUSED;

/* One blocking copy outside any plan, through the devices' queues (staged through the host where
 * there is no direct route). */
tdm_status tdm_context_copy(tdm_context *context, const tdm_memory *from, const tdm_memory *to,
                            size_t bytes) TDM_WARN_UNUSED;

/* Is this another process than the one that made the context, which it inherited by fork? Then
 * nothing of the context may be used, its locks included: a thread that is not here may hold them.
 * One relaxed load. */
bool tdm_context_is_inherited(const tdm_context *context);
/* For public functions: INVALID_ARGUMENT for NULL, UNAVAILABLE for an inherited one. */
tdm_status tdm_context_check(const tdm_context *context) TDM_WARN_UNUSED;

/* Users of the context that must settle before it is closed (runs in flight). */
bool tdm_context_enter(tdm_context *context); /* false once it is closing, or if it is inherited */
tdm_status tdm_context_refuse(const tdm_context *context); /* why enter answered false */
void tdm_context_leave(tdm_context *context);

/* Called by a thread of one of the context's devices when it begins: such a thread closes the
 * context without waiting, since it cannot wait for itself. */
void tdm_context_thread_begins(tdm_context *context);

#endif
