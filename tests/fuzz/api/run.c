/* Sessions of a built graph, their runs, and their queries. Invariant: each refused session or run
 * has a message, and all objects are released. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/fuzz/api/api.h"
#include "tests/options.h"

enum { MOST_ELEMENTS = 65536 };

/* ---- Feeds ----------------------------------------------------------------------------------- */

typedef struct sizes {
  int64_t batch, other, unknown;
} sizes;

static tdm_shape concrete_shape(const tdm_shape *shape, const sizes *of) {
  tdm_shape concrete = *shape;
  for (int i = 0; i < shape->rank; i++) {
    if (tdm_dim_is_size(shape->dims[i])) continue;
    concrete.dims[i] = shape->dims[i] == TDM_DIM("batch")   ? of->batch
                       : shape->dims[i] == TDM_DIM("other") ? of->other
                                                            : of->unknown;
  }
  return concrete;
}

/* Fills with small whole numbers, which are also valid ids, classes and lengths. */
static void fill(tdm_dtype dtype, int64_t count, uint8_t pattern, void *data) {
  for (int64_t i = 0; i < count; i++) {
    const int number = pattern == 255 ? (int)(i * 7 % 300) - 100 : (int)(i * (pattern | 1) % 3);
    switch (dtype) {
    case TDM_FLOAT32:
      ((float *)data)[i] = (float)number;
      break;
    case TDM_FLOAT64:
      ((double *)data)[i] = number;
      break;
    case TDM_INT32:
      ((int32_t *)data)[i] = number;
      break;
    case TDM_INT64:
      ((int64_t *)data)[i] = number;
      break;
    case TDM_UINT8:
    case TDM_BOOL:
      ((uint8_t *)data)[i] = number & 1;
      break;
    default:
      ((uint16_t *)data)[i] = (uint16_t)number;
    }
  }
}

static tdm_tensor *make_feed(const api *self, const api_input *input, const sizes *of,
                             uint8_t pattern) {
  const tdm_shape shape = concrete_shape(&input->shape, of);
  const int64_t count = tdm_shape_count(&shape);
  if (count < 0 || count > MOST_ELEMENTS || tdm_dtype_bytes(input->dtype) == 0) return NULL;
  tdm_tensor *tensor = tdm_tensor_create(self->context, "cpu:0", input->dtype, shape);
  fuzz_expect(tensor != NULL, "no tensor of %lld elements", (long long)count);
  fill(input->dtype, count, pattern, tdm_tensor_data(tensor));
  return tensor;
}

typedef struct feeds {
  tdm_feed list[API_MOST_INPUTS];
  size_t count;
} feeds;

static void release_feeds(feeds *made) {
  for (size_t i = 0; i < made->count; i++)
    tdm_tensor_release(made->list[i].tensor);
  made->count = 0;
}

