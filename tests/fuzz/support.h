/* Shared by fuzz targets: a check that ends the program, a reader of input bytes, a file in memory,
 * a permanent context, and counted memory. Invariant: the result of a target depends only on its
 * input, not on earlier inputs. */
#ifndef TANDEM_TESTS_FUZZ_SUPPORT_H
#define TANDEM_TESTS_FUZZ_SUPPORT_H

#include "core/allocate.h"
#include "tandem/devices/devices.h"

/* Processes one input; called by libFuzzer and replay.c. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program with the expectation, unless it holds. */
#define fuzz_expect(holds, ...)                                                                    \
  do {                                                                                             \
    if (!(holds)) fuzz_found(__FILE__, __LINE__, __VA_ARGS__);                                     \
  } while (0)
_Noreturn void fuzz_found(const char *file, int line, const char *format, ...) TDM_PRINTF(3, 4);

/* Checks that a failure has a message and is not INTERNAL; returns true if status is TDM_OK. */
bool fuzz_judge(tdm_status status);
/* Checks likewise what a constructor returned, NULL after a failure. Returns true if it is not
 * NULL. */
bool fuzz_judge_made(const void *made);

/* ---- Input ----------------------------------------------------------------------------------- */

/* Bytes are taken from the front; where there are none left, zeros. */
typedef struct fuzz_input {
  const uint8_t *bytes;
  size_t size;
} fuzz_input;

uint8_t fuzz_byte(fuzz_input *input);
/* Returns 0 to bound - 1. */
uint32_t fuzz_below(fuzz_input *input, uint32_t bound);
uint64_t fuzz_number(fuzz_input *input); /* eight bytes, little endian */
/* Reads to the next byte 0x1E (ASCII's record separator), which is skipped, or to the end. So an
 * input can have texts of any length, and mutations of one do not affect the others. The caller
 * frees the text; it ends with a zero, and may contain zeros. */
char *fuzz_text(fuzz_input *input, size_t *out_bytes);
/* Reads such a text into text (capacity bytes), truncated. Returns text. */
char *fuzz_word(fuzz_input *input, char *text, size_t capacity);

/* ---- Files, contexts, memory ----------------------------------------------------------------- */

/* A path at which the bytes can be read: a file in memory of that number, from 0 to 7, replaced by
 * the next call with the same number. */
const char *fuzz_file(unsigned number, const void *bytes, size_t size);

/* Returns a context with this many devices, whose memory is counted. It is created at the first
 * call and kept. */
tdm_context *fuzz_context(int cpu_devices, int sim_devices);
/* Returns the counting allocator, which refuses blocks above 64 MiB. */
const tdm_allocator *fuzz_allocator(void);
/* Bytes that are allocated and not given back. */
int64_t fuzz_outstanding(void);

#endif
