/* Public part of core/: conventions, statuses and messages, options, allocation, dtypes, shapes and
 * random numbers.
 *
 * @par Conventions of all functions
 * Comments in the public headers do not repeat what follows; they state only exceptions.
 *
 * - Errors: a function that can fail returns a tdm_status, or an object that is NULL on failure, or
 *   an invalid tdm_value (graph/building.h). The reason is in tdm_last_status() and
 *   tdm_last_message() of the calling thread. Comments name the codes that have a special cause;
 *   every function may also return TDM_INVALID_ARGUMENT and TDM_OUT_OF_MEMORY.
 * - NULL: an object, a name or an output parameter that is NULL is TDM_INVALID_ARGUMENT, unless a
 *   comment states what NULL means. Query, retain and release functions accept NULL and return 0,
 *   false, NULL or an empty string.
 * - Ownership: a function that creates, retains, loads or copies an object returns a reference,
 *   which the caller gives back with the matching `_release` function. Other objects and strings
 *   are borrowed: they live as long as the object that they were obtained from. Arguments are
 *   copied or retained by the library, unless a comment states "borrowed" or names a lifetime. An
 *   output parameter for an object is set to NULL on failure.
 * - Threads: functions may be called from any thread, and objects may be shared by threads.
 *   Exceptions: a graph, a tensor list, a loader and a tdm_costs are used by one thread at a time.
 * - Text: strings are UTF-8 and end with a zero byte. Messages are single lines without a newline.
 * - Arrays: a pointer is followed by its count, or its comment has the count in parentheses:
 *   `(count)`.
 * - Shapes are written in parentheses: (batch, 10) has two dimensions, () is a scalar, and (...,
 *   in) has any number of dimensions before the last one. Elements are in row-major order. A
 *   parameter called `dimension` counts from 0; a negative value counts from the end, so that -1 is
 *   the last dimension.
 * - PyTorch: comments name the corresponding function of PyTorch. Formulas, defaults and parameter
 *   names are PyTorch's unless a comment states a difference.
 *
 * Graph-building functions have further conventions, at the top of graph/building.h. */
#ifndef TANDEM_CORE_CORE_H
#define TANDEM_CORE_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
/* Marks functions that the shared library exports. */
#define TDM_API __attribute__((visibility("default")))
/* Makes the compiler warn if the function's result is not used. */
#define TDM_WARN_UNUSED __attribute__((warn_unused_result))

/* Makes the compiler check the arguments of a printf-style function. `text` is the position of the
 * format string and `first` that of its first argument, both from 1. */
#define TDM_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define TDM_API
#define TDM_WARN_UNUSED
#define TDM_PRINTF(text, first)
#endif

/* Major version of these headers. */
#define TDM_VERSION_MAJOR 0
/* Minor version of these headers. */
#define TDM_VERSION_MINOR 3
/* Patch version of these headers. */
#define TDM_VERSION_PATCH 0

/* Returns the version of the library that is running, as "major.minor.patch" in static storage. It
 * differs from TDM_VERSION_MAJOR and the others if the program was compiled with the headers of
 * another version. */
TDM_API const char *tdm_version(void);

/* ---- Statuses and messages ------------------------------------------------------------------- */

/* Result of a call. */
typedef enum tdm_status {
  TDM_OK = 0,           /* The call succeeded. */
  TDM_INVALID_ARGUMENT, /* An argument is not legal; the message names it. */
  TDM_OUT_OF_MEMORY,    /* Memory could not be allocated, on the host or on a device. */
  /* A device or a file does not exist or cannot be used; the message states why. */
  TDM_UNAVAILABLE,
  TDM_UNSUPPORTED,  /* The request is legal, but this device or this build cannot do it. */
  TDM_DEVICE_LOST,  /* A device failed. Nothing can run on it any more. */
  TDM_CANCELLED,    /* The work was cancelled, or work that it depends on failed. */
  TDM_IO,           /* A file could not be read or written. */
  TDM_CORRUPT_DATA, /* A file was read, but its contents do not follow its format. */
  TDM_INTERNAL,     /* The library violated one of its own guarantees. Report this as a defect. */
  TDM_DEADLINE_EXCEEDED,  /* The work was stopped because its deadline passed. */
  TDM_RESOURCE_EXHAUSTED, /* A limit on work in flight was reached; the call can succeed later. */
  /* A loss is infinite or NaN and the session checks for it; nothing was updated. */
  TDM_NOT_FINITE,
} tdm_status;

/* Returns the name of a status without its prefix: "OK", "INVALID_ARGUMENT", ... The string is
 * static. The result is never NULL, also for values outside the enumeration. */
