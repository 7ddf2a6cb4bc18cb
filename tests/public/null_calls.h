/* Every public function, called with few or no valid arguments (public_calls.inc, made by
 * list_calls.py): the arguments by kind, and the checks of results. */
#ifndef TANDEM_TESTS_PUBLIC_NULL_CALLS_H
#define TANDEM_TESTS_PUBLIC_NULL_CALLS_H

#include "tests/graph/support.h"

typedef enum call_way {
  WITH_NOTHING, /* NULL and 0 everywhere */
  WITH_NUMBERS, /* counts and sizes, but no object, no name and no list */
  WITH_OBJECTS, /* objects and numbers, but no name and no list */
  WITH_NAMES,   /* names and numbers, but no object and no list */
  WITH_BOTH,    /* objects, names and numbers, but no list and no options */
  WITH_ALL_BUT, /* the same with variables for results, except for one argument */
  CALL_WAYS
} call_way;

typedef struct call {
  call_way way;
  int lacking;         /* the position of the missing argument; -1: none */
  const char *name;    /* name of the function */
  char complaint[512]; /* "" : none */
} call;

/* Arguments of calls; created again for each, because a graph keeps its first error. */
typedef struct givens {
  call *call;
  tdm_context *context;
  tdm_graph *graph;
  tdm_session *session;
  tdm_store *store;
  tdm_tensor *tensor;
  tdm_tensor_list *list;
  tdm_costs *costs;
  tdm_loader *loader;
  tdm_dataset *dataset;
  tdm_sequence *sequence;
  tdm_value value;
  void *answer;
  _Alignas(16) char answers[1024];
} givens;

typedef struct public_call {
  const char *name;
  void (*perform)(call *self);
  unsigned places; /* bits of the arguments that calls omit one by one */
} public_call;

void givens_make(givens *given, call *self);
void givens_end(givens *given);

/* Checks that a failure and an empty result have a message. */
void judge_status(givens *given, tdm_status status);
void judge_value(givens *given, tdm_value value);
void judge_pointer(givens *given, const void *answer);

static inline bool gives_objects(const givens *given) {
  return given->call->way == WITH_OBJECTS || given->call->way >= WITH_BOTH;
}
static inline bool gives_names(const givens *given) {
  return given->call->way >= WITH_NAMES;
}

#define LACKS(place) (given.call->lacking == (place))
#define OBJECT(member, place) (gives_objects(&given) && !LACKS(place) ? given.member : NULL)
#define TEXT(place) (gives_names(&given) && !LACKS(place) ? "name" : NULL)
#define ANSWER(place)                                                                              \
  (given.call->way == WITH_ALL_BUT && !LACKS(place) ? (void *)given.answers : NULL)
#define NUMBER (given.call->way != WITH_NOTHING ? 3 : 0)
#define REAL (given.call->way != WITH_NOTHING ? 0.5 : 0.0)
#define VALUE (gives_objects(&given) ? given.value : (tdm_value){0, 0})
#define SHAPE (given.call->way != WITH_NOTHING ? tdm_shape_of(1, 3) : tdm_shape_scalar())
#define DTYPE (given.call->way != WITH_NOTHING ? TDM_FLOAT32 : TDM_DTYPE_NONE)

#endif
