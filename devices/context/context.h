/* Internal side of the context: devices, kernels, the loop, the submit lock, bells, faults.
 * Invariant: devices and queues are constant after the context is created. Sequence numbers of all
 * queues are assigned under one lock, so that two runs enter every queue in the same order. */
#ifndef TANDEM_DEVICES_CONTEXT_CONTEXT_H
#define TANDEM_DEVICES_CONTEXT_CONTEXT_H

#include <pthread.h>

#include "core/allocate.h"
#include "core/loop.h"
#include "core/oversubscription.h"
#include "devices/contract/device.h"
#include "devices/contract/red_zones.h"

/* Returns the context's allocator, borrowed and valid as long as the context. */
const tdm_allocator *tdm_context_allocator(const tdm_context *context);
tdm_loop *tdm_context_loop(tdm_context *context);
tdm_faults *tdm_context_faults(tdm_context *context);
void tdm_context_log(tdm_context *context, tdm_log_level level, const char *format, ...)
    TDM_PRINTF(3, 4);

/* Returns a device by its index among the devices of all ranks, rank after rank; indices are the
 * same on each rank. */
tdm_device *tdm_context_device(tdm_context *context, size_t index);
/* Returns the device named "host:1/cpu:0", or "cpu:0" on this rank. Returns NULL with a message
 * that states the reason: unknown kind, no such index or rank, no driver, not built in. */
tdm_device *tdm_context_find_device(tdm_context *context, const char *name);
/* Like tdm_context_find_device, for placements in graphs, which all ranks describe identically: a
 * plain name means rank 0. */
tdm_device *tdm_context_find_placement(tdm_context *context, const char *name);
/* Finds the devices of a list, "cuda:0,cuda:1": 1 to capacity; a device may be repeated. "host:*"
 * means all ranks, in order, and index "*" means all devices of the kind. Fails with
 * INVALID_ARGUMENT if the list is malformed, and otherwise with the reason why a device is
 * missing. */
tdm_status tdm_context_find_devices(tdm_context *context, const char *list, size_t capacity,
                                    tdm_device **out_devices, size_t *out_count) TDM_WARN_UNUSED;
tdm_status tdm_context_find_placements(tdm_context *context, const char *list, size_t capacity,
                                       tdm_device **out_devices, size_t *out_count) TDM_WARN_UNUSED;
/* Returns the kind:index of a device's name, without the rank that it has in a job of several;
 * borrowed. */
const char *tdm_device_plain_name(const tdm_context *context, const tdm_device *device);
/* Returns a rank's cpu:0, through which its other devices communicate with other ranks. */
tdm_device *tdm_context_host_of(tdm_context *context, int rank);
/* Returns the cpu:0 of this rank. */
tdm_device *tdm_context_host(tdm_context *context);
/* Returns the corresponding device of another rank, or NULL if that rank has none. */
tdm_device *tdm_context_counterpart(tdm_context *context, const tdm_device *device, int rank);
/* Returns the instruction set of the host's kernels; static. */
const char *tdm_context_instructions(const tdm_context *context);
/* The connection between the ranks (devices/network/network.h), which carries messages; NULL for
 * one rank. */
struct tdm_network;
struct tdm_network *tdm_context_network(const tdm_context *context);
tdm_messenger *tdm_context_messenger(const tdm_context *context);
size_t tdm_context_queue_count(const tdm_context *context);

/* The machine, and the cores of a device of a kind on the host (NULL for other kinds). They
 * determine which node is nearest. tdm_context_divide_cores may change them before the start. */
struct tdm_topology;
struct tdm_core_range;
const struct tdm_topology *tdm_context_topology(const tdm_context *context);
const struct tdm_core_range *tdm_context_cores(const tdm_context *context,
                                               const tdm_device *device);

/* The context's staging buffers (devices/staging/pool.h); borrowed, valid as long as the context.
 */
struct tdm_pool;
struct tdm_pool *tdm_context_pool(tdm_context *context);

/* A cache of unused device memory that releases memory when a device is full. The owner embeds it
 * in a struct. */
typedef struct tdm_keeper {
  struct tdm_keeper *before;
  struct tdm_keeper *behind;
  /* Releases unused memory of the device. Returns false if there was none. Any thread, with any
   * locks held: it may only wait briefly for locks that are held by threads that allocate
   * memory. */
  bool (*give_back)(struct tdm_keeper *keeper, const tdm_device *device);
} tdm_keeper;
void tdm_context_add_keeper(tdm_context *context, tdm_keeper *keeper);
/* Removes a keeper, which is not called afterwards. Legal for one that was not added. */
void tdm_context_remove_keeper(tdm_context *context, tdm_keeper *keeper);
/* Makes all keepers release memory. Returns false if there was none. */
bool tdm_context_free_kept(tdm_context *context, const tdm_device *device);

/* The costs of copies (devices/links/table.h); borrowed, valid as long as the context. */
struct tdm_links;
struct tdm_links *tdm_context_links(tdm_context *context);

/* Groups of devices that communicate directly (devices/groups/groups.h); NULL for one rank. */
struct tdm_groups;
struct tdm_groups *tdm_context_groups(const tdm_context *context);

