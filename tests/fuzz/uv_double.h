/* A double of the parts of libuv that examples/serve uses. Its handles are in a table. The caller
 * triggers every event: a client connects, bytes arrive, a timer ends, a write completes.
 * Invariant: callbacks have an order that is possible with libuv; each callback of a write,
 * shutdown or close is called exactly once. */
#ifndef TANDEM_TESTS_FUZZ_UV_DOUBLE_H
#define TANDEM_TESTS_FUZZ_UV_DOUBLE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

enum { UV_DOUBLE_MOST_STREAMS = 8 };

/* Sets the result of the next calls of uv_try_write: they send this many bytes, everything
 * (INT32_MAX), or fail with a code below 0. */
void uv_double_set_sending(int bytes_or_code);
/* Connects a client to the listener. Returns false if there is no room for another. */
bool uv_double_knock(void);
/* Streams that were accepted and not closed, by number; NULL past the last. */
uv_stream_t *uv_double_stream(uint32_t number);
/* Hands bytes to the stream as it reads; false: it does not read, nothing was taken. *out_taken:
 * how many it had room for. */
bool uv_double_receive(uv_stream_t *stream, const uint8_t *bytes, size_t size, size_t *out_taken);
/* The client's end, or a failure (code below 0). */
void uv_double_end(uv_stream_t *stream, int code);
/* The timer that was started for the owner of the stream; false: none is running. */
bool uv_double_fire_timer(uv_stream_t *stream);
/* Ends the stream's oldest write, or its shutdown if there is none, with code. */
bool uv_double_finish_write(uv_stream_t *stream, int code);
/* Calls the callbacks of closed handles; returns their number. */
int uv_double_close_handles(void);
/* Handles that are open. */
int uv_double_open_handles(void);

#endif