TDM_API const char *tdm_status_name(tdm_status status);

/* Returns the message of the last failure on the calling thread, or "" if no call has failed.
 * Successful calls do not change it. The string is valid until the next failing call on this
 * thread. It is one line of UTF-8: control characters and bytes that are not UTF-8 in quoted names
 * are replaced by '?'. */
TDM_API const char *tdm_last_message(void);

/* Returns the status of the last failure on the calling thread, or TDM_OK if no call has failed.
 * Use it after a function that reports failure by NULL. */
TDM_API tdm_status tdm_last_status(void);

/* Sets the calling thread's message and status, and returns status. Kernels, operations and
 * callbacks of the program use it to report why they fail.
 * @code
 * static tdm_status infer(tdm_infer *infer) {
 *   const int rank = infer->inputs[0].shape.rank;
 *   if (rank < 2) return tdm_fail(TDM_INVALID_ARGUMENT, "x has rank %d, expected 2 or more", rank);
 *   ...
 *   return TDM_OK;
 * }
 * @endcode
 * Allocates no memory. A message that is too long is cut after a word and ends with "...".
 * @param status the status to return.
 * @param format printf format of the message, followed by its arguments. */
TDM_API tdm_status tdm_fail(tdm_status status, const char *format, ...) TDM_PRINTF(2, 3);

/* Severity of a log message. */
typedef enum tdm_log_level {
  TDM_LOG_INFO,    /* Information about normal operation. */
  TDM_LOG_WARNING, /* Something works, but not as intended; the message names a remedy. */
  TDM_LOG_ERROR    /* Something failed. */
} tdm_log_level;

/* Type of a function that receives log messages. It is called from any thread, also from several at
 * once, and must not call the library. message is valid during the call and ends without a newline.
 */
typedef void (*tdm_log_function)(void *user, tdm_log_level level, const char *message);

/* ---- Options --------------------------------------------------------------------------------- */

/* Every struct tdm_NAME_options is created by its initializer tdm_NAME_options_default(), which
 * sets each field to its default. The caller then changes fields and passes the struct on:
 * @code
 * tdm_conv_options halves = tdm_conv_options_default();
 * halves.stride[0] = halves.stride[1] = 2;
 * @endcode
 * - A default that a field's comment does not name is 0, false, NULL or an invalid value.
 * - Fields are literal: 0 means 0, and is an error if it is not legal.
 * - NULL instead of options selects all defaults, unless a comment states otherwise.
 * - A struct that its initializer did not create is TDM_INVALID_ARGUMENT; the message names the
 *   initializer.
 * - A program that was compiled with earlier headers passes a smaller struct. Fields beyond its end
 *   have their defaults.
 * - `struct_size` is set by the initializer and must not be changed. */

/* Bit of struct_size that initializers set. The library recognizes by it a struct that was filled
 * without its initializer. */
#define TDM_OPTIONS_INITIALIZED ((SIZE_MAX >> 1) + 1)

/* Value of struct_size for options of that type. */
#define TDM_OPTIONS_SIZE(type) (sizeof(type) | TDM_OPTIONS_INITIALIZED)

#ifdef __cplusplus
/* Initializes all members of a struct with zeros, in C and in C++. */
#define TDM_ZEROED                                                                                 \
  {}
#else
#define TDM_ZEROED                                                                                 \
  { 0 }
#endif

/* Values that select a default which depends on more than the options. The comment of a field that
 * accepts one states which default it selects. None of these is a legal value otherwise. */

/* A number that the function chooses, such as an epsilon that depends on the dtype. */
#define TDM_DEFAULT (-1.7976931348623157e308)
/* A size that the function chooses, such as the stride of pooling. */
#define TDM_DEFAULT_SIZE INT64_C(-1)
/* No index (tdm_embedding_options.padding_index). */
#define TDM_NO_INDEX INT64_MIN
/* The value of an environment variable, or else a default (tdm_context_options). */
#define TDM_FROM_ENVIRONMENT (-2)
/* No deadline (tdm_submit_options.deadline_ns). */
#define TDM_NO_DEADLINE UINT64_MAX

/* ---- Allocation ------------------------------------------------------------------------------ */

/* Allocator of host memory for the library's own structures. Its functions may be called from any
 * thread, also from several at once. */
typedef struct tdm_allocator {
  /* Returns bytes of memory, or NULL if there is none. alignment is a power of two, at least 16. */
  void *(*allocate)(void *user, size_t bytes, size_t alignment);
  /* Frees memory of that many bytes. memory may be NULL. */
  void (*release)(void *user, void *memory, size_t bytes);
  void *user; /* First argument of both functions. */
} tdm_allocator;

