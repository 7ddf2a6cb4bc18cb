/* Tensors' contents: reading, writing, moving, converting. Invariant: data enters and leaves a
 * device only by tdm_context_copy. The host computes conversions for all kinds, so that the numbers
 * are the same everywhere. */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "devices/context/context.h"
#include "devices/kernels.h"
#include "devices/tensors/half.h"
#include "devices/tensors/tensor.h"

static tdm_context *context_of(const tdm_tensor *tensor) {
  return tensor->storage->context;
}

/* Describes host memory outside of tensors, as seen by the host's device. */
static tdm_memory host_memory(tdm_context *context, const void *data, size_t bytes) {
  return (tdm_memory){
      .device = tdm_context_host(context), .address = (tdm_address)data, .bytes = bytes};
}

/* ---- Reading and writing --------------------------------------------------------------------- */

static tdm_status check_size(const tdm_tensor *tensor, const void *data, size_t bytes) {
  if (!tensor) return tdm_fail_null("the tensor");
  if (bytes != tensor->bytes) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "the tensor has %zu bytes, not %zu", tensor->bytes,
                    bytes);
  }
  if (!data && bytes > 0) return tdm_fail(TDM_INVALID_ARGUMENT, "the data is NULL");
  return TDM_OK;
}

tdm_status tdm_tensor_read(const tdm_tensor *tensor, void *out_data, size_t bytes) {
  TDM_TRY(check_size(tensor, out_data, bytes));
  if (bytes == 0) return TDM_OK;
  const void *data = tdm_tensor_host_data(tensor);
  if (data) { /* legal even after the context was closed */
    memcpy(out_data, data, bytes);
    return TDM_OK;
  }
  const tdm_memory from = tdm_tensor_memory(tensor);
  const tdm_memory to = host_memory(context_of(tensor), out_data, bytes);
  return tdm_context_copy(context_of(tensor), &from, &to, bytes);
}

tdm_status tdm_tensor_write(tdm_tensor *tensor, const void *data, size_t bytes) {
  TDM_TRY(check_size(tensor, data, bytes));
  if (bytes == 0) return TDM_OK;
  void *mine = tdm_tensor_host_data(tensor);
  if (mine) {
    memcpy(mine, data, bytes);
    return TDM_OK;
  }
  const tdm_memory from = host_memory(context_of(tensor), data, bytes);
  const tdm_memory to = tdm_tensor_memory(tensor);
  return tdm_context_copy(context_of(tensor), &from, &to, bytes);
}

tdm_tensor *tdm_tensor_from(tdm_context *context, tdm_dtype dtype, tdm_shape shape,
                            const void *data) {
  tdm_tensor *tensor = tdm_tensor_create(context, "cpu:0", dtype, shape);
  if (!tensor) return NULL;
  if (tdm_tensor_write(tensor, data, tensor->bytes) == TDM_OK) return tensor;
  tdm_tensor_release(tensor);
  return NULL;
}

/* ---- Moving and converting ------------------------------------------------------------------- */

/* Returns a new tensor with the same elements on device. */
static tdm_tensor *move(const tdm_tensor *tensor, const tdm_device *device) {
  tdm_tensor *moved =
      tdm_tensor_create(context_of(tensor), device->name, tensor->dtype, tensor->shape);
  if (!moved) return NULL;
  const tdm_memory from = tdm_tensor_memory(tensor);
  const tdm_memory to = tdm_tensor_memory(moved);
  if (tdm_context_copy(context_of(tensor), &from, &to, tensor->bytes) == TDM_OK) return moved;
  tdm_tensor_release(moved);
  return NULL;
}

static tdm_status run_cast(const tdm_kernel *kernel, const tdm_tensor *from, tdm_tensor *to) {
  const tdm_spec input = {.dtype = from->dtype, .shape = from->shape};
  const tdm_spec output = {.dtype = to->dtype, .shape = to->shape};
  tdm_kernel_answer answer = {0};
  if (kernel->prepare) {
    const tdm_kernel_request request = {
        .inputs = &input, .input_count = 1, .outputs = &output, .output_count = 1, .team_size = 1};
    TDM_TRY(kernel->prepare(&request, &answer));
  }
  const tdm_allocator *allocator = tdm_context_allocator(context_of(from));
  tdm_status status = TDM_OK;
  void *workspace = NULL;
  if (answer.workspace_bytes > 0) {
    workspace = tdm_allocate(allocator, answer.workspace_bytes, "the workspace of a cast");
    if (!workspace) status = TDM_OUT_OF_MEMORY;
  }
  if (status == TDM_OK) {
    const void *const inputs[] = {tdm_tensor_data(from)};
    void *const outputs[] = {tdm_tensor_data(to)};
    const tdm_run_scalars scalars = {0};
    status = kernel->execute(&(tdm_kernel_call){.state = answer.state,
                                                .input_specs = &input,
                                                .output_specs = &output,
                                                .inputs = inputs,
                                                .outputs = outputs,
                                                .workspace = workspace,
                                                .scalars = &scalars});
  }
  tdm_release(allocator, workspace, answer.workspace_bytes);
  if (kernel->release) kernel->release(answer.state);
  return status;
}

