/* Creates and frees a context: options, the machine, devices, staging, links, kernels, the loop.
 * Invariant: the loop is created last, because closing a caller's loop is asynchronous. Nothing is
 * posted to it before the context is returned. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/process.h"
#include "devices/context/context_state.h"
#include "devices/creation/context_options.h"
#include "devices/creation/job.h"
#include "devices/groups/groups.h"
#include "devices/links/table.h"
#include "devices/network/network.h"
#include "devices/staging/pool.h"
#include "net/launch.h"

#define JOIN_NS (UINT64_C(120) * 1000000000) /* time limit for the ranks of a job to join */

/* ---- Creating -------------------------------------------------------------------------------- */

static tdm_status count_devices(tdm_context *context, const tdm_context_plan *plan,
                                size_t *out_counts) {
  size_t total = 0;
  for (size_t i = 0; tdm_device_kinds[i]; i++) {
    const tdm_kind *kind = tdm_device_kinds[i];
    const char *reason = kind->absent;
    out_counts[i] = 0;
    if (!kind->absent && !plan->kinds[i].none)
      TDM_TRY(kind->count(context, &plan->kinds[i], &out_counts[i], &reason));
    if (plan->kinds[i].count > 0 && out_counts[i] < (size_t)plan->kinds[i].count) {
      return tdm_fail(TDM_UNAVAILABLE, "%d devices of kind %s were asked for, there are %zu: %s",
                      plan->kinds[i].count, kind->name, out_counts[i],
                      !reason ? "no more were found" : reason);
    }
    total += out_counts[i];
  }
  const size_t bytes = total * sizeof(tdm_device *);
  context->devices = tdm_allocate(&context->allocator, bytes, "the list of devices");
  if (!context->devices) return TDM_OUT_OF_MEMORY;
  context->device_capacity = total;
  context->cores =
      tdm_allocate(&context->allocator, total * sizeof(tdm_core_range), "the division of cores");
  context->core_capacity = total;
  return !context->cores ? TDM_OUT_OF_MEMORY : TDM_OK;
}

static tdm_status create_device(tdm_context *context, const tdm_kind *kind,
                                const tdm_kind_options *options, int index) {
  tdm_device *device = NULL;
  TDM_TRY(kind->create(context, options, index, &device));
  device->context_index = (int)context->device_count;
  context->devices[context->device_count++] = device;
  (void)snprintf(device->name, sizeof device->name, "%s:%d", kind->name, index);
  const tdm_core_range *cores = tdm_context_cores(context, device);
  if (cores) device->node = tdm_topology_range_node(context->topology, cores);
  return tdm_device_ops_check(device->ops);
}

static tdm_status create_devices(tdm_context *context, const tdm_context_plan *plan) {
  size_t counts[TDM_MAX_KINDS] = {0};
  TDM_TRY(count_devices(context, plan, counts));
  size_t secondary = 0;
  for (size_t i = 0; tdm_device_kinds[i]; i++) {
    if (i == 0 || !tdm_device_kinds[i]->on_host) continue;
    secondary += counts[i];
    if (plan->kinds[i].count > 0) context->secondary_cores = true;
  }
  context->primary_count = counts[0];
  context->secondary_count = secondary;
  /* Devices on the host are first in the list, so cores[i] belongs to device i. */
  tdm_topology_divide(context->topology, counts[0], secondary, context->secondary_cores,
                      context->cores);
  for (size_t i = 0; tdm_device_kinds[i]; i++) {
    tdm_kind_options options = plan->kinds[i];
    options.count = (int)counts[i];
    for (size_t k = 0; k < counts[i]; k++)
      TDM_TRY(create_device(context, tdm_device_kinds[i], &options, (int)k));
  }
  return TDM_OK;
}

static void number_queues(tdm_context *context) {
  for (size_t i = 0; i < context->device_count; i++) {
    for (size_t role = 0; role < TDM_QUEUE_ROLES; role++) {
      tdm_queue *queue = context->devices[i]->queues[role];
      if (queue) queue->index = (uint32_t)context->queue_count++;
    }
  }
}

static tdm_status register_kernel(void *context, const tdm_kernel *kernel) {
  return tdm_kernel_registry_add(&((tdm_context *)context)->kernels, kernel);
}

