/* Every golden case with NaN, +infinity or -infinity in one element of one operand. Outputs,
 * gradients and the loss are NaN, infinite and finite in the elements in which PyTorch's are. The
 * finite elements have PyTorch's weighted sum. tests/golden/make_special.py records both and
 * describes the format. The loss of a judged output is the sum of its products with its target. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/layers/golden/special_exceptions.h"
#include "tests/layers/layer_cases.h"

#ifndef TEST_DEVICE
#define TEST_DEVICE "cpu:0"
#endif

enum { MOST_RESULTS = 40, MOST_COMPLAINTS = 3 /* per case */ };

static const char *const class_names[] = {"finite", "NaN", "+infinity", "-infinity"};
static const float specials[] = {NAN, INFINITY, -INFINITY};

/* PyTorch's results for the replacements in one operand. */
typedef struct recording {
  const char *kind, *name; /* kind and name of the operand */
  tdm_tensor *special, *classes, *sums;
} recording;

/* One replacement. */
typedef struct replacement {
  const char *kind, *name;
  int64_t position;
  int special;
} replacement;

/* The elements of one result. */
typedef struct result {
  const char *kind, *name;
  double *values;
  size_t count;
} result;

typedef struct results {
  result list[MOST_RESULTS];
  size_t count;
} results;

static golden_file recorded;
static size_t complaints, case_complaints, compared;

/* ---- One run --------------------------------------------------------------------------------- */

/* Returns a copy of the golden tensor, with one element replaced if it is that operand. */
static tdm_tensor *operand(const layer_test *test, tdm_tensor *tensor, const char *kind,
                           const char *name, const replacement *how) {
  if (strcmp(kind, how->kind) != 0 || strcmp(name, how->name) != 0)
    return tdm_tensor_retain(tensor);
  const size_t bytes = tdm_tensor_bytes(tensor);
  float *data = malloc(bytes);
  assert_non_null(data);
  assert_int_equal(tdm_tensor_read(tensor, data, bytes), TDM_OK);
  data[how->position] = specials[how->special];
  tdm_tensor *made =
      tdm_tensor_from(test->golden->context, TDM_FLOAT32, tdm_tensor_shape(tensor), data);
  assert_non_null(made);
  free(data);
  return made;
}

static void add(tdm_tensor_list *list, const char *name, tdm_tensor *tensor) {
  assert_int_equal(tdm_tensor_list_add(list, name, tensor), TDM_OK);
}

/* Parameters, buffers, and gradients of zeros. */
static void load(layer_test *test, const replacement *how) {
  tdm_tensor_list *list = golden_list(test->golden, test->name, "buffer");
  tdm_tensor_list *parameters = golden_parameters(test->golden, test->name);
  for (size_t i = 0; i < tdm_tensor_list_count(parameters); i++) {
    const char *name = tdm_tensor_list_name(parameters, i);
    tdm_tensor *tensor = tdm_tensor_list_tensor(parameters, i);
    tdm_tensor *made = operand(test, tensor, "parameter", name, how);
    tdm_tensor *zeros = tdm_tensor_zeros(test->golden->context, "cpu:0", tdm_tensor_dtype(tensor),
                                         tdm_tensor_shape(tensor));
    char text[256];
    (void)snprintf(text, sizeof text, "negated_gradient/%s", name);
    add(list, name, made);
    add(list, text, zeros);
    tdm_tensor_release(made);
    tdm_tensor_release(zeros);
  }
  tdm_tensor_list_release(parameters);
  if (tdm_store_load(tdm_session_store(test->session), list) != TDM_OK)
    fail_msg("%s: %s", test->name, tdm_last_message());
  tdm_tensor_list_release(list);
}

/* The name of a target by its feed, "targetN" of the Nth output. */
static void find_operand(const layer_test *test, const char *feed, const char **out_kind,
                         const char **out_name) {
  const bool is_target = strncmp(feed, "target", 6) == 0 && feed[6] >= '0' && feed[6] <= '7';
  *out_kind = is_target ? "target" : "input";
  *out_name = is_target ? test->fetches[feed[6] - '0'].name : feed;
}

