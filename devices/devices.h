/* Public part of devices/: the context, its devices, tensors, and registration of kernels.
 *
 * A device is named kind:index, such as "cuda:1"; a kind without index means its first device, so
 * that "cuda" is "cuda:0". The kinds are cpu, cuda, sim (a simulated accelerator) and paper (a
 * device that is only described). No function falls back to another device.
 * @code
 * tdm_context *context = tdm_context_create(NULL);
 * const char *device = tdm_accelerator(context);
 * tdm_tensor *x = tdm_tensor_rand(context, device, TDM_FLOAT32, tdm_shape_of(2, 3, 4), 42);
 * ...
 * tdm_tensor_release(x);
 * tdm_context_release(context);
 * @endcode
 */
#ifndef TANDEM_DEVICES_DEVICES_H
#define TANDEM_DEVICES_DEVICES_H

#include <stdio.h>

#include "tandem/core/core.h"
#include "tandem/devices/kernel.h"

struct uv_loop_s;

#ifdef __cplusplus
extern "C" {
#endif

/* The devices of a program and the state that belongs to them. Most programs create one context.
 * Reference counted. */
typedef struct tdm_context tdm_context;

/* A device of a context. It is opaque and lives as long as its context; functions refer to devices
 * by name. */
typedef struct tdm_device tdm_device;

/* Elements of one dtype in the memory of one device, contiguous in row-major order. Reference
 * counted. */
typedef struct tdm_tensor tdm_tensor;

/* ---- Context --------------------------------------------------------------------------------- */

/* Options of tdm_context_create. */
typedef struct tdm_context_options {
  size_t struct_size;
  /* Allocator of host memory; copied. Default NULL: tdm_allocator_default(). The object that it
   * points to must live until all of its memory has been released: until the last release function
   * has returned, or later if an object is released by a thread of the context. */
  const tdm_allocator *allocator;
  tdm_log_function log; /* Receives log messages. Default NULL: none are written. */
  /* First argument of log. It must live as long as the object that allocator points to. */
  void *log_user;
  /* libuv loop of the caller, on which completions are delivered. Default NULL: the library creates
   * a loop and a thread for it. */
  struct uv_loop_s *loop;
  /* Number of cpu devices, 1 to 64. Default TDM_FROM_ENVIRONMENT: TANDEM_CPU_DEVICES, or else one
   * per NUMA node. */
  int cpu_devices;
  /* Number of sim devices, 0 to 64. Default TDM_FROM_ENVIRONMENT: TANDEM_DEVICES ("sim=2"), or else
   * one, which shares the cores of the cpu devices. */
  int sim_devices;
  /* Properties of sim devices: "latency_us=5,gigabytes_per_second=16,delay_seed=0"; add
   * peer_gigabytes_per_second if copies between two sim devices have another bandwidth. Default
   * NULL: TANDEM_SIM. */
  const char *sim;
  /* 1: products of float32 on GPUs may round their factors to TF32, which has a mantissa of 10 bits
   * instead of 23, and use tensor cores. 0: they may not. Deterministic sessions and other kinds of
   * devices never do. Default TDM_FROM_ENVIRONMENT: TANDEM_TF32 (0 or 1), or else 0. */
  int tf32;
  /* Path of a file that describes a machine (docs/forecast.md). Its devices are paper:0, paper:1,
   * ... Plans can be made for them and forecast (tdm_session_forecast), but not run. Default NULL:
   * none. */
  const char *machine;
  /* In a job of several ranks: number of seconds, 0.5 to 86400, after which a silent rank is
   * considered lost and the job fails on all others. The largest value of all ranks is used.
   * Default TDM_FROM_ENVIRONMENT: TANDEM_NET_SILENCE_SECONDS, or else 60. */
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

/* Creates a context with the devices of this machine. It can be shared by threads.
 * @param options NULL: all defaults. With a loop of the caller's, call this function on the loop's
 *     thread.
 *
 * @par Jobs of several ranks
 * In a process that an MPI launcher has started (docs/several_machines.md), the context is one rank
 * of a job. The function waits up to two minutes for the contexts of the other ranks. The context
 * has the devices of all ranks: host:0/cpu:0, ... A plain name, cpu:0, means this rank's own device
 * where a tensor is created or copied. It means rank 0's device where a graph is described, which
 * all ranks describe identically: in placements, device maps and parallel regions. A context with a
 * described machine takes no part in the job.
 *
 * @par fork
 * A process that inherits a context by fork has none of the context's threads. Functions that would
 * use the context or its objects fail with UNAVAILABLE and change nothing. Elements of host tensors
 * can be read (tdm_tensor_data). Releasing and closing are allowed and have no effect: no callback
 * is called, and no memory is freed. The child process creates a context of its own.
 *
 * @par Stacks
 * A thread of the program that calls the library needs 512 KiB of stack, besides what its own
 * callbacks and kernels use. Threads that the library creates have at least 1 MiB each, whatever
 * the limit of the process is. OpenMP threads that execute kernels have OMP_STACKSIZE or the
 * process's limit; if this is less than 512 KiB, devices do not start (UNAVAILABLE). */
TDM_API tdm_context *tdm_context_create(const tdm_context_options *options);

/* Adds a reference to the context and returns it. */
TDM_API tdm_context *tdm_context_retain(tdm_context *context);

/* Gives back a reference to the context. Tensors, graphs and sessions hold references of their own.
 * Releasing the last reference closes a context that was not closed, and joins its threads, unless
 * it is released on one of them. In a job of several ranks it waits until all ranks that are alive
 * have released theirs, because MPI launchers terminate the other ranks when one ends earlier. */
TDM_API void tdm_context_release(tdm_context *context);

/* Closes the context: no new work is accepted, work in flight is completed or cancelled, and the
 * handles of the loop are closed. Afterwards only release functions and reading of host tensors are
 * allowed. A second call has no effect but a warning in the log. With a loop of the caller's, call
 * it on the loop's thread and before uv_loop_close.
 * @param closed called when the context is closed; may be NULL. With a loop of the caller's it is
 *     called on the loop, after this function has returned. Otherwise it is called on this thread
 *     before this function returns, unless this thread belongs to the context; then it is called
 *     later.
 * @param user argument of closed. */
TDM_API void tdm_context_close(tdm_context *context, void (*closed)(void *user), void *user);

/* Returns the number of this rank in its job, from 0; 0 if there is no job. */
TDM_API int tdm_context_rank(const tdm_context *context);

/* Returns the number of ranks of the job; 1 if there is no job. */
TDM_API int tdm_context_rank_count(const tdm_context *context);

/* Combines the statuses of all ranks, so that all continue in the same way. All ranks call it, and
 * each waits for the others.
 * @param status this rank's result of something that each rank did by itself.
 * @return TDM_OK if all passed TDM_OK. Otherwise the status of the first rank that failed, with its
 *     message: "rank 1: ...". status if there is no job. */
TDM_API tdm_status tdm_context_agree(tdm_context *context, tdm_status status) TDM_WARN_UNUSED;

/* Returns the number of devices of all ranks. */
TDM_API size_t tdm_device_count(const tdm_context *context);

/* Returns the name of a device, "cpu:0", ...; borrowed.
 * @param index 0 to tdm_device_count() - 1; NULL is returned for others. */
TDM_API const char *tdm_device_name_at(const tdm_context *context, size_t index);

/* Returns the number of this rank's devices of a kind.
 * @param kind "cuda"; 0 is returned for unknown kinds. */
TDM_API size_t tdm_device_count_of(const tdm_context *context, const char *kind);

/* Returns true if the context has a device of that name. Otherwise the message states why not ("no
 * driver", ...) and which devices exist. */
TDM_API bool tdm_is_available(tdm_context *context, const char *name);

/* Checks that the context has a device of that name. UNAVAILABLE if not; the message is that of
 * tdm_is_available. */
TDM_API tdm_status tdm_device_check(tdm_context *context, const char *name) TDM_WARN_UNUSED;

/* Returns the name of the first GPU, or that of this rank's cpu:0 if there is none; borrowed. The
 * result is NULL only if context is. */
TDM_API const char *tdm_accelerator(const tdm_context *context);

/* Returns the name of the simulated accelerator, sim:0, on which placements and transfers can be
 * tried without a GPU; borrowed. It computes on the CPU and is slower than cpu:0. If no session
 * exists yet, this call gives it cores of its own; the name by itself does not. If the context was
 * created without sim devices, the name is returned too, but placing a layer there fails. The
 * result is NULL only if context is. */
TDM_API const char *tdm_simulator(tdm_context *context);

/* Measures the cost of copies between devices, and writes it to a file for later contexts on this
 * machine. Takes up to about a second per pair of devices. Nothing else should run meanwhile, and
 * it must not be called on a thread of a device. Afterwards predicted transfer times are those of
 * this machine; before, they follow from a model.
 *
 * Contexts read the file when they are created and when tdm_simulator assigns cores.
 * TANDEM_LINKS=off disables reading and writing. IO and UNAVAILABLE mean that the file could not be
 * written; this context is calibrated nevertheless. An existing path that is not a regular file is
 * not changed.
 *
 * In a job of several ranks all of them call it, and links between ranks are measured, from which
 * plans choose algorithms that sum gradients. Rank 0 writes the file, for the machines of the job,
 * and sends its contents to other ranks when their contexts are created. If it fails on one rank,
 * it fails on all.
 * @param cache_path path of the file. NULL: TANDEM_LINKS, or else a file named after this machine
 *     in $TANDEM_CACHE, $XDG_CACHE_HOME/tandem or ~/.cache/tandem. */
TDM_API tdm_status tdm_context_calibrate(tdm_context *context,
                                         const char *cache_path) TDM_WARN_UNUSED;

/* ---- Tensors --------------------------------------------------------------------------------- */

/* Functions that create a tensor return NULL on failure. Their parameters:
 * - device: name of the device, such as "cpu:0".
 * - dtype: dtype of the elements.
 * - shape: sizes only. */

/* Creates a tensor whose elements are undefined. */
TDM_API tdm_tensor *tdm_tensor_create(tdm_context *context, const char *device, tdm_dtype dtype,
                                      tdm_shape shape);

/* Creates a tensor on cpu:0 in a staging buffer near a device: pinned memory that the device reads
 * directly. Feed it, and it is copied to the device without an intermediate copy. Elements are
 * undefined. The memory is pageable, with a warning in the log, if the staging pool is full
 * (TANDEM_STAGING_BYTES; a quarter of a NUMA node's memory).
 * @param near device to which it will be copied. "cpu:N": plain memory. */
TDM_API tdm_tensor *tdm_tensor_staging(tdm_context *context, const char *near, tdm_dtype dtype,
                                       tdm_shape shape);

/* Creates a tensor of zeros. */
TDM_API tdm_tensor *tdm_tensor_zeros(tdm_context *context, const char *device, tdm_dtype dtype,
                                     tdm_shape shape);

/* Creates a tensor of ones. */
TDM_API tdm_tensor *tdm_tensor_ones(tdm_context *context, const char *device, tdm_dtype dtype,
                                    tdm_shape shape);

/* Creates a tensor whose elements are all equal.
 * @param value INVALID_ARGUMENT if dtype cannot represent it: 0.5 or 2^31 as int32, 2 as bool,
 *     1e300 as float32. */
TDM_API tdm_tensor *tdm_tensor_full(tdm_context *context, const char *device, tdm_dtype dtype,
                                    tdm_shape shape, double value);

/* Creates a tensor of random numbers, uniform in [low, high). They depend on seed and the element's
 * index only, so they are equal on all devices.
 * @param dtype numbers of an integer dtype are rounded down. INVALID_ARGUMENT if dtype cannot
 *     represent all numbers that can be drawn.
 * @param seed seed of the random numbers.
 * @param low lower bound.
 * @param high upper bound. */
TDM_API tdm_tensor *tdm_tensor_uniform(tdm_context *context, const char *device, tdm_dtype dtype,
                                       tdm_shape shape, uint64_t seed, double low, double high);

/* Creates a tensor of random numbers, uniform in [0, 1) (torch.rand). They depend on seed and the
 * element's index only.
 * @param dtype floating. */
TDM_API tdm_tensor *tdm_tensor_rand(tdm_context *context, const char *device, tdm_dtype dtype,
                                    tdm_shape shape, uint64_t seed);

/* Creates a tensor of normally distributed random numbers with mean 0 and standard deviation 1
 * (torch.randn). They depend on seed and the element's index only.
 * @param dtype floating. */
TDM_API tdm_tensor *tdm_tensor_randn(tdm_context *context, const char *device, tdm_dtype dtype,
                                     tdm_shape shape, uint64_t seed);

/* Creates a tensor (n) of the numbers start, start + step, ... as long as they are before end
 * (torch.arange).
 * @param dtype must be able to represent the first and the last number; for an integer dtype, start
 *     and step are integers.
 * @param start first number.
 * @param end upper limit, or lower limit if step is negative.
 * @param step INVALID_ARGUMENT if it is 0 or leads away from end. */
TDM_API tdm_tensor *tdm_tensor_arange(tdm_context *context, const char *device, tdm_dtype dtype,
                                      double start, double end, double step);

/* Creates a matrix (rows, columns) with ones on the diagonal and zeros elsewhere (torch.eye). */
TDM_API tdm_tensor *tdm_tensor_eye(tdm_context *context, const char *device, tdm_dtype dtype,
                                   int64_t rows, int64_t columns);

/* Creates a tensor on cpu:0 with a copy of data.
 * @param data elements in row-major order. */
TDM_API tdm_tensor *tdm_tensor_from(tdm_context *context, tdm_dtype dtype, tdm_shape shape,
                                    const void *data);

/* Creates a tensor on cpu:0 over memory of the caller's, without copying it.
 * @param data elements in row-major order; the memory must outlive the tensor.
 * @param released called once, on any thread, when the last reference is gone; may be NULL.
 * @param user argument of released. */
TDM_API tdm_tensor *tdm_tensor_wrap(tdm_context *context, tdm_dtype dtype, tdm_shape shape,
                                    void *data, void (*released)(void *user), void *user);

/* Adds a reference to the tensor and returns it. */
TDM_API tdm_tensor *tdm_tensor_retain(tdm_tensor *tensor);

/* Gives back a reference to the tensor. Allowed after the context was closed. */
TDM_API void tdm_tensor_release(tdm_tensor *tensor);

/* Returns the dtype; TDM_DTYPE_NONE if tensor is NULL. */
TDM_API tdm_dtype tdm_tensor_dtype(const tdm_tensor *tensor);

/* Returns the shape; an invalid shape if tensor is NULL. */
TDM_API tdm_shape tdm_tensor_shape(const tdm_tensor *tensor);

/* Returns the number of bytes of all elements. */
TDM_API size_t tdm_tensor_bytes(const tdm_tensor *tensor);

/* Returns the name of the device, "cpu:0"; borrowed. */
TDM_API const char *tdm_tensor_device(const tdm_tensor *tensor);

/* Returns the elements of a tensor on a cpu device, without copying them. NULL with a message if
 * the tensor is on another device; tdm_tensor_read copies it. */
TDM_API void *tdm_tensor_data(const tdm_tensor *tensor);

/* Returns rows begin <= i < end of dimension 0 as a tensor that shares memory with this one. NULL
 * if they are out of range. */
TDM_API tdm_tensor *tdm_tensor_slice(tdm_tensor *tensor, int64_t begin, int64_t end);

/* Returns the same elements in another shape as a tensor that shares memory with this one.
 * @param shape with the same number of elements. */
TDM_API tdm_tensor *tdm_tensor_view(tdm_tensor *tensor, tdm_shape shape);

/* Copies all elements to host memory. Blocks until it is done.
 * @param out_data receives the elements in row-major order.
 * @param bytes must be tdm_tensor_bytes(). */
TDM_API tdm_status tdm_tensor_read(const tdm_tensor *tensor, void *out_data,
                                   size_t bytes) TDM_WARN_UNUSED;

/* Copies all elements from host memory. Blocks until it is done.
 * @param data elements in row-major order.
 * @param bytes must be tdm_tensor_bytes(). */
TDM_API tdm_status tdm_tensor_write(tdm_tensor *tensor, const void *data,
                                    size_t bytes) TDM_WARN_UNUSED;

/* Returns one element as a double, from any device. Blocks until it is available. For a tensor of
 * one element, index 0 is torch.Tensor.item. An integer beyond 2^53 is rounded.
 * @param index position in row-major order. NAN is returned, with a message, if there is no such
 *     element. */
TDM_API double tdm_tensor_item(tdm_tensor *tensor, int64_t index);

/* Writes a tensor from any device as PyTorch prints it, followed by a newline: with four decimal
 * places, in scientific notation if the elements differ widely, and with "..." instead of the
 * middle of more than 1,000 elements. The dtype is added unless it is float32, int64 or bool; the
 * device is added unless it is cpu:0.
 * @code{.unparsed}
 * tensor([[ 0.5000, -1.0000],
 *         [ 2.0000,  0.2500]], device='cuda:0')
 * @endcode
 */
TDM_API tdm_status tdm_tensor_print(const tdm_tensor *tensor, FILE *out) TDM_WARN_UNUSED;

/* Returns the tensor on another device, in another dtype, or both (torch.Tensor.to). If nothing
 * changes, the result is the same tensor, retained; otherwise a new one. Blocks until it is
 * available.
 *
 * A conversion from floating to integer truncates, and saturates at the limits of the dtype.
 * float16 and bfloat16 are converted from and to other dtypes by way of float32, as in PyTorch.
 * @param device NULL: the tensor's own.
 * @param dtype TDM_DTYPE_NONE: the tensor's own. */
TDM_API tdm_tensor *tdm_tensor_to(tdm_tensor *tensor, const char *device, tdm_dtype dtype);

/* ---- Tensors over several devices ------------------------------------------------------------ */

/* The following functions move tensors of several devices. A list of devices is "cuda:0,cuda:1"
 * with 1 to 64 names; one may occur twice. All copies of a call are in flight at once, through the
 * queues of the devices, and the call blocks until they are done. On failure all results are NULL.
 * Arguments are never changed. In a graph, with gradients, use tdm_split, tdm_concat and
 * tdm_data_parallel. */

/* Maximum number of devices in a list, and of tensors to combine. */
#define TDM_MAX_DEVICES 64

/* Splits a tensor along dimension into consecutive chunks, one per device
 * (torch.cuda.comm.scatter). A chunk along dimension 0 for the tensor's own device shares its
 * memory.
 * @code
 * tdm_tensor *chunks[2];
 * size_t count;
 * tdm_status status = tdm_tensors_scatter(tensor, "cuda:0,cuda:1", 0, NULL, chunks, 2, &count);
 * @endcode
 * @param devices list of devices; chunk i is copied to device i.
 * @param dimension negative: from the end.
 * @param sizes one per device; their sum is the tensor's size. NULL: as torch.chunk, ceil(size /
 *     devices) each until nothing is left, so that there may be fewer chunks than devices.
 * @param out_chunks (capacity): receives the chunks.
 * @param capacity at least the number of devices.
 * @param out_count receives the number of chunks; may be NULL. */
TDM_API tdm_status tdm_tensors_scatter(tdm_tensor *tensor, const char *devices, int dimension,
                                       const int64_t *sizes, tdm_tensor **out_chunks,
                                       size_t capacity, size_t *out_count) TDM_WARN_UNUSED;

/* Concatenates tensors of any devices along dimension on one device (torch.cuda.comm.gather). A
 * single tensor that is on this device already is returned itself, retained.
 * @param tensors (count): of one dtype, with equal sizes in other dimensions; scalars become a
 *     vector.
 * @param count 1 to 64.
 * @param dimension negative: from the end.
 * @param device NULL: that of the first tensor. */
TDM_API tdm_tensor *tdm_tensors_gather(tdm_tensor *const *tensors, size_t count, int dimension,
                                       const char *device);

/* Copies every tensor to every device (torch.cuda.comm.broadcast_coalesced). A tensor that is on a
 * device already is returned itself, retained.
 * @param tensors (count): on any devices.
 * @param count 1 to 64.
 * @param devices list of devices.
 * @param out_copies (devices, count), row-major: receives the copies.
 * @param capacity number of elements of out_copies, at least devices x count. */
TDM_API tdm_status tdm_tensors_broadcast(tdm_tensor *const *tensors, size_t count,
                                         const char *devices, tdm_tensor **out_copies,
                                         size_t capacity) TDM_WARN_UNUSED;

/* Adds lists of tensors, one list per device (torch.cuda.comm.reduce_add_coalesced): sum i is that
 * of tensor i of every list, in the order of the lists. A single list is only copied.
 * @param tensors (list_count, count), row-major: float32, float64, int32 or int64. Tensors i of all
 *     lists have equal shapes and dtypes.
 * @param list_count number of lists.
 * @param count number of tensors of each list.
 * @param device device of the sums. NULL: that of the first tensor.
 * @param out_sums (count): receives the sums. */
TDM_API tdm_status tdm_tensors_reduce_add(tdm_tensor *const *tensors, size_t list_count,
                                          size_t count, const char *device,
                                          tdm_tensor **out_sums) TDM_WARN_UNUSED;

/* A list of named tensors: the state of a store, or the contents of a file. Names are copied, and
 * tensors are retained. One thread at a time may use it. */
typedef struct tdm_tensor_list tdm_tensor_list;

/* Creates an empty list. */
TDM_API tdm_tensor_list *tdm_tensor_list_create(tdm_context *context);

/* Releases the list and its references to tensors. */
TDM_API void tdm_tensor_list_release(tdm_tensor_list *list);

/* Appends a tensor, which is retained. INVALID_ARGUMENT if the list has a tensor of that name. */
TDM_API tdm_status tdm_tensor_list_add(tdm_tensor_list *list, const char *name,
                                       tdm_tensor *tensor) TDM_WARN_UNUSED;

/* Returns the number of tensors. */
TDM_API size_t tdm_tensor_list_count(const tdm_tensor_list *list);

/* Returns the name of the tensor at index; borrowed. NULL if index is out of range. */
TDM_API const char *tdm_tensor_list_name(const tdm_tensor_list *list, size_t index);

/* Returns the tensor at index; borrowed. NULL if index is out of range. */
TDM_API tdm_tensor *tdm_tensor_list_tensor(const tdm_tensor_list *list, size_t index);

/* Returns the tensor with that name; borrowed. NULL if there is none. */
TDM_API tdm_tensor *tdm_tensor_list_find(const tdm_tensor_list *list, const char *name);

/* Description of one tensor of a list. All pointers are borrowed from the list.
 *
 * Files of other programs may contain tensors of a dtype that Tandem does not support, such as
 * F8_E4M3, or of more than TDM_MAX_RANK dimensions. A list that is read from such a file describes
 * them, but does not contain their values. tdm_tensor_list_tensor and tdm_tensor_list_find return
 * NULL for them, with UNSUPPORTED and a message that names the tensor and its dtype. Functions that
 * need the values fail in the same way. */
typedef struct tdm_listed_tensor {
  const char *name;   /* NULL: there is no tensor at that index. */
  tdm_tensor *tensor; /* NULL: not supported. */
  tdm_dtype dtype;    /* TDM_DTYPE_NONE: not supported. */
  /* "float32"; for a dtype that is not supported, its name in the file: "F8_E4M3". */
  const char *dtype_name;
  const tdm_dim *dims; /* (rank). */
  int32_t rank;        /* Number of dimensions. It may exceed TDM_MAX_RANK if tensor is NULL. */
  uint64_t bytes;      /* Number of bytes of the values. */
} tdm_listed_tensor;

/* Returns the description of the tensor at index; all zeros if index is out of range. */
TDM_API tdm_listed_tensor tdm_tensor_list_entry(const tdm_tensor_list *list, size_t index);

/* ---- Kernels --------------------------------------------------------------------------------- */

/* Adds a kernel of the program's own to the context; devices/kernel.h describes kernels. It must be
 * added before the first session that needs it. INVALID_ARGUMENT if there is a kernel with the same
 * operation, executes and dtype.
 * @param kernel must outlive the context. */
TDM_API tdm_status tdm_kernel_register(tdm_context *context,
                                       const tdm_kernel *kernel) TDM_WARN_UNUSED;

#ifdef __cplusplus
}
#endif
#endif
