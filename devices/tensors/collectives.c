/* Tensors over several devices: scatter, gather, broadcast, sums. Invariant: each call makes one
 * submission, so that all its copies are in flight together. Contiguous elements are moved by
 * copies; others are cut and joined by the kernels of the device that has the whole. */
#include <assert.h>
#include <string.h>

#include "devices/kernels.h"
#include "devices/tensors/chunks.h"
#include "devices/tensors/oneshot.h"
#include "devices/tensors/tensor.h"

_Static_assert(TDM_MAX_DEVICES == TDM_MAX_PARTS, "a chunk is a part");

/* ---- Common functions ------------------------------------------------------------------------ */

static tdm_context *context_of(const tdm_tensor *tensor) {
  return tensor->storage->context;
}

static tdm_spec spec_of(const tdm_tensor *tensor) {
  return (tdm_spec){.dtype = tensor->dtype, .shape = tensor->shape};
}

static tdm_oneshot_value value_of(const tdm_tensor *tensor) {
  return (tdm_oneshot_value){.spec = spec_of(tensor), .memory = tdm_tensor_memory(tensor)};
}

static void release_all(tdm_tensor **tensors, size_t count) {
  for (size_t i = 0; i < count; i++) {
    tdm_tensor_release(tensors[i]);
    tensors[i] = NULL;
  }
}

/* Runs the submission if nothing has failed so far. On failure releases the new tensors. */
static tdm_status finish(tdm_oneshot *oneshot, tdm_tensor **made, size_t count) {
  const tdm_status status = tdm_oneshot_run(oneshot);
  tdm_oneshot_deinit(oneshot);
  if (status != TDM_OK) release_all(made, count);
  return status;
}

/* Returns a new tensor of spec on device, or NULL if the submission has failed. */
static tdm_tensor *make(tdm_oneshot *oneshot, const tdm_device *device, const tdm_spec *spec) {
  if (oneshot->status != TDM_OK) return NULL;
  tdm_tensor *tensor = tdm_tensor_create(oneshot->context, device->name, spec->dtype, spec->shape);
  if (!tensor) oneshot->status = TDM_OUT_OF_MEMORY;
  return tensor;
}

/* Returns the tensor on device: itself, retained, or a copy in progress. */
static tdm_tensor *bring(tdm_oneshot *oneshot, tdm_tensor *tensor, const tdm_device *device) {
  if (tdm_tensor_owner(tensor) == device) return tdm_tensor_retain(tensor);
  const tdm_spec spec = spec_of(tensor);
  tdm_tensor *there = make(oneshot, device, &spec);
  if (!there) return NULL;
  const tdm_oneshot_value value = value_of(tensor);
  const tdm_memory memory = tdm_tensor_memory(there);
  (void)tdm_oneshot_copy(oneshot, &value, &memory);
  return there;
}

static tdm_status check_tensors(tdm_tensor *const *tensors, size_t count) {
  if (!tensors || count == 0) return tdm_fail(TDM_INVALID_ARGUMENT, "no tensors are given");
  for (size_t i = 0; i < count; i++) {
    if (!tensors[i]) return tdm_fail_null("tensor %zu", i);
    if (context_of(tensors[i]) != context_of(tensors[0]))
      return tdm_fail(TDM_INVALID_ARGUMENT, "tensors 0 and %zu are of two contexts", i);
  }
  return TDM_OK;
}

/* Finds the device of that name; NULL selects that of the tensor. */
static tdm_status find_target(const tdm_tensor *tensor, const char *name, tdm_device **out_device) {
  *out_device = tdm_tensor_owner(tensor);
  if (!name) return TDM_OK;
  TDM_TRY(tdm_device_check(context_of(tensor), name));
  *out_device = tdm_context_find_device(context_of(tensor), name);
  return TDM_OK;
}

