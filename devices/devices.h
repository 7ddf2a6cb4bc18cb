/* Public part of devices/: the context, the devices it found, tensors, and kernels of a user's own.
 * A device is named kind:index (cuda:1); a kind alone means its first (cuda is cuda:0). Nothing
 * here falls back to another device. */
#ifndef TANDEM_DEVICES_DEVICES_H
#define TANDEM_DEVICES_DEVICES_H

#include <stdio.h>

#include "tandem/core/core.h"
#include "tandem/devices/kernel.h"

struct uv_loop_s;

#ifdef __cplusplus
extern "C" {
#endif

/* The devices of a program, and all that the library knows of them. Counted references. */
typedef struct tdm_context tdm_context;

/* A device of a context, which has it as long as it lives: what kernels of one's own are given. */
typedef struct tdm_device tdm_device;

/* Elements of one dtype in the memory of one device, dense, row-major. Counted references. */
typedef struct tdm_tensor tdm_tensor;

/* ---- Context ------------------------------------------------------------------------------- */

typedef struct tdm_context_options {
  size_t struct_size;
  /* Copied; NULL: tdm_allocator_default(). What it points to lives until all that it gave is given
   * back: until the last release returns, or, of one on a thread of the context, until later. */
  const tdm_allocator *allocator;
  tdm_log_function log; /* NULL: silent */
  void *log_user;       /* lives as long as what allocator points to */
  struct uv_loop_s
      *loop;       /* completions arrive here; NULL: a loop and thread of the library's own */
  int cpu_devices; /* 1 to 64; default TDM_FROM_ENVIRONMENT: TANDEM_CPU_DEVICES, else one per NUMA
                      node */
  int sim_devices; /* 0 to 64; default TDM_FROM_ENVIRONMENT: TANDEM_DEVICES ("sim=2"), else one
                      that shares the cpu's cores */
  const char *sim; /* "latency_us=5,gigabytes_per_second=16,delay_seed=0", and
                      peer_gigabytes_per_second where it is another; NULL: TANDEM_SIM */
  /* 1: products of float32 on GPUs may round their factors to TF32, which has ten bits behind the
   * point instead of 23 and goes through the tensor cores; 0: they may not. Default
   * TDM_FROM_ENVIRONMENT: TANDEM_TF32 (0 or 1), else they may not. Deterministic sessions, and
   * other kinds, never do. */
  int tf32;
  /* A file that describes a machine (docs/forecast.md): its devices are paper:0, ..., for which
   * plans can be made and forecast (tdm_session_forecast), never run. NULL: none. */
  const char *machine;
  /* Of a job of several ranks: a rank that has been silent for so many seconds, 0.5 to 86400, is
   * lost, and the job fails on all others. The largest of all ranks counts.
   * Default TDM_FROM_ENVIRONMENT: TANDEM_NET_SILENCE_SECONDS, else 60. */
  double silence_seconds;
} tdm_context_options;
static inline tdm_context_options tdm_context_options_default(void) {
  tdm_context_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_context_options);
  options.cpu_devices = TDM_FROM_ENVIRONMENT;
  options.sim_devices = TDM_FROM_ENVIRONMENT;
  options.tf32 = TDM_FROM_ENVIRONMENT;
  options.silence_seconds = TDM_FROM_ENVIRONMENT;
  return options;
}

/* Finds the devices. options may be NULL. NULL on failure. A context is shared by threads. With a
 * caller's loop: call it on the loop's thread. The caller owns one reference.
 *
 * In a process that an MPI launcher has started (docs/several_machines.md) the context is one rank
 * of a job: it waits for the other ranks' contexts, two minutes at most, and has the devices of all
 * of them, host:0/cpu:0, ... A plain name, cpu:0, means this rank's own where a tensor is made or
 * copied, and rank 0's in what describes graphs, which all ranks describe alike: placements, maps
 * and parallel regions. A context with a described machine has no part in the job.
 *
 * A process that inherited a context by fork has none of its threads. There whatever would use the
 * context, or what belongs to it, fails with UNAVAILABLE and changes nothing; elements of host
 * tensors can be read (tdm_tensor_data), and releasing and closing are legal and do nothing: no
 * callback is called, no memory given back. The child makes a context of its own.
 *
 * Stack: a thread of the program's that calls the library needs 512 KiB, besides what its own
 * callbacks and kernels use. Threads that the library creates have at least 1 MiB each, whatever
 * the process's limit is. Those of OpenMP that share a kernel's work have what OMP_STACKSIZE or the
 * process's limit says; where that is less than 512 KiB, devices do not start (UNAVAILABLE). */
