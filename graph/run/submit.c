/* The public functions to run: blocking, and on the loop. Invariant: a run that was started ends
 * exactly once. A blocking caller waits only for its own run, never for the loop. */
#include <string.h>
#include <unistd.h>

#include "core/last_failure.h"
#include "core/options.h"
#include "core/park.h"
#include "devices/staging/staged_memory.h"
#include "graph/run/life.h"
#include "graph/run/sequence.h"

#define SPIN_NS 50000 /* longest spin: about the cost of parking and waking */
#define ALONE_NS 2000 /* spinning longer, it yields to threads on the same core */

/* ---- Waiting --------------------------------------------------------------------------------- */

static void wait_by_spinning(tdm_context *context, _Atomic uint32_t *flag) {
  const uint64_t begin = tdm_time_ns();
  for (unsigned spins = 1; !atomic_load_explicit(flag, memory_order_acquire); spins++) {
    tdm_spin_pause();
    if (spins % 64 != 0) continue;
    const uint64_t spun_ns = tdm_time_ns() - begin;
    if (spun_ns > SPIN_NS) break;
    if (spun_ns > ALONE_NS && !tdm_context_yield(context, begin + spun_ns)) break;
  }
}

/* Executes the network's queues meanwhile, because messages may set the flag. */
static void wait_for(tdm_context *context, uint32_t bell, _Atomic uint32_t *flag) {
  tdm_attendance wait = {.has_cores = false};
  while (!atomic_load_explicit(flag, memory_order_acquire) && tdm_context_attend(context, &wait))
    continue;
  tdm_context_attend_leave(context, &wait);
  wait_by_spinning(context, flag);
  tdm_doorbell *doorbell = tdm_context_bell(context, bell);
  while (!atomic_load(flag)) {
    const uint32_t seen = tdm_doorbell_read(doorbell);
    if (!atomic_load(flag)) tdm_doorbell_park(doorbell, seen, -1);
  }
  tdm_context_attend_end(context, &wait);
}

/* Runs to the end on the calling thread, or waits for the thread that runs it. */
static void run_to_end(tdm_run_state *run) {
  tdm_session *session = run->session;
  run->bell = tdm_context_bell_acquire(session->context);
  if (!tdm_store_enter(session->store, &run->admission))
    wait_for(session->context, run->bell, &run->granted);
  tdm_run_launch(run, true);
  if (!atomic_load_explicit(&run->done, memory_order_acquire))
    wait_for(session->context, run->bell, &run->done);
  tdm_context_bell_release(session->context, run->bell);
}

/* ---- Blocking runs --------------------------------------------------------------------------- */

tdm_status tdm_run_check_request(const tdm_session *session, const tdm_run_request *request,
                                 const char *function) {
  if (!session) return tdm_fail(TDM_INVALID_ARGUMENT, "%s: no session", function);
  if ((request->feed_count && !request->feeds) || (request->fetch_count && !request->fetches))
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: a count without its list", function);
  return TDM_OK;
}

/* Runs to the end, and passes the requested results to the caller. */
static tdm_status run_opened(tdm_run_state *run, const tdm_run_request *request, tdm_fetch *fetches,
                             double *out_loss) {
  run_to_end(run);
  if (run->status != TDM_OK) return tdm_fail(run->status, "%s", run->message);
  tdm_run_show(run);
  for (size_t i = 0; i < request->fetch_count; i++) {
    fetches[i].tensor = run->outputs[i];
    run->outputs[i] = NULL;
  }
  if (out_loss) *out_loss = tdm_run_loss(run);
  return TDM_OK;
}

/* Runs the request once. Sets *out_ran to true if the request could be planned, and *out_again to
 * true if the run failed and may be repeated at once. */
static tdm_status run_once(tdm_session *session, const tdm_run_request *request, tdm_fetch *fetches,
                           double *out_loss, bool *out_ran, bool *out_again) {
  tdm_run_state *run;
  *out_ran = *out_again = false;
  TDM_TRY(tdm_run_open(session, request, &run));
  const tdm_status status = run_opened(run, request, fetches, out_loss);
  *out_ran = true;
  *out_again = tdm_run_note_parts(run);
  tdm_run_close(run);
  return status;
}

