/* The sim kind: its settings and its table of functions. Invariant: host_pointer never returns a
 * pointer to its memory. Operands of another device, and released ones, are refused. */
#include "devices/sim/sim.h"

#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/number.h"
#include "core/settings.h"
#include "devices/context/context.h"
#include "devices/contract/red_zones.h"
#include "devices/host/worker.h"
#include "devices/least_rate.h"
#include "devices/sim/memory.h"
#include "devices/staging/pins.h"

typedef struct sim_settings {
  double latency_us;
  double gigabytes_per_second;      /* 0: no limit */
  double peer_gigabytes_per_second; /* rate between sim devices; negative: gigabytes_per_second */
  uint64_t delay_seed;              /* 0: no delays in addition to the links' */
} sim_settings;

typedef struct sim_device {
  tdm_device base;
  tdm_worker *worker;
  tdm_worker *copier; /* only if links are modelled: executes copies concurrently with kernels */
  tdm_sim_memory memory;
  tdm_pins pins;
  sim_settings settings;
} sim_device;
_Static_assert(offsetof(sim_device, base) == 0, "a device is its base");

static sim_device *sim_of(tdm_device *device) {
  return (sim_device *)device;
}

/* ---- Settings -------------------------------------------------------------------------------- */

static const char source[] = "the settings of sim";

/* Reads 0, no limit, or at least the minimum. */
static tdm_status read_rate(const tdm_setting *setting, double *out_rate) {
  static const double least = TDM_LEAST_BYTES_PER_NS, most = 1e6;
  TDM_TRY(tdm_setting_number(source, setting->key, setting->value, 0, most, out_rate));
  if (*out_rate == 0 || *out_rate >= least) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s: %s is \"%.40s\", neither 0 nor from %g to %g", source,
                  setting->key, setting->value, least, most);
}

static tdm_status read_setting(const tdm_setting *setting, sim_settings *settings) {
  const char *key = setting->key;
  if (strcmp(key, "latency_us") == 0)
    return tdm_setting_number(source, key, setting->value, 0, 1e6, &settings->latency_us);
  if (strcmp(key, "gigabytes_per_second") == 0)
    return read_rate(setting, &settings->gigabytes_per_second);
  if (strcmp(key, "peer_gigabytes_per_second") == 0)
    return read_rate(setting, &settings->peer_gigabytes_per_second);
  if (strcmp(key, "delay_seed") == 0)
    return tdm_setting_integer(source, key, setting->value, 0, UINT64_MAX, &settings->delay_seed);
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "%s: there is no \"%s\"; there are latency_us, gigabytes_per_second, "
                  "peer_gigabytes_per_second and delay_seed",
                  source, key);
}

