/* Plans a model for 1, 2, 4, ... devices of a described machine, and prints the predicted time of a
 * step. */
#include "tools/forecast/forecast.h"

#include <stdio.h>
#include <string.h>

#include "tools/forecast/models.h"
#include "tools/forecast/options.h"
#include "tools/forecast/ranks.h"
#include "tools/forecast/report.h"

enum { MOST_DEVICES = 64, DEVICE_NAME = 12, MOST_ROWS = 16, BAD_USAGE = 2 };

typedef struct forecaster {
  const forecast_request *request;
  tdm_context *context;
  tdm_costs *costs;
  tdm_json_writer *json; /* NULL: text is wanted */
  int device_count;      /* devices of the machine */
} forecaster;

static int64_t batch_for(const forecaster *self, int devices) {
  return self->request->per_device ? self->request->batch * devices : self->request->batch;
}

/* "paper:0,paper:1,..." */
static void list_devices(int devices, char *text, size_t capacity) {
  size_t at = 0;
  for (int i = 0; i < devices && at < capacity; i++)
    at += (size_t)snprintf(text + at, capacity - at, "%spaper:%d", i ? "," : "", i);
}

/* Plans a training step over the first `devices` devices of the machine. */
static tdm_status plan_for(const forecaster *self, int devices, int algorithm,
                           opened_model *out_model) {
  char list[MOST_DEVICES * DEVICE_NAME];
  list_devices(devices, list, sizeof list);
  const model_request request = {.name = self->request->model,
                                 .front = "paper:0",
                                 .body = "paper:0",
                                 .replicas = devices > 1 ? list : NULL,
                                 .batch = batch_for(self, devices),
                                 .devices = devices,
                                 .collective = (tdm_collective)algorithm};
  tdm_status status = model_open(self->context, &request, out_model);
  if (status != TDM_OK) return status;
  status = model_prepare(out_model);
  if (status != TDM_OK) model_close(out_model);
  return status;
}

static tdm_status forecast_with(const forecaster *self, tdm_session *session,
                                tdm_forecast **out_forecast) {
  tdm_forecast_options options = tdm_forecast_options_default();
  options.costs = self->costs;
  return tdm_session_forecast(session, &options, out_forecast);
}

static tdm_status tell_step(const forecaster *self) {
  const forecast_request *request = self->request;
  const int devices = request->devices ? (int)request->devices : self->device_count;
  opened_model model;
  tdm_status status = plan_for(self, devices, request->algorithm, &model);
  if (status != TDM_OK) return status;
  tdm_forecast *forecast = NULL;
  tdm_traffic traffic;
  status = forecast_with(self, model.session, &forecast);
  if (status == TDM_OK) status = tdm_session_traffic(model.session, &traffic);
  if (status == TDM_OK && self->json) {
    tdm_json_put_string(self->json, "model", request->model);
    tdm_json_put_integer(self->json, "rows", batch_for(self, devices));
    tdm_json_put_integer(self->json, "devices", devices);
    tdm_json_put_string(self->json, "sums", summing_name(request->algorithm));
    report_step_json(forecast, &traffic, self->json);
  } else if (status == TDM_OK) {
    printf("%s, %lld rows on %d of %d devices, sums: %s\n", request->model,
           (long long)batch_for(self, devices), devices, self->device_count,
           summing_name(request->algorithm));
    report_step(forecast, &traffic);
  }
  tdm_forecast_release(forecast);
  model_close(&model);
  return status;
}

static tdm_status forecast_algorithm(const forecaster *self, int devices, int algorithm,
                                     double *out_step_ns) {
  opened_model model;
  tdm_status status = plan_for(self, devices, algorithm, &model);
  if (status != TDM_OK) return status;
  tdm_forecast *forecast = NULL;
  status = forecast_with(self, model.session, &forecast);
  if (status == TDM_OK) *out_step_ns = forecast->step_ns;
  tdm_forecast_release(forecast);
  model_close(&model);
  return status;
}

static tdm_status fill_row(const forecaster *self, int devices, scaling_row *row) {
  *row = (scaling_row){.devices = devices, .batch = batch_for(self, devices)};
  for (int algorithm = 0; algorithm < SUMMING_ALGORITHMS; algorithm++) {
    const tdm_status status =
        forecast_algorithm(self, devices, algorithm, &row->step_ns[algorithm]);
    if (status != TDM_OK) return status;
  }
  return TDM_OK;
}

static tdm_status tell_scaling(const forecaster *self) {
  scaling_row rows[MOST_ROWS];
  size_t count = 0;
  for (int devices = 1; devices <= self->device_count; devices *= 2) {
    const tdm_status status = fill_row(self, devices, &rows[count++]);
    if (status != TDM_OK) return status;
  }
  if (self->json) {
    report_scaling_json(rows, count, self->json);
  } else {
    report_scaling(rows, count);
  }
  return TDM_OK;
}

static int count_described(const tdm_context *context) {
  int count = 0;
  for (size_t i = 0; i < tdm_device_count(context); i++)
    count += strncmp(tdm_device_name_at(context, i), "paper:", 6) == 0;
  return count;
}

static tdm_status open(forecaster *self) {
  tdm_context_options options = tdm_context_options_default();
  options.cpu_devices = 1;
  options.machine = self->request->machine;
  self->context = tdm_context_create(&options);
  if (!self->context) return TDM_UNAVAILABLE;
  self->device_count = count_described(self->context);
  if (self->request->devices > self->device_count)
    return tdm_fail(TDM_INVALID_ARGUMENT, "--devices %d: the machine has %d",
                    (int)self->request->devices, self->device_count);
  self->costs = tdm_costs_create(self->context);
  if (!self->costs) return TDM_OUT_OF_MEMORY;
  return self->request->costs ? tdm_costs_load(self->costs, self->request->costs) : TDM_OK;
}

static tdm_status tell(const forecaster *self) {
  if (self->request->ranks > 0)
    return tell_ranks(self->request, self->context, self->costs, self->device_count, self->json);
  const tdm_status status = tell_step(self);
  return status == TDM_OK && !model_is_placed(self->request->model) ? tell_scaling(self) : status;
}

static int run(const void *given) {
  tdm_json_writer json;
  forecaster self = {.request = given};
  if (!self.request->machine) {
    fprintf(stderr, "tandem forecast: missing --machine FILE; see --help\n");
    return BAD_USAGE;
  }
  tdm_status status = open(&self);
  if (status == TDM_OK && self.request->json) {
    self.json = &json;
    tool_json_begin(&json);
    json.digits = 15; /* links carry more bytes than nine digits show */
    status = tell(&self);
    if (status == TDM_OK) status = tool_json_end(&json);
  } else if (status == TDM_OK) {
    status = tell(&self);
  }
  tdm_costs_release(self.costs);
  tdm_context_release(self.context);
  return tool_ended(&forecast_tool, status);
}

const tool forecast_tool = {"forecast",
                            "what a training step would take on a machine that is described",
                            &forecast_table, run};
