/* Checkpoints: edits of one that was saved, with checksums that are right or not. Invariant: a file
 * that is refused changes nothing, and one that is accepted can be trained on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/hash.h"
#include "data/safetensors/safetensors.h"
#include "tandem/tandem.h"
#include "tests/fuzz/support.h"
#include "tests/options.h"

enum { MOST_EDITS = 12, MOST_BYTES = 8192, ROWS = 2 };

typedef struct trainer {
  tdm_session *session;
  tdm_loader *loader;
} trainer;

static trainer make_trainer(tdm_context *context) {
  static const char *const names[] = {"x"};
  const float rows[2 * ROWS] = {1, 2, 3, 4};
  tdm_tensor *x = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, ROWS, 2), rows);
  tdm_dataset *dataset = tdm_dataset_from_tensors(context, names, &x, 1);
  const tdm_loader_options loading = OPTIONS(tdm_loader_options, o.batch_size = 1);
  const trainer failed = {NULL, tdm_loader_create(dataset, &loading)};
  tdm_dataset_release(dataset);
  tdm_tensor_release(x);
  tdm_graph *graph = tdm_graph_create(context);
  tdm_value y = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 2));
  y = tdm_dropout(graph, "drop", tdm_linear(graph, "fc", y, 2), 0.5);
  const tdm_optimizer adam = tdm_adam(0.1);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = tdm_mean(graph, "loss", y, NULL, 0, false),
              o.optimizer = &adam);
  const trainer made = {tdm_session_create(graph, &options), failed.loader};
  tdm_graph_release(graph);
  fuzz_expect(made.session && made.loader, "no trainer");
  return made;
}

static void release_trainer(trainer *made) {
  tdm_session_release(made->session);
  tdm_loader_release(made->loader);
}

static tdm_status train(const trainer *self) {
  static const float row[2] = {1, -1};
  tdm_tensor *x =
      tdm_tensor_from(tdm_session_context(self->session), TDM_FLOAT32, tdm_shape_of(2, 1, 2), row);
  const tdm_feed feed = {"x", x, false};
  const tdm_status status = tdm_train_step(self->session, &feed, 1, NULL, 0, NULL);
  tdm_tensor_release(x);
  return status;
}

/* ---- A file ---------------------------------------------------------------------------------- */

typedef struct part {
  char bytes[MOST_BYTES];
  size_t size;
} part;

typedef struct checkpoint {
  part header;
  part data;
} checkpoint;

static checkpoint saved; /* checkpoint of a trainer after one step; equal in every program */

static void save(const trainer *self) {
  char path[] = "/tmp/checkpoint_fuzz_XXXXXX";
  const int descriptor = mkstemp(path);
  fuzz_expect(descriptor >= 0, "no temporary file");
  (void)close(descriptor);
  fuzz_expect(tdm_checkpoint_save(self->session, self->loader, path) == TDM_OK, "not saved");
  FILE *file = fopen(path, "rb");
  uint64_t size = 0;
  fuzz_expect(file && fread(&size, sizeof size, 1, file) == 1 && size <= MOST_BYTES, "not read");
  saved.header.size = fread(saved.header.bytes, 1, size, file);
  saved.data.size = fread(saved.data.bytes, 1, MOST_BYTES, file);
  (void)fclose(file);
  (void)unlink(path);
  fuzz_expect(saved.header.size == size && saved.data.size > 0, "not read");
}

/* Replaces a number of bytes at a position by a text; the input contains all three. */
static void edit(part *changed, fuzz_input *input) {
  const size_t at = (fuzz_byte(input) | (size_t)fuzz_byte(input) << 8) % (changed->size + 1);
  size_t removed = fuzz_byte(input) % 32;
  if (removed > changed->size - at) removed = changed->size - at;
  size_t added = 0;
  char *text = fuzz_text(input, &added);
  if (changed->size - removed + added <= MOST_BYTES) {
    memmove(changed->bytes + at + added, changed->bytes + at + removed,
            changed->size - at - removed);
    memcpy(changed->bytes + at, text, added);
    changed->size += added - removed;
  }
  free(text);
}

