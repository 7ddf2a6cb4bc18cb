/* Texts about models (models.h) that are recorded in the tests' folder and compared. A text is the
 * same on every machine, for any measurements. */
#ifndef TANDEM_TESTS_GRAPH_PLANS_RECORDED_H
#define TANDEM_TESTS_GRAPH_PLANS_RECORDED_H

#include <stdio.h>

#include "graph/run/session.h"
#include "tests/graph/plans/models.h"

typedef struct recorded_kind {
  const char *folder;                          /* folder of NAME.txt, with its last '/' */
  bool profiles;                               /* sessions do */
  bool (*is_told_of)(const plan_model *model); /* NULL: of all */
  /* Writes the text about the session, whose plan exists. In a job each rank writes one, on a
   * separate thread. */
  void (*tell)(const plan_model *model, tdm_session *session, FILE *out);
} recorded_kind;

/* Must be called first: replaces the machine by one that is the same everywhere. Returns true if
 * the arguments request recording. */
bool recorded_begin(int argc, char **argv);
/* Compares the texts about the models with the recorded ones, or records them. */
void recorded_check(const recorded_kind *kind, const plan_model *models, size_t count,
                    bool records);

/* Plans the model repeatedly while the Nth allocation fails, until none does. Each failure is
 * reported, and no plan is made. */
void recorded_sweep_memory(const plan_model *model);

/* Writes the forecast of a step, in total and for each queue and link. costs may be NULL. */
void recorded_tell_forecast(tdm_session *session, const tdm_costs *costs, FILE *out);

#endif