/* If it works with another number of parts, the caller sees no failure. If no other number can be
 * planned, the failure of the preceding run is reported. */
static tdm_status run_tuned(tdm_session *session, const tdm_run_request *request,
                            tdm_fetch *fetches, double *out_loss) {
  tdm_last_failure before, latest;
  tdm_last_failure_keep(&before);
  bool ran, again;
  tdm_status status = run_once(session, request, fetches, out_loss, &ran, &again);
  if (!again) return status;
  for (int left = TDM_MICRO_NUMBERS - 1; again && left > 0; left--) {
    tdm_last_failure_keep(&latest);
    status = run_once(session, request, fetches, out_loss, &ran, &again);
  }
  if (!ran) tdm_last_failure_restore(&latest);
  if (!ran) return latest.status;
  if (status == TDM_OK) tdm_last_failure_restore(&before);
  return status;
}

static tdm_status run_blocking(tdm_session *session, const tdm_run_request *request,
                               tdm_fetch *fetches, double *out_loss) {
  if (!tdm_context_enter(session->context)) return tdm_context_refuse(session->context);
  bool ran, again;
  const tdm_status status = session->tunes
                                ? run_tuned(session, request, fetches, out_loss)
                                : run_once(session, request, fetches, out_loss, &ran, &again);
  tdm_context_leave(session->context);
  return status;
}

tdm_status tdm_run(tdm_session *session, const tdm_feed *feeds, size_t feed_count,
                   tdm_fetch *fetches, size_t fetch_count) {
  const tdm_run_request request = {feeds, feed_count, fetches, fetch_count, false, NULL};
  TDM_TRY(tdm_run_check_request(session, &request, "tdm_run"));
  for (size_t i = 0; i < fetch_count; i++)
    fetches[i].tensor = NULL;
  return run_blocking(session, &request, fetches, NULL);
}

tdm_tensor *tdm_run_output(tdm_session *session, const tdm_feed *feeds, size_t feed_count,
                           const char *output) {
  tdm_fetch fetch = {output, NULL};
  return tdm_run(session, feeds, feed_count, &fetch, 1) == TDM_OK ? fetch.tensor : NULL;
}

tdm_status tdm_sequence_run(tdm_sequence *sequence, const tdm_feed *feeds, size_t feed_count,
                            tdm_fetch *fetches, size_t fetch_count) {
  tdm_session *session = sequence ? tdm_sequence_session(sequence) : NULL;
  const tdm_run_request request = {feeds, feed_count, fetches, fetch_count, false, sequence};
  if (!sequence) return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_sequence_run: no sequence");
  TDM_TRY(tdm_run_check_request(session, &request, "tdm_sequence_run"));
  for (size_t i = 0; i < fetch_count; i++)
    fetches[i].tensor = NULL;
  return run_blocking(session, &request, fetches, NULL);
}

tdm_status tdm_train_step(tdm_session *session, const tdm_feed *feeds, size_t feed_count,
                          tdm_fetch *fetches, size_t fetch_count, double *out_loss) {
  const tdm_run_request request = {feeds, feed_count, fetches, fetch_count, true, NULL};
  TDM_TRY(tdm_run_check_request(session, &request, "tdm_train_step"));
  for (size_t i = 0; i < fetch_count; i++)
    fetches[i].tensor = NULL;
  return run_blocking(session, &request, fetches, out_loss);
}

/* ---- On the loop ----------------------------------------------------------------------------- */