/* Converts *dimension to a count from the front. */
static tdm_status settle_dimension(const tdm_shape *shape, int *dimension) {
  const int found = *dimension < 0 ? *dimension + shape->rank : *dimension;
  char text[TDM_SHAPE_TEXT];
  if (found < 0 || found >= shape->rank)
    return tdm_fail(TDM_INVALID_ARGUMENT, "a tensor of shape %s has no dimension %d",
                    tdm_shape_text(shape, text, sizeof(text)), *dimension);
  *dimension = found;
  return TDM_OK;
}

/* Returns true if parts along dimension are consecutive in the memory of the whole. */
static bool follow_one_another(const tdm_shape *shape, int dimension) {
  for (int d = 0; d < dimension; d++)
    if (shape->dims[d] != 1) return false;
  return true;
}

static tdm_parts_attributes attributes_of(int dimension, size_t count) {
  return (tdm_parts_attributes){.dimension = dimension, .count = (int64_t)count};
}

/* ---- Scatter --------------------------------------------------------------------------------- */

typedef struct cut {
  tdm_tensor *whole;
  int dimension;
  tdm_device *devices[TDM_MAX_DEVICES];
  size_t count; /* number of chunks */
  int64_t sizes[TDM_MAX_DEVICES];
} cut;

static tdm_status read_sizes(cut *made, size_t device_count, const int64_t *sizes) {
  const int64_t extent = made->whole->shape.dims[made->dimension];
  if (!sizes) {
    made->count = tdm_chunk_sizes(extent, device_count, NULL, made->sizes);
    return TDM_OK;
  }
  int64_t left = extent;
  for (size_t i = 0; i < device_count; i++) {
    if (sizes[i] < 0)
      return tdm_fail(TDM_INVALID_ARGUMENT, "chunk %zu cannot have size %lld", i,
                      (long long)sizes[i]);
    if (sizes[i] > left || (i + 1 == device_count && sizes[i] != left))
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "the sizes of %zu chunks do not add up to dimension %d, which is %lld",
                      device_count, made->dimension, (long long)extent);
    left -= sizes[i];
    made->sizes[i] = sizes[i];
  }
  made->count = device_count;
  return TDM_OK;
}

static tdm_spec chunk_spec(const cut *made, size_t index) {
  tdm_spec spec = spec_of(made->whole);
  spec.shape.dims[made->dimension] = made->sizes[index];
  return spec;
}

/* Chunks are contiguous in the whole's memory: views on the same device, and copies elsewhere. */
static void cut_stretches(tdm_oneshot *oneshot, const cut *made, tdm_tensor **out_chunks) {
  size_t offset = made->whole->offset_bytes;
  for (size_t i = 0; i < made->count && oneshot->status == TDM_OK; i++) {
    const tdm_spec spec = chunk_spec(made, i);
    tdm_tensor *view = NULL;
    oneshot->status = tdm_tensor_over(made->whole->storage, offset, spec.dtype, &spec.shape, &view);
    if (oneshot->status != TDM_OK) return;
    out_chunks[i] = bring(oneshot, view, made->devices[i]);
    offset += view->bytes;
    tdm_tensor_release(view); /* the whole keeps the storage */
  }
}

/* The whole's device cuts; chunks for other devices are then copied. */
static void cut_by_kernel(tdm_oneshot *oneshot, const cut *made, tdm_tensor **out_chunks) {
  tdm_device *home = tdm_tensor_owner(made->whole);
  tdm_oneshot_value operands[1 + TDM_MAX_DEVICES] = {value_of(made->whole)};
  for (size_t i = 0; i < made->count; i++) {
    const tdm_spec spec = chunk_spec(made, i);
    tdm_device *device = made->devices[i];
    out_chunks[i] = make(oneshot, device, &spec);
    if (!out_chunks[i]) return;
    tdm_device *partner = home->host_addressable && !device->host_addressable ? device : NULL;
    operands[1 + i] =
        device == home ? value_of(out_chunks[i]) : tdm_oneshot_take(oneshot, home, partner, &spec);
  }
  tdm_parts_attributes attributes = attributes_of(made->dimension, made->count);
  memcpy(attributes.sizes, made->sizes, made->count * sizeof *made->sizes);
  tdm_oneshot_execute(oneshot, TDM_OP_SPLIT, &attributes, sizeof(attributes), operands, 1,
                      made->count);
  for (size_t i = 0; i < made->count; i++) {
    const tdm_memory memory = tdm_tensor_memory(out_chunks[i]);
    if (made->devices[i] != home) (void)tdm_oneshot_copy(oneshot, &operands[1 + i], &memory);
  }
}

