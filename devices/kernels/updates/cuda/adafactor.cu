/* Adafactor as torch.optim.Adafactor does it (its single-tensor form): of a matrix only the means
 * of squares of rows and columns are kept. N. Shazeer, M. Stern, "Adafactor: adaptive learning
 * rates with sublinear memory cost", ICML 2018. */
#include "devices/kernels/cuda/reduce.h"
#include "devices/kernels/updates/optimizers.h"
#include "devices/kernels/updates/update_sizes.h"

/* Values that the launches pass to each other: numbers, then sums of the rows, then means of the
 * batches. */
enum { FRESH, RATE, SIZE, NUMBERS };

/* step: (), counted up; numbers: (NUMBERS). One thread works. */
template <class stored>
static __global__ void begin_step(stored *step, double decay, double learning, double *numbers) {
  if (threadIdx.x != 0) return;
  *step = *step + 1;
  const double steps = (double)*step, slow = 1.0 / sqrt(steps);
  numbers[FRESH] = pow(steps, decay);
  numbers[RATE] = learning < slow ? learning : slow;
}

static __device__ inline int64_t length_of_row(const adafactor_sizes &sizes, int64_t row) {
  const int64_t left = sizes.count - row * sizes.length;
  return left < sizes.length ? left : sizes.length;
}

/* A block a row. parameter, gradient: (count); states: row_var (rows), or variance (count) where
 * nothing is factored; norms: (rows), of the parameter, squared. */
template <class stored>
static __global__ void begin_rows(const stored *parameter, const stored *gradient, stored *states,
                                  adafactor_sizes sizes, const double *numbers, double *norms) {
  typedef real_of<stored> real;
  const real fresh = (real)numbers[FRESH];
  EACH_OF_GRID(row, sizes.rows) {
    const int64_t first = row * sizes.length, length = length_of_row(sizes, row);
    double of_parameter = 0, of_gradient = 0;
    EACH_OF_BLOCK(i, length) {
      const real p = parameter[first + i], g = gradient[first + i];
      of_parameter += (double)p * (double)p;
      of_gradient += (double)g * (double)g;
      if (!sizes.factored) {
        const real before = states[first + i];
        states[first + i] = before + fresh * (g * g - before);
      }
    }
    const double norm = block_sum(of_parameter);
    const double squares = block_sum(of_gradient);
    if (threadIdx.x != 0) continue;
    norms[row] = norm;
    if (!sizes.factored) continue;
    const real before = states[row];
    states[row] = before + fresh * ((real)(squares / (double)length) - before);
  }
}

/* gradient: (batches, height, length); columns: (batches, length). */
template <class stored>
static __global__ void begin_columns(const stored *gradient, stored *columns, adafactor_sizes sizes,
                                     const double *numbers) {
  typedef real_of<stored> real;
  EACH_ELEMENT(i, sizes.batches * sizes.length) {
    const int64_t batch = i / sizes.length, column = i % sizes.length;
    const stored *from = gradient + batch * sizes.height * sizes.length + column;
    real sum = 0;
    for (int64_t row = 0; row < sizes.height; row++) {
      const real g = from[row * sizes.length];
      sum += g * g;
    }
    const real before = columns[i];
    columns[i] = before + (real)numbers[FRESH] * (sum / (real)sizes.height - before);
  }
}

/* A block a batch. rows: (batches, height); means: (batches). */
template <class stored>
static __global__ void find_means(const stored *rows, int64_t height, double *means,
                                  int64_t batches) {
  EACH_OF_GRID(batch, batches) {
    double part = 0;
    EACH_OF_BLOCK(i, height) {
      part += rows[batch * height + i];
    }
    const double sum = block_sum(part);
    if (threadIdx.x == 0) means[batch] = sum / (double)height;
  }
}

/* Returns the change of an element before it is multiplied by the rate. */
template <class stored>
static __device__ real_of<stored>
update_at(const stored *gradient, const stored *states, const stored *columns,
          adafactor_sizes sizes, const double *means, double epsilon, int64_t row, int64_t i) {
  typedef real_of<stored> real;
  const int64_t at = row * sizes.length + i;
  real v;
  if (sizes.factored) {
    const int64_t batch = row / sizes.height;
    const real mean = (real)means[batch], least = (real)epsilon;
    v = columns[batch * sizes.length + i] * states[row] / (mean < least ? least : mean);
  } else {
    v = states[at];
  }
  const real least = (real)(epsilon * epsilon);
  return gradient[at] / sqrt(v < least ? least : v);
}

