/* Texts told of models (models.h) that are recorded beside the tests, and compared: a text is the
 * same on every machine, whatever was measured there. */
#ifndef TANDEM_TESTS_GRAPH_PLANS_RECORDED_H
#define TANDEM_TESTS_GRAPH_PLANS_RECORDED_H

#include <stdio.h>

#include "graph/run/session.h"
#include "tests/graph/plans/models.h"

typedef struct recorded_kind {
  const char *folder;                          /* where NAME.txt lies, with its last '/' */
  bool profiles;                               /* sessions do */
  bool (*is_told_of)(const plan_model *model); /* NULL: of all */
  /* Tells of the session, whose plan is made. In a job each rank tells, on a thread of its own. */
  void (*tell)(const plan_model *model, tdm_session *session, FILE *out);
} recorded_kind;

/* Before all else: makes this process see a machine that is the same everywhere. True: arguments
 * ask for recording. */
bool recorded_begin(int argc, char **argv);
/* Compares what is told of the models with what is recorded, or records it. */
void recorded_check(const recorded_kind *kind, const plan_model *models, size_t count,
                    bool records);

/* Plans the model again and again, the Nth allocation failing, until none does: each time that is
 * told, and no plan is made without it. */
void recorded_sweep_memory(const plan_model *model);

/* What a step is forecast to take, in all and of each queue and link; costs may be NULL. */
void recorded_tell_forecast(tdm_session *session, const tdm_costs *costs, FILE *out);

#endif