TDM_API tdm_context *tdm_context_create(const tdm_context_options *options);
TDM_API tdm_context *tdm_context_retain(tdm_context *context);
/* Gives a reference back. Children (tensors, graphs, sessions) hold references of their own. The
 * last one closes a context that was not closed and joins its threads, unless it is dropped on one
 * of them. In a job of several ranks it waits until all of them drop theirs, for as long as they
 * live, since MPI's launchers end the others when one ends before. NULL is legal. */
TDM_API void tdm_context_release(tdm_context *context);
/* Stops admitting work, lets what is in flight settle, closes the loop's handles; with a caller's
 * loop on its thread and before uv_loop_close. closed (may be NULL) is called when all of it is
 * done: on the caller's loop, later; else before this returns, on this thread, unless that is one
 * of the context's, which then calls it later. Afterwards only release, and reading host tensors,
 * are legal. */
TDM_API void tdm_context_close(tdm_context *context, void (*closed)(void *user), void *user);

/* This rank of the job, from 0, and how many there are: 0 of 1 where there is no job. */
TDM_API int tdm_context_rank(const tdm_context *context);
TDM_API int tdm_context_rank_count(const tdm_context *context);
/* Every rank tells how something went that each did by itself, and all get the same: TDM_OK where
 * all say so, else the status of the first rank that failed, with its message, "rank 1: ...". All
 * ranks call it, and each waits for the others. Where there is no job: status. */
TDM_API tdm_status tdm_context_agree(tdm_context *context, tdm_status status) TDM_WARN_UNUSED;

/* Of all ranks. */
TDM_API size_t tdm_device_count(const tdm_context *context);
/* Borrowed; "cpu:0", ...; NULL past the end. */
TDM_API const char *tdm_device_name_at(const tdm_context *context, size_t index);
/* How many of this rank's are of a kind ("cuda"); 0 for what is no kind. */
TDM_API size_t tdm_device_count_of(const tdm_context *context, const char *kind);
/* Is there a device of that name? If not, the message tells why ("no driver", ...), and which there
 * are. */
TDM_API bool tdm_is_available(tdm_context *context, const char *name);
TDM_API tdm_status tdm_device_check(tdm_context *context, const char *name) TDM_WARN_UNUSED;
/* The first GPU if there is one, else this rank's cpu:0, by its plain name. Borrowed; NULL only if
 * context is. The explicit way to say "a GPU if there is one". */
TDM_API const char *tdm_accelerator(const tdm_context *context);
/* sim:0, an accelerator that is simulated on the CPU, to try placements and transfers without one;
 * slower than cpu:0. Unlike the plain name, asking here gives it cores of its own if no session
 * exists yet. Its name also where the context was asked to have none, and placing there fails.
 * Borrowed; NULL only if context is. */
TDM_API const char *tdm_simulator(tdm_context *context);

/* Measures what copies between the devices cost, which takes up to a second or so for each pair,
 * and keeps it in a file for later contexts on this machine: cache_path, or NULL: TANDEM_LINKS,
 * else a name of this machine's in $TANDEM_CACHE, $XDG_CACHE_HOME/tandem or ~/.cache/tandem, which
 * contexts read when they are created, and when tdm_simulator gives cores (TANDEM_LINKS=off:
 * they do not, nor is it written). From then on predicted times of transfers are those of this
 * machine, before they are modelled. Nothing else should run meanwhile; not on a device's thread.
 * IO and UNAVAILABLE: the file could not be written (what stands there and is no regular file is
 * left alone), while this context is calibrated all the same.
 * In a job of several ranks all of them call it, and links between ranks are what is measured, by
 * which plans choose algorithms of summing. Rank 0 has the file, of the job's machines, and tells
 * the others when their contexts are created. A failure is that of all. */
