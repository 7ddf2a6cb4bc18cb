/* Draws machines and views, and describes them for a reader. Invariant: wraps are legal by
 * graph/building.h: two are separate or nested. A value that leaves one has the batch as a
 * dimension, or is a loss or a part of it, for the whole batch. */
#include "tests/random/view.h"
#include "tests/options.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Machines -------------------------------------------------------------------------------- */

void machine_draw(random_machine *it, uint64_t seed) {
  draw stream = draw_of(seed, 3);
  *it = (random_machine){.cpu_count = draw_between(&stream, 1, 4),
                         .sim_count = draw_between(&stream, 1, 4)};
  const int all = it->cpu_count + it->sim_count;
  it->device_count = draw_between(&stream, 1, all);
  for (int i = 0; i < it->device_count; i++)
    it->devices[i] = draw_one_in(&stream, 3) ? draw_below(&stream, all) : i % all;
  if (draw_one_in(&stream, 2)) it->delay_seed = draw_bits(&stream) % 1000000 + 1;
}

const char *machine_device(const random_machine *it, int device, char text[16]) {
  const int number = it->devices[device];
  const bool is_cpu = number < it->cpu_count;
  (void)snprintf(text, 16, "%s:%d", is_cpu ? "cpu" : "sim",
                 is_cpu ? number : number - it->cpu_count);
  return text;
}

tdm_context *machine_open(const random_machine *it) {
  char sim[96];
  (void)snprintf(sim, sizeof sim, "latency_us=0,gigabytes_per_second=64,delay_seed=%" PRIu64,
                 it->delay_seed);
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = OR_ONE(it->cpu_count),
              o.sim_devices = it->sim_count, o.sim = sim);
  return tdm_context_create(&options);
}

/* ---- Wraps ----------------------------------------------------------------------------------- */

/* Returns true if there is a node, and no node is only a name. */
static bool can_wrap(const random_model *of, int first, int last) {
  for (int i = first; i <= last; i++)
    if (of->nodes[i].kind == NODE_PARAMETER) return false;
  return true;
}

/* Returns true if the values that leave these nodes need all of them, as boundary values require.
 */
static bool all_needed(const random_view *it, const random_model *of, int first, int last) {
  bool needed[MOST_NODES] = {false};
  for (int i = it->node_count - 1; i >= first; i--) {
    bool read = i > last;
    for (int k = 0; k < of->output_count; k++)
      read |= of->value_node[of->outputs[k]] == i;
    needed[i] |= read;
    for (int k = 0; k < of->nodes[i].operand_count && needed[i]; k++)
      needed[of->value_node[of->nodes[i].operands[k]]] = true;
  }
  for (int i = first; i <= last; i++)
    if (!needed[i]) return false;
  return true;
}

/* Returns the last node of a wrap from `first` on. A gradient leaves it, and its consumers and kept
 * values are outside. */
static int end_of_wrap(const random_model *of, int first, int last, bool between) {
  for (int i = first; i <= last; i++)
    if ((of->nodes[i].kind == NODE_GRADIENT && (between || of->nodes[i].flag)) ||
        of->nodes[i].kind >= NODE_KEEP)
      return i - 1;
  return last;
}

static int first_of_body(const random_model *of) {
  int first = 0;
  while (of->nodes[first].kind <= NODE_PARAMETER)
    first++;
  return first;
}

static void draw_wrap(draw *stream, random_view *it, const random_model *of,
                      const random_machine *on) {
  int end = of->body_end < it->node_count ? of->body_end : it->node_count;
  if (draw_one_in(stream, 2)) end = it->node_count; /* with some of the loss, or all of it */
  if (it->wrap_count > 0 && end <= it->wraps[it->wrap_count - 1].last) end = it->node_count;
  int first = first_of_body(of), last = end - 1;
  random_wrap made = {.between = draw_one_in(stream, 3)};
  if (it->wrap_count > 0 && draw_one_in(stream, 2)) { /* around the latest */
    first = draw_between(stream, first, it->wraps[it->wrap_count - 1].first);
    last = draw_between(stream, it->wraps[it->wrap_count - 1].last, last);
  } else {
    first = it->wrap_count > 0 ? it->wraps[it->wrap_count - 1].last + 1 : first;
    if (first > last) return;
    first = draw_between(stream, first, last);
    last = draw_between(stream, first, last);
  }
  if (of->moves_rows && draw_one_in(stream, 2)) { /* as much as there is, if it is not there yet */
    const bool around = it->wrap_count == 0 || it->wraps[it->wrap_count - 1].first >= first;
    if (around) first = first_of_body(of);
    last = end - 1;
  }
  last = end_of_wrap(of, first, last, made.between);
  if (last < first || !can_wrap(of, first, last)) return;
  made.first = first;
  made.last = last;
  made.between = made.between && all_needed(it, of, first, last);
  made.device_count = draw_between(stream, 1, MOST_REPLICAS);
  if (draw_one_in(stream, 2)) made.device_count = 2;
  double sum = 0;
  for (int i = 0; i < made.device_count; i++) {
    made.devices[i] = draw_below(stream, on->device_count);
    sum += made.weights[i] = draw_below(stream, 4);
  }
  made.output_device = draw_one_in(stream, 2) ? NOWHERE : draw_below(stream, on->device_count);
  made.weighted = sum > 0 && draw_one_in(stream, 2);
  if (draw_one_in(stream, 3))
    made.sharding =
        draw_one_in(stream, 2) ? TDM_SHARDING_PARAMETERS : TDM_SHARDING_OPTIMIZER_STATES;
  /* One within another is described first; the one around it has all of its nodes. */
  for (int i = 0; i < it->wrap_count; i++) {
    const bool apart = it->wraps[i].last < first || it->wraps[i].first > last;
    const bool inside = it->wraps[i].first >= first && it->wraps[i].last <= last;
    const bool same = it->wraps[i].first == first && it->wraps[i].last == last;
    if (same || (!apart && !inside)) return;
  }
  it->wraps[it->wrap_count++] = made;
}

