/* Public part of devices/: kernels. A kernel computes one operation on one kind of device, for one
 * dtype; tdm_kernel_register adds one of the program's own to a context.
 *
 * When a plan is made, the library calls a kernel's `prepare` once per node with the shapes of the
 * operands. Each run then calls `execute`. */
#ifndef TANDEM_DEVICES_KERNEL_H
#define TANDEM_DEVICES_KERNEL_H

#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Maximum number of inputs of a kernel. */
#define TDM_KERNEL_MAX_INPUTS 64
/* Maximum number of outputs of a kernel. */
#define TDM_KERNEL_MAX_OUTPUTS 64

/* Number of inputs and of outputs that may have another format than dense; those after them are
 * dense. */
#define TDM_KERNEL_FORMATS 16

/* Layout of a value in memory. 0 is dense: contiguous in row-major order. Any other number is an
 * opaque layout that only the kernels which use it, and their "reorder" kernels, can read. */
typedef uint32_t tdm_format;

/* The dense format. */
#define TDM_FORMAT_DENSE 0u

/* Dtype, layout and shape of a value, known before it is computed. */
typedef struct tdm_spec {
  tdm_dtype dtype;   /* Dtype of its elements. */
  tdm_format format; /* Its layout in memory. */
  /* Its shape. Concrete in kernels; rules of operations also see names and unknown dimensions. */
  tdm_shape shape;
} tdm_spec;

/* The part of a value that one replica of a parallel region has. Kernels whose results depend on an
 * element's position use it to obtain its position in the whole value, so that results do not
 * depend on how the value is cut. All zeros: the whole value. */
typedef struct tdm_chunk {
  int64_t dimension; /* The dimension that was cut, from 0. */
  int64_t offset;    /* Where the part begins along this dimension. */
  int64_t whole;     /* Size of this dimension in the whole value; 0: the value is not cut. */
} tdm_chunk;

/* Argument of a kernel's prepare. Pointers are borrowed during the call. */
typedef struct tdm_kernel_request {
  const void *attributes; /* The operation's attribute struct. */
  /* (input_count): formats are those in which the inputs are available. An absent optional input
   * has dtype TDM_DTYPE_NONE. */
  const tdm_spec *inputs;
  size_t input_count;      /* Number of inputs. */
  const tdm_spec *outputs; /* (output_count): results of the shape rule. */
  size_t output_count;     /* Number of outputs. */
  size_t team_size;        /* Number of threads of the device that will execute the kernel. */
  /* true: results must not depend on team_size or on other rows of the batch. */
  bool deterministic;
} tdm_kernel_request;

/* Result of a kernel's prepare. It is zeroed before the call; a simple kernel sets nothing. */
typedef struct tdm_kernel_answer {
  /* Data of the kernel's own, which execute receives and release frees. */
  void *state;
  /* Number of bytes of scratch memory for each execution, aligned to 64, with undefined contents.
   */
  size_t workspace_bytes;
  /* true: the kernel gains from the device's threads, so it is never executed on a thread that is
   * borrowed from elsewhere. */
  bool splits;
  tdm_format input_formats[TDM_KERNEL_FORMATS]; /* Formats in which the kernel reads its inputs. */
  /* Formats in which the kernel writes its outputs. */
  tdm_format output_formats[TDM_KERNEL_FORMATS];
  /* Number of bytes of outputs with an opaque format. 0: the size of the dense format. */
  size_t output_bytes[TDM_KERNEL_FORMATS];
} tdm_kernel_answer;

/* Numbers that differ from run to run. */
typedef struct tdm_run_scalars {
  /* Number of training steps that the session's store has done before this run. */
  uint64_t step;
  uint64_t seed;        /* Seed of the session. */
  double learning_rate; /* Learning rate of the parameter's group. */
  /* true: momentum replaces that of the optimizer's attributes (momentum or beta1). */
  bool has_momentum;
  double momentum; /* Momentum of the parameter's group. */
} tdm_run_scalars;

/* Threads that share the work of a kernel (tdm_team_run). */
typedef struct tdm_team tdm_team;

