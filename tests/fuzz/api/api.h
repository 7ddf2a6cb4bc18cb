/* A program that calls tandem.h, made of bytes: building (build.c, layers.c), then sessions and
 * runs (run.c). Invariant: values that are not hostile stay small, so that accepted graphs
 * run in milliseconds. Hostile ones are too large for any machine. Sizes that a large machine could
 * allocate get no session, which would create the parameters. */
#ifndef TANDEM_TESTS_FUZZ_API_API_H
#define TANDEM_TESTS_FUZZ_API_API_H

#include "tandem/tandem.h"
#include "tests/fuzz/support.h"

enum { API_MOST_VALUES = 48, API_MOST_INPUTS = 6, API_MOST_OUTPUTS = 6, API_NAME_BYTES = 16 };

typedef struct api_input {
  char name[API_NAME_BYTES];
  tdm_dtype dtype;
  tdm_shape shape; /* shape with names */
} api_input;

typedef struct api {
  fuzz_input input;
  tdm_context *context;
  tdm_graph *graph;
  tdm_value values[API_MOST_VALUES];
  size_t value_count;
  api_input inputs[API_MOST_INPUTS];
  size_t input_count;
  char outputs[API_MOST_OUTPUTS][API_NAME_BYTES];
  size_t output_count;
  uint32_t name_count;
  bool keeps;        /* some value is kept from run to run */
  bool too_large;    /* some value is too large to run the graph */
  bool takes_memory; /* some state is so large that a device may lack the memory: create no
                      * session */
} api;

/* ---- Draws ----------------------------------------------------------------------------------- */

bool api_bool(api *self);
/* Returns 0 to 8, seldom up to 33, more seldom a negative number or more than any memory. */
int64_t api_size(api *self);
/* Returns 1 to 6, seldom any size. */
int64_t api_extent(api *self);
/* Returns -2 to 5, rarely another number. */
int api_dimension(api *self);
/* Returns a small number, rarely a large one, an infinity or NaN. */
double api_real(api *self);
tdm_shape api_shape(api *self, bool named);
tdm_dtype api_dtype(api *self);
/* One that was made, of the latest rather; seldom an invalid one. */
tdm_value api_value(api *self);
/* "" or one of some devices, seldom one that is not there. */
const char *api_device(api *self);
/* Draws one or several devices: "cpu:0,sim:0". */
const char *api_devices(api *self);
/* A name that is new, mostly; text has API_NAME_BYTES. */
const char *api_name(api *self, char *text);
/* Returns true if a session could allocate this many elements, but a test should not. */
bool api_takes_memory(int64_t elements);
/* Keeps a value to be drawn from. */
void api_keep(api *self, tdm_value value);

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Makes one call of layers/ with the name. */
void api_call_layer(api *self, const char *name);
/* Calls one of the functions that move elements, of larger layers, or of those that span nodes. */
void api_call_move(api *self, const char *name);
void api_call_block(api *self, const char *name);
void api_call_graph(api *self);
/* Makes one call of graph/ that describes. */
void api_call_building(api *self);
/* Creates sessions of the graph, runs and trains them, and calls all their queries. */
void api_run(api *self);

#endif
