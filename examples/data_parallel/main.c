/* data_parallel: Linear(5, 2), wrapped, runs 100 random rows in batches of 30 over any number of
 * devices, and prints the sizes that each replica and the program around it see.
 *
 *   data_parallel [--devices cpu:0,cpu:1]    default: all GPUs, else two logical CPU devices */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tandem/tandem.h>

enum { INPUT_SIZE = 5, OUTPUT_SIZE = 2, ROWS = 100, BATCH = 30, LIST_BYTES = 512 };

/* ---- Devices --------------------------------------------------------------------------------- */

/* Returns one more than the highest index of a kind in list; 0: the kind is not there. */
static int count_kind(const char *list, const char *kind) {
  int count = 0;
  const size_t length = strlen(kind);
  for (const char *at = list; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (strncmp(at, kind, length) == 0 && at[length] == ':') {
      const int index = atoi(at + length + 1);
      if (count <= index) count = index + 1;
    }
  return count;
}

/* Creates a context with the devices that list names; list NULL: as they are found. */
static tdm_context *create_context(const char *list) {
  tdm_context_options options = tdm_context_options_default();
  const int cpus = count_kind(list, "cpu"), sims = count_kind(list, "sim");
  if (cpus > 0) options.cpu_devices = cpus;
  if (sims > 0) options.sim_devices = sims;
  return tdm_context_create(&options);
}

/* Writes "cuda:0,cuda:1,...", or "" without GPUs. */
static void list_gpus(const tdm_context *context, char *list) {
  list[0] = 0;
  for (size_t i = 0; context && i < tdm_device_count(context); i++) {
    const char *name = tdm_device_name_at(context, i);
    if (strncmp(name, "cuda:", 5) != 0 || strlen(list) + strlen(name) + 2 > LIST_BYTES) continue;
    if (*list) strcat(list, ",");
    strcat(list, name);
  }
}

/* ---- The model ------------------------------------------------------------------------------- */

static const char *shape_text(const tdm_tensor *tensor, char *text) {
  const tdm_shape shape = tdm_tensor_shape(tensor);
  return tdm_shape_text(&shape, text, TDM_SHAPE_TEXT);
}

/* Prints the sizes of "input" and "output" in every replica, in turn. */
static void print_sizes(void *user, const tdm_observation *observation) {
  char *input = user; /* (TDM_SHAPE_TEXT) */
  char output[TDM_SHAPE_TEXT];
  if (strcmp(observation->name, "model/input") == 0) {
    (void)shape_text(observation->tensor, input);
    return;
  }
  printf("In Model: input size %s output size %s\n", input,
         shape_text(observation->tensor, output));
}

static tdm_session *create_session(tdm_context *context, const char *devices, char *input_text) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x =
      tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), INPUT_SIZE));
  tdm_scope_push(graph, "model");
  const tdm_value input = tdm_observe(graph, "input", x);
  const tdm_value y = tdm_observe(graph, "output", tdm_linear(graph, "fc", input, OUTPUT_SIZE));
  tdm_scope_pop(graph);
  tdm_parallel_options wrapped = tdm_parallel_options_default();
  wrapped.devices = devices;
  tdm_data_parallel(graph, "model", &wrapped);
  tdm_output(graph, "y", y);
  tdm_session_options options = tdm_session_options_default();
  options.observer = print_sizes;
  options.observer_user = input_text;
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  return session;
}

/* ---- The program ----------------------------------------------------------------------------- */

static tdm_status run_batch(tdm_session *session, tdm_tensor *batch) {
  const tdm_feed feed = {"x", batch, false};
  tdm_fetch y = {"y", NULL};
  const tdm_status status = tdm_run(session, &feed, 1, &y, 1);
  if (status != TDM_OK) return status;
  char input[TDM_SHAPE_TEXT];
  char output[TDM_SHAPE_TEXT];
  printf("Outside: input size %s output_size %s\n", shape_text(batch, input),
         shape_text(y.tensor, output));
  tdm_tensor_release(y.tensor);
  return TDM_OK;
}

static tdm_status run_all(tdm_context *context, const char *devices) {
  char input_text[TDM_SHAPE_TEXT] = "";
  tdm_session *session = create_session(context, devices, input_text);
  tdm_tensor *rows = tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32,
                                        tdm_shape_of(2, ROWS, INPUT_SIZE), 1, -1.0, 1.0);
  tdm_status status = session && rows ? TDM_OK : TDM_INVALID_ARGUMENT;
  for (int64_t begin = 0; status == TDM_OK && begin < ROWS; begin += BATCH) {
    const int64_t end = begin + BATCH < ROWS ? begin + BATCH : ROWS;
    tdm_tensor *batch = tdm_tensor_slice(rows, begin, end);
    status = batch ? run_batch(session, batch) : TDM_OUT_OF_MEMORY;
    tdm_tensor_release(batch);
  }
  tdm_tensor_release(rows);
  tdm_session_release(session);
  return status;
}

static const char usage[] = "usage: data_parallel [--devices LIST]\n"
                            "Scatter, gather and sums of tensors over devices, as cpu:0,cpu:1 (all "
                            "GPUs, or two CPU devices).\n";

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--help") == 0) return fputs(usage, stdout) < 0;
  const char *devices = NULL;
  if (argc == 3 && strcmp(argv[1], "--devices") == 0) {
    devices = argv[2];
  } else if (argc != 1) {
    fputs(usage, stderr);
    return 2;
  }
  char gpus[LIST_BYTES];
  tdm_context *context = create_context(devices);
  if (!devices) {
    list_gpus(context, gpus);
    devices = *gpus ? gpus : "cpu:0,cpu:1";
    if (!*gpus) {
      tdm_context_release(context);
      context = create_context(devices);
    }
  }
  const bool done = context && run_all(context, devices) == TDM_OK;
  if (!done) fprintf(stderr, "data_parallel: %s\n", tdm_last_message());
  tdm_context_release(context);
  return done ? 0 : 1;
}
