/* The kernels' cases: for every operation of devices/kernels.h a grid of shapes, a generator of
 * inputs and a plain float64 reference. Drivers decide where a case runs. Invariant: a case owns
 * nothing, and its inputs depend only on its name. */
#ifndef TANDEM_TESTS_DEVICES_KERNELS_CASES_H
#define TANDEM_TESTS_DEVICES_KERNELS_CASES_H

#include "devices/kernels.h"
#include "tandem/devices/devices.h"

/* How an input is filled. */
typedef enum input_fill {
  FILL_UNIFORM, /* reals in [low, high), integers likewise */
  FILL_TARGETS, /* class indices in [low, high), and now and then `ignored` */
  FILL_SPARSE,  /* distinct ascending indices in [low, high), then -1; the count follows as input */
  FILL_ROWS,    /* rows of a sparse gradient: `count` are used, the rest are 0 */
} input_fill;

typedef struct kernel_case kernel_case;

typedef struct kernel_input {
  tdm_spec spec;
  /* fills the data if not NULL; otherwise `fill` applies */
  void (*generate)(const kernel_case *test, void *data);
  input_fill fill;
  double low;
  double high;
  int64_t ignored;
  int64_t used; /* entries of a sparse gradient */
} kernel_input;

/* Tensors as float64, in operand order; an absent input is NULL. Outputs that overwrite an input
 * are separate here. */
typedef void (*kernel_reference)(const kernel_case *self, const double *const *inputs,
                                 double *const *outputs);

struct kernel_case {
  char name[128];
  const char *operation;
  tdm_dtype dtype;  /* dtype of the first output */
  double tolerance; /* tolerance of float32, relative to the largest element; 0: 1e-5 */
  bool of_cpu;      /* only for CPUs: its size matters to caches, and an emulated grid takes long */
  kernel_input inputs[TDM_KERNEL_MAX_INPUTS];
  size_t input_count;
  tdm_spec outputs[TDM_KERNEL_MAX_OUTPUTS];
  int overwrites[TDM_KERNEL_MAX_OUTPUTS]; /* input of that index; -1: none */
  size_t output_count;
  union {
    tdm_embedding_attributes embedding;
    tdm_embedding_bag_attributes embedding_bag;
    tdm_shard_ids_attributes shard_ids;
    tdm_shard_places_attributes shard_places;
    tdm_matmul_attributes matmul;
    tdm_transpose_attributes transpose;
    tdm_dot_interaction_attributes interaction;
    tdm_attention_attributes attention;
    tdm_recurrent_attributes recurrent;
    tdm_fill_attributes fill;
    tdm_gelu_attributes gelu;
    tdm_leaky_relu_attributes leaky_relu;
    tdm_reduce_attributes reduce;
    tdm_deviations_attributes deviations;
    tdm_function_attributes function;
    tdm_compare_attributes compare;
    tdm_where_attributes where;
    tdm_dimension_attributes dimension;
    tdm_layer_norm_attributes layer_norm;
    tdm_dropout_attributes dropout;
    tdm_convolution_attributes convolution;
    tdm_pool_attributes pool;
    tdm_batch_norm_attributes batch_norm;
    tdm_select_attributes select;
    tdm_strided_attributes strided;
    tdm_pad_attributes pad;
    tdm_arange_attributes arange;
    tdm_gather_attributes gather;
    tdm_one_hot_attributes one_hot;
    tdm_check_attributes check;
    tdm_parts_attributes parts;
    tdm_softmax_attributes softmax;
    tdm_sort_attributes sort;
    tdm_loss_attributes loss;
    double settings[8]; /* settings of updates */
    tdm_adafactor_attributes adafactor;
    tdm_clip_attributes clip;
  } attributes;
  tdm_run_scalars scalars;
  kernel_reference reference;
};

typedef void (*kernel_visit)(const kernel_case *test, void *user);

/* Visits the case with its own momentum and, if it is small, also with those of runs, one of which
 * is 0. */
void kernel_case_visit_momenta(kernel_case *self, kernel_visit visit, void *user);

/* A family of operations: calls visit for each of its cases. */
typedef struct kernel_family {
  const char *name;
  void (*each)(kernel_visit visit, void *user);
} kernel_family;

extern const kernel_family kernel_families[];
extern const size_t kernel_family_count;

/* ---- For those who run cases ------------------------------------------------------------------
 */