/* Returns how many devices, of this rank or of any, execute the kernels of kind. */
static size_t count_executing(const tdm_context *context, const tdm_kind *kind, bool any_rank) {
  size_t count = 0;
  for (size_t i = 0; i < context->device_count; i++) {
    const tdm_device *device = context->devices[i];
    if (strcmp(device->ops->executes, kind->name) != 0) continue;
    count += any_rank || device->rank == context->rank;
  }
  return count;
}

/* Registers the kernels of kinds that some device executes. A rank without such a device uses them
 * only to plan for other ranks, so it can continue if they are missing. */
static tdm_status register_kernels(tdm_context *context) {
  for (size_t i = 0; tdm_device_kinds[i]; i++) {
    const tdm_kind *kind = tdm_device_kinds[i];
    if (kind->absent || !kind->each_kernel || count_executing(context, kind, true) == 0) continue;
    const tdm_status status = kind->each_kernel(register_kernel, context);
    if (status == TDM_UNAVAILABLE && count_executing(context, kind, false) == 0) {
      tdm_context_log(context, TDM_LOG_WARNING, "nothing can be planned for %s of other ranks: %s",
                      kind->name, tdm_last_message());
    } else if (status != TDM_OK) {
      return status;
    }
  }
  return TDM_OK;
}

static tdm_status create_locks(tdm_context *context) {
  if (pthread_mutex_init(&context->submit_mutex, NULL) != 0 ||
      pthread_mutex_init(&context->start_mutex, NULL) != 0 ||
      pthread_mutex_init(&context->close_mutex, NULL) != 0 ||
      pthread_mutex_init(&context->keepers_mutex, NULL) != 0 ||
      pthread_cond_init(&context->users_gone, NULL) != 0) {
    return tdm_fail(TDM_OUT_OF_MEMORY, "no locks for a context");
  }
  return TDM_OK;
}

static tdm_status build_devices(tdm_context *context, const tdm_context_options *options,
                                const tdm_context_plan *plan) {
  TDM_TRY(create_locks(context));
  TDM_TRY(tdm_kernel_registry_init(&context->kernels, &context->allocator));
  TDM_TRY(tdm_topology_create(&context->allocator, NULL, &context->topology));
  if (options->machine) TDM_TRY(tdm_machine_read(options->machine, &context->machine));
  context->has_machine = options->machine != NULL;
  return create_devices(context, plan);
}

/* Builds the rest after the devices of all ranks. */
static tdm_status build_rest(tdm_context *context, const tdm_context_options *options,
                             const tdm_context_plan *plan) {
  (void)plan;
  number_queues(context);
  TDM_TRY(tdm_pool_create(context, NULL, &context->pool));
  TDM_TRY(tdm_links_open(context, &context->links));
  TDM_TRY(tdm_groups_create(context, &context->groups));
  TDM_TRY(register_kernels(context));
  return tdm_loop_create(&context->allocator, options->loop, &context->loop);
}

typedef tdm_status (*builder)(tdm_context *context, const tdm_context_options *options,
                              const tdm_context_plan *plan);

/* Builds everything that does not wait for other ranks, while the lowest descriptors are reserved.
 * Files that are opened briefly must not get the number of standard input. Waiting is excluded: a
 * waited-for rank may be in this process and reserve them, too. */
static tdm_status build_held(builder build, tdm_context *context,
                             const tdm_context_options *options, const tdm_context_plan *plan) {
  tdm_low_descriptors low;
  TDM_TRY(tdm_low_descriptors_hold(&low));
  const tdm_status status = build(context, options, plan);
  tdm_low_descriptors_release(&low);
  return status;
}

static tdm_status build(tdm_context *context, const tdm_context_options *options,
                        const tdm_context_plan *plan) {
  TDM_TRY(build_held(build_devices, context, options, plan));
  if (context->network) TDM_TRY(tdm_job_join_devices(context));
  TDM_TRY(build_held(build_rest, context, options, plan));
  return context->network ? tdm_links_join(context) : TDM_OK;
}

