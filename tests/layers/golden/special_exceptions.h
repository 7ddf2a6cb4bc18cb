/* Golden cases in which NaN and infinities differ from PyTorch, with the reason. An exception
 * applies to the cases and operands whose names begin with its names, and permits no other
 * difference. */
#ifndef TANDEM_TESTS_LAYERS_GOLDEN_SPECIAL_EXCEPTIONS_H
#define TANDEM_TESTS_LAYERS_GOLDEN_SPECIAL_EXCEPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef enum value_class { FINITE, IS_NAN, PLUS_INFINITY, MINUS_INFINITY } value_class;

/* Replacements that an exception applies to. */
enum { BY_NAN = 1, BY_INFINITY = 2, BY_ANY = 3 };

/* Differences that an exception allows. */
enum {
  NAN_HERE = 1,     /* NaN where PyTorch has a number or an infinity */
  NAN_THERE = 2,    /* a number or an infinity where PyTorch has NaN */
  OTHER_NUMBER = 4, /* a number where PyTorch has another */
  OTHER_INFINITY =
      8 /* an infinity where PyTorch has a number or the other infinity, or inversely */
};

typedef struct exception {
  const char *family;
  const char *name;    /* beginning of the case's name, or '*' and a part of it */
  const char *operand; /* KIND.NAME, likewise */
  int replacements;
  int allows;
  const char *why;
} exception;

#define TAIL                                                                                       \
  "PyTorch has one slope of NaN in the vectors of its kernel and another in the elements behind "  \
  "them"

#define MEAN "what flows through the mean is added, which PyTorch leaves out: it is 0 of numbers"
#define OF_LARGEST                                                                                 \
  "PyTorch multiplies the gradient by 0 at all elements but the largest, to which alone it flows " \
  "here"
#define AND_ZERO "PyTorch has another formula for rows that hold a 0, which loses NaN"
#define FACTORS "whether infinities meet in one sum or product depends on how a formula is factored"
#define COMPARES                                                                                   \
  "PyTorch takes a NaN for a margin that is kept, because no comparison with it holds"
#define SLOPES "PyTorch multiplies slopes of 0 by it"
#define ZEROS                                                                                      \
  "which products with zeros of padding and strides are taken is the algorithm's choice; in "      \
  "PyTorch it differs by shape"
#define FUSED                                                                                      \
  "PyTorch's fused attention loses NaN: its maximum of a row ignores them, and sums of no "        \
  "exponentials are 0"
#define HIDDEN                                                                                     \
  "PyTorch adds minus infinity to the scores of hidden keys, which leaves a NaN there; the "       \
  "weight "                                                                                        \
  "of a hidden key is 0 here"
#define STEPS "steps behind the end of a sequence are multiplied by 0, not left out"
#define NO_STATE "an initial state that is absent is not multiplied by the weights"