static tdm_status check_capacity(const char *function, size_t capacity, size_t least) {
  if (capacity >= least) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s: capacity is %zu, expected at least %zu", function,
                  capacity, least);
}

tdm_status tdm_tensors_scatter(tdm_tensor *tensor, const char *devices, int dimension,
                               const int64_t *sizes, tdm_tensor **out_chunks, size_t capacity,
                               size_t *out_count) {
  if (out_count) *out_count = 0;
  TDM_TRY(check_tensors(&tensor, 1));
  if (!out_chunks) return tdm_fail(TDM_INVALID_ARGUMENT, "there is no room for chunks");
  cut made = {.whole = tensor, .dimension = dimension};
  size_t device_count;
  TDM_TRY(tdm_context_find_devices(context_of(tensor), devices, TDM_MAX_DEVICES, made.devices,
                                   &device_count));
  TDM_TRY(check_capacity("tdm_tensors_scatter", capacity, device_count));
  memset(out_chunks, 0, device_count * sizeof *out_chunks);
  TDM_TRY(settle_dimension(&tensor->shape, &made.dimension));
  TDM_TRY(read_sizes(&made, device_count, sizes));
  tdm_oneshot oneshot;
  tdm_oneshot_init(&oneshot, context_of(tensor));
  if (made.count == 1 || follow_one_another(&tensor->shape, made.dimension))
    cut_stretches(&oneshot, &made, out_chunks);
  else
    cut_by_kernel(&oneshot, &made, out_chunks);
  TDM_TRY(finish(&oneshot, out_chunks, made.count));
  if (out_count) *out_count = made.count;
  return TDM_OK;
}

/* ---- Gather ---------------------------------------------------------------------------------- */

/* A scalar counts as a vector of one element. */
static tdm_spec part_spec(const tdm_tensor *tensor) {
  tdm_spec spec = spec_of(tensor);
  if (spec.shape.rank == 0) spec.shape = (tdm_shape){.rank = 1, .dims = {1}};
  return spec;
}

static tdm_status add_part(tdm_spec *whole, const tdm_spec *part, int dimension, size_t index) {
  bool fits = part->dtype == whole->dtype && part->shape.rank == whole->shape.rank;
  for (int d = 0; fits && d < whole->shape.rank; d++)
    fits = d == dimension || part->shape.dims[d] == whole->shape.dims[d];
  int64_t *size = &whole->shape.dims[dimension];
  if (fits && __builtin_add_overflow(*size, part->shape.dims[dimension], size))
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "with tensor %zu dimension %d of the whole is too large to be counted", index,
                    dimension);
  if (fits) return TDM_OK;
  char a[TDM_SHAPE_TEXT];
  char b[TDM_SHAPE_TEXT];
  return tdm_fail(
      TDM_INVALID_ARGUMENT, "tensor %zu, %s %s, does not fit to %s %s along dimension %d", index,
      tdm_dtype_name(part->dtype), tdm_shape_text(&part->shape, b, sizeof b),
      tdm_dtype_name(whole->dtype), tdm_shape_text(&whole->shape, a, sizeof a), dimension);
}

/* Copies every part to its place in the whole. */
static void join_stretches(tdm_oneshot *oneshot, tdm_tensor *const *tensors, size_t count,
                           const tdm_tensor *whole) {
  tdm_memory memory = tdm_tensor_memory(whole);
  for (size_t i = 0; i < count; i++) {
    const tdm_oneshot_value part = value_of(tensors[i]);
    memory.bytes = part.memory.bytes;
    (void)tdm_oneshot_copy(oneshot, &part, &memory);
    memory.address += part.memory.bytes;
  }
}