/* Computes the checksum of checkpoint.c: over name, dtype, shape and contents. */
static uint64_t checksum_of(const tdm_safetensors_entry *entry, const char *data) {
  uint64_t hash = tdm_hash_string(entry->name, (uint64_t)entry->type->dtype);
  for (int i = 0; i < entry->shape.rank; i++)
    hash = tdm_hash_mix(hash, (uint64_t)entry->shape.dims[i]);
  return tdm_hash_bytes(data + entry->begin, (size_t)(entry->end - entry->begin), hash);
}

/* Makes the checksums those of the file, where it has room for them. */
static void mend_checksums(checkpoint *file) {
  tdm_safetensors_header header;
  if (tdm_safetensors_parse(&header, fuzz_allocator(), file->header.bytes, file->header.size,
                            (int64_t)file->data.size) == TDM_OK &&
      header.count > 0) {
    const tdm_safetensors_entry *sums = &header.entries[header.count - 1];
    for (size_t i = 0; i + 1 < header.count; i++) {
      const uint64_t sum = checksum_of(&header.entries[i], file->data.bytes);
      if (sums->begin + 8 * ((int64_t)i + 1) <= sums->end)
        memcpy(file->data.bytes + sums->begin + 8 * i, &sum, sizeof sum);
    }
  }
  tdm_safetensors_header_deinit(&header);
}

static const char *write_checkpoint(unsigned number, const checkpoint *file) {
  static char bytes[2 * MOST_BYTES + 8];
  const uint64_t size = file->header.size;
  memcpy(bytes, &size, sizeof size);
  memcpy(bytes + 8, file->header.bytes, file->header.size);
  memcpy(bytes + 8 + file->header.size, file->data.bytes, file->data.size);
  return fuzz_file(number, bytes, 8 + file->header.size + file->data.size);
}

/* ---- One input ------------------------------------------------------------------------------- */

static bool load(const trainer *self, const char *path, bool with_loader) {
  tdm_tensor_list *own = NULL;
  const uint64_t step = tdm_session_step(self->session);
  const bool loaded = fuzz_judge(
      tdm_checkpoint_load_with(self->session, with_loader ? self->loader : NULL, path, &own));
  fuzz_expect(loaded == (own != NULL), "a list and a failure, or neither");
  fuzz_expect(loaded || tdm_session_step(self->session) == step, "a refused file changed the step");
  tdm_tensor_list_release(own);
  return loaded;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static trainer kept; /* kept until the program ends */
  tdm_context *context = fuzz_context(1, 1);
  if (!kept.session) {
    kept = make_trainer(context);
    fuzz_expect(train(&kept) == TDM_OK, "not trained");
    save(&kept);
  }
  fuzz_input input = {data, size};
  const uint8_t flags = fuzz_byte(&input);
  checkpoint file = saved;
  for (int i = 0; i < MOST_EDITS && input.size; i++)
    edit(fuzz_byte(&input) % 4 ? &file.header : &file.data, &input);
  if (flags & 3) mend_checksums(&file);
  const int64_t before = fuzz_outstanding();
  const char *path = write_checkpoint(0, &file);
  if (load(&kept, path, flags & 4)) {
    if (flags & 8) (void)fuzz_judge(train(&kept));
    fuzz_expect(load(&kept, write_checkpoint(1, &saved), true), "what was saved does not load");
  }
  fuzz_expect(fuzz_outstanding() <= before, "memory is lost");
  if ((flags & 0xF0) == 0xF0) { /* before the first step, which creates the states */
    trainer fresh = make_trainer(context);
    if (load(&fresh, path, true)) (void)fuzz_judge(train(&fresh));
    release_trainer(&fresh);
  }
  return 0;
}
