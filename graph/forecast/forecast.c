/* Forecasts a session's latest plan: combines its parts and returns the result. Invariant: nothing
 * of the plan or the session is changed. */
#include "graph/forecast/forecast.h"

#include <string.h>

#include "core/options.h"
#include "devices/network/network.h"
#include "graph/run/session.h"

#define NONE TDM_VIRTUAL_NONE

/* ---- Allocation ------------------------------------------------------------------------------ */

static void *take(tdm_forecasting *state, size_t count, size_t bytes) {
  return tdm_region_take(&state->region, (count + 1) * bytes, "forecast");
}

/* Allocates the arrays of a rank. The steps of identical ranks use the times of the first one. */
static tdm_status make_rank_room(tdm_forecasting *state, uint32_t index) {
  tdm_forecast_rank *rank = &state->ranks[index];
  if (!state->is_job) rank->lowered = &state->plan->lowered;
  const size_t steps = rank->lowered->schedule.step_count;
  const bool shares = index > 0 && !state->is_job;
  rank->task_of = take(state, steps, sizeof *rank->task_of);
  rank->queue_of = take(state, rank->lowered->schedule.queue_count, sizeof *rank->queue_of);
  rank->step_ns = shares ? state->ranks[0].step_ns : take(state, steps, sizeof *rank->step_ns);
  rank->crowded = shares ? state->ranks[0].crowded : take(state, steps, sizeof *rank->crowded);
  const bool made = rank->task_of && rank->queue_of && rank->step_ns && rank->crowded;
  return made ? TDM_OK : TDM_OUT_OF_MEMORY;
}

static tdm_status make_room(tdm_forecasting *state) {
  const size_t devices = tdm_device_count(state->plan->graph.context);
  const size_t machine_links = state->machine ? tdm_machine_link_count(state->machine) : 0;
  size_t queues = 0;
  for (uint32_t r = 0; r < state->rank_count; r++) {
    TDM_TRY(make_rank_room(state, r));
    queues += state->ranks[r].lowered->schedule.queue_count + devices;
  }
  /* Counts the queues of the plan and of its network for every rank, the devices' meetings, and the
   * barrier between the phases. */
  const size_t queue_names = queues + devices + 1;
  const size_t ports = 3 * (size_t)state->rank_count;
  const size_t pairs = (size_t)state->rank_count * state->rank_count;
  const size_t links = machine_links + devices * devices + ports + pairs;
  state->pair_link_of = take(state, devices * devices, sizeof *state->pair_link_of);
  state->port_of = take(state, ports, sizeof *state->port_of);
  state->both_ways_of = take(state, pairs, sizeof *state->both_ways_of);
  state->queue_names = take(state, queue_names, sizeof *state->queue_names);
  state->link_names = take(state, links, sizeof *state->link_names);
  if (!state->pair_link_of || !state->port_of || !state->both_ways_of || !state->queue_names ||
      !state->link_names)
    return TDM_OUT_OF_MEMORY;
  memset(state->pair_link_of, 0xff, devices * devices * sizeof *state->pair_link_of);
  memset(state->port_of, 0xff, ports * sizeof *state->port_of);
  memset(state->both_ways_of, 0xff, pairs * sizeof *state->both_ways_of);
  return TDM_OK;
}

/* Finds the ranks that are simulated, and their steps. */
static tdm_status find_ranks(tdm_forecasting *state) {
  state->is_job = tdm_context_rank_count(state->plan->graph.context) > 1;
  if (state->is_job) {
    state->alike.ranks = state->alike.simulated = 1;
    return tdm_job_find(state);
  }
  TDM_TRY(tdm_alike_find(state));
  state->rank_count = state->alike.simulated;
  state->ranks = take(state, state->rank_count, sizeof *state->ranks);
  return state->ranks ? TDM_OK : TDM_OUT_OF_MEMORY;
}

/* Collects everything that the simulation needs; in a job also from the other ranks. */
static tdm_status prepare(tdm_forecasting *state) {
  TDM_TRY(find_ranks(state));
  TDM_TRY(make_room(state));
  TDM_TRY(tdm_alike_begin(state));
  state->rank = (uint32_t)tdm_context_rank(state->plan->graph.context);
  return tdm_forecast_price(state);
}

/* ---- Simulating ------------------------------------------------------------------------------ */

static tdm_status simulate(tdm_forecasting *state) {
  const tdm_status prepared = prepare(state);
  TDM_TRY(state->is_job ? tdm_job_tell_prices(state, prepared) : prepared);
  TDM_TRY(tdm_forecast_add_main(state));
  TDM_TRY(state->is_job ? tdm_job_join(state) : tdm_job_join_sums(state));
  TDM_TRY(tdm_forecast_add_update(state));
  return tdm_virtual_run(&state->schedule);
}

/* ---- Results --------------------------------------------------------------------------------- */

