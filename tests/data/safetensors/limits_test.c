/* Limits of reading a safetensors file: memory in proportion to the header, and files that others
 * truncate or change meanwhile. */
#define _GNU_SOURCE /* truncate, mkfifo */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/safetensors/safetensors.h"
#include "devices/context/context.h"
#include "tests/data/safetensors/files.h"
#include "tests/support/faulty_allocator.h"

/* ---- Large headers --------------------------------------------------------------------------- */

typedef struct large_file {
  char *bytes;
  size_t size;
  size_t header_bytes;
} large_file;

static void begin_file(large_file *file, size_t capacity) {
  file->bytes = malloc(capacity);
  assert_non_null(file->bytes);
  file->size = 8;
}

static void append(large_file *file, const char *text) {
  const size_t bytes = strlen(text);
  memcpy(file->bytes + file->size, text, bytes);
  file->size += bytes;
}

/* Writes the header's size and the file, as path. */
static void end_file(large_file *file, char *path, const char *name) {
  file->header_bytes = file->size - 8;
  for (int i = 0; i < 8; i++)
    file->bytes[i] = (char)(file->header_bytes >> 8 * i & 0xFF);
  write_file(path, name, file->bytes, file->size);
  free(file->bytes);
}

/* Opening takes four times the header at most, the header itself included. */
static void assert_opens_within(const data_fixture *fixture, const char *path,
                                const large_file *file, tdm_status wanted, size_t tensors) {
  tdm_safetensors_file opened;
  const int64_t before = tdm_faulty_allocator_outstanding_bytes(fixture->faulty);
  tdm_faulty_allocator_arm(fixture->faulty, 0, false);
  const tdm_status status =
      tdm_safetensors_open(tdm_context_allocator(fixture->context), path, &opened);
  if (status != wanted) fail_msg("%s: %s", tdm_status_name(status), tdm_last_message());
  assert_int_equal(opened.header.count, tensors);
  tdm_safetensors_close(&opened);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(fixture->faulty), before);
  const int64_t peak = tdm_faulty_allocator_peak_bytes(fixture->faulty) - before;
  print_message("a header of %zu bytes took %.2f times as much\n", file->header_bytes,
                (double)peak / (double)file->header_bytes);
  assert_true(peak <= 4 * (int64_t)file->header_bytes);
}

enum { MANY = 200000 };

/* Returns the shortest distinct names, to detect bytes per name in addition to its text. */
static const char *short_name(char name[8], int number) {
  static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
  size_t length = 0;
  do {
    name[length++] = digits[number % 64];
    number /= 64;
  } while (number > 0);
  name[length] = '\0';
  return name;
}

static void many_keys_cost_little(void **state) {
  const data_fixture *fixture = *state;
  /* Counts just above a doubling of hash tables, up to the 200,000 names of a known attack. */
  static const int counts[] = {97, 3073, 24577, 98305, MANY};
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    large_file file;
    char path[PATH_BYTES], entry[64], name[8];
    begin_file(&file, 64 + MANY * 16);
    append(&file, "{\"__metadata__\":{");
    for (int i = 0; i < counts[c]; i++) {
      (void)snprintf(entry, sizeof entry, "%s\"%s\":\"\"", i ? "," : "", short_name(name, i));
      append(&file, entry);
    }
    append(&file, "}}");
    end_file(&file, path, "keys.safetensors");
    assert_opens_within(fixture, path, &file, TDM_OK, 0);
  }
}

static void a_key_twice_among_many_is_found(void **state) {
  const data_fixture *fixture = *state;
  large_file file;
  char path[PATH_BYTES], entry[64];
  begin_file(&file, 64 + MANY * 20);
  append(&file, "{\"__metadata__\":{");
  for (int i = 0; i < MANY; i++) {
    (void)snprintf(entry, sizeof entry, "\"key%d\":\"\",", i);
    append(&file, entry);
  }
  append(&file, "\"key\\u0037\":\"\"}}"); /* key7 */
  end_file(&file, path, "twice.safetensors");
  assert_opens_within(fixture, path, &file, TDM_CORRUPT_DATA, 0);
  assert_message("twice.safetensors: __metadata__: key \"key7\" appears twice");
}

static void many_tensors_cost_little(void **state) {
  const data_fixture *fixture = *state;
  static const int counts[] = {97, 3073, 49153};
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    large_file file;
    char path[PATH_BYTES], entry[128], name[8];
    begin_file(&file, 64 + (size_t)counts[c] * 80);
    for (int i = 0; i < counts[c]; i++) {
      (void)snprintf(entry, sizeof entry,
                     "%c\"%s\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                     i ? ',' : '{', short_name(name, i));
      append(&file, entry);
    }
    append(&file, "}");
    end_file(&file, path, "tensors.safetensors");
    assert_opens_within(fixture, path, &file, TDM_OK, (size_t)counts[c]);
  }
}