/* Fills the input's memory, which holds spec's elements. */
void kernel_input_generate(const kernel_case *test, size_t input, void *data);
/* count elements of any dtype as float64, and back (rounding). */
void kernel_values_read(tdm_dtype dtype, const void *data, int64_t count, double *out);
/* Fails the cmocka test, naming case and output, unless got (of spec) is close to expected: for
 * reals max|a-b| <= t max|b| with t = 1e-5 or 1e-12, for integers equality. NaN equals NaN. */
void kernel_output_check(const kernel_case *test, size_t output, const char *where, const void *got,
                         const double *expected);

/* ---- For those who write cases ----------------------------------------------------------------
 */

static const tdm_dtype real_dtypes[] = {TDM_FLOAT32, TDM_FLOAT64};
#define EACH_REAL(dtype)                                                                           \
  for (size_t dtype##_at = 0; dtype##_at < 2; dtype##_at++)                                        \
    for (tdm_dtype dtype = real_dtypes[dtype##_at]; dtype != TDM_DTYPE_NONE; dtype = TDM_DTYPE_NONE)

/* All dtypes, for kernels that only move elements. The 16-bit ones are treated as integers with the
 * same bits. */
static const tdm_dtype every_dtype[] = {TDM_FLOAT32, TDM_FLOAT64, TDM_INT32,   TDM_INT64,
                                        TDM_UINT8,   TDM_BOOL,    TDM_FLOAT16, TDM_BFLOAT16};
enum { EVERY_DTYPE = sizeof every_dtype / sizeof every_dtype[0] };

/* Creates a case without operands; name as printf. */
kernel_case kernel_case_make(const char *operation, tdm_dtype dtype, kernel_reference reference,
                             const char *format, ...) TDM_PRINTF(4, 5);
/* Adds an input of reals or integers in [low, high). Returns it for changes. */
kernel_input *kernel_case_input(kernel_case *test, tdm_dtype dtype, tdm_shape shape, double low,
                                double high);
/* Likewise, with numbers that every dtype can hold: 0 and 1, 1 to 98, or -90 to 98. */
kernel_input *kernel_case_any_input(kernel_case *test, tdm_dtype dtype, tdm_shape shape);
void kernel_case_absent_input(kernel_case *test);
void kernel_case_output(kernel_case *test, tdm_dtype dtype, tdm_shape shape);
/* Adds an output that overwrites that input. */
void kernel_case_overwrite(kernel_case *test, size_t input);

static inline int64_t input_count_of(const kernel_case *test, size_t input) {
  return tdm_shape_count(&test->inputs[input].spec.shape);
}
static inline int64_t input_dim(const kernel_case *test, size_t input, int dimension) {
  return test->inputs[input].spec.shape.dims[dimension];
}
static inline int64_t input_last_dim(const kernel_case *test, size_t input) {
  return input_dim(test, input, test->inputs[input].spec.shape.rank - 1);
}

void embedding_cases(kernel_visit visit, void *user);
void attention_cases(kernel_visit visit, void *user);
void product_cases(kernel_visit visit, void *user);
void bag_cases(kernel_visit visit, void *user);
void sparse_cases(kernel_visit visit, void *user);
void index_copy_cases(kernel_visit visit, void *user);
void linear_cases(kernel_visit visit, void *user);
void recurrent_cases(kernel_visit visit, void *user);
void elementwise_cases(kernel_visit visit, void *user);
void function_cases(kernel_visit visit, void *user);
void pointwise_cases(kernel_visit visit, void *user);
void shape_cases(kernel_visit visit, void *user);
void move_cases(kernel_visit visit, void *user);
void gather_cases(kernel_visit visit, void *user);
void convolution_cases(kernel_visit visit, void *user);
void pool_cases(kernel_visit visit, void *user);
void dropout_cases(kernel_visit visit, void *user);
void reduction_cases(kernel_visit visit, void *user);
/* Defined in reduction_cases. */
void dimension_cases(tdm_dtype dtype, kernel_visit visit, void *user);
void batch_norm_cases(tdm_dtype dtype, kernel_visit visit, void *user); /* defined in norm_cases */
void norm_cases(kernel_visit visit, void *user);
void sort_cases(kernel_visit visit, void *user);
void softmax_cases(kernel_visit visit, void *user);
void loss_cases(kernel_visit visit, void *user);
void ctc_cases(tdm_dtype dtype, kernel_visit visit, void *user);
void weighted_loss_cases(tdm_dtype dtype, tdm_reduction reduction, kernel_visit visit,
                         void *user); /* defined in loss_cases */
void optimizer_cases(kernel_visit visit, void *user);
void sparse_optimizer_cases(kernel_visit visit, void *user);
void adafactor_cases(tdm_dtype dtype, int64_t count, kernel_visit visit,
                     void *user); /* defined in optimizer_cases */

#endif
