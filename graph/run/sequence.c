/* Sequences: state between runs, which one run at a time claims. */
#include "graph/run/sequence.h"

#include <string.h>

#include "devices/tensors/tensor.h"

struct tdm_sequence {
  _Atomic uint32_t references;
  tdm_session *session; /* retained */
  _Atomic bool claimed;
  size_t broken;   /* number of values to set again since a run failed; 0: all are valid */
  bool *set;       /* (count): set again since then */
  tdm_feed *feeds; /* (count) */
  size_t count;    /* number of kept values of the session's graph */
};

/* ---- Claims ---------------------------------------------------------------------------------- */

tdm_status tdm_sequence_claim(tdm_sequence *sequence, bool for_run) {
  if (atomic_exchange(&sequence->claimed, true))
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "a run of the sequence is in flight, and the next begins where it ends");
  if (!for_run || sequence->broken == 0) return TDM_OK;
  tdm_sequence_unclaim(sequence);
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "a run of the sequence has failed while it kept its values: reset it, or set all "
                  "of them");
}

void tdm_sequence_unclaim(tdm_sequence *sequence) {
  atomic_store(&sequence->claimed, false);
}

const tdm_feed *tdm_sequence_feed(const tdm_sequence *sequence, size_t k) {
  return &sequence->feeds[k];
}

static void break_values(tdm_sequence *sequence) {
  sequence->broken = sequence->count;
  memset(sequence->set, 0, sequence->count * sizeof *sequence->set);
}

void tdm_run_leave_sequence(tdm_run_state *run) {
  tdm_sequence *sequence = run->sequence;
  if (!sequence) return;
  run->sequence = NULL;
  const tdm_lowered *lowered = &run->plan->lowered;
  const uint32_t id = run->flight.failure.id;
  if (run->status != TDM_OK && atomic_load(&run->flight.failed) && id >= lowered->first_update &&
      id < lowered->schedule.step_count)
    break_values(sequence);
  tdm_sequence_unclaim(sequence);
  tdm_sequence_release(sequence);
}

/* ---- Creation and release -------------------------------------------------------------------- */

tdm_session *tdm_sequence_session(const tdm_sequence *sequence) {
  return sequence->session;
}

static const tdm_ir_value *kept_at(const tdm_sequence *sequence, size_t k) {
  const tdm_graph *graph = sequence->session->graph;
  return tdm_ir_value_at(graph, graph->kepts.items[k].value);
}

static tdm_status check_session(const tdm_session *session) {
  if (tdm_context_rank_count(session->context) > 1)
    return tdm_fail(TDM_UNSUPPORTED, "tdm_sequence_create: a job of several ranks keeps nothing "
                                     "between runs");
  if (session->batching.count > 1)
    return tdm_fail(TDM_UNSUPPORTED, "tdm_sequence_create: the session cuts batches into "
                                     "micro-batches, which cannot keep values one after the other");
  return TDM_OK;
}

static tdm_status make_values(tdm_sequence *sequence) {
  const tdm_session *session = sequence->session;
  for (size_t k = 0; k < sequence->count; k++) {
    const tdm_ir_value *value = kept_at(sequence, k);
    const char *device =
        tdm_context_device(session->context, (size_t)session->kept_devices[k])->name;
    sequence->feeds[k] =
        (tdm_feed){.name = value->name,
                   .tensor = tdm_tensor_zeros(session->context, device, value->spec->dtype,
                                              value->spec->shape),
                   .handed_over = true};
    if (!sequence->feeds[k].tensor) return TDM_OUT_OF_MEMORY;
  }
  return TDM_OK;
}

tdm_sequence *tdm_sequence_create(tdm_session *session) {
  if (!session) {
    (void)tdm_fail_null("tdm_sequence_create: the session");
    return NULL;
  }
  if (tdm_context_check(session->context) != TDM_OK || check_session(session) != TDM_OK)
    return NULL;
  const size_t count = session->graph->kepts.count;
  tdm_sequence *sequence = tdm_allocate(session->allocator, sizeof *sequence, "sequence");
  if (!sequence) return NULL;
  sequence->references = 1;
  sequence->session = tdm_session_retain(session);
  sequence->count = count;
  sequence->feeds =
      tdm_allocate(session->allocator, (count + 1) * sizeof *sequence->feeds, "sequence");
  sequence->set = tdm_allocate(session->allocator, (count + 1) * sizeof *sequence->set, "sequence");
  if (sequence->feeds && sequence->set && make_values(sequence) == TDM_OK) return sequence;
  tdm_sequence_release(sequence);
  return NULL;
}

tdm_sequence *tdm_sequence_retain(tdm_sequence *sequence) {
  if (sequence) atomic_fetch_add_explicit(&sequence->references, 1, memory_order_relaxed);
  return sequence;
}

void tdm_sequence_release(tdm_sequence *sequence) {
  if (!sequence || tdm_context_is_inherited(sequence->session->context)) return;
  if (atomic_fetch_sub(&sequence->references, 1) != 1) return;
  tdm_session *session = sequence->session;
  const size_t count = sequence->count + 1;
  for (size_t k = 0; sequence->feeds && k < sequence->count; k++)
    tdm_tensor_release(sequence->feeds[k].tensor);
  tdm_release(session->allocator, sequence->feeds, count * sizeof *sequence->feeds);
  tdm_release(session->allocator, sequence->set, count * sizeof *sequence->set);
  tdm_release(session->allocator, sequence, sizeof *sequence);
  tdm_session_release(session);
}