/* Returns the default allocator, which uses malloc. */
TDM_API tdm_allocator tdm_allocator_default(void);

/* ---- Dtypes ---------------------------------------------------------------------------------- */

/* Type of the elements of a tensor. */
typedef enum tdm_dtype {
  TDM_DTYPE_NONE = 0, /* No dtype: an absent or invalid value. */
  TDM_FLOAT32,        /* IEEE 754 single precision, 4 bytes. */
  TDM_FLOAT64,        /* IEEE 754 double precision, 8 bytes. */
  TDM_INT32,          /* Signed integer, 4 bytes. */
  TDM_INT64,          /* Signed integer, 8 bytes. */
  TDM_UINT8,          /* Unsigned integer, 1 byte. */
  TDM_BOOL,           /* Truth value, 1 byte: 0 or 1. */
  /* IEEE 754 half precision, 2 bytes. It can be stored, converted, printed and moved; no kernel
   * does arithmetic in it. */
  TDM_FLOAT16,
  /* The upper half of a float32, 2 bytes; with the same restrictions as TDM_FLOAT16. */
  TDM_BFLOAT16,
  TDM_DTYPE_COUNT /* Number of dtypes, TDM_DTYPE_NONE included. */
} tdm_dtype;

/* Returns the size of one element in bytes; 0 for TDM_DTYPE_NONE and values outside the
 * enumeration. */
TDM_API size_t tdm_dtype_bytes(tdm_dtype dtype);

/* Returns the name of a dtype in static storage: "float32", ...; "none" for TDM_DTYPE_NONE and
 * values outside the enumeration. */
TDM_API const char *tdm_dtype_name(tdm_dtype dtype);

/* Returns true if dtype is float16, bfloat16, float32 or float64. */
TDM_API bool tdm_dtype_is_floating(tdm_dtype dtype);

/* Returns the dtype with that name, TDM_DTYPE_NONE if there is none.
 * @param name "float32", or the name in safetensors files, "F32". */
TDM_API tdm_dtype tdm_dtype_from_name(const char *name);

/* ---- Shapes ---------------------------------------------------------------------------------- */

/* Maximum number of dimensions of a shape. */
#define TDM_MAX_RANK 8

/* A dimension of a shape. It is a size (0 or more), a name (tdm_dim_named), TDM_INFER or
 * TDM_DIM_UNKNOWN. */
typedef int64_t tdm_dim;

/* In the shape of a reshape: the size for which the number of elements stays the same. */
#define TDM_INFER ((tdm_dim)-1)

/* A size that is known only when the graph runs and that has no name. It differs from every name.
 */
#define TDM_DIM_UNKNOWN ((tdm_dim)INT64_MIN)

/* Result of tdm_dim_named for a text that is not a legal name. */
#define TDM_DIM_INVALID ((tdm_dim)(INT64_MIN + 1))

/* Returns a named dimension, whose size is known when the graph runs. Within one run, dimensions
 * with the same name have the same size.
 * @param name 1 to 12 characters of a-z, 0-9 and _. For any other text the result is
 *     TDM_DIM_INVALID, and the function that receives the shape reports the error. */
TDM_API tdm_dim tdm_dim_named(const char *name);

/* Short form of tdm_dim_named: TDM_DIM("batch"). */
#define TDM_DIM(name) tdm_dim_named(name)

/* Returns true if dim is a name. False for sizes, TDM_INFER, TDM_DIM_UNKNOWN and TDM_DIM_INVALID.
 */
TDM_API bool tdm_dim_is_named(tdm_dim dim);

/* Returns true if dim is a size. */
static inline bool tdm_dim_is_size(tdm_dim dim) {
  return dim >= 0;
}

/* Writes a dimension as text, such as "30", "batch" or "?" (unknown), and returns text.
 * @param text at least 24 bytes. */
TDM_API const char *tdm_dim_text(tdm_dim dim, char *text);

/* Shape of a tensor: a value that can be copied and is compared by tdm_shape_equal. */
typedef struct tdm_shape {
  /* Number of dimensions, 0 to TDM_MAX_RANK. 0: a scalar. -1: invalid. */
  int32_t rank;
  tdm_dim dims[TDM_MAX_RANK]; /* The dimensions. Those from rank on are 0. */
} tdm_shape;

/* Returns the shape with the given dimensions. Its rank is -1 if rank or a dimension is not legal.
 * @param rank 0 to TDM_MAX_RANK.
 * @param dims (rank). */
