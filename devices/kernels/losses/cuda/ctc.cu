/* The paths of the connectionist temporal classification (A. Graves et al., ICML 2006), in
 * logarithms: TDM_NO_PATH stands for that of 0, so that nothing is infinite. Invariant: a block
 * takes a sequence, a thread some of its places, all of them one step after the other. */
#include "devices/kernels/cuda/kernel.h"
#include "devices/kernels/losses/ctc_sizes.h"
#include "devices/kernels/losses/losses.h"

/* Computes the shares of three logarithms in their sum, or only `sum`. */
template <class real> struct path_shares {
  real of[3]; /* of who stays, moves by one, skips one */
  real sum;   /* the logarithm */
};

/* Returns the value of a place of a row; before the first step, all paths are before the first
 * place. */
template <class stored>
static __device__ real_of<stored> path_at(const stored *row, int64_t place) {
  typedef real_of<stored> real;
  if (row) return place < 0 ? (real)TDM_NO_PATH : (real)row[place];
  return place == -1 ? (real)0 : (real)TDM_NO_PATH;
}

/* row: (places) of the step before, or NULL before the first; bars: (places). */
template <class stored>
static __device__ path_shares<real_of<stored>> shares_at(const stored *row, const stored *bars,
                                                         int64_t place) {
  typedef real_of<stored> real;
  const real none = (real)TDM_NO_PATH;
  const real stay = path_at(row, place), move = path_at(row, place - 1);
  const real barred = path_at(row, place - 2) + bars[place];
  const real skip = barred < none ? none : barred;
  real most = stay > move ? stay : move;
  most = skip > most ? skip : most;
  path_shares<real> made = {{exp(stay - most), exp(move - most), exp(skip - most)}, none};
  const real total = made.of[0] + made.of[1] + made.of[2];
  made.sum = most + log(total);
  for (int i = 0; i < 3; i++)
    made.of[i] /= total;
  return made;
}

/* emissions, paths: (steps, batch, places); bars: (batch, places). */
template <class stored>
static __global__ void ctc_paths(const stored *emissions, const stored *bars, stored *paths,
                                 ctc_sizes sizes) {
  typedef real_of<stored> real;
  const int64_t step = sizes.batch * sizes.places;
  EACH_OF_GRID(n, sizes.batch) {
    const stored *before = NULL;
    for (int64_t t = 0; t < sizes.steps; t++) {
      const int64_t at = t * step + n * sizes.places;
      EACH_OF_BLOCK(i, sizes.places) {
        const real path = emissions[at + i] + shares_at(before, bars + n * sizes.places, i).sum;
        paths[at + i] = path < (real)TDM_NO_PATH ? (real)TDM_NO_PATH : path;
      }
      before = paths + at;
      __syncthreads();
    }
  }
}

/* d_paths, paths, d_emissions: (steps, batch, places); bars: (batch, places). */
template <class stored>
static __global__ void ctc_paths_gradient(const stored *d_paths, const stored *bars,
                                          const stored *paths, stored *d_emissions,
                                          ctc_sizes sizes) {
  typedef real_of<stored> real;
  const int64_t places = sizes.places, step = sizes.batch * places;
  EACH_OF_GRID(n, sizes.batch) {
    const stored *behind = NULL; /* slopes of the next step */
    for (int64_t t = sizes.steps - 1; t >= 0; t--) {
      const int64_t at = t * step + n * places;
      EACH_OF_BLOCK(i, places) {
        real slope = d_paths[at + i];
        for (int64_t to = i; behind && to < places && to <= i + 2; to++) {
          const real share = shares_at(paths + at, bars + n * places, to).of[to - i];
          slope += share * behind[to];
        }
        d_emissions[at + i] = paths[at + i] <= (real)TDM_NO_PATH ? (real)0 : slope;
      }
      behind = d_emissions + at;
      __syncthreads();
    }
  }
}

static tdm_status ctc_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  ctc_sizes *sizes = state_create<ctc_sizes>(answer);
  if (!sizes) return TDM_OUT_OF_MEMORY;
  ctc_sizes_read(sizes, request);
  return TDM_OK;
}

template <class stored> static tdm_status paths_run(const tdm_kernel_call *call) {
  const ctc_sizes *sizes = state_of<ctc_sizes>(call);
  return kernel_launch(call, "ctc_paths", ctc_paths<stored>, blocks_of(sizes->batch),
                       threads_for_row(sizes->places), input_of<stored>(call, 0),
                       input_of<stored>(call, 1), output_of<stored>(call, 0), *sizes);
}

template <class stored> static tdm_status gradient_run(const tdm_kernel_call *call) {
  const ctc_sizes *sizes = state_of<ctc_sizes>(call);
  return kernel_launch(call, "ctc_paths_gradient", ctc_paths_gradient<stored>,
                       blocks_of(sizes->batch), threads_for_row(sizes->places),
                       input_of<stored>(call, 0), input_of<stored>(call, 1),
                       input_of<stored>(call, 2), output_of<stored>(call, 0), *sizes);
}

KERNELS(ctc, KERNEL(TDM_OP_CTC_PATHS, ctc_prepare, paths_run<stored>),
        KERNEL(TDM_OP_CTC_PATHS_GRADIENT, ctc_prepare, gradient_run<stored>))