/* False: one of them cannot be made. */
static bool make_feeds(api *self, feeds *out) {
  out->count = 0;
  const sizes of = {(int64_t)fuzz_below(&self->input, 6), (int64_t)fuzz_below(&self->input, 6),
                    (int64_t)fuzz_below(&self->input, 6)};
  for (size_t i = 0; i < self->input_count; i++) {
    tdm_tensor *tensor = make_feed(self, &self->inputs[i], &of, fuzz_byte(&self->input));
    if (!tensor) {
      release_feeds(out);
      return false;
    }
    out->list[out->count++] = (tdm_feed){self->inputs[i].name, tensor, false};
  }
  return true;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* Checks and releases the result of every fetch. */
static void take_fetches(tdm_status status, tdm_fetch *fetches, size_t count) {
  for (size_t i = 0; i < count; i++) {
    tdm_tensor *tensor = fetches[i].tensor;
    fuzz_expect((tensor != NULL) == (status == TDM_OK), "a fetch is %p after %s", (void *)tensor,
                tdm_status_name(status));
    if (!tensor) continue;
    volatile uint64_t sum = 0;
    (void)sum;
    const uint8_t *bytes = tdm_tensor_data(tensor); /* NULL: it was requested on a device */
    for (size_t k = 0; bytes && k < tdm_tensor_bytes(tensor); k++)
      sum += bytes[k];
    tdm_tensor_release(tensor);
  }
}

typedef struct delivery {
  _Atomic int calls;
} delivery;

static void on_delivered(void *user, tdm_run_result *result) {
  take_fetches(result->status, result->fetches, result->fetch_count);
  fuzz_expect(result->status != TDM_INTERNAL, "INTERNAL: %s", result->message);
  ((delivery *)user)->calls++;
}

static tdm_status run_once(api *self, tdm_session *session, const feeds *fed, uint8_t how) {
  tdm_fetch fetches[API_MOST_OUTPUTS] = {{NULL, NULL}};
  size_t count = 0;
  for (size_t i = 0; i < self->output_count; i++)
    fetches[count++] = (tdm_fetch){self->outputs[i], NULL};
  double loss = 0;
  const bool training = how & 1;
  const tdm_status status =
      training ? tdm_train_step(session, fed->list, fed->count, fetches, count, &loss)
               : tdm_run(session, fed->list, fed->count, fetches, count);
  take_fetches(status, fetches, count);
  (void)fuzz_judge(status);
  return status;
}

/* Some runs of a sequence, copies of it, and its kept values. */
static void run_sequence(api *self, tdm_session *session, const feeds *fed, uint8_t how) {
  tdm_sequence *sequence = tdm_sequence_create(session);
  if (!fuzz_judge_made(sequence)) return;
  for (int i = 0; i < 3 && sequence; i++) {
    tdm_fetch fetches[API_MOST_OUTPUTS] = {{NULL, NULL}};
    for (size_t k = 0; k < self->output_count; k++)
      fetches[k].name = self->outputs[k];
    const tdm_status status =
        tdm_sequence_run(sequence, fed->list, fed->count, fetches, self->output_count);
    take_fetches(status, fetches, self->output_count);
    (void)fuzz_judge(status);
    if (how >> i & 1) {
      tdm_sequence *copy = tdm_sequence_copy(sequence);
      (void)fuzz_judge_made(copy);
      tdm_sequence_release(sequence);
      sequence = copy;
    }
  }
  if (!sequence) return;
  tdm_tensor *kept = NULL;
  if (fuzz_judge(tdm_sequence_get(sequence, "n0", &kept)))
    fuzz_expect(tdm_sequence_set(sequence, "n0", kept) == TDM_OK, "what was got is not set");
  tdm_tensor_release(kept);
  (void)fuzz_judge(tdm_sequence_reset(sequence));
  tdm_sequence_release(sequence);
}

/* Submits several runs, some of which may be cancelled. */
static void submit_some(api *self, tdm_session *session, const feeds *fed, uint8_t how,
                        delivery *delivered, int *submitted) {
  tdm_fetch fetches[API_MOST_OUTPUTS] = {{NULL, NULL}};
  for (size_t i = 0; i < self->output_count; i++)
    fetches[i] = (tdm_fetch){self->outputs[i], NULL};
  for (int i = 0; i < 3; i++) {
    const tdm_submit_options options =
        OPTIONS(tdm_submit_options, o.training = how >> i & 1, o.callback = on_delivered,
                o.user = delivered, o.deadline_ns = how & 8 ? 50000 : TDM_NO_DEADLINE);
    uint64_t id = 0;
    if (!fuzz_judge(tdm_submit_with(session, &options, fed->list, fed->count, fetches,
                                    self->output_count, &id)))
      continue;
    ++*submitted;
    if (how & 16) (void)tdm_run_cancel(session, id);
  }
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static FILE *nowhere(void) {
  static FILE *file;
  if (!file) file = fopen("/dev/null", "w");
  fuzz_expect(file != NULL, "nowhere to write");
  return file;
}

static void ask(tdm_session *session, uint8_t what) {
  static const char *const passes[] = {"lower",    "place",  "gradient", "layout", "fuse",
                                       "transfer", "memory", "verify",   "nothing"};
  tdm_traffic traffic;
  tdm_memory_use use;
  uint64_t transfers = 0;
  uint64_t bytes = 0;
  (void)fuzz_judge(tdm_session_traffic(session, &traffic));
  (void)fuzz_judge(tdm_session_refreshed(session, &transfers, &bytes));
  (void)fuzz_judge(tdm_session_memory(session, "sim:0", &use));
  (void)fuzz_judge(tdm_session_explain(session, (tdm_plan_format)(what & 3), nowhere()));
  (void)fuzz_judge(tdm_session_print_summary(session, nowhere()));
  if (what & 128) (void)fuzz_judge(tdm_session_report(session, nowhere()));
  if (what & 64) {
    const tdm_forecast_options options = tdm_forecast_options_default();
    tdm_forecast *forecast = NULL;
    (void)fuzz_judge(tdm_session_forecast(session, &options, &forecast));
    tdm_forecast_release(forecast);
  }
  (void)fuzz_judge(tdm_session_set_learning_rate(session, (what & 32) ? 0.5 : 0));
  (void)fuzz_judge(tdm_session_trace(session, (tdm_trace_format)(what >> 2 & 1), nowhere()));
  if (what & 8)
    (void)fuzz_judge(tdm_session_print_pass(session, passes[(what >> 4) % TDM_COUNT_OF(passes)],
                                            TDM_PLAN_TEXT, nowhere()));
}

static void save_and_load(tdm_session *session) {
  tdm_tensor_list *list = NULL;
  if (fuzz_judge(tdm_session_save(session, &list)))
    fuzz_expect(tdm_session_load(session, list) == TDM_OK, "what was saved does not load");
  tdm_tensor_list_release(list);
  list = NULL;
  if (fuzz_judge(tdm_session_state_dict(session, NULL, &list)))
    (void)fuzz_judge(tdm_session_load_state_dict(session, list, NULL));
  tdm_tensor_list_release(list);
}

/* ---- Sessions -------------------------------------------------------------------------------- */

static tdm_optimizer draw_optimizer(api *self) {
  const uint8_t which = fuzz_byte(&self->input);
  const double rate = which & 128 ? api_real(self) : 0.01;
  switch (which % 12) {
  case 0:
    return tdm_sgd(rate);
  case 1:
    return tdm_sgd_with(WITH(tdm_sgd_options, o.learning_rate = rate, o.momentum = api_real(self),
                             o.nesterov = which & 64));
  case 2:
    return tdm_adam(rate);
  case 3:
    return tdm_adamw(rate);
  case 4:
    return tdm_sparse_adam(rate);
  case 5:
    return tdm_adagrad(rate);
  case 7:
    return tdm_nadam_with(
        WITH(tdm_nadam_options, o.learning_rate = rate, o.momentum_decay = api_real(self)));
  case 8:
    return tdm_radam(rate);
  case 9:
    return tdm_adamax(rate);
  case 10:
    return tdm_adadelta(rate);
  case 11:
    return tdm_adafactor_with(
        WITH(tdm_adafactor_options, o.learning_rate = rate, o.d = api_real(self)));
  default:
    return tdm_rmsprop_with(WITH(tdm_rmsprop_options, o.learning_rate = rate,
                                 o.momentum = api_real(self), o.centered = which & 64));
  }
}

static tdm_session *make_session(api *self, tdm_store *store) {
  static const char *const maps[] = {
      NULL,      "*=cpu:0", "n1=sim:0,*=cpu:1",     "n2*=sim:1,n3=cpu:1", "s=sim:0",
      "*=sim:0", "x=y,",    "n0=cpu:0,n[1-3]=sim:1"};
  const uint8_t flags = fuzz_byte(&self->input);
  const uint8_t more = fuzz_byte(&self->input);
  tdm_optimizer optimizer = draw_optimizer(self);
  if (flags & 128) optimizer.clip_norm = 1;
  if (flags & 64) optimizer.clip_value = 0.5;
  optimizer.maximize = (more & 128) != 0;
  const tdm_parameter_group groups[] = {{more & 1 ? "n1*" : "n2,s", more & 2 ? &optimizer : NULL}};
  const bool trains = flags & 1;
  const tdm_session_options options = OPTIONS(
      tdm_session_options, o.store = store, o.loss = trains ? api_value(self) : (tdm_value){0, 0},
      o.optimizer = trains ? &optimizer : NULL, o.groups = groups,
      o.group_count = (more >> 2 & 7) == 7, o.device_map = maps[flags >> 1 & 7], o.seed = 3,
      o.depth = (flags >> 4 & 3) + (more >> 7) - 1, o.deterministic = flags & 64,
      o.check_finite = more & 32, o.trace_runs = more & 64 ? 2 : 0, o.profile = more & 64,
      o.micro_batches = OR_ONE((int)(fuzz_below(&self->input, 40) % 8) - 1),
      o.unfused = more & 128);
  return tdm_session_create(self->graph, &options);
}

static void use_session(api *self, tdm_session *session) {
  delivery delivered = {0};
  int submitted = 0;
  const uint32_t runs = 1 + fuzz_below(&self->input, 3);
  for (uint32_t i = 0; i < runs; i++) {
    feeds fed;
    if (!make_feeds(self, &fed)) break;
    const uint8_t how = fuzz_byte(&self->input);
    if (self->keeps) run_sequence(self, session, &fed, how);
    if (how >= 224)
      submit_some(self, session, &fed, how, &delivered, &submitted);
    else
      (void)run_once(self, session, &fed, how);
    release_feeds(&fed);
  }
  if (fuzz_below(&self->input, 4) == 3) ask(session, fuzz_byte(&self->input));
  if (fuzz_below(&self->input, 8) == 7) save_and_load(session);
  tdm_session_release(session);
  while (delivered.calls < submitted) /* on the loop's thread; libFuzzer's time limit ends it */
    (void)nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
  fuzz_expect(delivered.calls == submitted, "%d runs were delivered %d times", submitted,
              delivered.calls);
}

/* Returns the parameters of all layers, by the graph's description. */
static int64_t count_parameters(const api *self) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  fuzz_expect(out != NULL, "no memory for a description");
  const tdm_status status = tdm_graph_print(self->graph, out);
  (void)fclose(out);
  long long count = 0;
  if (status == TDM_OK && bytes > 1) {
    text[bytes - 1] = '\0'; /* the end of the last line, which has the sum */
    const char *line = strrchr(text, '\n');
    (void)sscanf(line ? line + 1 : text, "%lld", &count);
  }
  free(text);
  return count;
}

void api_run(api *self) {
  tdm_store *store = tdm_store_create(self->context);
  fuzz_expect(store != NULL, "no store");
  const tdm_status built = tdm_graph_status(self->graph);
  if (built == TDM_OK) self->takes_memory |= api_takes_memory(count_parameters(self));
  const uint32_t sessions = self->takes_memory ? 0 : 1 + (fuzz_below(&self->input, 4) == 3);
  for (uint32_t i = 0; i < sessions; i++) {
    tdm_session *session = make_session(self, store);
    fuzz_expect(built == TDM_OK || !session, "a session of a graph that failed");
    if (!fuzz_judge_made(session)) break;
    if (self->too_large)
      tdm_session_release(session);
    else
      use_session(self, session);
  }
  tdm_store_release(store);
}
