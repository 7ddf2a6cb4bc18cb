/* Computes initial values on the host and copies them to the home, so that they are the same
 * wherever a parameter is placed. */
#include "graph/store/initialize.h"

#include <string.h>

#include "core/philox.h"
#include "devices/tensors/tensor.h"

/* A stream with its latest block, which has two numbers. */
typedef struct stream {
  tdm_random random;
  uint64_t block; /* index; UINT64_MAX: none yet */
  uint32_t words[4];
} stream;

/* Returns what tdm_random_uniform_float64 returns, which computes a block for each number. */
static double draw_uniform(stream *drawn, uint64_t index) {
  const uint64_t lane = index % 2 * 2;
  if (drawn->block != index / 2) tdm_random_block(&drawn->random, index / 2, drawn->words);
  drawn->block = index / 2;
  return tdm_philox_float64(drawn->words[lane], drawn->words[lane + 1]);
}

static double draw(stream *drawn, const tdm_initializer *initializer, uint64_t index) {
  switch (initializer->kind) {
  case TDM_INIT_CONSTANT:
    return initializer->a;
  case TDM_INIT_UNIFORM:
    return initializer->a + (initializer->b - initializer->a) * draw_uniform(drawn, index);
  case TDM_INIT_NORMAL:
    return initializer->a + initializer->b * tdm_random_normal(&drawn->random, index);
  case TDM_INIT_ZEROS:
    break;
  }
  return 0;
}

static tdm_status fill(void *data, const tdm_spec *spec, const tdm_initialized *initialized) {
  const tdm_initializer *initializer = &initialized->initializer;
  const int64_t count = tdm_shape_count(&spec->shape);
  const size_t bytes = (size_t)tdm_shape_bytes(&spec->shape, spec->dtype);
  if (initialized->elements) {
    memcpy(data, initialized->elements, bytes);
    return TDM_OK;
  }
  memset(data, 0, bytes);
  if (initializer->kind == TDM_INIT_ZEROS || count == 0) return TDM_OK;
  if (spec->dtype == TDM_FLOAT16 || spec->dtype == TDM_BFLOAT16)
    return tdm_fail(TDM_UNSUPPORTED, "initial values in %s", tdm_dtype_name(spec->dtype));
  stream drawn = {{initialized->seed, tdm_random_stream(initialized->name), 0}, UINT64_MAX, {0}};
  const int64_t row = spec->shape.rank > 0 ? count / spec->shape.dims[0] : 1;
  const int64_t first = initialized->first_row * row;
  for (int64_t i = 0; i < count; i++) {
    if (initializer->zero_row >= 0 && (first + i) / row == initializer->zero_row) continue;
    tdm_tensor_put(spec->dtype, data, i, draw(&drawn, initializer, (uint64_t)(first + i)));
  }
  return TDM_OK;
}

/* ---- Collected copies ------------------------------------------------------------------------ */

enum { PIECE_BYTES = 1 << 20, MANY_BYTES = 64 << 20, ALIGNMENT = 64 };

static void begin(tdm_uploads *uploads) {
  if (!uploads->oneshot.context) tdm_oneshot_init(&uploads->oneshot, uploads->context);
}

/* Takes bytes of host memory that stay valid until the uploads have run. */
static tdm_status take_staging(tdm_uploads *uploads, size_t bytes, tdm_memory *out_memory) {
  tdm_device *host = tdm_context_host(uploads->context);
  const size_t wanted = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (wanted > uploads->left) {
    const size_t room = wanted > PIECE_BYTES ? wanted : PIECE_BYTES;
    const tdm_spec spec = {.dtype = TDM_UINT8, .shape = {.rank = 1, .dims = {(tdm_dim)room}}};
    const tdm_oneshot_value piece = tdm_oneshot_take(&uploads->oneshot, host, NULL, &spec);
    TDM_TRY(uploads->oneshot.status);
    uploads->staging = piece.memory.address;
    uploads->left = room;
  }
  *out_memory = (tdm_memory){.device = host, .address = uploads->staging, .bytes = bytes};
  uploads->staging += wanted;
  uploads->left -= wanted;
  return TDM_OK;
}

tdm_status tdm_uploads_copy(tdm_uploads *uploads, const tdm_memory *from, const tdm_memory *to) {
  begin(uploads);
  const tdm_oneshot_value value = {
      .spec = {.dtype = TDM_UINT8, .shape = {.rank = 1, .dims = {(tdm_dim)to->bytes}}},
      .memory = {.device = from->device, .address = from->address, .bytes = to->bytes}};
  (void)tdm_oneshot_copy(&uploads->oneshot, &value, to);
  uploads->bytes += to->bytes;
  return uploads->oneshot.status;
}

tdm_status tdm_uploads_initialize(tdm_uploads *uploads, const tdm_memory *memory,
                                  const tdm_spec *spec, const tdm_initialized *initialized) {
  const size_t bytes = (size_t)tdm_shape_bytes(&spec->shape, spec->dtype);
  if (bytes == 0) return TDM_OK;
  void *data = memory->device->ops->host_pointer(memory->device, memory->address);
  if (data) return fill(data, spec, initialized);
  begin(uploads);
  TDM_TRY(uploads->oneshot.status);
  tdm_memory staging;
  TDM_TRY(take_staging(uploads, bytes, &staging));
  data = staging.device->ops->host_pointer(staging.device, staging.address);
  TDM_TRY(fill(data, spec, initialized));
  tdm_memory to = *memory;
  to.bytes = staging.bytes;
  return tdm_uploads_copy(uploads, &staging, &to);
}

bool tdm_uploads_are_many(const tdm_uploads *uploads) {
  return uploads->bytes >= MANY_BYTES;
}

tdm_status tdm_uploads_run(tdm_uploads *uploads) {
  const tdm_status status = uploads->oneshot.context ? tdm_oneshot_run(&uploads->oneshot) : TDM_OK;
  tdm_uploads_drop(uploads);
  return status;
}

void tdm_uploads_drop(tdm_uploads *uploads) {
  tdm_oneshot_deinit(&uploads->oneshot);
  *uploads = (tdm_uploads){.context = uploads->context};
}
