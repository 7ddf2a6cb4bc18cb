/* Every number of every struct of options is literal: 0 has the effect of 0, or is refused with a
 * message that names it. Structs and fields come from the headers, so that a new one fails here
 * until it has an initializer, a probe, and a row for each number whose default is not 0.
 *
 * Numbers are those of PyTorch 2.15 in float64 for the same inputs (option_probes.c), except where
 * a row has a note. */
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "core/status.h"
#include "tests/options.h"
#include "tests/public/option_probes.h"

typedef struct struct_row {
  const char *name;
  size_t bytes;
  void (*set_default)(void *options);
} struct_row;

typedef struct field_row {
  const char *name, *field;
  size_t offset, bytes;
} field_row;

#define OPTIONS_STRUCT(kind)                                                                       \
  static void default_##kind(void *options) {                                                      \
    *(tdm_##kind##_options *)options = tdm_##kind##_options_default();                             \
  }
#define OPTIONS_FIELD(kind, field, type, count)
#include "public_options.inc"
#undef OPTIONS_STRUCT
#undef OPTIONS_FIELD

static const struct_row structs[] = {
#define OPTIONS_STRUCT(kind) {#kind, sizeof(tdm_##kind##_options), default_##kind},
#define OPTIONS_FIELD(kind, field, type, count)
#include "public_options.inc"
#undef OPTIONS_STRUCT
#undef OPTIONS_FIELD
};

