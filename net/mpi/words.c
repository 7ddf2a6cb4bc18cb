/* Converts an MPI's results to statuses and text, and allocates with the endpoint's allocator.
 * Invariant: see engine.h. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "net/mpi/engine.h"

static pthread_once_t version_once = PTHREAD_ONCE_INIT;
static char version_text[64];

/* Extracts the version from "Open MPI v4.1.4, package: ..." or "MPICH Version:\t4.0.2\n...". */
static void read_version(void) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  (void)MPI_Get_library_version(text, &length);
  if (strncmp(text, ENGINE_VERSION_BEGIN, strlen(ENGINE_VERSION_BEGIN)) != 0) {
    (void)snprintf(version_text, sizeof version_text, "%.40s", text);
    return;
  }
  const char *number = text + strcspn(text, "0123456789");
  (void)snprintf(version_text, sizeof version_text, "%s %.*s", ENGINE_VERSION_BEGIN,
                 (int)strspn(number, "0123456789."), number);
}

const char *mpi_version(void) {
  (void)pthread_once(&version_once, read_version);
  return version_text;
}

bool mpi_is_ours(void) {
  return strncmp(mpi_version(), ENGINE_VERSION_BEGIN, strlen(ENGINE_VERSION_BEGIN)) == 0;
}

void mpi_code_text(tdm_endpoint *base, int code, char *text, size_t capacity) {
  (void)base;
  char words[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(code, words, &length) != MPI_SUCCESS) words[0] = '\0';
  (void)snprintf(text, capacity, "%s error %d%s%.300s", ENGINE_NAME, code, words[0] ? ": " : "",
                 words);
}

tdm_status mpi_status_of(int code) {
  int class = MPI_ERR_OTHER;
  (void)MPI_Error_class(code, &class);
  if (class == MPI_ERR_TRUNCATE) return TDM_INVALID_ARGUMENT;
  if (class == MPI_ERR_NO_MEM) return TDM_OUT_OF_MEMORY;
  return TDM_UNAVAILABLE;
}

tdm_status mpi_check(int code, const char *what, char *message) {
  if (code == MPI_SUCCESS) return TDM_OK;
  char text[TDM_NET_TEXT_BYTES / 2];
  mpi_code_text(NULL, code, text, sizeof(text));
  (void)snprintf(message, TDM_NET_TEXT_BYTES, "%s: %s", what, text);
  return mpi_status_of(code);
}

tdm_status mpi_refuse(tdm_status status, char *message, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(message, TDM_NET_TEXT_BYTES, format, arguments);
  va_end(arguments);
  return status;
}

void *mpi_take(const tdm_allocator *allocator, size_t bytes) {
  void *memory = allocator->allocate(allocator->user, bytes, 64);
  if (memory) memset(memory, 0, bytes);
  return memory;
}

void mpi_give_back(const tdm_allocator *allocator, void *memory, size_t bytes) {
  allocator->release(allocator->user, memory, bytes);
}
