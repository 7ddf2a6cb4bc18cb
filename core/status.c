/* Statuses, their names, and the status and message of the calling thread's last failure.
 * Invariant: the message is always terminated and setting it allocates no memory, so reporting
 * cannot fail. */
#include "core/status.h"

#include <stdio.h>
#include <string.h>

#include "core/number.h"
#include "core/untold.h"
#include "core/utf8.h"

static _Thread_local char thread_message[TDM_MESSAGE_BYTES];
static _Thread_local tdm_status thread_status;
static _Thread_local uint32_t told_count;

#define VERSION_PART_(number) #number
#define VERSION_PART(number) VERSION_PART_(number)

const char *tdm_version(void) {
  return VERSION_PART(TDM_VERSION_MAJOR) "." VERSION_PART(TDM_VERSION_MINOR) "." VERSION_PART(
      TDM_VERSION_PATCH);
}

const char *tdm_status_name(tdm_status status) {
  switch (status) {
  case TDM_OK:
    return "OK";
  case TDM_INVALID_ARGUMENT:
    return "INVALID_ARGUMENT";
  case TDM_OUT_OF_MEMORY:
    return "OUT_OF_MEMORY";
  case TDM_UNAVAILABLE:
    return "UNAVAILABLE";
  case TDM_UNSUPPORTED:
    return "UNSUPPORTED";
  case TDM_DEVICE_LOST:
    return "DEVICE_LOST";
  case TDM_CANCELLED:
    return "CANCELLED";
  case TDM_IO:
    return "IO";
  case TDM_CORRUPT_DATA:
    return "CORRUPT_DATA";
  case TDM_INTERNAL:
    return "INTERNAL";
  case TDM_DEADLINE_EXCEEDED:
    return "DEADLINE_EXCEEDED";
  case TDM_RESOURCE_EXHAUSTED:
    return "RESOURCE_EXHAUSTED";
  case TDM_NOT_FINITE:
    return "NOT_FINITE";
  }
  return "UNKNOWN";
}

const char *tdm_last_message(void) {
  return thread_message;
}

tdm_status tdm_last_status(void) {
  return thread_status;
}

uint32_t tdm_told_count(void) {
  return told_count;
}

/* Ends a truncated text with "...", after a word if one ends nearby. */
static void end_cut(char *text, size_t capacity) {
  static const char mark[] = "...";
  enum { LONGEST_WORD = 40 };
  if (capacity < 2 * LONGEST_WORD) return;
  const size_t most = capacity - sizeof mark;
  size_t at = most;
  while (at > most - LONGEST_WORD && text[at] != ' ')
    at--;
  if (text[at] != ' ') at = most;
  /* must not cut inside a UTF-8 character */
  while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80)
    at--;
  memcpy(text + at, mark, sizeof mark);
}

void tdm_message_format(char *text, size_t capacity, const char *format, va_list arguments) {
  if (!format) format = "no reason was given";
  tdm_plain_locale locale;
  tdm_plain_locale_enter(&locale);
  const int length = vsnprintf(text, capacity, format, arguments);
  if (length < 0)
    (void)snprintf(text, capacity, "a message that could not be formatted: %.200s", format);
  else if ((size_t)length >= capacity)
    end_cut(text, capacity);
  tdm_plain_locale_leave(&locale);
  tdm_utf8_make_printable(text);
}

/* The new message is built in another buffer, because an argument may be the old message. */
static void set_message(tdm_status status, const char *format, va_list arguments) {
  char text[TDM_MESSAGE_BYTES];
  tdm_message_format(text, sizeof(text), format, arguments);
  memcpy(thread_message, text, sizeof(text));
  thread_status = status;
  told_count++;
}

#undef tdm_fail /* tools/analyzer.h */
tdm_status tdm_fail(tdm_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  set_message(status, format, arguments);
  va_end(arguments);
  return status;
}

tdm_status tdm_fail_within(tdm_status status, const char *format, ...) {
  char inner[TDM_MESSAGE_BYTES];
  memcpy(inner, thread_message, sizeof inner);
  va_list arguments;
  va_start(arguments, format);
  set_message(status, format, arguments);
  va_end(arguments);
  char *rest = thread_message + strlen(thread_message);
  const size_t room = (size_t)(thread_message + sizeof thread_message - rest);
  const int length = snprintf(rest, room, ": %.*s", (int)sizeof inner, inner);
  if (length >= 0 && (size_t)length >= room) end_cut(thread_message, sizeof thread_message);
  return status;
}

tdm_status tdm_fail_null(const char *format, ...) {
  enum { WHAT_TEXT = 256 };
  static const char joint[] = "; the failure before it: ";
  const char *told = strstr(thread_message, joint);
  const char *cause = !told ? thread_message : told + sizeof joint - 1;
  char what[WHAT_TEXT];
  va_list arguments;
  va_start(arguments, format);
  tdm_message_format(what, sizeof what, format, arguments);
  va_end(arguments);
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s is NULL%s%s", what, cause[0] == '\0' ? "" : joint,
                  cause);
}

tdm_status tdm_fail_memory(size_t bytes, const char *what) {
  return tdm_fail(TDM_OUT_OF_MEMORY, "out of memory: %zu bytes for %s", bytes, what);
}