static const exception exceptions[] = {
    {"pointwise", "hardtanh", "parameter.x", BY_NAN, OTHER_NUMBER, TAIL},
    {"pointwise", "relu6", "parameter.x", BY_NAN, OTHER_NUMBER, TAIL},
    {"pointwise", "hardswish", "parameter.x", BY_NAN, NAN_HERE, TAIL},
    {"pointwise", "elu", "parameter.x", BY_NAN, NAN_HERE, TAIL},
    {"pointwise", "variance", "", BY_INFINITY, NAN_HERE, MEAN},
    {"arrays", "std", "target", BY_INFINITY, NAN_HERE, MEAN},
    {"arrays", "norm", "target", BY_ANY, NAN_THERE, OF_LARGEST},
    {"arrays", "cumprod_1", "", BY_ANY, NAN_HERE, AND_ZERO},
    {"moves", "prod", "parameter.x", BY_ANY, NAN_HERE, AND_ZERO},
    {"arrays", "logcumsumexp", "target", BY_NAN, NAN_HERE,
     "PyTorch takes a NaN among the gradients of the results for 0"},
    {"loss", "binary", "input", BY_INFINITY, NAN_THERE, FACTORS},
    {"loss", "*l1_", "parameter", BY_NAN, NAN_HERE, "PyTorch's sign of NaN is 0"},
    {"loss", "soft_margin", "", BY_INFINITY, NAN_THERE,
     "PyTorch divides two exponentials, which overflow"},
    {"loss", "multi_margin", "", BY_ANY, NAN_HERE, COMPARES},
    {"loss", "multilabel_margin", "", BY_ANY, NAN_HERE, COMPARES},
    {"loss", "multi_margin", "target", BY_ANY, NAN_THERE, SLOPES},
    {"loss", "multilabel_margin", "target", BY_ANY, NAN_THERE, SLOPES},
    {"loss", "multilabel_soft_margin", "", BY_INFINITY, NAN_HERE | NAN_THERE, FACTORS},
    {"loss", "cosine_similarity", "target", BY_INFINITY, NAN_THERE, FACTORS},
    {"loss", "pairwise_distance_inf", "target", BY_ANY, NAN_THERE, OF_LARGEST},
    {"loss", "ctc", "parameter.x", BY_ANY, NAN_HERE, STEPS},
    {"loss", "ctc", "parameter.x", BY_INFINITY, NAN_THERE,
     "a logarithm of -infinity is the probability 0, of which PyTorch's gradient is NaN"},
    {"vision", "gelu", "", BY_INFINITY, OTHER_INFINITY | NAN_THERE,
     "PyTorch's float32 kernel has NaN for gelu(infinity), its float64 kernel infinity"},
    {"vision", "linear", "", BY_INFINITY, NAN_HERE,
     "the last element is interpolated with the weight 0"},
    {"vision", "conv", "", BY_ANY, NAN_HERE | NAN_THERE | OTHER_INFINITY, ZEROS},
    {"vision", "transposed", "", BY_ANY, NAN_HERE | NAN_THERE | OTHER_INFINITY, ZEROS},
    {"volumes", "conv", "", BY_ANY, NAN_HERE | NAN_THERE | OTHER_INFINITY, ZEROS},
    {"volumes", "padded", "", BY_ANY, NAN_HERE | NAN_THERE | OTHER_INFINITY, ZEROS},
    {"volumes", "transposed", "", BY_ANY, NAN_HERE | NAN_THERE | OTHER_INFINITY, ZEROS},
    {"vision", "layer_norm", "", BY_INFINITY, NAN_HERE | NAN_THERE, FACTORS},
    {"vision", "batch_norm", "", BY_INFINITY, NAN_HERE | NAN_THERE, FACTORS},
    {"vision", "group_norm", "", BY_INFINITY, NAN_HERE | NAN_THERE, FACTORS},
    {"vision", "*instance_norm", "", BY_INFINITY, NAN_HERE | NAN_THERE, FACTORS},
    {"volumes", "batch_norm", "", BY_INFINITY, NAN_HERE | NAN_THERE, FACTORS},
    {"volumes", "instance_norm", "", BY_INFINITY, NAN_HERE | NAN_THERE, FACTORS},
    {"tables", "interaction", "", BY_INFINITY, NAN_THERE, FACTORS},
    {"tables", "interaction", "parameter.x", BY_NAN, NAN_THERE,
     "PyTorch multiplies a row with itself by 0, which some kernels leave out"},
    {"tables", "mha", "", BY_ANY, NAN_HERE, FUSED},
    {"tables", "attention", "", BY_ANY, NAN_HERE, FUSED},
    {"blocks", "heads", "", BY_ANY, NAN_HERE, FUSED},
    {"blocks", "transformer", "", BY_ANY, NAN_HERE, FUSED},
    {"tables", "attention", "target", BY_INFINITY, NAN_THERE | OTHER_INFINITY, FACTORS},
    {"tables", "mha", "target", BY_INFINITY, NAN_THERE | OTHER_INFINITY, FACTORS},
    {"tables", "*_padded", "", BY_ANY, NAN_THERE | OTHER_INFINITY, HIDDEN},
    {"tables", "*_causal", "", BY_ANY, NAN_THERE | OTHER_INFINITY, HIDDEN},
    {"tables", "attention_long", "", BY_ANY, NAN_THERE | OTHER_INFINITY, HIDDEN},
    {"tables", "*_mask", "", BY_ANY, NAN_THERE | OTHER_INFINITY, HIDDEN},
    {"blocks", "heads", "", BY_ANY, NAN_THERE | OTHER_INFINITY, HIDDEN},
    {"blocks", "transformer", "", BY_ANY, NAN_THERE | OTHER_INFINITY, HIDDEN},
    {"layers", "rnn", "", BY_ANY, NAN_THERE | OTHER_INFINITY, NO_STATE},
    {"recurrent", "", "", BY_ANY, NAN_THERE | OTHER_INFINITY, NO_STATE},
    {"recurrent", "*_lengths", "", BY_ANY, NAN_HERE, STEPS},
    {"recurrent", "relu", "", BY_INFINITY, NAN_HERE, FACTORS},
    {"blocks", "sequence", "", BY_ANY, NAN_THERE | OTHER_INFINITY, NO_STATE},
    {"blocks", "cell", "", BY_ANY, NAN_THERE | OTHER_INFINITY, NO_STATE},
    {"blocks", "projected", "", BY_ANY, NAN_HERE | NAN_THERE | OTHER_INFINITY, STEPS},
};

static inline int difference_of(value_class wanted, value_class is) {
  if (is == IS_NAN) return NAN_HERE;
  if (wanted == IS_NAN) return NAN_THERE;
  return wanted == is ? OTHER_NUMBER : OTHER_INFINITY;
}

/* True if a name begins with the pattern, or contains what follows its '*'. */
static inline bool fits(const char *pattern, const char *name) {
  if (pattern[0] == '*') return strstr(name, pattern + 1) != NULL;
  return strncmp(pattern, name, strlen(pattern)) == 0;
}

/* Returns true if the difference is a known exception. operand: KIND.NAME. special: 0 for NaN.
 * wanted, is: PyTorch's class and the library's; two numbers if both are FINITE. */
static inline bool is_excepted(const char *family, const char *name, const char *operand,
                               int special, value_class wanted, value_class is) {
  for (size_t i = 0; i < sizeof exceptions / sizeof exceptions[0]; i++) {
    const exception *one = &exceptions[i];
    if (strcmp(one->family, family) != 0 || !fits(one->name, name)) continue;
    if (!fits(one->operand, operand)) continue;
    if ((one->replacements & (special == 0 ? BY_NAN : BY_INFINITY)) == 0) continue;
    if ((one->allows & difference_of(wanted, is)) != 0) return true;
  }
  return false;
}

#endif
