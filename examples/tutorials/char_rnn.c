/* A recurrent network reads names letter by letter, and classifies them by language. */
#include "examples/tutorials/vocabulary.h"

enum { LANGUAGES = 3, NAMES = 6 };

static const char *const languages[] = {"italian", "polish", "german"};
static const char *const names[LANGUAGES][NAMES] = {
    {"rossi", "bianchi", "ferrari", "russo", "romano", "ricci"},
    {"nowak", "kowalski", "wojcik", "kaminski", "lewandowski", "zielinski"},
    {"schmidt", "schneider", "fischer", "weber", "wagner", "becker"},
};

static tdm_value network(tdm_graph *graph, tdm_value name, int64_t letters) {
  tdm_value hidden;
  tdm_rnn(graph, "rnn", tdm_embedding(graph, "embedding", name, letters, 16), 32, NULL, &hidden);
  return tdm_linear(graph, "output", tdm_select(graph, NULL, hidden, 0, 0), LANGUAGES);
}

static double train(tdm_session *model, const vocabulary *letters, const char *const *name,
                    tdm_tensor *label) {
  double loss;
  tdm_tensor *one = vocabulary_encode(tdm_session_context(model), letters, name, 1, NULL);
  const tdm_feed feeds[] = {{"name", one, false}, {"label", label, false}};
  check(tdm_train_step(model, feeds, 2, NULL, 0, &loss) == TDM_OK);
  tdm_tensor_release(one);
  return loss;
}

int main(void) {
  tdm_context *context = tdm_context_create(NULL);
  const vocabulary letters = vocabulary_of_letters(names[0], LANGUAGES * NAMES);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value name = tdm_input(graph, "name", TDM_INT64, tdm_shape_of(1, TDM_DIM("length")));
  const tdm_value label = tdm_input(graph, "label", TDM_INT64, tdm_shape_scalar());
  const tdm_value scores = network(graph, name, letters.count);
  tdm_output(graph, "found", tdm_argmax(graph, NULL, scores, 0, false));
  const tdm_optimizer adam = tdm_adam(0.005);
  tdm_session_options options = tdm_session_options_default();
  options.optimizer = &adam;
  options.loss = tdm_cross_entropy(graph, "loss", scores, label);
  tdm_session *model = tdm_session_create(graph, &options);
  for (int epoch = 1; epoch <= 30; epoch++) {
    double total = 0;
    for (int64_t i = 0; i < LANGUAGES; i++) {
      tdm_tensor *wanted = tdm_tensor_from(context, TDM_INT64, tdm_shape_scalar(), &i);
      for (int j = 0; j < NAMES; j++)
        total += train(model, &letters, &names[i][j], wanted);
      tdm_tensor_release(wanted);
    }
    if (epoch % 10 == 0) printf("epoch %d: loss %.3f\n", epoch, total / 18);
  }

  static const char *const asked[] = {"rosini", "kubinski", "schumacher"};
  for (int i = 0; i < 3; i++) {
    tdm_tensor *one = vocabulary_encode(context, &letters, &asked[i], 1, NULL);
    tdm_tensor *found = tdm_run_output(model, &(tdm_feed){"name", one, false}, 1, "found");
    check(found != NULL);
    printf("%s is %s\n", asked[i], languages[(int)tdm_tensor_item(found, 0)]);
    tdm_tensor_release(one);
    tdm_tensor_release(found);
  }
  tdm_session_release(model);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return 0;
}
