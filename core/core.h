/* Public part of core/: statuses and messages, allocation, dtypes, shapes, random numbers.
 * Owns no device and no graph. Everything here is a plain value or says who releases it. */
#ifndef TANDEM_CORE_CORE_H
#define TANDEM_CORE_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of prototypes: what the shared library offers, whose answer is to be looked at, whose arguments
 * are printf's. */
#if defined(__GNUC__)
#define TDM_API __attribute__((visibility("default")))
#define TDM_WARN_UNUSED __attribute__((warn_unused_result))
#define TDM_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define TDM_API
#define TDM_WARN_UNUSED
#define TDM_PRINTF(text, first)
#endif

/* The version of the headers. */
#define TDM_VERSION_MAJOR 0
#define TDM_VERSION_MINOR 3
#define TDM_VERSION_PATCH 0

/* The version of the library that runs, as "major.minor.patch"; static storage. */
TDM_API const char *tdm_version(void);

/* Of all functions of the library: an object, a name or a place for an answer that is NULL is
 * refused like anything else that does not fit, with INVALID_ARGUMENT (or NULL, or an invalid
 * value) and a message, unless a comment says what NULL means. What only tells something of an
 * object, lets go of it or retains it takes NULL and answers nothing: 0, false, NULL, "". */

/* ---- Statuses and messages ---------------------------------------------------------------- */

/* How a call went. */
typedef enum tdm_status {
  TDM_OK = 0,
  TDM_INVALID_ARGUMENT, /* the caller passed something that does not fit; the message names it */
  TDM_OUT_OF_MEMORY,
  TDM_UNAVAILABLE,        /* a device or file that is not there; the message says why */
  TDM_UNSUPPORTED,        /* legal, but this device or build has no way to do it */
  TDM_DEVICE_LOST,        /* a device failed; nothing more runs on it */
  TDM_CANCELLED,          /* the work was cancelled, or what it depends on failed */
  TDM_IO,                 /* a file could not be read or written */
  TDM_CORRUPT_DATA,       /* a file was read and is not what it claims to be */
  TDM_INTERNAL,           /* a promise of the library was broken: a defect */
  TDM_DEADLINE_EXCEEDED,  /* the work was given up because its time had run out */
  TDM_RESOURCE_EXHAUSTED, /* as much as was allowed is under way; later there is room again */
  TDM_NOT_FINITE, /* a loss became infinite or NaN where that is checked; nothing is updated */
} tdm_status;

/* "OK", "INVALID_ARGUMENT", ...; static storage, never NULL. */
TDM_API const char *tdm_status_name(tdm_status status);

/* The message of the last failure on the calling thread, "" when there was none; valid until the
 * thread's next failing call. A successful call leaves it alone. One line of UTF-8, whatever names
 * it quotes: control characters, and bytes that are not UTF-8, are '?' in it. */
TDM_API const char *tdm_last_message(void);
/* The status of that failure, which calls that answer NULL do not tell themselves; TDM_OK when
 * there was none. */
TDM_API tdm_status tdm_last_status(void);

/* Sets the calling thread's message and returns status: how kernels, operations and callbacks of a
 * user say why they fail. Never allocates; long messages end behind a word, by "...". */
TDM_API tdm_status tdm_fail(tdm_status status, const char *format, ...) TDM_PRINTF(2, 3);

/* How much a message matters: of how things stand, of what works but should not be so, of what has
 * failed. */
typedef enum tdm_log_level { TDM_LOG_INFO, TDM_LOG_WARNING, TDM_LOG_ERROR } tdm_log_level;

/* Called from any thread; must not call back into the library. message ends without newline. */
typedef void (*tdm_log_function)(void *user, tdm_log_level level, const char *message);

/* ---- Options ------------------------------------------------------------------------------- */

/* Every struct tdm_NAME_options is made by tdm_NAME_options_default(), which sets each field to its
 * default; the caller then changes fields and passes the struct on:
 *
 *   tdm_conv_options halves = tdm_conv_options_default();
 *   halves.stride[0] = halves.stride[1] = 2;
 *
 * Fields are literal: 0 means 0, and is refused where it is not legal. NULL in place of options
 * means all defaults, unless a comment says otherwise. A struct that was not made by its
 * initializer is INVALID_ARGUMENT, and the message names the initializer. A program that was
 * compiled with an earlier header passes a smaller struct: fields beyond its end keep their
 * defaults. */