static void take(results *out, const char *kind, const char *name, const tdm_tensor *tensor) {
  assert_true(out->count < MOST_RESULTS);
  result *one = &out->list[out->count++];
  *one = (result){kind, name, NULL, 0};
  one->values = tensor_values(tensor, &one->count);
}

/* Outputs and gradients in the order of the golden file, then the loss. */
static void collect(const layer_test *test, double loss, results *out) {
  const tdm_tensor_list *golden = test->golden->list;
  tdm_tensor_list *saved = tdm_store_save(tdm_session_store(test->session), true);
  assert_non_null(saved);
  for (int gradients = 0; gradients < 2; gradients++) {
    for (size_t i = 0; i < tdm_tensor_list_count(golden); i++) {
      const char *kind = gradients ? "gradient" : "output";
      const char *name = golden_suffix(tdm_tensor_list_name(golden, i), test->name, kind);
      if (!name) continue;
      tdm_tensor *found = NULL;
      for (size_t f = 0; f < test->fetch_count && !gradients; f++)
        if (strcmp(test->fetches[f].name, name) == 0)
          found = tdm_tensor_retain(test->fetches[f].tensor);
      if (gradients) found = layer_test_gradient(test, saved, name);
      if (!found) fail_msg("%s: no %s %s", test->name, kind, name);
      take(out, kind, name, found);
      tdm_tensor_release(found);
    }
  }
  tdm_tensor_list_release(saved);
  tdm_tensor *scalar =
      tdm_tensor_from(test->golden->context, TDM_FLOAT64, tdm_shape_scalar(), &loss);
  take(out, "loss", "", scalar);
  tdm_tensor_release(scalar);
}

