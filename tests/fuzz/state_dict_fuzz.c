/* Rules between names of parameters and names in files. Invariant: a session loads its own file
 * with the same rules. Refused names are reported, and change no parameter. */
#include <stdlib.h>
#include <string.h>

#include "tandem/tandem.h"
#include "tests/fuzz/support.h"
#include "tests/options.h"

enum { MOST_RULES = 4, MOST_NAMES = 8 };

static tdm_session *make_session(tdm_context *context) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 2));
  tdm_scope_push(graph, "block2");
  x = tdm_linear(graph, "fc", x, 2);
  tdm_scope_push(graph, "module");
  x = tdm_batch_norm(graph, "norm", x);
  tdm_scope_pop(graph);
  tdm_scope_pop(graph);
  x = tdm_linear(graph, "block2.fc2", x, 2);
  x = tdm_linear_without_bias(graph, "head", x, 3);
  tdm_output(graph, "y", x);
  tdm_session *session = tdm_session_create(graph, NULL);
  fuzz_expect(session != NULL, "no session");
  tdm_graph_release(graph);
  return session;
}

static void save_and_load(tdm_session *session, const tdm_state_dict_options *options) {
  tdm_tensor_list *list = NULL;
  if (!fuzz_judge(tdm_session_state_dict(session, options, &list))) {
    fuzz_expect(!list, "a list in spite of a failure");
    return;
  }
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++)
    fuzz_expect(!strchr(tdm_tensor_list_name(list, i), '/') || options->rule_count > 0,
                "%s has the store's name", tdm_tensor_list_name(list, i));
  fuzz_expect(fuzz_judge(tdm_session_load_state_dict(session, list, options)),
              "what was given is not taken back");
  tdm_tensor_list_release(list);
}

/* Loads names of the input, each with the shape of some parameter or with another shape. */
static void load_names(tdm_session *session, const tdm_state_dict_options *options,
                       fuzz_input *input) {
  tdm_context *context = tdm_session_context(session);
  tdm_tensor_list *all = NULL;
  const tdm_status status = tdm_session_state_dict(session, NULL, &all);
  fuzz_expect(status == TDM_OK, "no state");
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  for (int i = 0; i < MOST_NAMES && input->size; i++) {
    const uint32_t which = fuzz_byte(input) % (tdm_tensor_list_count(all) + 1);
    char *name = fuzz_text(input, NULL);
    tdm_tensor *tensor = tdm_tensor_list_tensor(all, which);
    tdm_tensor *other = tensor ? tdm_tensor_retain(tensor)
                               : tdm_tensor_zeros(context, "cpu:0", TDM_INT32, tdm_shape_of(1, 5));
    (void)fuzz_judge(tdm_tensor_list_add(list, name, other));
    tdm_tensor_release(other);
    free(name);
  }
  (void)fuzz_judge(tdm_session_load_state_dict(session, list, options));
  tdm_tensor_list_release(list);
  tdm_tensor_list_release(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static tdm_session *session; /* kept until the program ends */
  tdm_context *context = fuzz_context(1, 1);
  if (!session) session = make_session(context);
  const int64_t before = fuzz_outstanding();
  fuzz_input input = {data, size};
  const uint8_t flags = fuzz_byte(&input);
  char *texts[2 * MOST_RULES];
  tdm_name_rule rules[MOST_RULES];
  const size_t count = flags % (MOST_RULES + 1);
  for (size_t i = 0; i < count; i++) {
    const uint8_t absent = fuzz_byte(&input);
    texts[2 * i] = fuzz_text(&input, NULL);
    texts[2 * i + 1] = fuzz_text(&input, NULL);
    rules[i] = (tdm_name_rule){absent % 8 == 1 ? NULL : texts[2 * i],
                               absent % 8 == 2 ? NULL : texts[2 * i + 1]};
    if (absent % 64 == 3) rules[i] = (tdm_name_rule){NULL, NULL};
  }
  const tdm_state_dict_options options =
      OPTIONS(tdm_state_dict_options, o.rules = rules, o.rule_count = count,
              o.allow_missing = flags & 64, o.allow_unexpected = flags & 128);
  save_and_load(session, &options);
  load_names(session, &options, &input);
  for (size_t i = 0; i < 2 * count; i++)
    free(texts[i]);
  fuzz_expect(fuzz_outstanding() == before, "memory is lost");
  return 0;
}