static const field_row fields[] = {
#define OPTIONS_STRUCT(kind)
#define OPTIONS_FIELD(kind, field, type, count)                                                    \
  {#kind, #field, offsetof(tdm_##kind##_options, field), (count) * sizeof(type)},
#include "public_options.inc"
#undef OPTIONS_STRUCT
#undef OPTIONS_FIELD
};

enum { MOST_BYTES = 1024, MOST_NUMBERS = 12 };

/* The effect of 0 in a field whose default is another number. No numbers: it is refused. */
typedef struct zero_row {
  const char *name, *field;
  const char *elsewhere; /* the test that shows it; NULL: this one */
  size_t from;           /* which of the probe's numbers are compared, from here on */
  size_t count;
  double numbers[MOST_NUMBERS];
} zero_row;

#define REFUSED(kind, field)                                                                       \
  {                                                                                                \
    kind, field, NULL, 0, 0, {                                                                     \
      0                                                                                            \
    }                                                                                              \
  }
#define STILL                                                                                      \
  2, {                                                                                             \
    1, -2                                                                                          \
  } /* the parameter keeps its value */
#define X                                                                                          \
  8, {                                                                                             \
    0.01, 0.02, -0.03, 0.04, 3, 1, 2, 5                                                            \
  }
static const zero_row zeros[] = {
    REFUSED("loader", "batch_size"),
    REFUSED("loader", "replicas"),
    REFUSED("context", "cpu_devices"),
    {"context", "sim_devices", NULL, 0, 1, {0}},
    {"context", "tf32", "tests/graph/plan/tf32_test.c", 0, 0, {0}},
    REFUSED("context", "silence_seconds"),
    REFUSED("session", "depth"),
    {"session", "queue_limit", "tests/graph/run/cancel_test.c", 0, 0, {0}},
    REFUSED("session", "plan_limit"),
    REFUSED("session", "micro_batches"),
    REFUSED("session", "alike_ranks"),
    REFUSED("submit", "deadline_ns"),
    REFUSED("transformer", "feedforward"),
    {"transformer", "dropout", NULL, 8, 1, {0}}, /* the loss in training less that of evaluation */
    {"transformer", "epsilon", NULL, 0, 0, {0}}, /* squares, see check_unit_rows */
    {"embedding", "padding_index", NULL, 0, 2, {0, 0}},
    {"embedding_bag", "padding_index", NULL, 0, 2, {0, 0}},
    {"layer_norm",
     "epsilon",
     NULL,
     0,
     8,
     {0, 0.3922322702763681, -1.5689290811054724, 1.1766968108291043, 0.1690308509457033,
      -1.1832159566199232, -0.50709255283711, 1.5212776585113297}},
    {"rms_norm",
     "epsilon",
     NULL,
     0,
     8,
     {0.3651483716701107, 0.7302967433402214, -1.0954451150103321, 1.4605934866804429,
      0.9607689228305227, 0.32025630761017426, 0.6405126152203485, 1.6012815380508714}},
    {"group_norm", "epsilon", NULL, 0, 8, {-1, 1, -1, 1, 1, -1, -1, 1}},
    {"instance_norm", "epsilon", NULL, 0, X}, /* by running statistics: mean 0, variance 1 */
    {"instance_norm", "momentum", NULL, 9, 4, {0, 0, 1, 1}},
    {"batch_norm", "epsilon", NULL, 0, X},
    {"batch_norm", "momentum", NULL, 9, 4, {0, 0, 1, 1}},
    REFUSED("conv", "stride"),
    REFUSED("conv", "dilation"),
    REFUSED("conv", "groups"),
    REFUSED("conv_transpose", "stride"),
    REFUSED("conv_transpose", "dilation"),
    REFUSED("conv_transpose", "groups"),
    REFUSED("conv3d", "stride"),
    REFUSED("conv3d", "dilation"),
    REFUSED("conv3d", "groups"),
    REFUSED("conv_transpose3d", "stride"),
    REFUSED("conv_transpose3d", "dilation"),
    REFUSED("conv_transpose3d", "groups"),
    REFUSED("pool", "stride"),
    REFUSED("pool", "dilation"),
    REFUSED("pool", "divisor"),
    REFUSED("pool3d", "stride"),
    REFUSED("pool3d", "dilation"),
    REFUSED("pool3d", "divisor"),
    {"loss", "ignore_index", NULL, 0, 1, {0.18518245260381258}},
    {"loss", "beta", NULL, 0, 1, {0.77}},
    REFUSED("loss", "margin"), /* triplet losses, as in PyTorch; errors_test has others */
    REFUSED("loss", "p"),
    {"loss", "epsilon", NULL, 0, 1, {1277786.7509549186}},
    {"sgd", "learning_rate", NULL, 0, STILL},
    {"adam", "learning_rate", NULL, 0, STILL},
    {"adam", "beta1", NULL, 0, 2, {1.0006425103363064, -2.0013905785763226}},
    {"adam", "beta2", NULL, 0, 2, {-23683.211256943076, -2.0001200718850387}},
    {"adam", "epsilon", NULL, 0, 2, {0.998772389179086, -2.000285135481618}},
    {"nadam", "learning_rate", NULL, 0, STILL},
    {"nadam", "beta1", NULL, 0, 2, {1.0012850206726125, -2.002781157152645}},
    {"nadam", "beta2", NULL, 0, 2, {-4457.679494279105, -2.0007341778638255}},
    {"nadam", "epsilon", NULL, 0, 2, {0.999860871309937, -2.0013015990652114}},
    {"nadam", "momentum_decay", NULL, 0, 2, {0.9998615163420361, -2.001302097868236}},
    {"radam", "learning_rate", NULL, 0, STILL},
    {"radam", "beta1", NULL, 0, 2, {1.0010000000000001, -2.0015}},
    {"radam", "beta2", NULL, 0, 2, {0.9996672169353272, -2.0006920275781703}},
    {"radam", "epsilon", NULL, 0, 2, {0.9996672169353272, -2.0006920275781703}},
    {"adamax", "learning_rate", NULL, 0, STILL},
    {"adamax", "beta1", NULL, 0, 2, {1.0000000000266667, -2.0015015015464863}},
    {"adamax", "beta2", NULL, 0, 2, {-47367.42251388615, -2.0002401437700774}},
    {"adamax", "epsilon", NULL, 0, 2, {0.9975904286496635, -1.9998851244913587}},
    {"adadelta", "learning_rate", NULL, 0, STILL},
    {"adadelta", "rho", NULL, 0, 2, {1.0000000017777717, -2.0021462592702925}},
    {"adadelta", "epsilon", NULL, 0, STILL},
    {"adafactor", "learning_rate", NULL, 0, STILL},
    {"adafactor", "beta2_decay", NULL, 0, 2, {0.9999493660674141, -2.0156108341821777}},
    {"adafactor", "epsilon1", NULL, 0, 2, {1.0028887393157082, -2.0165949957979046}},
    {"adafactor", "epsilon2", NULL, 0, 2, {1.0028887393157082, -2.0165949957979046}},
    REFUSED("adafactor", "d"),
    {"adagrad", "learning_rate", NULL, 0, STILL},
    {"adagrad", "epsilon", NULL, 0, 2, {0.9994868329805051, -2.005584909055599}},
    {"rmsprop", "learning_rate", NULL, 0, STILL},
    {"rmsprop", "alpha", NULL, 0, 2, {1.0000000001333333, -2.010000000166667}},
    {"rmsprop", "epsilon", NULL, 0, 2, {0.9949628649102733, -2.0560822450865195}},
    REFUSED("attention", "heads"),
    {"attention", "scale", NULL, 0, 8, {1.505, 0.51, 0.985, 2.52, 1.505, 0.51, 0.985, 2.52}},
    REFUSED("rnn", "layers"),
    {"one_cycle",
     "rising",
     NULL,
     0,
     12,
     {0.9330129698414118, 0.856698729810778, 0.750001, 0.875, 0.500002, 0.8999999999999999,
      0.2500030000000001, 0.9249999999999999, 0.06699103015858822, 0.9433012701892219, 4e-06,
      0.95}},
    REFUSED("one_cycle", "first_divisor"),
    REFUSED("one_cycle", "last_divisor"),
    {"one_cycle",
     "base_momentum",
     NULL,
     0,
     12,
     {0.040000000000000036, 0.95, 0.9944154354509117, 0.005305357543064049, 0.811745653949763,
      0.17884234411710165, 0.46263710266697505, 0.5104967944535515, 0.1334775301888306,
      0.8231996391191674, 4e-06, 0.95}},
    REFUSED("one_cycle", "max_momentum"), /* it is less than the least */
    {"plateau", "factor", NULL, 0, 7, {1, 1, 0, 0, 0, 0, 0}},
    {"plateau",
     "patience",
     NULL,
     0,
     7,
     {1, 0.1, 0.010000000000000002, 0.0010000000000000002, 0.0010000000000000002,
      0.00010000000000000003, 1.0000000000000004e-05}},
    {"plateau", "threshold", NULL, 0, 7, {1, 1, 1, 0.1, 0.1, 0.1, 0.010000000000000002}},
};
#undef X

static const option_probe *probe_of(const char *name) {
  for (size_t i = 0; i < option_probe_count; i++)
    if (strcmp(option_probes[i].name, name) == 0) return &option_probes[i];
  fail_msg("tdm_%s_options has no probe in option_probes.c", name);
  return NULL;
}

static const struct_row *struct_of(const char *name) {
  for (size_t i = 0; i < TDM_COUNT_OF(structs); i++)
    if (strcmp(structs[i].name, name) == 0) return &structs[i];
  fail_msg("no struct tdm_%s_options", name);
  return NULL;
}

static const zero_row *zero_of(const field_row *field) {
  for (size_t i = 0; i < TDM_COUNT_OF(zeros); i++)
    if (strcmp(zeros[i].name, field->name) == 0 && strcmp(zeros[i].field, field->field) == 0)
      return &zeros[i];
  fail_msg("tdm_%s_options.%s: its default is not 0, and no row says what 0 does", field->name,
           field->field);
  return NULL;
}

/* Rows of a norm without epsilon, weight or bias have a mean square of 1 (float64). */
static void check_unit_rows(const probe_result *result) {
  for (size_t row = 0; row < 2; row++) {
    double squares = 0;
    for (size_t i = 0; i < 4; i++)
      squares += result->numbers[4 * row + i] * result->numbers[4 * row + i] / 4;
    if (!(fabs(squares - 1) < 1e-9)) fail_msg("transformer: a mean square of %.17g", squares);
  }
}

static void check_numbers(const zero_row *row, const probe_result *result) {
  if (result->refused) fail_msg("%s.%s of 0: %s", row->name, row->field, result->message);
  if (row->count == 0) check_unit_rows(result);
  for (size_t i = 0; i < row->count; i++) {
    const double found = result->numbers[row->from + i], wanted = row->numbers[i];
    if (row->from + i >= result->count || !(fabs(found - wanted) <= 1e-9 * (1 + fabs(wanted))))
      fail_msg("%s.%s of 0: number %zu is %.17g, and PyTorch's %.17g", row->name, row->field, i,
               found, wanted);
  }
}

static void check_zero(const field_row *field) {
  union {
    max_align_t aligned;
    char bytes[MOST_BYTES];
  } options = {0};
  static const char nothing[MOST_BYTES] = {0};
  struct_of(field->name)->set_default(&options);
  if (memcmp(options.bytes + field->offset, nothing, field->bytes) == 0) return;
  const zero_row *row = zero_of(field);
  memset(options.bytes + field->offset, 0, field->bytes);
  if (row->elsewhere) return;
  probe_result result;
  probe_of(field->name)->run(&options, field->field, &result);
  const bool is_unit = strcmp(field->name, "transformer") == 0;
  if (row->count > 0 || (is_unit && strcmp(field->field, "epsilon") == 0)) {
    check_numbers(row, &result);
    return;
  }
  if (!result.refused) fail_msg("%s.%s of 0 is not refused", field->name, field->field);
  if (!strstr(result.message, field->field))
    fail_msg("%s.%s of 0: \"%s\" does not name it", field->name, field->field, result.message);
}

static void zero_is_zero_or_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < TDM_COUNT_OF(fields); i++)
    check_zero(&fields[i]);
}