/* Copies parts to the whole's device, which joins them. */
static void join_by_kernel(tdm_oneshot *oneshot, tdm_tensor *const *tensors, size_t count,
                           int dimension, const tdm_tensor *whole) {
  tdm_device *home = tdm_tensor_owner(whole);
  tdm_oneshot_value operands[TDM_MAX_DEVICES + 1];
  for (size_t i = 0; i < count; i++) {
    operands[i] = value_of(tensors[i]);
    tdm_device *from = operands[i].memory.device;
    if (from == home) continue;
    tdm_device *partner = home->host_addressable && !from->host_addressable ? from : NULL;
    const tdm_oneshot_value here = tdm_oneshot_take(oneshot, home, partner, &operands[i].spec);
    operands[i] = tdm_oneshot_copy(oneshot, &operands[i], &here.memory);
  }
  operands[count] = value_of(whole);
  const tdm_parts_attributes attributes = attributes_of(dimension, count);
  tdm_oneshot_execute(oneshot, TDM_OP_CONCAT, &attributes, sizeof(attributes), operands, count, 1);
}

static tdm_status gather(tdm_tensor *const *tensors, size_t count, int dimension,
                         const char *device, tdm_tensor **out_whole) {
  TDM_TRY(check_tensors(tensors, count));
  assert(tensors != NULL);
  if (count > TDM_MAX_DEVICES)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%zu tensors, and 1 to %d are possible", count,
                    TDM_MAX_DEVICES);
  tdm_device *home;
  TDM_TRY(find_target(tensors[0], device, &home));
  tdm_spec whole = part_spec(tensors[0]);
  TDM_TRY(settle_dimension(&whole.shape, &dimension));
  for (size_t i = 1; i < count; i++) {
    const tdm_spec part = part_spec(tensors[i]);
    TDM_TRY(add_part(&whole, &part, dimension, i));
  }
  tdm_oneshot oneshot;
  tdm_oneshot_init(&oneshot, context_of(tensors[0]));
  *out_whole = make(&oneshot, home, &whole);
  if (*out_whole) {
    if (follow_one_another(&whole.shape, dimension))
      join_stretches(&oneshot, tensors, count, *out_whole);
    else
      join_by_kernel(&oneshot, tensors, count, dimension, *out_whole);
  }
  return finish(&oneshot, out_whole, 1);
}

tdm_tensor *tdm_tensors_gather(tdm_tensor *const *tensors, size_t count, int dimension,
                               const char *device) {
  if (tensors && count == 1 && tensors[0] && tensors[0]->shape.rank > 0) {
    if (settle_dimension(&tensors[0]->shape, &dimension) != TDM_OK) return NULL;
    return tdm_tensor_to(tensors[0], device, TDM_DTYPE_NONE);
  }
  tdm_tensor *whole = NULL;
  return gather(tensors, count, dimension, device, &whole) == TDM_OK ? whole : NULL;
}

/* ---- Broadcast ------------------------------------------------------------------------------- */

tdm_status tdm_tensors_broadcast(tdm_tensor *const *tensors, size_t count, const char *devices,
                                 tdm_tensor **out_copies, size_t capacity) {
  TDM_TRY(check_tensors(tensors, count));
  if (!out_copies) return tdm_fail(TDM_INVALID_ARGUMENT, "there is no room for copies");
  tdm_context *context = context_of(tensors[0]);
  tdm_device *found[TDM_MAX_DEVICES];
  size_t device_count;
  TDM_TRY(tdm_context_find_devices(context, devices, TDM_MAX_DEVICES, found, &device_count));
  TDM_TRY(check_capacity("tdm_tensors_broadcast", capacity, device_count * count));
  memset(out_copies, 0, device_count * count * sizeof *out_copies);
  tdm_oneshot oneshot;
  tdm_oneshot_init(&oneshot, context);
  for (size_t d = 0; d < device_count; d++)
    for (size_t i = 0; i < count && oneshot.status == TDM_OK; i++)
      out_copies[d * count + i] = bring(&oneshot, tensors[i], found[d]);
  return finish(&oneshot, out_copies, device_count * count);
}

