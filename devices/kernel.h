/* Public part of devices/: what a kernel is, and what it is told. A kernel computes one operation
 * on one kind of device; tdm_kernel_register adds one of a user's own. */
#ifndef TANDEM_DEVICES_KERNEL_H
#define TANDEM_DEVICES_KERNEL_H

#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The most that a kernel reads and writes. */
#define TDM_KERNEL_MAX_INPUTS 64
#define TDM_KERNEL_MAX_OUTPUTS 64
#define TDM_KERNEL_FORMATS 16 /* inputs and outputs behind these are dense */

/* How a value lies in memory. 0 is dense row-major; any other number names an opaque layout that
 * only kernels and "reorder" kernels knowing it read. */
typedef uint32_t tdm_format;
#define TDM_FORMAT_DENSE 0u

/* What is known of a value before it is there. */
typedef struct tdm_spec {
  tdm_dtype dtype;   /* of its elements */
  tdm_format format; /* its layout in memory */
  tdm_shape shape;   /* concrete */
} tdm_spec;

/* Which part of a value one replica of a parallel region has, so that what is keyed by an element's
 * place in the whole value stays the same however it is cut. All zeros: the whole. */
typedef struct tdm_chunk {
  int64_t dimension; /* that was cut, from 0 */
  int64_t offset;    /* where the part begins in it */
  int64_t whole;     /* the dimension's extent in the whole value; 0: this is all of it */
} tdm_chunk;

/* What prepare is told. Pointers are borrowed for the call. */
typedef struct tdm_kernel_request {
  const void *attributes;  /* the operation's attribute struct */
  const tdm_spec *inputs;  /* format: the one on offer */
  size_t input_count;      /* an absent optional input has dtype TDM_DTYPE_NONE */
  const tdm_spec *outputs; /* (output_count): what the shape rule has found */
  size_t output_count;
  size_t team_size;   /* threads of the device that will execute */
  bool deterministic; /* results must not depend on team size, or on other rows of the batch */
} tdm_kernel_request;

/* What prepare answers; zeroed before the call, so a plain kernel fills nothing. */
typedef struct tdm_kernel_answer {
  void *state;            /* the kernel's own, handed to execute; freed by the kernel's release */
  size_t workspace_bytes; /* aligned to 64, undefined contents, private to one execution */
  bool splits;            /* gains from the device's team: never run on a borrowed thread */
  tdm_format input_formats[TDM_KERNEL_FORMATS]; /* what it wants to read */
  tdm_format output_formats[TDM_KERNEL_FORMATS];
  size_t output_bytes[TDM_KERNEL_FORMATS]; /* of opaque ones; else 0: dense size */
} tdm_kernel_answer;

/* What differs from run to run without being a tensor. */
typedef struct tdm_run_scalars {
  uint64_t step; /* training steps done by the session's store before this run */
  uint64_t seed;
  double learning_rate; /* of the parameters' group */
  bool
      has_momentum; /* `momentum` stands for what the optimizer's attributes say: momentum, beta1 */
  double momentum;
} tdm_run_scalars;

/* The threads that share a kernel's work (tdm_team_run). */
typedef struct tdm_team tdm_team;

/* What execute is told. Pointers are borrowed for the call. */
typedef struct tdm_kernel_call {
  const void *attributes;       /* the operation's attribute struct */
  void *state;                  /* what prepare has answered; NULL without prepare */
  const tdm_spec *input_specs;  /* (input_count) of the request, in the formats agreed */
  const tdm_spec *output_specs; /* (output_count) */
  const void *const *inputs;    /* NULL for an absent optional input */
  void *const *outputs;         /* an output that overwrites an input has that input's address */
  void *workspace;              /* as many bytes as prepare asked for */
  tdm_team *team;               /* NULL: this thread alone */
  const tdm_run_scalars *scalars;
  /* For kernels that execute "cuda": points to the cudaStream_t to enqueue on; operands are the
   * GPU's addresses, and execute returns without waiting. NULL elsewhere. */
  const void *stream;
} tdm_kernel_call;

typedef struct tdm_kernel {
  size_t struct_size;
  const char *operation; /* "linear"; static storage, like the rest of this struct */
  const char *executes;  /* "cpu": serves cpu and sim */
  tdm_dtype dtype;       /* of the first output */
  /* Both may be called from any thread; prepare may be NULL. execute is called with operands that
   * it may dereference, writes only outputs and workspace, and fails through tdm_fail. */
  tdm_status (*prepare)(const tdm_kernel_request *request, tdm_kernel_answer *answer);
  tdm_status (*execute)(const tdm_kernel_call *call);
  void (*release)(void *state); /* NULL: nothing to free */
  /* Of an operation that is elementwise (graph/operations.h), so that nodes can be fused: computes
   * elements begin <= i < end of the output, on this thread; others may be at it too. Operands are
   * those of execute, but of the output, and of inputs with as many elements, only these elements
   * are there. Bits are those of execute. NULL: nodes stay by themselves. Of kernels that execute
   * "cpu" alone. */
  tdm_status (*execute_part)(const tdm_kernel_call *call, int64_t begin, int64_t end);
  /* What stands for execute_part where kernels are not the host's: the number by which the
   * library's own fused kernel knows the operation. 0 for all others, or it is refused. */
  uint32_t element;
} tdm_kernel;

/* Calls body for disjoint ranges that cover [0, count), their bounds multiples of grain (but for
 * the last), on the team's threads, and returns when all are done. Range bounds are no promise:
 * results must not depend on them. team NULL, or within another body: one call on this thread. */
TDM_API void tdm_team_run(tdm_team *team, int64_t count, int64_t grain,
                          void (*body)(void *user, int64_t begin, int64_t end), void *user);
TDM_API size_t tdm_team_size(const tdm_team *team); /* 1 for NULL */

#ifdef __cplusplus
}
#endif
#endif