/* ---- Views ----------------------------------------------------------------------------------- */

void view_draw(random_view *it, const random_model *of, const random_machine *on, uint64_t seed) {
  draw stream = draw_of(seed, 4);
  *it = (random_view){.node_count = of->node_count, .trains = !draw_one_in(&stream, 4), .depth = 1};
  const int first = first_of_body(of);
  if (!it->trains && draw_one_in(&stream, 2))
    it->node_count = draw_between(&stream, first + 1, of->node_count);
  /* Places come in stretches, as they do in models. */
  int device = draw_below(&stream, on->device_count);
  for (int i = 0; i < of->node_count; i++) {
    if (draw_one_in(&stream, 3)) device = draw_below(&stream, on->device_count);
    it->devices[i] = draw_one_in(&stream, 8) ? NOWHERE : device;
  }
  it->micro_batches = draw_one_in(&stream, 3) ? draw_between(&stream, 2, 5) : 1;
  if (draw_one_in(&stream, 12)) it->micro_batches = TDM_MICRO_BATCHES_AUTO;
  for (int i = draw_one_in(&stream, 2) ? draw_between(&stream, 1, MOST_WRAPS) : 0; i > 0; i--)
    draw_wrap(&stream, it, of, on);
  it->depth = draw_one_in(&stream, 2) ? 1 : draw_between(&stream, 2, 4);
  it->queue_limit = draw_one_in(&stream, 3) ? draw_between(&stream, 1, 3) : 0;
  it->plan_limit = draw_one_in(&stream, 3) ? draw_between(&stream, 1, 3) : 0;
  it->deterministic = draw_one_in(&stream, 3);
  if (of->real) it->deterministic = !draw_one_in(&stream, 3);
  it->check_finite = draw_one_in(&stream, 3);
  it->profile = draw_one_in(&stream, 4);
  it->unfused = draw_one_in(&stream, 4);
  it->observes = draw_one_in(&stream, 3);
  it->trace_runs = draw_one_in(&stream, 4) ? draw_between(&stream, 1, 3) : 0;
  it->learning_rate = draw_one_in(&stream, 2) ? 1 : 0.5;
  if (draw_one_in(&stream, 4))
    it->frozen = (uint32_t)draw_bits(&stream) & ((1u << of->parameter_count) - 1);
  if (!(of->reached & ~it->frozen)) it->frozen = 0;
  if (it->micro_batches == TDM_MICRO_BATCHES_AUTO) it->deterministic = false;
  if (!of->reached) it->trains = false;
  for (int i = 0; i < first; i++)
    if (of->nodes[i].kind == NODE_KEPT) it->micro_batches = 1; /* by graph/sessions.h */
  const int ways = it->deterministic ? TDM_COLLECTIVE_CHAIN : TDM_COLLECTIVE_TREE;
  it->collective = draw_between(&stream, 0, ways);
}

static void print_device(const random_machine *on, int device, FILE *out) {
  char text[16];
  fputs(device == NOWHERE ? "-" : machine_device(on, device, text), out);
}

void view_print(const random_view *it, const random_model *of, const random_machine *on,
                FILE *out) {
  fprintf(out,
          "%s nodes before n%d; micro-batches %d, depth %d, limits %d %d, rate %g, frozen %x, "
          "collective %d%s",
          it->trains ? "trains" : "infers", it->node_count, it->micro_batches, it->depth,
          it->queue_limit, it->plan_limit, it->learning_rate, it->frozen, it->collective,
          it->deterministic ? ", deterministic" : "");
  fprintf(out, "%s%s%s%s, trace %d\n    places", it->check_finite ? ", check finite" : "",
          it->profile ? ", profile" : "", it->unfused ? ", unfused" : "",
          it->observes ? ", observes" : "", it->trace_runs);
  for (int i = 0; i < of->node_count; i++) {
    fprintf(out, " n%d:", i);
    print_device(on, it->devices[i], out);
  }
  fputc('\n', out);
  for (int i = 0; i < it->wrap_count; i++) {
    const random_wrap *part = &it->wraps[i];
    fprintf(out, "    wrap n%d to n%d%s over", part->first, part->last,
            part->between ? " between values" : "");
    for (int k = 0; k < part->device_count; k++) {
      fputc(' ', out);
      print_device(on, part->devices[k], out);
      if (part->weighted) fprintf(out, " x %g", part->weights[k]);
    }
    fputs(", to ", out);
    print_device(on, part->output_device, out);
    if (part->sharding)
      fprintf(out, ", sharded %s",
              part->sharding == TDM_SHARDING_PARAMETERS ? "parameters" : "states");
    fputc('\n', out);
  }
  shards_print(it, on, out);
}

bool view_has_output(const random_view *it, const random_model *of, int output) {
  return of->value_node[of->outputs[output]] < it->node_count;
}

bool view_feeds(const random_view *it, const random_model *of, int node) {
  const node_kind kind = of->nodes[node].kind;
  return kind <= NODE_INDICES && node < it->node_count;
}