/* ---- Values outside of runs ------------------------------------------------------------------ */

/* Claims the sequence for a call that uses its values; the caller releases it. */
static tdm_status enter(tdm_sequence *sequence, const char *function) {
  if (!sequence) return tdm_fail(TDM_INVALID_ARGUMENT, "%s: no sequence", function);
  TDM_TRY(tdm_context_check(sequence->session->context));
  const tdm_status status = tdm_sequence_claim(sequence, false);
  return status == TDM_OK ? TDM_OK : tdm_fail_within(status, "%s", function);
}

static tdm_status find_kept(const tdm_sequence *sequence, const char *name, size_t *out_index) {
  for (size_t k = 0; name && k < sequence->count; k++)
    if (strcmp(kept_at(sequence, k)->name, name) == 0) {
      *out_index = k;
      return TDM_OK;
    }
  return tdm_fail(TDM_INVALID_ARGUMENT, "nothing that the graph keeps is called %s",
                  name ? name : "(null)");
}

static tdm_status copy_in(tdm_sequence *sequence, size_t k, tdm_tensor *from) {
  tdm_tensor *to = sequence->feeds[k].tensor;
  if (from->dtype != to->dtype || !tdm_shape_equal(&from->shape, &to->shape)) {
    char has[TDM_SHAPE_TEXT], wants[TDM_SHAPE_TEXT];
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s is %s %s, and the tensor %s %s",
                    sequence->feeds[k].name, tdm_dtype_name(to->dtype),
                    tdm_shape_text(&to->shape, wants, sizeof wants), tdm_dtype_name(from->dtype),
                    tdm_shape_text(&from->shape, has, sizeof has));
  }
  tdm_tensor *host = tdm_tensor_to(from, "cpu:0", from->dtype);
  if (!host) return TDM_OUT_OF_MEMORY;
  const tdm_status status = tdm_tensor_write(to, tdm_tensor_data(host), host->bytes);
  tdm_tensor_release(host);
  return status;
}

static void note_set(tdm_sequence *sequence, size_t k) {
  if (sequence->broken > 0 && !sequence->set[k]) sequence->broken--;
  sequence->set[k] = true;
}

tdm_status tdm_sequence_reset(tdm_sequence *sequence) {
  TDM_TRY(enter(sequence, "tdm_sequence_reset"));
  tdm_status status = TDM_OK;
  for (size_t k = 0; status == TDM_OK && k < sequence->count; k++) {
    const tdm_tensor *value = sequence->feeds[k].tensor;
    tdm_tensor *zeros =
        tdm_tensor_zeros(sequence->session->context, "cpu:0", value->dtype, value->shape);
    status = zeros ? copy_in(sequence, k, zeros) : TDM_OUT_OF_MEMORY;
    tdm_tensor_release(zeros);
  }
  if (status == TDM_OK)
    sequence->broken = 0;
  else
    break_values(sequence);
  tdm_sequence_unclaim(sequence);
  return status;
}

tdm_status tdm_sequence_get(tdm_sequence *sequence, const char *name, tdm_tensor **out_tensor) {
  if (!out_tensor)
    return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_sequence_get: no place for the answer");
  *out_tensor = NULL;
  TDM_TRY(enter(sequence, "tdm_sequence_get"));
  size_t k;
  tdm_status status = find_kept(sequence, name, &k);
  if (status == TDM_OK) {
    const tdm_tensor *value = sequence->feeds[k].tensor;
    *out_tensor =
        tdm_tensor_create(sequence->session->context, "cpu:0", value->dtype, value->shape);
    status = *out_tensor ? tdm_tensor_read(value, tdm_tensor_data(*out_tensor), value->bytes)
                         : TDM_OUT_OF_MEMORY;
  }
  if (status != TDM_OK) {
    tdm_tensor_release(*out_tensor);
    *out_tensor = NULL;
  }
  tdm_sequence_unclaim(sequence);
  return status;
}

tdm_status tdm_sequence_set(tdm_sequence *sequence, const char *name, tdm_tensor *tensor) {
  TDM_TRY(enter(sequence, "tdm_sequence_set"));
  size_t k;
  tdm_status status = find_kept(sequence, name, &k);
  if (status == TDM_OK && !tensor)
    status = tdm_fail(TDM_INVALID_ARGUMENT, "tdm_sequence_set: no tensor for %s", name);
  if (status == TDM_OK) status = copy_in(sequence, k, tensor);
  if (status == TDM_OK) note_set(sequence, k);
  tdm_sequence_unclaim(sequence);
  return status;
}

tdm_sequence *tdm_sequence_copy(tdm_sequence *sequence) {
  if (enter(sequence, "tdm_sequence_copy") != TDM_OK) return NULL;
  tdm_sequence *copy = tdm_sequence_create(sequence->session);
  tdm_status status = copy ? TDM_OK : TDM_OUT_OF_MEMORY;
  for (size_t k = 0; status == TDM_OK && k < sequence->count; k++)
    status = copy_in(copy, k, sequence->feeds[k].tensor);
  if (status == TDM_OK) {
    copy->broken = sequence->broken;
    memcpy(copy->set, sequence->set, sequence->count * sizeof *copy->set);
  } else {
    tdm_sequence_release(copy);
    copy = NULL;
  }
  tdm_sequence_unclaim(sequence);
  return copy;
}