TDM_API tdm_status tdm_context_calibrate(tdm_context *context,
                                         const char *cache_path) TDM_WARN_UNUSED;

/* ---- Tensors: dense, row-major, retained --------------------------------------------------- */

/* Memory of shape on device; contents undefined. The caller owns the reference. NULL on failure. */
TDM_API tdm_tensor *tdm_tensor_create(tdm_context *context, const char *device, tdm_dtype dtype,
                                      tdm_shape shape);
/* The same on cpu:0, in a staging buffer that lies near the device `near` and is pinned for it:
 * feed it, and its upload needs no detour. Pageable, with a warning in the log, once the staging
 * pool (TANDEM_STAGING_BYTES; a quarter of a node's memory) is full. near "cpu:N": plain memory. */
TDM_API tdm_tensor *tdm_tensor_staging(tdm_context *context, const char *near, tdm_dtype dtype,
                                       tdm_shape shape);
TDM_API tdm_tensor *tdm_tensor_zeros(tdm_context *context, const char *device, tdm_dtype dtype,
                                     tdm_shape shape);
TDM_API tdm_tensor *tdm_tensor_ones(tdm_context *context, const char *device, tdm_dtype dtype,
                                    tdm_shape shape);
/* Fills a tensor with value. INVALID_ARGUMENT if dtype does not hold it: 0.5 or 2^31 as int32, 2 as
 * bool, 1e300 as float32. */
TDM_API tdm_tensor *tdm_tensor_full(tdm_context *context, const char *device, tdm_dtype dtype,
                                    tdm_shape shape, double value);
/* Uniform in [low, high), keyed by (seed, element index): the same on every device. Elements of an
 * integer dtype are rounded down. INVALID_ARGUMENT if dtype does not hold what can be drawn. */
TDM_API tdm_tensor *tdm_tensor_uniform(tdm_context *context, const char *device, tdm_dtype dtype,
                                       tdm_shape shape, uint64_t seed, double low, double high);
/* The same in [0, 1), of a floating dtype. */
TDM_API tdm_tensor *tdm_tensor_rand(tdm_context *context, const char *device, tdm_dtype dtype,
                                    tdm_shape shape, uint64_t seed);
/* Normal with mean 0 and deviation 1, keyed likewise; of a floating dtype. */
TDM_API tdm_tensor *tdm_tensor_randn(tdm_context *context, const char *device, tdm_dtype dtype,
                                     tdm_shape shape, uint64_t seed);
/* start, start + step, ... as far as they are before end: (n). INVALID_ARGUMENT if step leads away
 * from end or is 0, or if dtype does not hold the first or the last element; of an integer dtype
 * start and step are whole numbers. */
TDM_API tdm_tensor *tdm_tensor_arange(tdm_context *context, const char *device, tdm_dtype dtype,
                                      double start, double end, double step);
/* (rows, columns): ones where both are the same, zeros elsewhere. */
TDM_API tdm_tensor *tdm_tensor_eye(tdm_context *context, const char *device, tdm_dtype dtype,
                                   int64_t rows, int64_t columns);
/* A tensor on cpu:0 with a copy of data (shape, row-major). */
TDM_API tdm_tensor *tdm_tensor_from(tdm_context *context, tdm_dtype dtype, tdm_shape shape,
                                    const void *data);
/* A tensor on cpu:0 over memory of the caller's, which outlives the tensor; released (may be NULL)
 * is called once, on any thread, when the last reference is gone. */
TDM_API tdm_tensor *tdm_tensor_wrap(tdm_context *context, tdm_dtype dtype, tdm_shape shape,
                                    void *data, void (*released)(void *user), void *user);
TDM_API tdm_tensor *tdm_tensor_retain(tdm_tensor *tensor);
/* Any thread, also after the context was closed; NULL is legal. */
TDM_API void tdm_tensor_release(tdm_tensor *tensor);

/* What it was made with; the device's name, "cpu:0", is borrowed. Of NULL: none,
 * invalid, 0, NULL. */