static tdm_status read_settings(const char *text, sim_settings *out_settings) {
  *out_settings =
      (sim_settings){.latency_us = 5, .gigabytes_per_second = 16, .peer_gigabytes_per_second = -1};
  if (!text) return TDM_OK;
  tdm_setting setting;
  tdm_status status = TDM_OK;
  while (tdm_setting_next(&text, source, &setting, &status))
    TDM_TRY(read_setting(&setting, out_settings));
  return status;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void sim_destroy(tdm_device *device) {
  if (!device) return;
  sim_device *sim = sim_of(device);
  tdm_worker_destroy(sim->worker);
  tdm_worker_destroy(sim->copier);
  tdm_sim_memory_deinit(&sim->memory);
  tdm_pins_deinit(&sim->pins);
  tdm_release(tdm_context_allocator(device->context), sim, sizeof *sim);
}

static tdm_status sim_start(tdm_device *device) {
  TDM_TRY(tdm_worker_start(sim_of(device)->worker));
  return tdm_worker_start(sim_of(device)->copier);
}

static void sim_stop(tdm_device *device) {
  tdm_worker_stop(sim_of(device)->worker);
  tdm_worker_stop(sim_of(device)->copier);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static tdm_status sim_allocate(tdm_device *device, size_t bytes, tdm_memory *out_memory) {
  *out_memory = (tdm_memory){0};
  TDM_TRY(tdm_faults_strike(tdm_context_faults(device->context), TDM_FAULT_ALLOCATION));
  tdm_address address;
  tdm_sim_memory *memory = &sim_of(device)->memory;
  TDM_TRY(tdm_sim_memory_allocate(memory, device->name, bytes, &address));
  tdm_red_zones_begin(tdm_context_red_zones(device->context),
                      tdm_sim_memory_translate(memory, address, bytes), bytes);
  *out_memory = (tdm_memory){.device = device, .address = address, .bytes = bytes};
  return TDM_OK;
}

static void sim_release(tdm_device *device, tdm_memory *memory) {
  tdm_sim_memory_release(&sim_of(device)->memory, memory->address);
  *memory = (tdm_memory){0};
}

/* Gets the host's memory, which contains the device's bytes. */
static tdm_status sim_memory(tdm_device *device, uint64_t *out_bytes, uint64_t *out_free_bytes) {
  tdm_topology_memory(tdm_context_topology(device->context), device->node, out_bytes,
                      out_free_bytes);
  return TDM_OK;
}

static tdm_status sim_translate(tdm_device *device, tdm_address address, size_t bytes, void **out) {
  *out = tdm_sim_memory_translate(&sim_of(device)->memory, address, bytes);
  return TDM_UNLIKELY(!*out) ? tdm_device_not_its_memory(device, address, bytes) : TDM_OK;
}

static tdm_status sim_copy(tdm_device *device, const tdm_copy *copy, tdm_address from,
                           tdm_address to) {
  if (copy->from_device != device && copy->to_device != device)
    return tdm_device_copy_unsupported(device, copy);
  void *begin = NULL;
  void *end = NULL;
  TDM_TRY(copy->from_device->ops->translate(copy->from_device, from, copy->bytes, &begin));
  TDM_TRY(copy->to_device->ops->translate(copy->to_device, to, copy->bytes, &end));
  if (copy->bytes > 0) memmove(end, begin, copy->bytes);
  return TDM_OK;
}

static tdm_link sim_link(const tdm_device *device, const tdm_device *other) {
  const sim_settings *settings = &((const sim_device *)device)->settings;
  if (device == other) return (tdm_link){0};
  const bool is_peer = tdm_device_same_kind(device, other);
  const double bytes_per_ns = is_peer && settings->peer_gigabytes_per_second >= 0
                                  ? settings->peer_gigabytes_per_second
                                  : settings->gigabytes_per_second;
  return (tdm_link){.latency_ns = settings->latency_us * 1e3, .bytes_per_ns = bytes_per_ns};
}

static tdm_status sim_pin(tdm_device *device, void *memory, size_t bytes) {
  return tdm_pins_add(&sim_of(device)->pins, device->name, memory, bytes);
}

static tdm_status sim_unpin(tdm_device *device, void *memory, size_t bytes) {
  return tdm_pins_remove(&sim_of(device)->pins, device->name, memory, bytes);
}

/* Its queues have one owner, as those of a discrete device do. */
static bool sim_borrow(tdm_queue *queue) {
  (void)queue;
  return false;
}

static void sim_run_borrowed(tdm_queue *queue, tdm_submission *submission) {
  tdm_worker_submit(queue, submission); /* never called, because borrow always fails */
}

/* ---- The kind -------------------------------------------------------------------------------- */

static const tdm_device_ops sim_ops = {
    .kind = "sim",
    .executes = "cpu",
    .destroy = sim_destroy,
    .start = sim_start,
    .stop = sim_stop,
    .allocate = sim_allocate,
    .release = sim_release,
    .memory = sim_memory,
    .host_pointer = tdm_device_no_host_pointer,
    .translate = sim_translate,
    .copy = sim_copy,
    .submit = tdm_worker_submit,
    .borrow = sim_borrow,
    .run_borrowed = sim_run_borrowed,
    .link = sim_link,
    .pin = sim_pin,
    .unpin = sim_unpin,
};

static tdm_status sim_count(tdm_context *context, const tdm_kind_options *options,
                            size_t *out_count, const char **out_reason) {
  (void)context;
  *out_reason = NULL;
  *out_count = options->count > 0 ? (size_t)options->count : 1;
  return TDM_OK;
}

/* A thread that executes a kernel completes no copy meanwhile. So if copies take time, they have
 * their own thread. */
static tdm_status create_workers(sim_device *sim) {
  const sim_settings *settings = &sim->settings;
  const bool models_links = settings->latency_us > 0 || settings->gigabytes_per_second > 0 ||
                            settings->peer_gigabytes_per_second > 0;
  /* Devices with one seed draw different numbers. */
  const uint64_t seed =
      settings->delay_seed == 0 ? 0 : settings->delay_seed * 1000003 + (uint64_t)sim->base.index;
  tdm_worker_options kernels = {.models_links = models_links, .delay_seed = seed};
  tdm_worker_options copies = kernels;
  for (size_t role = 0; role < TDM_QUEUE_OWN_ROLES; role++) {
    kernels.has_role[role] = role == TDM_QUEUE_COMPUTE || role == TDM_QUEUE_SUM || !models_links;
    copies.has_role[role] = !kernels.has_role[role];
  }
  TDM_TRY(tdm_worker_create(&sim->base, &kernels, &sim->worker));
  return models_links ? tdm_worker_create(&sim->base, &copies, &sim->copier) : TDM_OK;
}

static tdm_status sim_create(tdm_context *context, const tdm_kind_options *options, int index,
                             tdm_device **out_device) {
  *out_device = NULL;
  sim_settings settings;
  TDM_TRY(read_settings(options->settings, &settings));
  sim_device *sim = tdm_allocate(tdm_context_allocator(context), sizeof *sim, "a sim device");
  if (!sim) return TDM_OUT_OF_MEMORY;
  sim->base.ops = &sim_ops;
  sim->base.context = context;
  sim->base.index = index;
  sim->base.team_size = 1;
  sim->settings = settings;
  char peers[40] = "";
  if (settings.peer_gigabytes_per_second >= 0)
    (void)tdm_plain_print(peers, sizeof peers, " (peers %g)", settings.peer_gigabytes_per_second);
  (void)tdm_plain_print(sim->base.identity, sizeof sim->base.identity,
                        "%g us, %g GB/s%s, seed %llu", settings.latency_us,
                        settings.gigabytes_per_second, peers,
                        (unsigned long long)settings.delay_seed);
  tdm_status status = tdm_sim_memory_init(&sim->memory, (size_t)index);
  if (status == TDM_OK) status = tdm_pins_init(&sim->pins, tdm_context_allocator(context));
  if (status == TDM_OK) status = create_workers(sim);
  if (status != TDM_OK) {
    sim_destroy(&sim->base);
    return status;
  }
  sim->base.hidden_begin = sim->memory.begin;
  sim->base.hidden_bytes = (size_t)1 << TDM_SIM_RANGE_BITS;
  *out_device = &sim->base;
  return TDM_OK;
}

const tdm_kind tdm_sim_kind = {
    .name = "sim",
    .settings_variable = "TANDEM_SIM",
    .on_host = true,
    .count = sim_count,
    .create = sim_create,
};
