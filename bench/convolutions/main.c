/* convolution_rows [--threads N] [--passes forward,input,weight] NAME=SIZES...: times convolutions
 * and their gradients, Tandem's and oneDNN's in turn. SIZES are images, groups, in, out, height,
 * width, kernel height, kernel width, stride height, stride width, padding height, padding width,
 * separated by commas. Prints "NAME pass<TAB>subject<TAB>nanoseconds", the fastest of some rounds.
 * OMP_NUM_THREADS should be N. Ends with a message where two subjects' results differ. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/convolutions/subject.h"
#include "bench/help.h"
#include "bench/timing.h"

enum { MOST_ROUNDS = 25, FEWEST_ROUNDS = 4, SIZE_COUNT = 12 };
static const double CALL_NS = 1e6;   /* calls are repeated until a sample is so long */
static const double ROUNDS_NS = 8e8; /* about so long for all subjects together */
static const double TOLERANCE =
    2e-5; /* limit relative to the largest element and to the root of the number of terms */

static const char *const pass_names[PASS_COUNT] = {"forward", "input", "weight"};

static float *make_array(int64_t count, uint32_t seed) {
  float *made = aligned_alloc(64, ((size_t)count * sizeof *made + 127) / 64 * 64);
  if (!made) bench_fail("memory");
  for (int64_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    made[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
  }
  return made;
}

static int64_t x_count(const convolution_sizes *of) {
  return of->images * of->in * of->height * of->width;
}

static int64_t y_count(const convolution_sizes *of) {
  return of->images * of->out * convolution_out(of, 0) * convolution_out(of, 1);
}

static int64_t weight_count(const convolution_sizes *of) {
  return of->out * of->in / of->groups * of->kernel[0] * of->kernel[1];
}

static convolution_arrays make_arrays(const convolution_sizes *of) {
  return (convolution_arrays){make_array(x_count(of), 1),      make_array(weight_count(of), 2),
                              make_array(of->out, 3),          make_array(y_count(of), 4),
                              make_array(y_count(of), 5),      make_array(x_count(of), 6),
                              make_array(weight_count(of), 7), make_array(of->out, 8)};
}

static void free_arrays(const convolution_arrays *arrays) {
  float *const all[] = {arrays->x,   arrays->weight, arrays->bias,     arrays->y,
                        arrays->d_y, arrays->d_x,    arrays->d_weight, arrays->d_bias};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    free(all[i]);
}

/* The output of a pass, and the number of products that each element sums. */
typedef struct written {
  const float *data;
  int64_t count;
  double terms;
} written;

static written written_by(convolution_pass pass, const convolution_sizes *of,
                          const convolution_arrays *arrays) {
  const double taps = (double)(of->kernel[0] * of->kernel[1]) / (double)of->groups;
  if (pass == PASS_FORWARD) return (written){arrays->y, y_count(of), (double)of->in * taps};
  if (pass == PASS_INPUT_GRADIENT)
    return (written){arrays->d_x, x_count(of), (double)of->out * taps};
  return (written){arrays->d_weight, weight_count(of), (double)y_count(of) / (double)of->out};
}

static void compare(const char *name, const char *subject, const written *got,
                    const float *expected) {
  double apart = 0, most = 0;
  for (int64_t i = 0; i < got->count; i++) {
    apart = fmax(apart, fabs((double)got->data[i] - (double)expected[i]));
    most = fmax(most, fabs((double)expected[i]));
  }
  if (apart <= TOLERANCE * most * (1 + 0.02 * sqrt(got->terms))) return;
  fprintf(stderr, "%s: %s's result differs by %g of %g\n", name, subject, apart, most);
  exit(1);
}

/* Every subject that writes dense operands gives the same. */
static void compare_all(const char *name, const convolution_subject *subjects,
                        const written *result) {
  const size_t bytes = (size_t)result->count * sizeof(float);
  float *expected = malloc(bytes);
  if (!expected) bench_fail("memory");
  subjects[0].run(subjects[0].state);
  memcpy(expected, result->data, bytes);
  for (int i = 1; i < MOST_SUBJECTS; i++) {
    if (!subjects[i].state) continue;
    subjects[i].run(subjects[i].state);
    if (i != 1 + ONEDNN_BLOCKED) compare(name, subjects[i].name, result, expected);
  }
  free(expected);
}

static double sample_ns(const convolution_subject *subject, int64_t calls) {
  const uint64_t began_ns = bench_now_ns();
  for (int64_t i = 0; i < calls; i++)
    subject->run(subject->state);
  return (double)(bench_now_ns() - began_ns) / (double)calls;
}

static void time_all(const char *name, const convolution_subject *subjects) {
  double best_ns[MOST_SUBJECTS], total_ns = 0;
  int64_t calls[MOST_SUBJECTS];
  for (int i = 0; i < MOST_SUBJECTS; i++) {
    best_ns[i] = subjects[i].state ? sample_ns(&subjects[i], 1) : 0;
    calls[i] = best_ns[i] < CALL_NS ? (int64_t)(CALL_NS / (best_ns[i] + 100)) + 1 : 1;
  }
  for (int round = 0; round < MOST_ROUNDS; round++) {
    if (round >= FEWEST_ROUNDS && total_ns > ROUNDS_NS) break;
    for (int i = 0; i < MOST_SUBJECTS; i++) {
      if (!subjects[i].state) continue;
      const double ns = sample_ns(&subjects[i], calls[i]);
      total_ns += ns * (double)calls[i];
      if (ns < best_ns[i]) best_ns[i] = ns;
    }
  }
  for (int i = 0; i < MOST_SUBJECTS; i++)
    if (subjects[i].state) printf("%s\t%s\t%.1f\n", name, subjects[i].name, best_ns[i]);
  fflush(stdout);
}

static void time_pass(const char *name, convolution_pass pass, const convolution_sizes *sizes,
                      int threads) {
  char row[128];
  (void)snprintf(row, sizeof row, "%s %s", name, pass_names[pass]);
  const convolution_arrays arrays = make_arrays(sizes);
  convolution_subject subjects[MOST_SUBJECTS];
  subjects[0] = convolution_ours(pass, sizes, &arrays, threads);
  for (int way = 0; way < ONEDNN_WAYS; way++)
    subjects[1 + way] = convolution_onednn((onednn_way)way, pass, sizes, &arrays);
  const written result = written_by(pass, sizes, &arrays);
  compare_all(row, subjects, &result);
  time_all(row, subjects);
  for (int i = 0; i < MOST_SUBJECTS; i++)
    if (subjects[i].state) subjects[i].release(subjects[i].state);
  free_arrays(&arrays);
}

/* Reads "NAME=SIZES"; ends the program if that is not what it is. */
static void time_row(char *word, const char *passes, int threads) {
  char *text = strchr(word, '=');
  int64_t values[SIZE_COUNT] = {0};
  int count = 0;
  if (text) *text++ = '\0';
  for (; text && *text && count < SIZE_COUNT; count++) {
    values[count] = strtoll(text, &text, 10);
    if (*text == ',') text++;
  }
  if (count != SIZE_COUNT) {
    fprintf(stderr, "convolution_rows: %s has %d sizes, not %d\n", word, count, SIZE_COUNT);
    exit(2);
  }
  const convolution_sizes sizes = {values[0],
                                   values[1],
                                   values[2],
                                   values[3],
                                   values[4],
                                   values[5],
                                   {values[6], values[7]},
                                   {values[8], values[9]},
                                   {values[10], values[11]}};
  for (int pass = 0; pass < PASS_COUNT; pass++)
    if (strstr(passes, pass_names[pass])) time_pass(word, (convolution_pass)pass, &sizes, threads);
}

int main(int argc, char **argv) {
  bench_help(
      argc, argv,
      "convolution_rows [--threads N] [--passes forward,input,weight] NAME=SIZES...: times\n"
      "convolutions and their gradients. SIZES: images, groups, in, out, height, width, and for\n"
      "height and width each: kernel, stride, padding.\n");
  int threads = 1;
  const char *passes = "forward,input,weight";
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
      threads = atoi(argv[++i]);
    } else if (strcmp(argv[i], "--passes") == 0 && i + 1 < argc) {
      passes = argv[++i];
    } else {
      time_row(argv[i], passes, threads);
    }
  }
  return 0;
}