TDM_API tdm_dtype tdm_tensor_dtype(const tdm_tensor *tensor);
TDM_API tdm_shape tdm_tensor_shape(const tdm_tensor *tensor);
TDM_API size_t tdm_tensor_bytes(const tdm_tensor *tensor);
TDM_API const char *tdm_tensor_device(const tdm_tensor *tensor);
/* The elements, where the host may read them (cpu devices), never a copy; NULL elsewhere, with a
 * message. */
TDM_API void *tdm_tensor_data(const tdm_tensor *tensor);
/* Rows begin <= i < end of dimension 0, sharing storage; NULL when they are not inside. */
TDM_API tdm_tensor *tdm_tensor_slice(tdm_tensor *tensor, int64_t begin, int64_t end);
/* The same elements under another shape of the same count, sharing storage. */
TDM_API tdm_tensor *tdm_tensor_view(tdm_tensor *tensor, tdm_shape shape);
/* Copies all of the tensor to, or from, host memory of exactly bytes; blocks until it is done. */
TDM_API tdm_status tdm_tensor_read(const tdm_tensor *tensor, void *out_data,
                                   size_t bytes) TDM_WARN_UNUSED;
TDM_API tdm_status tdm_tensor_write(tdm_tensor *tensor, const void *data,
                                    size_t bytes) TDM_WARN_UNUSED;
/* Element `index`, in row-major order, as a double, wherever it lies: torch.Tensor.item, of index 0
 * where there is one alone. An integer beyond 2^53 is rounded. NAN, with a message, where there is
 * no such element. Blocks until it is there. */
TDM_API double tdm_tensor_item(tdm_tensor *tensor, int64_t index);
/* Writes it as PyTorch prints it, with a newline behind: four digits behind the point, powers of
 * ten where elements lie far apart, "..." in place of the middle of more than 1,000 elements, the
 * dtype where it is not float32, int64 or bool, the device where it is not cpu:0:
 *
 *   tensor([[ 0.5000, -1.0000],
 *           [ 2.0000,  0.2500]], device='cuda:0')
 *
 * Reads it from wherever it lies. */
TDM_API tdm_status tdm_tensor_print(const tdm_tensor *tensor, FILE *out) TDM_WARN_UNUSED;
/* The tensor on device as dtype: the same one, retained, if nothing changes, else a new one; the
 * source is never rewritten. device NULL: where it is. TDM_DTYPE_NONE: as it is. Float to integer
 * truncates and saturates; float16 and bfloat16 are converted from and to others by way of float32,
 * as in PyTorch. Blocks until it is there. */
TDM_API tdm_tensor *tdm_tensor_to(tdm_tensor *tensor, const char *device, tdm_dtype dtype);

/* ---- Tensors over several devices ----------------------------------------------------------- */

/* A list of devices is "cuda:0,cuda:1", 1 to 64, where one may stand twice; tensors are 1 to 64 to
 * be put together or summed. All that one call moves is in flight at once, through the devices'
 * queues; it blocks until everything is there. Any thread; it starts the devices. The caller owns
 * what comes back; on failure all of it is NULL, and the tensors given are never changed. What
 * these do in a graph, with gradients, is tdm_split's, tdm_concat's and tdm_data_parallel's. */
#define TDM_MAX_DEVICES 64

/* Cuts tensor along dimension (negative: from the end) into chunks that follow one another, chunk i
 * for device i of the list, straight from where it lies. sizes: of every device's chunk, together
 * the whole; NULL: torch.chunk's, ceil(rows / devices) each until they run out, so that there may
 * be fewer chunks than devices. out_chunks (capacity, at least the number of devices);
 * *out_count (may be NULL) gets how many there are. A chunk of dimension 0 that is for tensor's own
 * device is a view. */
TDM_API tdm_status tdm_tensors_scatter(tdm_tensor *tensor, const char *devices, int dimension,
                                       const int64_t *sizes, tdm_tensor **out_chunks,
                                       size_t capacity, size_t *out_count) TDM_WARN_UNUSED;
