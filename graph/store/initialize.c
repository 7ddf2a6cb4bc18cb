/* Initial values: made on the host, then copied to the home, so that they are the same wherever a
 * parameter lives. */
#include "graph/store/initialize.h"

#include <string.h>

#include "devices/tensors/tensor.h"

static double draw(const tdm_random *random, const tdm_initializer *initializer, uint64_t index) {
  switch (initializer->kind) {
  case TDM_INIT_CONSTANT:
    return initializer->a;
  case TDM_INIT_UNIFORM:
    return initializer->a +
           (initializer->b - initializer->a) * tdm_random_uniform_float64(random, index);
  case TDM_INIT_NORMAL:
    return initializer->a + initializer->b * tdm_random_normal(random, index);
  case TDM_INIT_ZEROS:
    break;
  }
  return 0;
}

static tdm_status fill(void *data, const tdm_spec *spec, const tdm_initialized *initialized) {
  const tdm_initializer *initializer = &initialized->initializer;
  const int64_t count = tdm_shape_count(&spec->shape);
  memset(data, 0, (size_t)tdm_shape_bytes(&spec->shape, spec->dtype));
  if (initializer->kind == TDM_INIT_ZEROS || count == 0) return TDM_OK;
  if (spec->dtype == TDM_FLOAT16 || spec->dtype == TDM_BFLOAT16)
    return tdm_fail(TDM_UNSUPPORTED, "initial values in %s", tdm_dtype_name(spec->dtype));
  const tdm_random random = {initialized->seed, tdm_random_stream(initialized->name), 0};
  const int64_t row = spec->shape.rank > 0 ? count / spec->shape.dims[0] : 1;
  const int64_t first = initialized->first_row * row;
  for (int64_t i = 0; i < count; i++) {
    if (initializer->zero_row >= 0 && (first + i) / row == initializer->zero_row) continue;
    tdm_tensor_put(spec->dtype, data, i, draw(&random, initializer, (uint64_t)(first + i)));
  }
  return TDM_OK;
}

tdm_status tdm_initialize_memory(tdm_context *context, const tdm_memory *memory,
                                 const tdm_spec *spec, const tdm_initialized *initialized) {
  void *data = memory->device->ops->host_pointer(memory->device, memory->address);
  if (data) return fill(data, spec, initialized);
  tdm_storage *staging = NULL;
  tdm_device *host = tdm_context_host(context);
  TDM_TRY(tdm_storage_create(context, host, NULL, memory->bytes, &staging));
  data = host->ops->host_pointer(host, staging->memory.address);
  tdm_status status = fill(data, spec, initialized);
  const int64_t bytes = tdm_shape_bytes(&spec->shape, spec->dtype);
  if (status == TDM_OK) status = tdm_context_copy(context, &staging->memory, memory, (size_t)bytes);
  tdm_storage_release(staging);
  return status;
}