/* A block a row; norms: (rows), of the update, squared. */
template <class stored>
static __global__ void measure_rows(const stored *gradient, const stored *states,
                                    const stored *columns, adafactor_sizes sizes,
                                    const double *means, double epsilon, double *norms) {
  typedef real_of<stored> real;
  EACH_OF_GRID(row, sizes.rows) {
    real part = 0;
    EACH_OF_BLOCK(i, length_of_row(sizes, row)) {
      const real u = update_at(gradient, states, columns, sizes, means, epsilon, row, i);
      part += u * u;
    }
    const real sum = block_sum(part);
    if (threadIdx.x == 0) norms[row] = sum;
  }
}

/* One block: the root of the mean of squares, of the parameter first, then of the update, by which
 * the rate is then divided where it is more than clip. */
static __global__ void find_rate(const double *norms, int64_t rows, int64_t count, double clip,
                                 double least, bool of_update, double *numbers) {
  double part = 0;
  EACH_OF_BLOCK(i, rows) {
    part += norms[i];
  }
  const double size = sqrt(block_sum(part)) / sqrt((double)count);
  if (threadIdx.x != 0) return;
  if (of_update)
    numbers[SIZE] = numbers[RATE] * numbers[SIZE] / (size / clip > 1.0 ? size / clip : 1.0);
  else
    numbers[SIZE] = size > least ? size : least;
}

/* A block a row. */
template <class stored>
static __global__ void end_rows(const stored *gradient, stored *parameter, const stored *states,
                                const stored *columns, adafactor_sizes sizes, const double *means,
                                double epsilon, real_of<stored> shrink, const double *numbers) {
  typedef real_of<stored> real;
  EACH_OF_GRID(row, sizes.rows) {
    EACH_OF_BLOCK(i, length_of_row(sizes, row)) {
      const int64_t at = row * sizes.length + i;
      const real u = update_at(gradient, states, columns, sizes, means, epsilon, row, i);
      parameter[at] = parameter[at] * shrink - (real)numbers[SIZE] * u;
    }
  }
}

static tdm_status adafactor_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  adafactor_sizes *sizes = state_create<adafactor_sizes>(answer);
  if (!sizes) return TDM_OUT_OF_MEMORY;
  adafactor_sizes_read(sizes, request);
  answer->workspace_bytes = (size_t)(NUMBERS + sizes->rows + sizes->batches) * sizeof(double);
  return TDM_OK;
}

template <class stored> static tdm_status adafactor_run(const tdm_kernel_call *call) {
  const adafactor_sizes *sizes = state_of<adafactor_sizes>(call);
  const tdm_adafactor_attributes *attributes = attributes_of<tdm_adafactor_attributes>(call);
  const double learning = call->scalars->learning_rate, epsilon = attributes->epsilon1;
  const stored *gradient = input_of<stored>(call, 1);
  stored *parameter = output_of<stored>(call, 0), *states = output_of<stored>(call, 1);
  stored *columns = sizes->factored ? output_of<stored>(call, 2) : NULL;
  double *numbers = static_cast<double *>(call->workspace);
  double *norms = numbers + NUMBERS, *means = norms + sizes->rows;
  const int threads = threads_for_row(sizes->length);
  TDM_TRY(kernel_launch(call, "adafactor_begin", begin_step<stored>, 1, WARP,
                        output_of<stored>(call, sizes->factored ? 3 : 2), attributes->beta2_decay,
                        learning, numbers));
  if (sizes->count == 0) return TDM_OK;
  TDM_TRY(kernel_launch(call, "adafactor_rows", begin_rows<stored>, blocks_of(sizes->rows), threads,
                        parameter, gradient, states, *sizes, numbers, norms));
  TDM_TRY(kernel_launch(call, "adafactor_size", find_rate, 1, BLOCK, norms, sizes->rows,
                        sizes->count, attributes->d, attributes->epsilon2, false, numbers));
  if (sizes->factored) {
    TDM_TRY(kernel_launch(call, "adafactor_columns", begin_columns<stored>,
                          blocks_for(sizes->batches * sizes->length), BLOCK, gradient, columns,
                          *sizes, numbers));
    TDM_TRY(kernel_launch(call, "adafactor_means", find_means<stored>, blocks_of(sizes->batches),
                          BLOCK, states, sizes->height, means, sizes->batches));
  }
  TDM_TRY(kernel_launch(call, "adafactor_measure", measure_rows<stored>, blocks_of(sizes->rows),
                        threads, gradient, states, columns, *sizes, means, epsilon, norms));
  TDM_TRY(kernel_launch(call, "adafactor_rate", find_rate, 1, BLOCK, norms, sizes->rows,
                        sizes->count, attributes->d, attributes->epsilon2, true, numbers));
  return kernel_launch(call, "adafactor", end_rows<stored>, blocks_of(sizes->rows), threads,
                       gradient, parameter, states, columns, *sizes, means, epsilon,
                       (real_of<stored>)(1.0 - learning * attributes->weight_decay), numbers);
}

KERNELS(adafactor, KERNEL(TDM_OP_ADAFACTOR, adafactor_prepare, adafactor_run<stored>))