/* Returns the tensor in host memory: the same one, retained, or a copy on host. */
static tdm_tensor *bring_to_host(tdm_tensor *tensor, const tdm_device *host) {
  return tdm_tensor_owner(tensor)->host_addressable ? tdm_tensor_retain(tensor)
                                                    : move(tensor, host);
}

static const tdm_kernel *find_cast(const tdm_tensor *tensor, const tdm_device *host,
                                   tdm_dtype dtype) {
  return tdm_context_find_kernel(context_of(tensor), TDM_OP_CAST, host->ops->executes, dtype);
}

/* Converts to a new tensor of dtype on host, a device of the host, by the cast kernel. */
static tdm_tensor *cast_by_kernel(tdm_tensor *tensor, const tdm_device *host, tdm_dtype dtype) {
  const tdm_kernel *kernel = find_cast(tensor, host, dtype);
  if (!kernel) {
    (void)tdm_fail(TDM_UNSUPPORTED, "there is no conversion from %s to %s",
                   tdm_dtype_name(tensor->dtype), tdm_dtype_name(dtype));
    return NULL;
  }
  tdm_tensor *source = bring_to_host(tensor, host);
  if (!source) return NULL;
  tdm_tensor *result = tdm_tensor_create(context_of(tensor), host->name, dtype, tensor->shape);
  if (result && run_cast(kernel, source, result) != TDM_OK) {
    tdm_tensor_release(result);
    result = NULL;
  }
  tdm_tensor_release(source);
  return result;
}

/* Converts between float32 and float16 or bfloat16, without a kernel. */
static tdm_tensor *convert_half(tdm_tensor *tensor, const tdm_device *host, tdm_dtype dtype) {
  tdm_tensor *source = bring_to_host(tensor, host);
  if (!source) return NULL;
  tdm_tensor *result = tdm_tensor_create(context_of(tensor), host->name, dtype, tensor->shape);
  const int64_t count = tdm_shape_count(&tensor->shape);
  if (result && tdm_is_half(dtype))
    tdm_half_narrow(dtype, tdm_tensor_data(source), tdm_tensor_data(result), count);
  else if (result)
    tdm_half_widen(source->dtype, tdm_tensor_data(source), tdm_tensor_data(result), count);
  tdm_tensor_release(source);
  return result;
}

/* Returns a new tensor of dtype, which differs from that of tensor. It is on a device of the host:
 * `device` if it is one, otherwise cpu:0. Conversions between float16 or bfloat16 and other dtypes
 * pass through float32, as in PyTorch. */
static tdm_tensor *cast_on_host(tdm_tensor *tensor, const tdm_device *device, tdm_dtype dtype) {
  const tdm_device *host = device->host_addressable ? device : tdm_context_host(context_of(tensor));
  const bool from_half = tdm_is_half(tensor->dtype), to_half = tdm_is_half(dtype);
  if (!from_half && (!to_half || find_cast(tensor, host, dtype)))
    return cast_by_kernel(tensor, host, dtype);
  if (from_half ? dtype == TDM_FLOAT32 : tensor->dtype == TDM_FLOAT32)
    return convert_half(tensor, host, dtype);
  tdm_tensor *middle = from_half ? convert_half(tensor, host, TDM_FLOAT32)
                                 : cast_by_kernel(tensor, host, TDM_FLOAT32);
  if (!middle) return NULL;
  tdm_tensor *result =
      to_half ? convert_half(middle, host, dtype) : cast_by_kernel(middle, host, dtype);
  tdm_tensor_release(middle);
  return result;
}

tdm_tensor *tdm_tensor_to(tdm_tensor *tensor, const char *device, tdm_dtype dtype) {
  if (!tensor) {
    (void)tdm_fail_null("tdm_tensor_to: the tensor");
    return NULL;
  }
  tdm_device *owner = tdm_tensor_owner(tensor);
  tdm_device *target = !device ? owner : tdm_context_find_device(context_of(tensor), device);
  if (!target) return NULL;
  const bool same_dtype = dtype == TDM_DTYPE_NONE || dtype == tensor->dtype;
  if (same_dtype) return target == owner ? tdm_tensor_retain(tensor) : move(tensor, target);
  tdm_tensor *converted = cast_on_host(tensor, target, dtype);
  if (!converted || tdm_tensor_owner(converted) == target) return converted;
  tdm_tensor *moved = move(converted, target);
  tdm_tensor_release(converted);
  return moved;
}

/* ---- One element ----------------------------------------------------------------------------- */

double tdm_tensor_item(tdm_tensor *tensor, int64_t index) {
  const int64_t count = tensor ? tdm_shape_count(&tensor->shape) : 0;
  if (index < 0 || index >= count) {
    (void)tdm_fail(TDM_INVALID_ARGUMENT, "tdm_tensor_item: there is no element %lld of %lld",
                   (long long)index, (long long)count);
    return NAN;
  }
  double value = NAN;
  tdm_tensor *row = tdm_tensor_view(tensor, tdm_shape_of(1, count));
  tdm_tensor *element = row ? tdm_tensor_slice(row, index, index + 1) : NULL;
  tdm_tensor *real = element ? tdm_tensor_to(element, "cpu:0", TDM_FLOAT64) : NULL;
  if (real) value = *(const double *)tdm_tensor_data(real);
  tdm_tensor_release(real);
  tdm_tensor_release(element);
  tdm_tensor_release(row);
  return value;
}