/* Checks that braces outside of tensors are not counted as tensors. */
static void braces_cost_nothing(void **state) {
  const data_fixture *fixture = *state;
  static const char *const repeated[] = {"{", "{}", "{},", "\"{\",", "{\"{{{{\\\"{{{\":1},"};
  for (size_t r = 0; r < sizeof repeated / sizeof *repeated; r++) {
    large_file file;
    char path[PATH_BYTES];
    begin_file(&file, 2000100);
    append(&file, "{");
    while (file.size < 2000000)
      append(&file, repeated[r]);
    end_file(&file, path, "braces.safetensors");
    assert_opens_within(fixture, path, &file, TDM_CORRUPT_DATA, 0);
  }
}

/* ---- Files that change ----------------------------------------------------------------------- */

enum { ROWS = 3000, DATA = 2 * ROWS * 4 };

static const char two_tensors[] = "{\"first\":" FIELDS(
    "F32", "[3000]", "[0,12000]") ",\"second\":" FIELDS("F32", "[3000]", "[12000,24000]") "}";
enum { HEADER_BYTES = sizeof two_tensors - 1, FILE_BYTES = 8 + HEADER_BYTES + DATA };

static const char *write_two(char *path, const char *name) {
  static char file[FILE_BYTES];
  memset(file, 0, sizeof file);
  file[0] = (char)HEADER_BYTES;
  memcpy(file + 8, two_tensors, HEADER_BYTES);
  return write_file(path, name, file, sizeof file);
}

static tdm_status read_entry(tdm_context *context, const tdm_safetensors_file *file,
                             const tdm_safetensors_entry *entry, void *user,
                             tdm_tensor **out_tensor) {
  (void)user;
  return tdm_safetensors_read_tensor(context, file, entry, out_tensor);
}

/* Opens the file, has change done to it, reads the rest. */
static tdm_status read_while(const data_fixture *fixture, const char *path,
                             void (*change)(const char *path)) {
  tdm_safetensors_file file;
  tdm_tensor_list *list = NULL;
  assert_int_equal(tdm_safetensors_open(tdm_context_allocator(fixture->context), path, &file),
                   TDM_OK);
  change(path);
  const tdm_status status =
      tdm_safetensors_list(fixture->context, &file, path, read_entry, NULL, &list);
  assert_int_equal(status == TDM_OK, list != NULL);
  tdm_tensor_list_release(list);
  tdm_safetensors_close(&file);
  return status;
}

static void cut_within_the_second(const char *path) {
  assert_int_equal(truncate(path, FILE_BYTES - 4000), 0);
}

static void cut_to_nothing(const char *path) {
  assert_int_equal(truncate(path, 0), 0);
}

static void write_into(const char *path) {
  const int descriptor = open(path, O_WRONLY);
  assert_int_equal(pwrite(descriptor, "changed", 7, FILE_BYTES - 100), 7);
  /* Sets another time explicitly, because the clock of file times may not have advanced. */
  const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000000000}};
  assert_int_equal(futimens(descriptor, times), 0);
  assert_int_equal(close(descriptor), 0);
}

static void grow_longer(const char *path) {
  assert_int_equal(truncate(path, FILE_BYTES + 1), 0);
}

static void replace_by_another(const char *path) {
  char other[PATH_BYTES];
  write_text(other, "other", "no safetensors file");
  assert_int_equal(rename(other, path), 0);
}

static void remove_it(const char *path) {
  assert_int_equal(unlink(path), 0);
}

static void changes_while_it_is_read_are_told(void **state) {
  const data_fixture *fixture = *state;
  static const struct {
    void (*change)(const char *path);
    tdm_status status;
    const char *message;
  } table[] = {
      {cut_within_the_second, TDM_CORRUPT_DATA, "changing.safetensors: tensor \"second\": ends"},
      {cut_to_nothing, TDM_CORRUPT_DATA, "changing.safetensors: tensor \"first\": ends"},
      {write_into, TDM_CORRUPT_DATA, "changing.safetensors: was written to while it was read"},
      {grow_longer, TDM_CORRUPT_DATA, "changing.safetensors: was written to while it was read"},
      {replace_by_another, TDM_OK, ""}, /* saving in this way is harmless */
      {remove_it, TDM_OK, ""},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    char path[PATH_BYTES];
    write_two(path, "changing.safetensors");
    const tdm_status status = read_while(fixture, path, table[i].change);
    if (status != table[i].status) fail_msg("change %zu: %s", i, tdm_last_message());
    if (status != TDM_OK) assert_message(table[i].message);
  }
}

/* Truncates the file repeatedly, until its parent kills it or ends. */
static void cut_for_ever(char *path) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int i = 0;; i++) {
    if (truncate(path, i % 2 ? 4096 : 0) != 0) _exit(1);
    write_two(path, "raced.safetensors");
    (void)usleep((useconds_t)(i % 3 * 1000));
  }
}

