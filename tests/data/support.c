/* Temporary files and contexts for the tests of data/. */
#include "tests/data/support.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *folder(void) {
  const char *given = getenv("TEST_TMPDIR");
  return given ? given : ".";
}

const char *temporary_path(char *path, const char *name) {
  const int length = snprintf(path, PATH_BYTES, "%s/%s", folder(), name);
  assert_true(length > 0 && length < PATH_BYTES);
  return path;
}

const char *write_file(char *path, const char *name, const void *bytes, size_t size) {
  FILE *file = fopen(temporary_path(path, name), "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
  return path;
}

const char *write_text(char *path, const char *name, const char *text) {
  return write_file(path, name, text, strlen(text));
}

char *read_file(const char *path, size_t *out_size) {
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  const long size = ftell(file);
  assert_true(size >= 0);
  rewind(file);
  char *bytes = malloc((size_t)size + 1);
  assert_non_null(bytes);
  assert_int_equal(fread(bytes, 1, (size_t)size, file), size);
  bytes[size] = '\0';
  (void)fclose(file);
  if (out_size) *out_size = (size_t)size;
  return bytes;
}

int count_files(const char *prefix) {
  DIR *stream = opendir(folder());
  assert_non_null(stream);
  int count = 0;
  for (struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream))
    count += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
  (void)closedir(stream);
  return count;
}

tdm_context *make_context(const tdm_allocator *allocator) {
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.allocator = allocator, o.cpu_devices = 1, o.sim_devices = 1);
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  return context;
}

int set_up(void **state) {
  data_fixture *made = calloc(1, sizeof *made);
  if (!made) return 1;
  made->faulty = tdm_faulty_allocator_create();
  const tdm_allocator allocator = tdm_faulty_allocator_view(made->faulty);
  made->context = make_context(&allocator);
  *state = made;
  return 0;
}

int tear_down(void **state) {
  data_fixture *made = *state;
  tdm_context_release(made->context);
  const int64_t outstanding = tdm_faulty_allocator_outstanding_bytes(made->faulty);
  tdm_faulty_allocator_destroy(made->faulty);
  free(made);
  if (outstanding != 0) print_error("%lld bytes are outstanding\n", (long long)outstanding);
  return outstanding != 0;
}

static tdm_status count_item(void *user, int64_t index, void *const *out_fields) {
  (void)user;
  *(int64_t *)out_fields[0] = index;
  return TDM_OK;
}

tdm_dataset *make_counting_dataset(tdm_context *context, int64_t length) {
  const tdm_field field = {.name = "value", .dtype = TDM_INT64, .shape = tdm_shape_scalar()};
  const tdm_dataset_source source = {.struct_size = sizeof(source),
                                     .length = length,
                                     .fields = &field,
                                     .field_count = 1,
                                     .item = count_item};
  tdm_dataset *dataset = tdm_dataset_create(context, &source);
  if (!dataset) fail_msg("no dataset: %s", tdm_last_message());
  return dataset;
}
