/* Creates a schedule like that of a model: a chain of layers on alternating devices, forward and
 * backward. */
#include "tests/graph/schedule/random_schedule.h"

#define LAYERS_PER_DEVICE 4

struct chain {
  struct builder builder;
  struct numbers numbers;
  struct model model;
  uint32_t devices;
  uint32_t *activations; /* (layers + 1): where each layer reads it */
  uint32_t *weights;     /* (layers) */
  uint32_t *gradients;   /* (layers): those of the weights */
};

static uint32_t device_of(const struct chain *chain, uint32_t layer) {
  return layer / LAYERS_PER_DEVICE % chain->devices;
}

static uint32_t compute_queue(const struct chain *chain, uint32_t device) {
  return chain->model.queues == 1 ? 0 : device * 2;
}

static uint64_t value_bytes(struct chain *chain) {
  static const uint32_t kinds[] = {40, 1200, 4096, 61440, 122880, 120001};
  return kinds[numbers_below(&chain->numbers, TDM_COUNT_OF(kinds))];
}

/* A value of device's arena that a step on queue writes; the step is the last. */
static uint32_t produce(struct chain *chain, uint32_t queue, uint32_t device, uint64_t bytes) {
  struct builder *builder = &chain->builder;
  (void)builder_step(builder, queue, TDM_PHASE_MAIN);
  const uint32_t value = builder_storage(builder, TDM_STORAGE_ARENA, device, bytes);
  builder_writes(builder, value);
  return value;
}

/* value, on device from, where device to can read it: a copy on to's second queue if needed. */
static uint32_t cross(struct chain *chain, uint32_t value, uint32_t from, uint32_t to) {
  if (from == to || chain->builder.status != TDM_OK) return value;
  const uint64_t bytes = chain->builder.schedule->storages[value].bytes;
  const uint32_t copy = produce(chain, to * 2 + 1, to, bytes);
  builder_reads(&chain->builder, value);
  return copy;
}

static void forward(struct chain *chain) {
  struct builder *builder = &chain->builder;
  const uint32_t input = builder_storage(builder, TDM_STORAGE_EXTERNAL, 0, 4096);
  chain->activations[0] = produce(chain, chain->model.queues == 1 ? 0 : 1, 0, 4096);
  builder_reads(builder, input);
  for (uint32_t l = 0; l < chain->model.layers; l++) {
    const uint32_t device = device_of(chain, l);
    chain->weights[l] = builder_storage(builder, TDM_STORAGE_PERSISTENT, 0, 4096);
    if (l > 0)
      chain->activations[l] = cross(chain, chain->activations[l], device_of(chain, l - 1), device);
    chain->activations[l + 1] =
        produce(chain, compute_queue(chain, device), device, value_bytes(chain));
    builder_reads(builder, chain->activations[l]);
    builder_reads(builder, chain->weights[l]);
  }
}

static void backward(struct chain *chain) {
  struct builder *builder = &chain->builder;
  const uint32_t layers = chain->model.layers;
  uint32_t device = device_of(chain, layers - 1);
  uint32_t adjoint = produce(chain, compute_queue(chain, device), device, 1200);
  builder_reads(builder, chain->activations[layers]);
  for (uint32_t l = layers; l-- > 0;) {
    const uint32_t queue = compute_queue(chain, device_of(chain, l));
    adjoint = cross(chain, adjoint, device, device_of(chain, l));
    device = device_of(chain, l);
    chain->gradients[l] = produce(chain, queue, device, 4096);
    builder_reads(builder, adjoint);
    builder_reads(builder, chain->activations[l]);
    const uint32_t next = produce(chain, queue, device, value_bytes(chain));
    builder_reads(builder, adjoint);
    builder_reads(builder, chain->weights[l]);
    adjoint = next;
  }
  for (uint32_t l = 0; l < layers; l++) {
    (void)builder_step(builder, compute_queue(chain, device_of(chain, l)), TDM_PHASE_UPDATE);
    builder_reads(builder, chain->gradients[l]);
    builder_reads(builder, chain->weights[l]);
    builder_writes(builder, chain->weights[l]);
  }
}

tdm_status model_schedule(tdm_schedule *schedule, struct model model) {
  const size_t bytes = ((size_t)model.layers * 3 + 1) * sizeof(uint32_t);
  uint32_t *numbers = tdm_allocate(schedule->allocator, bytes, "a test's model");
  if (!numbers) return TDM_OUT_OF_MEMORY;
  struct chain chain = {.builder = {schedule, TDM_OK},
                        .numbers = numbers_of("model_schedule", model.seed),
                        .model = model,
                        .devices = model.queues == 1 ? 1 : model.queues / 2,
                        .activations = numbers,
                        .weights = numbers + model.layers + 1,
                        .gradients = numbers + 2 * model.layers + 1};
  schedule->queue_count = model.queues;
  schedule->arena_count = chain.devices;
  schedule->depth = model.depth;
  schedule->two_phase = model.queues > 1 && model.training;
  forward(&chain);
  if (model.training) {
    backward(&chain);
  } else {
    const uint32_t last = device_of(&chain, model.layers - 1);
    (void)builder_step(&chain.builder, compute_queue(&chain, last), TDM_PHASE_MAIN);
    builder_reads(&chain.builder, chain.activations[model.layers]);
    builder_writes(&chain.builder, builder_storage(&chain.builder, TDM_STORAGE_EXTERNAL, 0, 4096));
  }
  tdm_release(schedule->allocator, numbers, bytes);
  return chain.builder.status;
}