/* Bit of struct_size that initializers set, so that a struct filled by hand is recognized. */
#define TDM_OPTIONS_INITIALIZED ((SIZE_MAX >> 1) + 1)
/* The struct_size of options of that type. */
#define TDM_OPTIONS_SIZE(type) (sizeof(type) | TDM_OPTIONS_INITIALIZED)
/* Initializes all members of a struct with zeros, in C and in C++. */
#ifdef __cplusplus
#define TDM_ZEROED                                                                                 \
  {}
#else
#define TDM_ZEROED                                                                                 \
  { 0 }
#endif

/* Defaults that depend on something that the struct does not contain. None is legal as a value of
 * the fields that accept it; a field's comment says which default it selects. */
#define TDM_DEFAULT (-1.7976931348623157e308) /* a number that the function chooses */
#define TDM_DEFAULT_SIZE INT64_C(-1) /* a size that the function chooses */
#define TDM_NO_INDEX INT64_MIN       /* no index */
#define TDM_FROM_ENVIRONMENT (-2)    /* the environment's count, or the default */
#define TDM_NO_DEADLINE UINT64_MAX   /* no deadline */

/* ---- Allocation ---------------------------------------------------------------------------- */

/* Host memory for the library's own structures. All functions may be called from any thread.
 * allocate answers NULL when memory is short; alignment is a power of two, at least 16. */
typedef struct tdm_allocator {
  void *(*allocate)(void *user, size_t bytes, size_t alignment);
  void (*release)(void *user, void *memory, size_t bytes); /* memory may be NULL */
  void *user;
} tdm_allocator;

/* The allocator on malloc that is used where none is given. */
TDM_API tdm_allocator tdm_allocator_default(void);

/* ---- Dtypes -------------------------------------------------------------------------------- */

/* What elements are: the bits of floating numbers and integers, bytes, truth values. */
typedef enum tdm_dtype {
  TDM_DTYPE_NONE = 0,
  TDM_FLOAT32,
  TDM_FLOAT64,
  TDM_INT32,
  TDM_INT64,
  TDM_UINT8,
  TDM_BOOL,     /* one byte, 0 or 1 */
  TDM_FLOAT16,  /* named and sized; no kernel computes in it yet */
  TDM_BFLOAT16, /* likewise */
  TDM_DTYPE_COUNT
} tdm_dtype;

/* Bytes of one element; 0 for TDM_DTYPE_NONE and for values outside the enumeration. */
TDM_API size_t tdm_dtype_bytes(tdm_dtype dtype);
/* "float32", ...; "none" outside the enumeration. */
TDM_API const char *tdm_dtype_name(tdm_dtype dtype);
TDM_API bool tdm_dtype_is_floating(tdm_dtype dtype);
/* The dtype of that name ("float32", or safetensors' "F32"); TDM_DTYPE_NONE when unknown. */
TDM_API tdm_dtype tdm_dtype_from_name(const char *name);

/* ---- Shapes -------------------------------------------------------------------------------- */

/* The most dimensions that a shape has. */
#define TDM_MAX_RANK 8

/* A dimension is a size (>= 0), a name, TDM_INFER, or unknown. */
typedef int64_t tdm_dim;

#define TDM_INFER ((tdm_dim)-1) /* in a reshape: whatever makes the element counts agree */
#define TDM_DIM_UNKNOWN ((tdm_dim)INT64_MIN) /* symbolic, and not equal to any name */
/* What tdm_dim_named answers for no name. */
#define TDM_DIM_INVALID ((tdm_dim)(INT64_MIN + 1))

/* A named dimension: 1 to 12 characters of a-z, 0-9 and _. Two equal names are equal sizes within
 * one run. A name outside that alphabet or length gives TDM_DIM_INVALID, which the function that
 * is handed the shape reports. */
TDM_API tdm_dim tdm_dim_named(const char *name);
#define TDM_DIM(name) tdm_dim_named(name)