static void destroy(tdm_context *context) {
  const tdm_allocator allocator = context->allocator;
  tdm_links_destroy(context->links);
  tdm_groups_destroy(context->groups);
  tdm_pool_destroy(context->pool); /* destroyed before the devices, because its memory is pinned for
                                    * them */
  for (size_t i = context->device_count; i-- > 0;) {
    tdm_device *device = context->devices[i];
    if (device) device->ops->destroy(device); /* NULL if a device of another rank was not created */
  }
  tdm_network_destroy(context->network);
  tdm_release(&allocator, context->cores, context->core_capacity * sizeof(tdm_core_range));
  tdm_release(&allocator, context->devices, context->device_capacity * sizeof(tdm_device *));
  if (context->rank_begins) {
    tdm_release(&allocator, context->rank_begins,
                ((size_t)context->rank_count + 1) * sizeof(size_t));
  }
  tdm_topology_destroy(context->topology);
  tdm_kernel_registry_deinit(&context->kernels);
  /* glibc allows destroying a lock that was never initialized, because its locks own no memory. */
  (void)pthread_cond_destroy(&context->users_gone);
  (void)pthread_mutex_destroy(&context->close_mutex);
  (void)pthread_mutex_destroy(&context->keepers_mutex);
  (void)pthread_mutex_destroy(&context->start_mutex);
  (void)pthread_mutex_destroy(&context->submit_mutex);
  tdm_release(&allocator, context, sizeof *context);
}

/* Destroys a context that was not returned. Its loop may exist: it was created before the ranks
 * agreed. */
static void destroy_unmade(tdm_context *context) {
  tdm_loop_close(context->loop, NULL, NULL);
  destroy(context);
}

/* Reads the options; on failure nothing has to be freed. */
static tdm_status read_options(const tdm_context_options *options, tdm_context_options *out_known,
                               tdm_context_plan *out_plan) {
  TDM_TRY(tdm_context_options_read(options, out_known));
  TDM_TRY(tdm_context_plan_read(out_known, out_plan));
  return tdm_process_watch();
}

/* Leaves the job from a rank whose context failed, and notifies the others, who wait for it. */
static void leave_job(tdm_network *network) {
  if (network) tdm_network_give_up(network, tdm_last_status());
  tdm_network_destroy(network);
}

static tdm_context *create(const tdm_context_options *options, tdm_network *network) {
  tdm_context_options known;
  tdm_context_plan plan;
  if (read_options(options, &known, &plan) != TDM_OK) {
    leave_job(network);
    return NULL;
  }
  const tdm_allocator allocator = known.allocator ? *known.allocator : tdm_allocator_default();
  tdm_context *context = tdm_allocate(&allocator, sizeof *context, "a context");
  if (!context) {
    leave_job(network);
    return NULL;
  }
  context->network = network;
  context->messenger = !network ? NULL : tdm_network_messenger(network);
  context->rank = !network ? 0 : tdm_network_rank(network);
  context->rank_count = !network ? 1 : tdm_network_rank_count(network);
  context->allocator = allocator;
  context->log = known.log;
  context->log_user = known.log_user;
  context->callers_loop = known.loop != NULL;
  context->red_zones = plan.red_zones;
  context->destroy = destroy;
  atomic_init(&context->references, 1);
  context->process = (int)getpid();
  context->generation = tdm_process_generation();
  if (build(context, &known, &plan) == TDM_OK) return context;
  if (network) tdm_network_give_up(network, tdm_last_status());
  destroy_unmade(context);
  return NULL;
}

tdm_context *tdm_context_create_in_job(const tdm_context_options *options,
                                       struct tdm_endpoint *endpoint,
                                       const tdm_control_options *watch) {
  const tdm_allocator allocator =
      options && options->allocator ? *options->allocator : tdm_allocator_default();
  if (endpoint->rank_count == 1) {
    const tdm_status left = tdm_endpoint_close(endpoint, 0);
    (void)left; /* the endpoint is freed even if closing fails */
    return create(options, NULL);
  }
  tdm_network *network = NULL;
  if (tdm_network_create(&allocator, endpoint, &network) != TDM_OK) return NULL;
  if (!watch || tdm_network_watch(network, watch) == TDM_OK) return create(options, network);
  tdm_network_destroy(network);
  return NULL;
}

tdm_context *tdm_context_create(const tdm_context_options *options) {
  tdm_context_options known;
  if (tdm_context_options_read(options, &known) != TDM_OK) return NULL;
  if (known.machine) return create(options, NULL);
  const tdm_allocator allocator = known.allocator ? *known.allocator : tdm_allocator_default();
  tdm_endpoint *endpoint;
  if (tdm_net_open(&allocator, JOIN_NS, &endpoint) != TDM_OK) return NULL;
  const tdm_control_options watch = {.struct_size = sizeof(watch),
                                     .allocator = allocator,
                                     .silence_ns = tdm_context_silence_ns(&known),
                                     .log = known.log,
                                     .log_user = known.log_user};
  return endpoint ? tdm_context_create_in_job(options, endpoint, &watch) : create(options, NULL);
}