/* Passes the result to the user and releases the run. On the loop's thread. */
static void deliver(tdm_loop_task *task) {
  tdm_run_state *run = (tdm_run_state *)((char *)task - offsetof(tdm_run_state, task));
  tdm_session *session = run->session;
  tdm_plan *plan = run->plan;
  tdm_context *context = tdm_context_retain(session->context);
  tdm_loop_timer_stop(tdm_context_loop(context), &run->deadline);
  tdm_run_leave_sequence(run); /* left first, so that the callback may submit the next run */
  const bool makes_room = tdm_run_table_remove(&session->runs, run->id); /* no longer found by its
                                                                          * id */
  const size_t fetch_count = plan->target_count - plan->training;
  tdm_run_result result = {
      .run_id = run->id, .status = run->status, .message = run->message, .fetches = run->fetches};
  if (run->status == TDM_OK) {
    tdm_run_show(run);
    result.fetch_count = fetch_count;
    if (plan->training) result.loss = tdm_run_loss(run);
    for (size_t i = 0; i < fetch_count; i++) {
      run->fetches[i].tensor = run->outputs[i];
      run->outputs[i] = NULL;
    }
  }
  (void)tdm_run_note_parts(run); /* noted first, so that runs submitted by the callback are cut
                                  * differently */
  run->callback(run->user, &result);
  tdm_run_close(run);
  if (makes_room && session->writable) session->writable(session->writable_user);
  tdm_session_drop(session);
  tdm_loop_unhold(tdm_context_loop(context)); /* the loop may be closed when no run is inside */
  tdm_context_leave(context);
  tdm_context_release(context);
}

void tdm_run_complete(tdm_run_state *run) {
  tdm_context *context = run->session->context;
  if (run->asynchronous) {
    tdm_loop_post(tdm_context_loop(context), &run->task);
    return;
  }
  tdm_doorbell *bell = tdm_context_bell(context, run->bell);
  atomic_store(&run->done, 1);
  tdm_doorbell_ring(bell);
}

/* Copies an input, to pinned memory if the input is pinned, because the plan relies on it. */
static tdm_status copy_input(const tdm_run_state *run, const tdm_tensor *tensor,
                             tdm_tensor **out_copy) {
  const bool pinned = tdm_memory_is_pinned(&tensor->storage->memory);
  tdm_device *partner = pinned ? run->plan->partner : NULL;
  tdm_storage *storage;
  *out_copy = NULL;
  TDM_TRY(tdm_storage_create(run->session->context, tdm_tensor_owner(tensor), partner,
                             tensor->bytes, &storage));
  tdm_status status = partner ? tdm_run_check_pinned(run, &storage->memory) : TDM_OK;
  if (status == TDM_OK)
    status = tdm_tensor_over(storage, 0, tensor->dtype, &tensor->shape, out_copy);
  tdm_storage_release(storage); /* now owned by the copy */
  if (status == TDM_OK && tensor->bytes > 0)
    memcpy(tdm_tensor_data(*out_copy), tdm_tensor_data(tensor), tensor->bytes);
  return status;
}

/* Makes the run own its inputs: by a copy, or by taking over the tensor. */
static tdm_status keep_inputs(tdm_run_state *run) {
  for (size_t i = 0; i < run->plan->graph.inputs.count; i++) {
    tdm_run_input *input = &run->inputs[i];
    tdm_tensor *tensor = input->tensor;
    tdm_status status = TDM_OK;
    if (input->handed_over || !tdm_tensor_owner(tensor)->host_addressable)
      input->tensor = tdm_tensor_retain(tensor);
    else
      status = copy_input(run, tensor, &input->tensor);
    if (status == TDM_OK) continue;
    while (i-- > 0)
      tdm_tensor_release(run->inputs[i].tensor);
    return status;
  }
  return TDM_OK;
}

/* Returns the time of the deadline in tdm_time_ns; 0: never. */
static uint64_t due_of(const tdm_submit_options *options) {
  if (options->deadline_ns == TDM_NO_DEADLINE) return 0;
  const uint64_t now_ns = tdm_time_ns();
  if (options->deadline_ns > UINT64_MAX - now_ns) return 0;
  return now_ns + options->deadline_ns;
}