/* ---- Sums ------------------------------------------------------------------------------------ */

static tdm_status check_terms(tdm_tensor *const *tensors, size_t list_count, size_t count) {
  char a[TDM_SHAPE_TEXT];
  char b[TDM_SHAPE_TEXT];
  for (size_t k = count; k < list_count * count; k++) {
    const tdm_tensor *first = tensors[k % count];
    const tdm_tensor *other = tensors[k];
    if (other->dtype == first->dtype && tdm_shape_equal(&other->shape, &first->shape)) continue;
    return tdm_fail(TDM_INVALID_ARGUMENT, "tensor %zu of list %zu is %s %s, and of list 0 %s %s",
                    k % count, k / count, tdm_dtype_name(other->dtype),
                    tdm_shape_text(&other->shape, b, sizeof b), tdm_dtype_name(first->dtype),
                    tdm_shape_text(&first->shape, a, sizeof a));
  }
  return TDM_OK;
}

/* Returns the term on the sum's device, copied there if necessary. */
static tdm_oneshot_value bring_term(tdm_oneshot *oneshot, const tdm_tensor *tensor,
                                    tdm_device *home) {
  const tdm_oneshot_value term = value_of(tensor);
  tdm_device *from = term.memory.device;
  if (from == home) return term;
  tdm_device *partner = home->host_addressable && !from->host_addressable ? from : NULL;
  const tdm_oneshot_value here = tdm_oneshot_take(oneshot, home, partner, &term.spec);
  return tdm_oneshot_copy(oneshot, &term, &here.memory);
}

/* Each addition runs as soon as its term has arrived. Partial sums alternate between two buffers,
 * so that no kernel overwrites its input; the last one is the result's. */
static void add_terms(tdm_oneshot *oneshot, tdm_tensor *const *tensors, size_t list_count,
                      size_t stride, const tdm_tensor *sum) {
  tdm_device *home = tdm_tensor_owner(sum);
  const tdm_oneshot_value result = value_of(sum);
  tdm_oneshot_value other = {0};
  if (list_count > 2) other = tdm_oneshot_take(oneshot, home, NULL, &result.spec);
  tdm_oneshot_value so_far = bring_term(oneshot, tensors[0], home);
  for (size_t r = 1; r < list_count; r++) {
    const bool last_place = (list_count - 1 - r) % 2 == 0;
    tdm_oneshot_value operands[3] = {so_far, bring_term(oneshot, tensors[r * stride], home),
                                     last_place ? result : other};
    tdm_oneshot_execute(oneshot, TDM_OP_ADD, NULL, 0, operands, 2, 1);
    so_far = operands[2];
  }
}

tdm_status tdm_tensors_reduce_add(tdm_tensor *const *tensors, size_t list_count, size_t count,
                                  const char *device, tdm_tensor **out_sums) {
  if (list_count > TDM_MAX_DEVICES)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%zu lists, and 1 to %d are possible", list_count,
                    TDM_MAX_DEVICES);
  TDM_TRY(check_tensors(tensors, list_count * count));
  if (!out_sums) return tdm_fail(TDM_INVALID_ARGUMENT, "there is no room for sums");
  memset(out_sums, 0, count * sizeof *out_sums);
  tdm_device *home;
  TDM_TRY(find_target(tensors[0], device, &home));
  TDM_TRY(check_terms(tensors, list_count, count));
  tdm_oneshot oneshot;
  tdm_oneshot_init(&oneshot, context_of(tensors[0]));
  for (size_t i = 0; i < count && oneshot.status == TDM_OK; i++) {
    const tdm_spec spec = spec_of(tensors[i]);
    if (list_count == 1) {
      out_sums[i] = bring(&oneshot, tensors[i], home);
      continue;
    }
    out_sums[i] = make(&oneshot, home, &spec);
    if (out_sums[i]) add_terms(&oneshot, &tensors[i], list_count, count, out_sums[i]);
  }
  return finish(&oneshot, out_sums, count);
}
