/* Resolves requests: names of inputs and outputs become indices, tensors become shapes and devices,
 * and all together the key of a plan. Invariant: the same key means the same plan, so a plan's key
 * can be resolved again. */
#include <string.h>

#include "core/hash.h"
#include "devices/staging/staged_memory.h"
#include "graph/ir/names.h"
#include "graph/ir/rewriter.h"
#include "graph/run/run.h"
#include "graph/run/sequence.h"

/* Checks `likely` first, because feeds are usually in the order of inputs. */
static tdm_status find_feed(const tdm_session *session, const char *name, size_t likely,
                            size_t *out_index) {
  const tdm_graph *graph = session->graph;
  *out_index = likely;
  if (name && likely < graph->inputs.count &&
      strcmp(tdm_ir_value_at(graph, graph->inputs.items[likely])->name, name) == 0)
    return TDM_OK;
  const uintptr_t number = name ? (uintptr_t)tdm_map_get(&graph->described->input_names, name) : 0;
  *out_index = number - 1;
  if (number) return TDM_OK;
  tdm_choices inputs;
  return tdm_fail(TDM_INVALID_ARGUMENT, "the graph has no input '%.64s'; %s",
                  name ? name : "(null)", tdm_inputs_text(graph, name, &inputs));
}

static tdm_status check_feed(const tdm_session *session, const tdm_resolved_run *resolved,
                             size_t index, const tdm_feed *feed) {
  const tdm_graph *graph = session->graph;
  const tdm_ir_value *input = tdm_ir_value_at(graph, graph->inputs.items[index]);
  if (!feed->tensor)
    return tdm_fail(TDM_INVALID_ARGUMENT, "input %s was fed no tensor", input->name);
  if (input->kept)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "%s is kept between runs of a sequence (tdm_sequence_set), and is not fed",
                    input->name);
  if (feed->tensor->storage->context != session->context)
    return tdm_fail(TDM_INVALID_ARGUMENT, "input %s is a tensor of another context", input->name);
  if (feed->tensor->dtype != input->spec->dtype)
    return tdm_fail(TDM_INVALID_ARGUMENT, "input %s is %s and was fed %s", input->name,
                    tdm_dtype_name(input->spec->dtype), tdm_dtype_name(feed->tensor->dtype));
  if (resolved->specs[index].fed)
    return tdm_fail(TDM_INVALID_ARGUMENT, "input %s was fed twice", input->name);
  return TDM_OK;
}

/* Reads the values kept by the run's sequence. */
static void read_kept(const tdm_session *session, tdm_sequence *sequence,
                      tdm_resolved_run *resolved) {
  const tdm_graph *graph = session->graph;
  for (size_t k = 0; k < graph->kepts.count; k++) {
    const tdm_ir_value *input = tdm_ir_value_at(graph, graph->kepts.items[k].value);
    resolved->feeds[input->binding] = tdm_sequence_feed(sequence, k);
    resolved->specs[input->binding] = (tdm_feed_spec){
        .fed = true, .device = session->kept_devices[k], .shape = input->spec->shape};
  }
}

static tdm_status read_feeds(const tdm_session *session, const tdm_run_request *request,
                             tdm_resolved_run *resolved) {
  const size_t count = session->graph->inputs.count;
  for (size_t i = 0; i < count; i++) {
    resolved->specs[i].fed = false;
    resolved->feeds[i] = NULL;
  }
  size_t index = 0, likely = 0;
  for (size_t i = 0; i < request->feed_count; i++) {
    TDM_TRY(find_feed(session, request->feeds[i].name, likely, &index));
    likely = index + 1;
    TDM_TRY(check_feed(session, resolved, index, &request->feeds[i]));
    const tdm_tensor *tensor = request->feeds[i].tensor;
    resolved->feeds[index] = &request->feeds[i];
    /* A job's graph has its inputs on the device where rank 0 is fed. */
    const tdm_device *fed_on =
        tdm_context_counterpart(session->context, tdm_tensor_owner(tensor), 0);
    if (!fed_on)
      return tdm_fail(TDM_UNSUPPORTED, "input %s was fed on %s, and rank 0 has no such device",
                      request->feeds[i].name, tdm_tensor_owner(tensor)->name);
    resolved->specs[index] =
        (tdm_feed_spec){.fed = true,
                        .pinned = tdm_memory_is_pinned(&tensor->storage->memory),
                        .device = (int16_t)fed_on->context_index,
                        .shape = tensor->shape};
  }
  if (request->sequence) read_kept(session, request->sequence, resolved);
  return TDM_OK;
}