TDM_API tdm_shape tdm_shape_make(int rank, const tdm_dim *dims);

/* Returns the shape of a scalar, which has no dimensions and one element. */
TDM_API tdm_shape tdm_shape_scalar(void);

/* Returns true if both shapes have the same rank and the same dimensions. Names equal only
 * themselves. */
TDM_API bool tdm_shape_equal(const tdm_shape *a, const tdm_shape *b);

/* Returns true if the rank and every dimension are legal. */
TDM_API bool tdm_shape_is_valid(const tdm_shape *shape);

/* Returns true if the shape is valid and every dimension is a size. */
TDM_API bool tdm_shape_is_concrete(const tdm_shape *shape);

/* Returns the number of elements, the product of the dimensions; 1 for a scalar.
 * @return -1 if the shape is not concrete, or if the product of the dimensions that are not 0
 *     exceeds INT64_MAX. So (2^40, 2^40, 0) is not a legal shape, as in NumPy. */
TDM_API int64_t tdm_shape_count(const tdm_shape *shape);

/* Returns the number of bytes of a tensor of that shape and dtype; -1 if tdm_shape_count returns -1
 * or the number exceeds INT64_MAX by the same rule. */
TDM_API int64_t tdm_shape_bytes(const tdm_shape *shape, tdm_dtype dtype);

/* Writes a shape as text, such as "[batch, 10]", and returns text.
 * @param capacity size of text in bytes; a longer text is cut. TDM_SHAPE_TEXT is always enough. */
TDM_API const char *tdm_shape_text(const tdm_shape *shape, char *text, size_t capacity);

/* Number of bytes that suffice for the text of every shape. */
#define TDM_SHAPE_TEXT 192

/* ---- Random numbers -------------------------------------------------------------------------- */

/* A stream of random numbers by the counter-based generator Philox4x32-10. Number `index` of a
 * stream is a pure function of (seed, stream, step, index). So random numbers do not depend on
 * devices, on the number of threads, or on the order of evaluation. Source: J. K. Salmon, M. A.
 * Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
typedef struct tdm_random {
  uint64_t seed;   /* Seed of all streams. */
  uint64_t stream; /* Identifies an operation or parameter: tdm_random_stream of its name. */
  uint32_t step;   /* Number of the training step; 0 outside of training. */
} tdm_random;

/* Returns the stream of a name, which is a hash of it. */
TDM_API uint64_t tdm_random_stream(const char *name);

/* Computes four numbers of a stream. They depend on the stream and the block number only.
 * @param block number of the block, from 0; it has the numbers 4 block to 4 block + 3 of
 *     tdm_random_uint32. */
TDM_API void tdm_random_block(const tdm_random *random, uint64_t block, uint32_t out[4]);

/* Returns number index of a stream, uniform over all 32-bit integers. */
TDM_API uint32_t tdm_random_uint32(const tdm_random *random, uint64_t index);

/* Returns number index of a stream, uniform in [0, 1). */
TDM_API float tdm_random_uniform_float32(const tdm_random *random, uint64_t index);

/* Returns number index of a stream in double precision, uniform in [0, 1). */
TDM_API double tdm_random_uniform_float64(const tdm_random *random, uint64_t index);

/* Returns number index of a stream, normally distributed with mean 0 and standard deviation 1. */
TDM_API double tdm_random_normal(const tdm_random *random, uint64_t index);

#ifdef __cplusplus
}

/* Returns the shape with the dimensions that follow rank: tdm_shape_of(2, TDM_DIM("batch"), 10) is
 * (batch, 10). The shape is invalid if their number is not rank. */
template <class... Dims> inline tdm_shape tdm_shape_of(int rank, Dims... dims) {
  const tdm_dim list[] = {static_cast<tdm_dim>(dims)..., 0};
  return tdm_shape_make(rank == static_cast<int>(sizeof...(dims)) ? rank : -1, list);
}
#else
/* Returns the shape with the dimensions that follow rank: tdm_shape_of(2, TDM_DIM("batch"), 10) is
 * (batch, 10). The shape is invalid if their number is not rank. At least one dimension follows; a
 * scalar is tdm_shape_scalar(). */
#define tdm_shape_of(rank, ...)                                                                    \
  tdm_shape_make(                                                                                  \
      (rank) == (int)(sizeof((const tdm_dim[]){__VA_ARGS__}) / sizeof(tdm_dim)) ? (rank) : -1,     \
      (const tdm_dim[]){__VA_ARGS__})
#endif

#endif