/* The result and its lists in one block: queues and links follow the forecast. */
typedef struct block {
  tdm_forecast forecast; /* must be the first field */
  tdm_allocator allocator;
  size_t bytes;
} block;

static void tell_queues(const tdm_forecasting *state, tdm_forecast *forecast) {
  for (size_t q = 0; q < state->schedule.queue_count; q++) {
    const tdm_virtual_queue *queue = &state->schedule.queues[q];
    if (!(queue->busy_ns > 0)) continue;
    tdm_forecast_queue *told = &forecast->queues[forecast->queue_count++];
    memcpy(told->name, state->queue_names[q], sizeof told->name);
    told->busy_ns = queue->busy_ns;
    told->critical_ns = queue->critical_ns;
  }
}

static void tell_links(const tdm_forecasting *state, tdm_forecast *forecast) {
  for (size_t l = 0; l < state->schedule.link_count; l++) {
    const tdm_virtual_link *link = &state->schedule.links[l];
    if (link->copy_count == 0) continue;
    tdm_forecast_link *told = &forecast->links[forecast->link_count++];
    memcpy(told->name, state->link_names[l], sizeof told->name);
    told->bytes = link->bytes;
    told->busy_ns = link->busy_ns;
    told->critical_ns = link->critical_ns;
    told->copies = link->copy_count;
  }
}

static tdm_status tell(const tdm_forecasting *state, tdm_forecast **out_forecast) {
  const size_t queue_bytes = state->schedule.queue_count * sizeof(tdm_forecast_queue);
  const size_t link_bytes = state->schedule.link_count * sizeof(tdm_forecast_link);
  const size_t bytes = sizeof(block) + queue_bytes + link_bytes;
  const tdm_allocator *allocator = state->schedule.allocator;
  block *made = tdm_allocate(allocator, bytes, "forecast");
  if (!made) return TDM_OUT_OF_MEMORY;
  made->allocator = *allocator;
  made->bytes = bytes;
  tdm_forecast *forecast = &made->forecast;
  forecast->queues = (tdm_forecast_queue *)(made + 1);
  forecast->links = (tdm_forecast_link *)((char *)(made + 1) + queue_bytes);
  forecast->step_ns = state->schedule.end_ns;
  forecast->room_bytes = state->machine ? state->machine->device.memory_bytes : 0;
  forecast->ranks = state->is_job ? state->rank_count : state->alike.ranks;
  forecast->simulated_ranks = state->rank_count;
  forecast->measured_kernels = state->measured_kernels;
  forecast->modelled_kernels = state->modelled_kernels;
  tell_queues(state, forecast);
  tell_links(state, forecast);
  *out_forecast = forecast;
  return TDM_OK;
}

void tdm_forecast_release(tdm_forecast *forecast) {
  if (!forecast) return;
  block *made = (block *)forecast;
  const tdm_allocator allocator = made->allocator;
  tdm_release(&allocator, made, made->bytes);
}

/* ---- The call -------------------------------------------------------------------------------- */

static tdm_status forecast_plan(const tdm_plan *plan, const tdm_forecast_options *options,
                                tdm_forecast **out_forecast) {
  tdm_forecasting state = {
      .plan = plan, .options = options, .machine = tdm_context_machine(plan->graph.context)};
  tdm_region_init(&state.region, plan->graph.allocator);
  tdm_virtual_init(&state.schedule, plan->graph.allocator);
  tdm_status status = simulate(&state);
  if (status == TDM_OK) status = tell(&state, out_forecast);
  for (uint32_t r = 0; state.lowered && r < state.rank_count; r++)
    tdm_lowered_deinit(&state.lowered[r]);
  tdm_virtual_deinit(&state.schedule);
  tdm_region_deinit(&state.region);
  return status;
}

tdm_status tdm_session_forecast(tdm_session *session, const tdm_forecast_options *options,
                                tdm_forecast **out_forecast) {
  tdm_forecast_options read;
  if (!out_forecast)
    return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_session_forecast: no place for the answer");
  *out_forecast = NULL;
  TDM_TRY(TDM_OPTIONS_READ("tdm_session_forecast", forecast, options, &read));
  options = &read;
  if (!session) return tdm_fail(TDM_INVALID_ARGUMENT, "forecast: no session");
  TDM_TRY(tdm_context_check(session->context));
  (void)pthread_mutex_lock(&session->lock);
  const tdm_plan *plan = session->last_asked;
  tdm_status status =
      plan ? TDM_OK : tdm_fail(TDM_INVALID_ARGUMENT, "the session has made no plan yet");
  tdm_network *network = tdm_context_network(session->context);
  const char *before = tdm_network_intend(network, "forecast");
  if (network) status = tdm_network_agree(network, status);
  if (status == TDM_OK) status = forecast_plan(plan, options, out_forecast);
  (void)tdm_network_intend(network, before);
  (void)pthread_mutex_unlock(&session->lock);
  return status;
}