/* Another process repeatedly truncates the file and fills it again. */
static void a_process_that_cuts_files_ends_no_other(void **state) {
  const data_fixture *fixture = *state;
  char path[PATH_BYTES];
  write_two(path, "raced.safetensors");
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) cut_for_ever(path);
  int loaded = 0;
  for (int i = 0; i < 500; i++) {
    tdm_tensor_list *list;
    const tdm_status status = tdm_safetensors_read(fixture->context, path, &list);
    assert_true(status == TDM_OK || status == TDM_CORRUPT_DATA || status == TDM_IO);
    for (size_t t = 0; status == TDM_OK && t < 2; t++) {
      const float *values = tdm_tensor_data(tdm_tensor_list_tensor(list, t));
      for (int row = 0; row < ROWS; row++)
        assert_true(values[row] == 0);
    }
    loaded += status == TDM_OK;
    tdm_tensor_list_release(list);
  }
  print_message("%d of 500 loads met a whole file\n", loaded);
  int ended;
  assert_int_equal(kill(child, SIGKILL), 0);
  assert_int_equal(waitpid(child, &ended, 0), child);
}

static void pipes_and_devices_are_refused_at_once(void **state) {
  const data_fixture *fixture = *state;
  char path[PATH_BYTES];
  assert_int_equal(mkfifo(temporary_path(path, "pipe.safetensors"), 0666), 0);
  const char *const paths[] = {path, "/dev/zero", "/dev/full"};
  for (int i = 0; i < 3; i++) {
    tdm_tensor_list *list;
    assert_int_equal(tdm_safetensors_read(fixture->context, paths[i], &list), TDM_IO);
    assert_message("a device or pipe, not a file");
    assert_null(tdm_safetensors_map(fixture->context, paths[i]));
    assert_message("a device or pipe, not a file");
  }
}

/* ---- Mapped ---------------------------------------------------------------------------------- */

static void mapped_tensors_are_those_of_the_file(void **state) {
  const data_fixture *fixture = *state;
  static const char header[] = "{\"a\":" FIELDS("U8", "[5]", "[0,5]") ",\"odd\":" FIELDS(
      "F32", "[1]", "[5,9]") ",\"b\":" FIELDS("BOOL", "[3]",
                                              "[9,12]") ",\"none\":" FIELDS("F64", "[0]",
                                                                            "[12,12]") "}";
  char bytes[FILE_LIMIT], path[PATH_BYTES];
  const size_t size = build_file(bytes, sizeof header - 1, header, sizeof header - 1, 12);
  write_file(path, "mapped.safetensors", bytes, size);
  tdm_tensor_list *mapped = tdm_safetensors_map(fixture->context, path);
  tdm_tensor_list *loaded = tdm_safetensors_load(fixture->context, path);
  assert_non_null(mapped);
  remove_it(path); /* the mapping keeps the earlier contents */
  assert_int_equal(tdm_tensor_list_count(mapped), 4);
  for (size_t i = 0; i < 4; i++) {
    const tdm_tensor *a = tdm_tensor_list_tensor(mapped, i);
    const tdm_tensor *b = tdm_tensor_list_tensor(loaded, i);
    assert_string_equal(tdm_tensor_list_name(mapped, i), tdm_tensor_list_name(loaded, i));
    assert_int_equal(tdm_tensor_bytes(a), tdm_tensor_bytes(b));
    if (tdm_tensor_bytes(a) > 0)
      assert_memory_equal(tdm_tensor_data(a), tdm_tensor_data(b), tdm_tensor_bytes(a));
  }
  ((char *)tdm_tensor_data(tdm_tensor_list_find(mapped, "a")))[0] = 7; /* a page of its own */
  tdm_tensor_list_release(loaded);
  tdm_tensor_list_release(mapped);
  assert_null(tdm_safetensors_map(fixture->context, path));
  assert_message("No such file");
  assert_null(tdm_safetensors_map(NULL, path));
  assert_message("the context is NULL");
}

/* A mapping uses only its own pages, so a truncated file does not end the load. */
static void mapping_touches_no_page(void **state) {
  const data_fixture *fixture = *state;
  char path[PATH_BYTES];
  write_two(path, "untouched.safetensors");
  tdm_tensor_list *list = tdm_safetensors_map(fixture->context, path);
  assert_non_null(list);
  cut_to_nothing(path);
  assert_int_equal(tdm_tensor_list_count(list), 2);
  tdm_tensor_list_release(list);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(many_keys_cost_little, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_key_twice_among_many_is_found, set_up, tear_down),
      cmocka_unit_test_setup_teardown(many_tensors_cost_little, set_up, tear_down),
      cmocka_unit_test_setup_teardown(braces_cost_nothing, set_up, tear_down),
      cmocka_unit_test_setup_teardown(changes_while_it_is_read_are_told, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_process_that_cuts_files_ends_no_other, set_up, tear_down),
      cmocka_unit_test_setup_teardown(pipes_and_devices_are_refused_at_once, set_up, tear_down),
      cmocka_unit_test_setup_teardown(mapped_tensors_are_those_of_the_file, set_up, tear_down),
      cmocka_unit_test_setup_teardown(mapping_touches_no_page, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