/* Argument of a kernel's execute. Pointers are borrowed during the call. */
typedef struct tdm_kernel_call {
  const void *attributes; /* The operation's attribute struct. */
  void *state;            /* State that prepare set; NULL if there is no prepare. */
  /* (input_count of the request): in the formats that were agreed. */
  const tdm_spec *input_specs;
  const tdm_spec *output_specs; /* (output_count of the request). */
  const void *const *inputs;    /* Elements of the inputs; NULL for an absent optional input. */
  /* Elements of the outputs. An output that overwrites an input has its address. */
  void *const *outputs;
  void *workspace;                /* workspace_bytes of scratch memory. */
  tdm_team *team;                 /* Threads for tdm_team_run; NULL: this thread only. */
  const tdm_run_scalars *scalars; /* Numbers of the run. */
  /* For kernels that execute "cuda": points to the cudaStream_t to enqueue on. Operands are then
   * addresses on the GPU, and execute must return without waiting. NULL otherwise. */
  const void *stream;
} tdm_kernel_call;

/* A kernel. Everything that it points to has static storage. Functions may be called from any
 * thread, and fail by tdm_fail. */
typedef struct tdm_kernel {
  size_t struct_size;    /* sizeof(tdm_kernel). */
  const char *operation; /* Name of the operation: "linear". */
  /* "cpu" for the devices cpu and sim, or "cuda". */
  const char *executes;
  tdm_dtype dtype; /* Dtype of the first output. */
  /* Chooses formats, state and scratch memory for given shapes. NULL: nothing to prepare. */
  tdm_status (*prepare)(const tdm_kernel_request *request, tdm_kernel_answer *answer);
  /* Computes the outputs. It writes outputs and workspace only. It may dereference its operands,
   * except on a GPU. */
  tdm_status (*execute)(const tdm_kernel_call *call);
  void (*release)(void *state); /* Frees state. NULL: nothing to free. */
  /* For elementwise operations (tdm_operation.elementwise), so that nodes can be fused: computes
   * elements begin <= i < end of the output on this thread, with the same bits as execute; other
   * threads may compute other elements. Operands are those of execute, but of the output, and of
   * inputs with as many elements, only these elements exist. NULL: nodes are not fused. For kernels
   * that execute "cpu" only. */
  tdm_status (*execute_part)(const tdm_kernel_call *call, int64_t begin, int64_t end);
  /* For kernels that do not execute on the host, instead of execute_part: the number by which the
   * library's fused kernel identifies the operation. Must be 0 in all others, also in those of the
   * program. */
  uint32_t element;
} tdm_kernel;

/* Calls body for disjoint ranges that cover [0, count), on the threads of a team, and returns when
 * all calls have returned.
 * @code
 * static void add_range(void *user, int64_t begin, int64_t end) {
 *   const tdm_kernel_call *call = user;
 *   const float *a = call->inputs[0], *b = call->inputs[1];
 *   float *y = call->outputs[0];
 *   for (int64_t i = begin; i < end; i++)
 *     y[i] = a[i] + b[i];
 * }
 *
 * static tdm_status execute_add(const tdm_kernel_call *call) {
 *   const int64_t count = tdm_shape_count(&call->output_specs[0].shape);
 *   tdm_team_run(call->team, count, 4096, add_range, (void *)call);
 *   return TDM_OK;
 * }
 * @endcode
 * @param team NULL, or a call inside another body: body is called once, on this thread.
 * @param count number of elements.
 * @param grain bounds of ranges are multiples of it, except for the last one; 1 or more. Results
 *     must not depend on the bounds.
 * @param body computes one range.
 * @param user first argument of body. */
TDM_API void tdm_team_run(tdm_team *team, int64_t count, int64_t grain,
                          void (*body)(void *user, int64_t begin, int64_t end), void *user);

/* Returns the number of threads of a team; 1 for NULL. */
TDM_API size_t tdm_team_size(const tdm_team *team);

#ifdef __cplusplus
}
#endif
#endif
