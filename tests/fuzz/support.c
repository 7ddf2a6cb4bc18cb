/* See support.h. Objects that are kept between inputs (files, the context) have no state that one
 * input could change for another. */
#define _GNU_SOURCE /* memfd_create */
#include "tests/fuzz/support.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FILES = 8, SEPARATOR = 0x1E, MOST_BLOCK_BYTES = 64 << 20 };

void fuzz_found(const char *file, int line, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "%s:%d: ", file, line);
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\nlast message: %s\n", tdm_last_message());
  va_end(arguments);
  abort();
}

bool fuzz_judge(tdm_status status) {
  fuzz_expect(status != TDM_INTERNAL, "INTERNAL");
  fuzz_expect(status == TDM_OK || tdm_last_message()[0] != '\0', "%s without a message",
              tdm_status_name(status));
  return status == TDM_OK;
}

bool fuzz_judge_made(const void *made) {
  fuzz_expect(made || tdm_last_message()[0] != '\0', "NULL without a message");
  return made != NULL;
}

/* ---- Input ----------------------------------------------------------------------------------- */

uint8_t fuzz_byte(fuzz_input *input) {
  if (input->size == 0) return 0;
  input->size--;
  return *input->bytes++;
}

uint32_t fuzz_below(fuzz_input *input, uint32_t bound) {
  uint32_t number = fuzz_byte(input);
  if (bound > 256) number = number << 8 | fuzz_byte(input);
  return number % bound;
}

uint64_t fuzz_number(fuzz_input *input) {
  uint64_t number = 0;
  for (int i = 0; i < 8; i++)
    number |= (uint64_t)fuzz_byte(input) << (8 * i);
  return number;
}

char *fuzz_text(fuzz_input *input, size_t *out_bytes) {
  const uint8_t *end = input->size ? memchr(input->bytes, SEPARATOR, input->size) : NULL;
  const size_t bytes = end ? (size_t)(end - input->bytes) : input->size;
  char *text = malloc(bytes + 1);
  fuzz_expect(text != NULL, "no memory for %zu bytes", bytes);
  if (bytes) memcpy(text, input->bytes, bytes);
  text[bytes] = '\0';
  const size_t passed = bytes + (end != NULL);
  if (passed) input->bytes += passed;
  input->size -= passed;
  if (out_bytes) *out_bytes = bytes;
  return text;
}

char *fuzz_word(fuzz_input *input, char *text, size_t capacity) {
  size_t bytes = 0;
  char *all = fuzz_text(input, &bytes);
  if (bytes >= capacity) bytes = capacity - 1;
  memcpy(text, all, bytes);
  text[bytes] = '\0';
  free(all);
  return text;
}

/* ---- Files ----------------------------------------------------------------------------------- */

const char *fuzz_file(unsigned number, const void *bytes, size_t size) {
  static struct {
    int descriptor;
    char path[32];
  } files[FILES];
  fuzz_expect(number < FILES, "there are %d files", (int)FILES);
  if (files[number].path[0] == '\0') {
    files[number].descriptor = memfd_create("fuzz", MFD_CLOEXEC);
    fuzz_expect(files[number].descriptor >= 0, "no file in memory");
    (void)snprintf(files[number].path, sizeof files[number].path, "/proc/self/fd/%d",
                   files[number].descriptor);
  }
  const int descriptor = files[number].descriptor;
  fuzz_expect(ftruncate(descriptor, 0) == 0 && pwrite(descriptor, bytes, size, 0) == (ssize_t)size,
              "a file in memory cannot be written");
  return files[number].path;
}

/* ---- Memory and contexts --------------------------------------------------------------------- */

static void *allocate_counted(void *user, size_t bytes, size_t alignment) {
  if (bytes > MOST_BLOCK_BYTES) return NULL;
  const tdm_allocator *under = user;
  return under->allocate(under->user, bytes, alignment);
}

static void release_counted(void *user, void *memory, size_t bytes) {
  const tdm_allocator *under = user;
  under->release(under->user, memory, bytes);
}

static struct {
  tdm_faulty_allocator *counting;
  tdm_allocator under; /* allocator that `counting` calls */
  tdm_allocator view;
} memory;

const tdm_allocator *fuzz_allocator(void) {
  if (!memory.counting) {
    memory.counting = tdm_faulty_allocator_create();
    fuzz_expect(memory.counting != NULL, "no allocator");
    memory.under = tdm_faulty_allocator_view(memory.counting);
    memory.view = (tdm_allocator){allocate_counted, release_counted, &memory.under};
  }
  return &memory.view;
}

int64_t fuzz_outstanding(void) {
  (void)fuzz_allocator();
  return tdm_faulty_allocator_outstanding_bytes(memory.counting);
}

tdm_context *fuzz_context(int cpu_devices, int sim_devices) {
  static tdm_context *context; /* kept until the program ends */
  if (!context) {
    (void)setenv("TANDEM_LINKS", "off", 1);
    (void)setenv("OMP_NUM_THREADS", "1", 1);
    const tdm_context_options options =
        OPTIONS(tdm_context_options, o.allocator = fuzz_allocator(), o.cpu_devices = cpu_devices,
                o.sim_devices = sim_devices, o.sim = "latency_us=0,gigabytes_per_second=0");
    context = tdm_context_create(&options);
    fuzz_expect(context != NULL, "no context");
  }
  return context;
}