/* The machine that the context's options describe, borrowed; NULL if there is none. */
struct tdm_machine;
const struct tdm_machine *tdm_context_machine(const tdm_context *context);

tdm_red_zones tdm_context_red_zones(const tdm_context *context);
/* Returns the number of the context's next run, from 1. Any thread. */
uint64_t tdm_context_count_run(tdm_context *context);

/* Divides the host's cores again, with or without separate cores for devices on the host beyond the
 * first kind. Returns false if the devices have started, there are no such devices, or the cores
 * are already divided this way. */
bool tdm_context_divide_cores(tdm_context *context, bool secondary_cores);
/* Starts the devices' threads; idempotent. The first session calls it. */
tdm_status tdm_context_start(tdm_context *context) TDM_WARN_UNUSED;

/* Returns a kernel, or NULL without a message if there is none. */
const tdm_kernel *tdm_context_find_kernel(tdm_context *context, const char *operation,
                                          const char *executes, tdm_dtype dtype);

/* Borrows one of the context's TDM_MAX_WAITERS bells. Each worker has one; the rest is lent to host
 * threads. Returns the shared last one if all are lent. */
uint32_t tdm_context_bell_acquire(tdm_context *context);
void tdm_context_bell_release(tdm_context *context, uint32_t bell);
tdm_doorbell *tdm_context_bell(tdm_context *context, uint32_t bell);
/* Publishes that every sequence number below `completed` is reached, and rings the waiters'
 * bells. */
void tdm_queue_publish(tdm_queue *queue, uint64_t completed);
/* Requests a ring of bell `bell` (of the context) at the queue's next publish. To miss nothing:
 * read the bell, request, check the queue again, then park. */
void tdm_queue_ask(tdm_queue *queue, uint32_t bell);
/* For a thread that waits for the result of a queue of the network, or of its successors: executes
 * the network's queues. Returns true to check and call again. Returns false to park, because there
 * is no network, nothing is outstanding, or the wait takes too long. Call _leave before parking,
 * and _end after the wait, whether or not the thread parked. */
bool tdm_context_attend(tdm_context *context, tdm_attendance *wait);
void tdm_context_attend_leave(tdm_context *context, tdm_attendance *wait);
void tdm_context_attend_end(tdm_context *context, tdm_attendance *wait);
/* Sets the executor of the network's queues; NULL: none any more. */
void tdm_context_set_attendant(tdm_context *context, tdm_attendant *attendant);
/* Returns the record of which waiting threads lost their core to other processes. */
tdm_oversubscription *tdm_context_oversubscription(tdm_context *context);
/* Lets the calling thread run on every core that the process may use, even if its creator was bound
 * to fewer. */
void tdm_context_use_all_cores(const tdm_context *context);
/* Returns true if two devices compute on the same cores of the host. */
bool tdm_context_share_cores(const tdm_context *context, const tdm_device *a, const tdm_device *b);
/* Returns true if a device is computing on the host's cores. One that waits for a point is not. */
bool tdm_context_computes(tdm_context *context);
/* Like tdm_oversubscription_yield, but it is no loss if a device of this process had the core. */
bool tdm_context_yield(tdm_context *context, uint64_t now_ns);

/* Assigns sequence numbers to the submissions of one flight, atomically with respect to other
 * flights, and passes each to its queue. flight->remaining is set to count first. If adopt is true,
 * the calling thread executes one submission whose queue is an idle cpu queue and whose program
 * does not split, after passing on the others. Fails with CANCELLED if the context is closing, and
 * with UNSUPPORTED if a program is for a described device. */
tdm_status tdm_context_submit(tdm_context *context, tdm_flight *flight, tdm_submission *submissions,
                              size_t count, bool adopt) TDM_WARN_UNUSED;

/* Like tdm_context_submit, for a part of a flight's submissions, in a context that was started. The
 * caller has set flight->remaining to the total count. */
tdm_status tdm_context_submit_part(tdm_context *context, tdm_flight *flight,
                                   tdm_submission *submissions, size_t count,
                                   bool adopt) TDM_WARN_UNUSED;

/* Executes one blocking copy outside any plan, through the devices' queues (staged through the host
 * if there is no direct route). */
tdm_status tdm_context_copy(tdm_context *context, const tdm_memory *from, const tdm_memory *to,
                            size_t bytes) TDM_WARN_UNUSED;

/* Returns true in a process that inherited the context by fork. It must not use anything of the
 * context, including its locks, which threads of the parent may hold. Costs one relaxed load. */
bool tdm_context_is_inherited(const tdm_context *context);
/* For public functions: fails with INVALID_ARGUMENT for NULL, and with UNAVAILABLE for an inherited
 * context. */
tdm_status tdm_context_check(const tdm_context *context) TDM_WARN_UNUSED;

/* Registers a user that has to settle before the context is closed, such as a run in flight. */
bool tdm_context_enter(tdm_context *context); /* false if the context is closing or inherited */
tdm_status tdm_context_refuse(const tdm_context *context); /* the status for a failing enter */
void tdm_context_leave(tdm_context *context);

/* Called by a thread of one of the context's devices when it begins. Such a thread closes the
 * context without waiting, because it cannot wait for itself. */
void tdm_context_thread_begins(tdm_context *context);

#endif