/* Also of the correct size, as in version 0.2, so that no program of that version changes
 * silently. */
static void what_no_initializer_made_is_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < TDM_COUNT_OF(structs); i++)
    for (int sized = 0; sized < 2; sized++) {
      union {
        max_align_t aligned;
        size_t struct_size;
        char bytes[MOST_BYTES];
      } options = {0};
      assert_true(structs[i].bytes <= MOST_BYTES);
      if (sized) options.struct_size = structs[i].bytes;
      probe_result result;
      probe_of(structs[i].name)->run(&options, "", &result);
      char initializer[80];
      (void)snprintf(initializer, sizeof initializer, "tdm_%s_options_default()", structs[i].name);
      if (!result.refused) fail_msg("tdm_%s_options of zeros is not refused", structs[i].name);
      if (!strstr(result.message, initializer))
        fail_msg("\"%s\" does not name %s", result.message, initializer);
    }
}

/* A struct of an earlier header with only struct_size; the bytes after it are arbitrary. */
static void smaller_structs_keep_defaults(void **state) {
  (void)state;
  for (size_t i = 0; i < TDM_COUNT_OF(structs); i++) {
    union {
      max_align_t aligned;
      size_t struct_size;
      char bytes[MOST_BYTES];
    } whole = {0}, earlier;
    structs[i].set_default(&whole);
    memset(&earlier, 0xa5, sizeof earlier);
    earlier.struct_size = sizeof(size_t) | TDM_OPTIONS_INITIALIZED;
    probe_result wanted, found;
    probe_of(structs[i].name)->run(&whole, "", &wanted);
    probe_of(structs[i].name)->run(&earlier, "", &found);
    if (found.refused != wanted.refused || strcmp(found.message, wanted.message) != 0 ||
        found.count != wanted.count)
      fail_msg("tdm_%s_options: \"%s\" and \"%s\"", structs[i].name, found.message, wanted.message);
    for (size_t k = 0; k < found.count; k++)
      if (found.numbers[k] != wanted.numbers[k]) fail_msg("tdm_%s_options", structs[i].name);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(zero_is_zero_or_refused),
      cmocka_unit_test(what_no_initializer_made_is_refused),
      cmocka_unit_test(smaller_structs_keep_defaults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