/* Makes the run independent of its caller: it owns its inputs, and has an id. */
static tdm_status make_asynchronous(tdm_run_state *run) {
  tdm_status status = keep_inputs(run);
  if (status == TDM_OK) {
    run->asynchronous = true; /* asynchronous, so that its inputs are released */
    status = tdm_run_table_add(&run->session->runs, run, &run->id);
  }
  if (status != TDM_OK) tdm_run_give_up(run->session, status);
  return status;
}

static void start_submitted(tdm_run_state *run, const tdm_run_request *request,
                            const tdm_submit_options *options, uint64_t due_ns) {
  tdm_session *session = run->session;
  run->callback = options->callback;
  run->user = options->user;
  memset(&run->task, 0, sizeof run->task);
  run->task.run = deliver;
  const uint64_t *outputs = run->plan->key.words + 1;
  for (size_t i = 0; i < request->fetch_count; i++)
    run->fetches[i] = (tdm_fetch){session->graph->described->outputs.items[outputs[i]].name, NULL};
  tdm_session_hold(session);
  tdm_loop_hold(tdm_context_loop(session->context));
  run->due_ns = due_ns;
  if (run->due_ns != 0) tdm_run_watch_deadline(run);
  if (tdm_run_enter(run)) tdm_run_launch(run, false);
}

static tdm_status submit(tdm_session *session, const tdm_run_request *request,
                         const tdm_submit_options *options, uint64_t *out_run_id) {
  const uint64_t due_ns = due_of(options); /* includes the time of planning */
  if (!options->callback) return tdm_fail(TDM_INVALID_ARGUMENT, "a submission without a callback");
  if (!tdm_context_enter(session->context)) return tdm_context_refuse(session->context);
  tdm_run_state *run = NULL;
  tdm_status status = tdm_run_table_check(&session->runs);
  if (status == TDM_OK) status = tdm_run_open(session, request, &run);
  if (status == TDM_OK) status = make_asynchronous(run);
  if (status == TDM_OK) {
    if (out_run_id) *out_run_id = run->id;
    start_submitted(run, request, options, due_ns);
    return TDM_OK; /* the run leaves the context after its delivery */
  }
  if (run) {
    run->status = status; /* status of a run that was never started */
    tdm_run_close(run);
  }
  tdm_context_leave(session->context);
  return status;
}

static tdm_status check_sequence(const tdm_session *session, const tdm_submit_options *options) {
  if (!options->sequence) return TDM_OK;
  if (options->training)
    return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_submit_with: runs of a sequence do not train");
  if (tdm_sequence_session(options->sequence) == session) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_submit_with: the sequence is of another session");
}

tdm_status tdm_submit_with(tdm_session *session, const tdm_submit_options *options,
                           const tdm_feed *feeds, size_t feed_count, const tdm_fetch *fetches,
                           size_t fetch_count, uint64_t *out_run_id) {
  if (out_run_id) *out_run_id = 0;
  if (!options) return tdm_fail_null("tdm_submit_with: the options");
  tdm_submit_options read;
  TDM_TRY(TDM_OPTIONS_READ("tdm_submit_with", submit, options, &read));
  if (read.deadline_ns == 0)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "tdm_submit_with: deadline_ns is 0, expected at least 1, or TDM_NO_DEADLINE");
  const tdm_run_request request = {feeds,       feed_count,    fetches,
                                   fetch_count, read.training, read.sequence};
  TDM_TRY(tdm_run_check_request(session, &request, "tdm_submit_with"));
  TDM_TRY(check_sequence(session, &read));
  return submit(session, &request, &read, out_run_id);
}

tdm_status tdm_submit(tdm_session *session, bool training, const tdm_feed *feeds, size_t feed_count,
                      const tdm_fetch *fetches, size_t fetch_count, tdm_run_callback callback,
                      void *user) {
  const tdm_run_request request = {feeds, feed_count, fetches, fetch_count, training, NULL};
  tdm_submit_options options = tdm_submit_options_default();
  options.training = training;
  options.callback = callback;
  options.user = user;
  TDM_TRY(tdm_run_check_request(session, &request, "tdm_submit"));
  return submit(session, &request, &options, NULL);
}