/* Like find_feed. */
static tdm_status find_output(const tdm_session *session, const char *name, size_t likely,
                              uint64_t *out_index) {
  const tdm_graph *graph = session->graph;
  *out_index = likely;
  if (name && likely < graph->described->outputs.count &&
      strcmp(graph->described->outputs.items[likely].name, name) == 0)
    return TDM_OK;
  const uintptr_t number = name ? (uintptr_t)tdm_map_get(&graph->described->output_names, name) : 0;
  *out_index = number - 1;
  if (number) return TDM_OK;
  tdm_choices outputs;
  return tdm_fail(TDM_INVALID_ARGUMENT, "the graph has no output '%.64s'; %s",
                  name ? name : "(null)", tdm_outputs_text(graph, name, &outputs));
}

/* Adds an output to the targets. */
static void add_target(const tdm_session *session, uint64_t output, tdm_resolved_run *resolved) {
  const tdm_graph_output *found = &session->graph->described->outputs.items[output];
  resolved->target_devices[resolved->target_count] = found->device;
  resolved->targets[resolved->target_count++] = found->value;
}

static void add_loss(const tdm_session *session, tdm_resolved_run *resolved) {
  resolved->target_devices[resolved->target_count] = TDM_HOST_DEVICE;
  resolved->targets[resolved->target_count++] = session->loss;
}

/* Words of a key: (fetch count, training), the outputs' indices, then per input 0 or its rank, its
 * device, whether it is pinned, and its sizes. At the end the micro-batches, if their number
 * varies. */
static void add_inputs_to_key(const tdm_session *session, tdm_resolved_run *resolved) {
  uint64_t *words = resolved->key.words;
  size_t used = resolved->key.count;
  for (size_t i = 0; i < session->graph->inputs.count; i++) {
    const tdm_feed_spec *feed = &resolved->specs[i];
    words[used++] = feed->fed ? 1 + (uint64_t)feed->shape.rank : 0;
    if (!feed->fed) continue;
    words[used++] = (uint64_t)feed->device << 1 | feed->pinned;
    for (int d = 0; d < feed->shape.rank; d++)
      words[used++] = (uint64_t)feed->shape.dims[d];
  }
  resolved->key.count = used;
  resolved->key.hash = tdm_hash_bytes(words, used * sizeof *words, 0);
}

static tdm_status check_request(const tdm_session *session, const tdm_run_request *request) {
  if (request->training && !session->can_train)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    session->loss ? "the session has a loss and no optimizer: it cannot train "
                                    "without one (tdm_session_options.optimizer)"
                                  : "the session has no loss: it cannot train without one "
                                    "(tdm_session_options.loss, and optimizer)");
  if (request->fetch_count > session->graph->described->outputs.count)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%zu fetches of %zu outputs", request->fetch_count,
                    session->graph->described->outputs.count);
  if (request->fetch_count == 0 && !request->training)
    return tdm_fail(TDM_INVALID_ARGUMENT, "a run that fetches nothing");
  return TDM_OK;
}

tdm_status tdm_session_resolve(tdm_session *session, const tdm_run_request *request,
                               tdm_resolved_run *out_resolved) {
  TDM_TRY(check_request(session, request));
  *out_resolved = session->room;
  out_resolved->training = request->training;
  uint64_t *words = out_resolved->key.words;
  size_t used = 0;
  words[used++] = (uint64_t)request->fetch_count << 1 | request->training;
  for (size_t i = 0; i < request->fetch_count; i++, used++) {
    TDM_TRY(find_output(session, request->fetches[i].name, i > 0 ? words[used - 1] + 1 : 0,
                        &words[used]));
    add_target(session, words[used], out_resolved);
  }
  if (request->training) add_loss(session, out_resolved);
  out_resolved->key.count = used;
  TDM_TRY(read_feeds(session, request, out_resolved));
  add_inputs_to_key(session, out_resolved);
  return TDM_OK;
}

void tdm_session_resolve_plan(const tdm_session *session, const tdm_plan *plan,
                              tdm_resolved_run *out_resolved) {
  *out_resolved = session->room;
  out_resolved->training = plan->training;
  const uint64_t *word = plan->key.words;
  const size_t fetches = *word++ >> 1;
  for (size_t i = 0; i < fetches; i++)
    add_target(session, *word++, out_resolved);
  if (plan->training) add_loss(session, out_resolved);
  for (size_t i = 0; i < session->graph->inputs.count; i++) {
    tdm_feed_spec *feed = &out_resolved->specs[i];
    *feed = (tdm_feed_spec){.fed = *word != 0};
    if (*word++ == 0) continue;
    feed->shape.rank = (int32_t)(word[-1] - 1);
    feed->pinned = *word & 1;
    feed->device = (int16_t)(*word++ >> 1);
    for (int d = 0; d < feed->shape.rank; d++)
      feed->shape.dims[d] = (tdm_dim)*word++;
  }
}