/* Is it a name; a size? Neither: TDM_INFER, unknown, invalid. */
TDM_API bool tdm_dim_is_named(tdm_dim dim);
static inline bool tdm_dim_is_size(tdm_dim dim) {
  return dim >= 0;
}

/* Writes "30", "batch", "?" ... into text (at least 24 bytes); returns text. */
TDM_API const char *tdm_dim_text(tdm_dim dim, char *text);

/* A value: copy it, compare it with tdm_shape_equal. Dimensions past rank are 0. Row-major. */
typedef struct tdm_shape {
  int32_t rank; /* 0: a scalar; -1: invalid */
  tdm_dim dims[TDM_MAX_RANK];
} tdm_shape;

/* The shape of rank dimensions read from dims; rank -1 when rank or a dimension is not legal. */
TDM_API tdm_shape tdm_shape_make(int rank, const tdm_dim *dims);
TDM_API tdm_shape tdm_shape_scalar(void);
TDM_API bool tdm_shape_equal(const tdm_shape *a, const tdm_shape *b);
TDM_API bool tdm_shape_is_valid(const tdm_shape *shape);
TDM_API bool tdm_shape_is_concrete(const tdm_shape *shape); /* every dimension a size */
/* Product of the dimensions; 1 for a scalar; -1 when not concrete, or when the product of those
 * that are not 0 is beyond INT64_MAX: (2^40, 2^40, 0) is no shape that a tensor can have, as in
 * NumPy. */
TDM_API int64_t tdm_shape_count(const tdm_shape *shape);
/* count x dtype bytes; -1 when the count is -1 or the bytes do not fit, by the same rule. */
TDM_API int64_t tdm_shape_bytes(const tdm_shape *shape, tdm_dtype dtype);
/* Writes "[batch, 10]" into text, cut to capacity; returns text. */
TDM_API const char *tdm_shape_text(const tdm_shape *shape, char *text, size_t capacity);
#define TDM_SHAPE_TEXT 192 /* enough for every shape */

/* ---- Random numbers ------------------------------------------------------------------------ */

/* A counter-based generator: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers:
 * as easy as 1, 2, 3", SC 2011). Element `index` of stream (seed, stream, step) is a pure
 * function, so results do not depend on devices, teams or order. */
typedef struct tdm_random {
  uint64_t seed;
  uint64_t stream; /* which operation or parameter: tdm_random_stream of its name */
  uint32_t step;   /* which training step; 0 outside training */
} tdm_random;

/* The stream of a name, a hash of it; the four numbers of a block, which follow from it and its
 * number alone; number index among those of all blocks, 4 each. Any thread. */
TDM_API uint64_t tdm_random_stream(const char *name);
TDM_API void tdm_random_block(const tdm_random *random, uint64_t block, uint32_t out[4]);
TDM_API uint32_t tdm_random_uint32(const tdm_random *random, uint64_t index);
TDM_API float tdm_random_uniform_float32(const tdm_random *random, uint64_t index);  /* [0, 1) */
TDM_API double tdm_random_uniform_float64(const tdm_random *random, uint64_t index); /* [0, 1) */
TDM_API double tdm_random_normal(const tdm_random *random,
                                 uint64_t index); /* mean 0, deviation 1 */

#ifdef __cplusplus
}

/* tdm_shape_of(2, TDM_DIM("batch"), 10) */
template <class... Dims> inline tdm_shape tdm_shape_of(int rank, Dims... dims) {
  const tdm_dim list[] = {static_cast<tdm_dim>(dims)..., 0};
  return tdm_shape_make(rank == static_cast<int>(sizeof...(dims)) ? rank : -1, list);
}
#else
/* tdm_shape_of(2, TDM_DIM("batch"), 10): rank dimensions follow; another number of them gives an
 * invalid shape. */
#define tdm_shape_of(rank, ...)                                                                    \
  tdm_shape_make(                                                                                  \
      (rank) == (int)(sizeof((const tdm_dim[]){__VA_ARGS__}) / sizeof(tdm_dim)) ? (rank) : -1,     \
      (const tdm_dim[]){__VA_ARGS__})
#endif

#endif
