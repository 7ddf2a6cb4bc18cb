/* The scaling of equal ranks: the plan of one rank, forecast as one of 1, 2, 4, ... */
#include "tools/forecast/ranks.h"

#include <stdio.h>
#include <time.h>

#include "tools/forecast/models.h"

typedef struct rank_row {
  int ranks;
  int64_t batch; /* rows of all ranks */
  double step_ns;
  double held_bytes; /* memory used on the device that uses most */
  double room_bytes; /* memory of a device; 0: unknown */
  char busiest[56];  /* link */
  double busiest_ns;
} rank_row;

static double most_held(const opened_model *model, int devices) {
  double most = 0;
  for (int i = 0; i < devices; i++) {
    char device[24];
    tdm_memory_use use;
    (void)snprintf(device, sizeof device, "paper:%d", i);
    if (tdm_session_memory(model->session, device, &use) != TDM_OK) continue;
    const double held =
        (double)use.parameters_bytes + (double)use.copies_bytes + (double)use.activations_bytes;
    if (held > most) most = held;
  }
  return most;
}

static void note_busiest(const tdm_forecast *forecast, rank_row *row) {
  for (size_t i = 0; i < forecast->link_count; i++) {
    if (forecast->links[i].busy_ns <= row->busiest_ns) continue;
    row->busiest_ns = forecast->links[i].busy_ns;
    (void)snprintf(row->busiest, sizeof row->busiest, "%s", forecast->links[i].name);
  }
}

static tdm_status forecast_ranks(const forecast_request *request, tdm_context *context,
                                 const tdm_costs *costs, int width, rank_row *row) {
  opened_model model;
  const model_request wanted = {.name = request->model,
                                .front = "paper:0",
                                .body = "paper:0",
                                .batch = row->batch / row->ranks,
                                .devices = width,
                                .alike_ranks = row->ranks};
  tdm_status status = model_open(context, &wanted, &model);
  if (status != TDM_OK) return status;
  tdm_forecast *forecast = NULL;
  tdm_forecast_options options = tdm_forecast_options_default();
  options.costs = costs;
  status = model_prepare(&model);
  if (status == TDM_OK) status = tdm_session_forecast(model.session, &options, &forecast);
  if (status == TDM_OK) {
    row->step_ns = forecast->step_ns;
    row->room_bytes = forecast->room_bytes;
    row->held_bytes = most_held(&model, width);
    note_busiest(forecast, row);
  }
  tdm_forecast_release(forecast);
  model_close(&model);
  return status;
}

static void print_head(const forecast_request *request, int width) {
  printf("%s, %lld rows %s, ranks of %d %s\n\n", request->model, (long long)request->batch,
         request->per_device ? "a rank" : "in all", width, width == 1 ? "device" : "devices");
  printf("  %6s %9s %12s %9s %6s %9s  %s\n", "ranks", "rows", "step us", "x", "of k", "GB held",
         "busiest link");
}

static void print_row(const rank_row *first, const rank_row *row) {
  const double faster = first->step_ns / row->step_ns * (double)row->batch / (double)first->batch;
  const bool fits = row->room_bytes <= 0 || row->held_bytes <= row->room_bytes;
  printf("  %6d %9lld %12.1f %9.2f %5.1f%% %9.3f%c %s", row->ranks, (long long)row->batch,
         row->step_ns / 1e3, faster, 100 * faster / row->ranks, row->held_bytes / 1e9,
         fits ? ' ' : '!', row->busiest);
  if (row->busiest_ns > 0) printf(", %.0f%% of the step", 100 * row->busiest_ns / row->step_ns);
  printf("\n");
}

static double now_s(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void put_row(const rank_row *row, tdm_json_writer *json) {
  tdm_json_open(json, NULL, '{');
  tdm_json_put_integer(json, "ranks", row->ranks);
  tdm_json_put_integer(json, "rows", row->batch);
  tdm_json_put_real(json, "step_ns", row->step_ns);
  tdm_json_put_real(json, "held_bytes", row->held_bytes);
  tdm_json_put_real(json, "room_bytes", row->room_bytes);
  tdm_json_put_string(json, "busiest_link", row->busiest);
  tdm_json_put_real(json, "busiest_ns", row->busiest_ns);
  tdm_json_close(json, '}');
}

static tdm_status tell_rows(const forecast_request *request, tdm_context *context,
                            const tdm_costs *costs, int width, tdm_json_writer *json) {
  rank_row first = {0};
  for (int ranks = 1; ranks <= request->ranks; ranks *= 2) {
    rank_row row = {.ranks = ranks, .batch = request->batch};
    if (request->per_device) row.batch *= ranks;
    if (row.batch < ranks) break; /* a rank has a row */
    const tdm_status status = forecast_ranks(request, context, costs, width, &row);
    if (status != TDM_OK) return status;
    if (ranks == 1) first = row;
    if (json) {
      put_row(&row, json);
    } else {
      print_row(&first, &row);
      fflush(stdout);
    }
  }
  return TDM_OK;
}

tdm_status tell_ranks(const forecast_request *request, tdm_context *context, const tdm_costs *costs,
                      int devices, tdm_json_writer *json) {
  const int host_devices = request->devices ? (int)request->devices : devices;
  const int width = model_is_placed(request->model) ? host_devices : 1;
  if (json) {
    tdm_json_put_string(json, "model", request->model);
    tdm_json_put_integer(json, "devices_of_a_rank", width);
    tdm_json_open(json, "scaling", '[');
    const tdm_status status = tell_rows(request, context, costs, width, json);
    tdm_json_close(json, ']');
    return status;
  }
  const double began_s = now_s();
  print_head(request, width);
  const tdm_status status = tell_rows(request, context, costs, width, NULL);
  if (status != TDM_OK) return status;
  printf("\n  x: rows a second against one rank; of k: of as many times that as there are ranks.\n"
         "  GB held: by the device with most parameters, states and activations; !: more than it "
         "has.\n"
         "found in %.1f s\n",
         now_s() - began_s);
  return TDM_OK;
}