static void run(layer_test *test, const replacement *how, results *out) {
  tdm_feed feeds[LAYER_TEST_MAX_FEEDS];
  load(test, how);
  for (size_t i = 0; i < test->feed_count; i++) {
    const char *kind, *name;
    feeds[i] = test->feeds[i];
    find_operand(test, feeds[i].name, &kind, &name);
    feeds[i].tensor = operand(test, feeds[i].tensor, kind, name, how);
  }
  double loss = 0.0;
  if (tdm_train_step(test->session, feeds, test->feed_count, test->fetches, test->fetch_count,
                     &loss) != TDM_OK)
    fail_msg("%s, %s %s [%lld]: %s", test->name, how->kind, how->name, (long long)how->position,
             tdm_last_message());
  out->count = 0;
  collect(test, loss, out);
  for (size_t i = 0; i < test->feed_count; i++)
    tdm_tensor_release(feeds[i].tensor);
  for (size_t i = 0; i < test->fetch_count; i++) {
    tdm_tensor_release(test->fetches[i].tensor);
    test->fetches[i].tensor = NULL;
  }
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static value_class class_of(double value) {
  if (isnan(value)) return IS_NAN;
  if (isinf(value)) return value > 0 ? PLUS_INFINITY : MINUS_INFINITY;
  return FINITE;
}

static void complain(const layer_test *test, const replacement *how, const char *text) {
  complaints++;
  if (case_complaints++ >= MOST_COMPLAINTS) return;
  print_error("%s: %s where %s %s [%lld] is %s\n", test->name, text, how->kind, how->name,
              (long long)how->position, class_names[how->special + 1]);
}

static bool allowed(const layer_test *test, const replacement *how, value_class wanted,
                    value_class is) {
  char operand[160];
  (void)snprintf(operand, sizeof operand, "%s.%s", how->kind, how->name);
  return is_excepted(LAYER_FAMILY, test->name, operand, how->special, wanted, is);
}

/* True if the classes are those of the words, two bits each, without exceptions. */
static bool compare_classes(const layer_test *test, const replacement *how, const results *found,
                            const int32_t *words) {
  size_t index = 0;
  bool same = true;
  char text[160];
  for (size_t r = 0; r < found->count; r++) {
    const result *one = &found->list[r];
    for (size_t i = 0; i < one->count; i++, index++) {
      const value_class wanted = ((uint32_t)words[index / 16] >> (2 * (index % 16))) & 3;
      const value_class is = class_of(one->values[i]);
      if (is == wanted) continue;
      same = false;
      if (allowed(test, how, wanted, is)) continue;
      (void)snprintf(text, sizeof text, "%s %s [%zu] is %s, not %s", one->kind, one->name, i,
                     class_names[is], class_names[wanted]);
      complain(test, how, text);
      return false;
    }
  }
  return same;
}

static void compare_sum(const layer_test *test, const replacement *how, const results *found,
                        float wanted) {
  size_t index = 0;
  double sum = 0.0, size = 0.0;
  char text[160];
  for (size_t r = 0; r < found->count; r++)
    for (size_t i = 0; i < found->list[r].count; i++, index++) {
      const double value = found->list[r].values[i] * (1.0 + (double)(index % 7) / 8.0);
      if (!isfinite(value)) continue;
      sum += value;
      size += fabs(value);
    }
  if (fabs(sum - (double)wanted) <= 1e-5 * size + 1e-6) return;
  if (allowed(test, how, FINITE, FINITE)) return;
  (void)snprintf(text, sizeof text, "finite elements sum up to %.9g, not %.9g", sum,
                 (double)wanted);
  complain(test, how, text);
}

static void check_recording(layer_test *test, const recording *of) {
  size_t count, word_count, sum_count;
  double *places = tensor_values(of->special, &count);
  double *words = tensor_values(of->classes, &word_count);
  double *sums = tensor_values(of->sums, &sum_count);
  const size_t words_each = word_count / sum_count;
  int32_t *row = malloc(words_each * sizeof *row);
  assert_non_null(row);
  for (size_t i = 0; i < sum_count; i++) {
    const replacement how = {of->kind, of->name, (int64_t)places[2 * i], (int)places[2 * i + 1]};
    results found;
    run(test, &how, &found);
    for (size_t w = 0; w < words_each; w++)
      row[w] = (int32_t)words[i * words_each + w];
    if (compare_classes(test, &how, &found, row)) compare_sum(test, &how, &found, (float)sums[i]);
    for (size_t r = 0; r < found.count; r++)
      free(found.list[r].values);
    compared++;
  }
  free(row);
  free(places);
  free(words);
  free(sums);
}

static tdm_tensor *recorded_of(const char *case_name, const char *what, const char *operand) {
  char text[256];
  (void)snprintf(text, sizeof text, "%s.%s", what, operand);
  return golden_tensor(&recorded, case_name, text, "");
}

/* Calls check_recording for each operand; returns how many. */
static size_t each_operand(layer_test *test) {
  static const char *const kinds[] = {"parameter", "input", "target"};
  size_t operands = 0;
  for (size_t i = 0; i < tdm_tensor_list_count(recorded.list); i++) {
    const char *name = golden_suffix(tdm_tensor_list_name(recorded.list, i), test->name, "special");
    for (size_t k = 0; name && k < 3; k++) {
      const size_t length = strlen(kinds[k]);
      if (strncmp(name, kinds[k], length) != 0 || name[length] != '.') continue;
      const recording of = {kinds[k], name + length + 1, recorded_of(test->name, "special", name),
                            recorded_of(test->name, "classes", name),
                            recorded_of(test->name, "sums", name)};
      check_recording(test, &of);
      operands++;
    }
  }
  return operands;
}

static void check_case(const golden_file *golden, const layer_case *options,
                       const char *placement) {
  layer_test test;
  case_complaints = 0;
  layer_test_begin(&test, golden, options->name, placement);
  test.weighs = true;
  options->build(&test, options);
  layer_test_start(&test);
  if (each_operand(&test) == 0) {
    print_error("%s: make_special.py has recorded nothing of it\n", options->name);
    complaints++;
  }
  layer_test_end(&test);
}

static void special_values_go_where_pytorchs_go(void **state) {
  (void)state;
  golden_open(&recorded, "special_" LAYER_FAMILY, TDM_FLOAT32);
  layer_cases_each(TDM_FLOAT32, "*=" TEST_DEVICE, check_case);
  golden_close(&recorded);
  print_message("%zu replacements compared\n", compared);
  assert_true(compared > 0);
  assert_int_equal(complaints, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(special_values_go_where_pytorchs_go),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