/* Puts tensors, wherever they lie, together along dimension (negative: from the end) on device
 * (NULL: that of the first). Their dtypes and other dimensions agree; scalars become a vector. One
 * tensor alone that lies there is itself, retained. NULL on failure. */
TDM_API tdm_tensor *tdm_tensors_gather(tdm_tensor *const *tensors, size_t count, int dimension,
                                       const char *device);
/* Copies every tensor, wherever it lies, to every device: out_copies (devices, count), row-major,
 * of which there is room for capacity.
 * Where a tensor lies already it is itself, retained. */
TDM_API tdm_status tdm_tensors_broadcast(tdm_tensor *const *tensors, size_t count,
                                         const char *devices, tdm_tensor **out_copies,
                                         size_t capacity) TDM_WARN_UNUSED;
/* tensors (list_count, count), row-major, each list on a device of its own: sum i is that of every
 * list's tensor i, added on device (NULL: that of the first tensor) in the order of the lists. Of
 * float32, float64, int32, int64; shapes and dtypes agree. One list alone is only moved. */
TDM_API tdm_status tdm_tensors_reduce_add(tdm_tensor *const *tensors, size_t list_count,
                                          size_t count, const char *device,
                                          tdm_tensor **out_sums) TDM_WARN_UNUSED;

/* A list of named tensors: the state of a store, the contents of a file. Names are copied, tensors
 * retained. One thread at a time. */
typedef struct tdm_tensor_list tdm_tensor_list;
TDM_API tdm_tensor_list *tdm_tensor_list_create(tdm_context *context);
TDM_API void tdm_tensor_list_release(tdm_tensor_list *list); /* NULL is legal */
/* Appends; a name that is there already is INVALID_ARGUMENT. */
TDM_API tdm_status tdm_tensor_list_add(tdm_tensor_list *list, const char *name,
                                       tdm_tensor *tensor) TDM_WARN_UNUSED;
TDM_API size_t tdm_tensor_list_count(const tdm_tensor_list *list);
TDM_API const char *tdm_tensor_list_name(const tdm_tensor_list *list, size_t index); /* borrowed */
TDM_API tdm_tensor *tdm_tensor_list_tensor(const tdm_tensor_list *list,
                                           size_t index); /* borrowed */
TDM_API tdm_tensor *tdm_tensor_list_find(const tdm_tensor_list *list,
                                         const char *name); /* borrowed */

/* A description of one tensor of a list. Files of other programs may hold tensors of a dtype that
 * Tandem does not support, such as F8_E4M3, or of more than TDM_MAX_RANK dimensions. A list that is
 * read from such a file describes these tensors, but holds no values of them:
 * tdm_tensor_list_tensor and tdm_tensor_list_find return NULL for them, with UNSUPPORTED and a
 * message that names tensor and dtype, and functions that would need their values fail in the same
 * way. All pointers are borrowed from the list. */
typedef struct tdm_listed_tensor {
  const char *name;       /* NULL: there is no tensor of that index */
  tdm_tensor *tensor;     /* NULL: unsupported */
  tdm_dtype dtype;        /* TDM_DTYPE_NONE: a dtype that Tandem does not have */
  const char *dtype_name; /* "float32"; of other dtypes the format's name: "F8_E4M3" */
  const tdm_dim *dims;    /* (rank) */
  int32_t rank;           /* may exceed TDM_MAX_RANK if tensor is NULL */
  uint64_t bytes;         /* of its values */
} tdm_listed_tensor;
/* Returns the description of the tensor at index; {0} if list is NULL or index is out of range. */
TDM_API tdm_listed_tensor tdm_tensor_list_entry(const tdm_tensor_list *list, size_t index);

/* ---- Kernels, which tandem/devices/kernel.h describes ---------------------------------------- */

/* Adds a kernel; the struct must outlive the context. A second one for the same (operation,
 * executes, dtype) is INVALID_ARGUMENT. Before the first session that needs it; any thread. */
TDM_API tdm_status tdm_kernel_register(tdm_context *context,
                                       const tdm_kernel *kernel) TDM_WARN_UNUSED;

#ifdef __cplusplus
}
#endif
#endif
