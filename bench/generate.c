/* Generates text with examples/gpt: keys and values kept from run to run, compared with computing
 * the whole window for every character. Both have the same parameters and the same text. Uses one
 * device and two, and one text or several, by threads, by runs of several texts, and by both. The
 * two ways take turns. Prints medians of characters per second of all texts together. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "bench/help.h"
#include "bench/timing.h"
#include "examples/gpt/write.h"

enum { ROUNDS = 5, LETTERS = 64, WINDOW = 128, COUNT = WINDOW - 1, MOST_TEXTS = 8 };

typedef struct place {
  const char *name;
  const char *first; /* embedding and the first half of the layers */
  const char *second;
  char map[256];
  tdm_store *store;
  tdm_session *learns; /* computes anew */
} place;

/* Number of threads that write texts at the same time, and of texts in each of their runs. */
typedef struct manner {
  int streams;
  int texts;
} manner;

typedef struct stream {
  const place *at;
  tdm_context *context;
  tdm_sequence *sequence; /* NULL: anew */
  const text *like;
  uint64_t seed;
  int texts;
  char text[MOST_TEXTS * COUNT];
} stream;

static const gpt_sizes sizes = {
    .characters = LETTERS, .width = 128, .heads = 4, .layers = 4, .window = WINDOW};

static tdm_session *learning_session(tdm_context *context, tdm_store *store, const char *map) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value characters = tdm_input(graph, GPT_CHARACTERS, TDM_INT64,
                                         tdm_shape_of(2, TDM_DIM("batch"), TDM_DIM("length")));
  tdm_output(graph, GPT_SCORES, gpt_learns(graph, &sizes, characters, NULL));
  tdm_session_options options = tdm_session_options_default();
  options.store = store;
  options.device_map = map;
  options.depth = MOST_TEXTS;
  options.deterministic = true;
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  if (!session) bench_fail("session");
  return session;
}

static void place_open(place *at, tdm_context *context) {
  char map[256];
  (void)snprintf(map, sizeof map, "block2=%s,block3=%s,norm=%s,scores=%s,*=%s", at->second,
                 at->second, at->second, at->second, at->first);
  tdm_store *store = tdm_store_create(context);
  if (!store) bench_fail("store");
  at->learns = learning_session(context, store, map);
  at->store = store;
  (void)snprintf(at->map, sizeof at->map, "%s", map);
}

static void *write_stream(void *user) {
  stream *self = user;
  const gpt_wish wish = {.like = self->like,
                         .window = WINDOW,
                         .texts = self->texts,
                         .prompt = "A",
                         .count = COUNT,
                         .temperature = 1.0,
                         .seed = self->seed};
  bench_check(self->sequence ? gpt_write(self->sequence, self->context, &wish, self->text)
                             : gpt_write_anew(self->at->learns, self->context, &wish, self->text),
              "writing");
  return NULL;
}

/* Characters a second of all streams together. */
static double write_streams(stream *streams, int count) {
  pthread_t threads[MOST_TEXTS];
  const double began_ms = bench_now_ms();
  for (int i = 0; i < count; i++)
    if (pthread_create(&threads[i], NULL, write_stream, &streams[i]) != 0) bench_fail("thread");
  for (int i = 0; i < count; i++)
    (void)pthread_join(threads[i], NULL);
  return 1000.0 * count * streams[0].texts * COUNT / (bench_now_ms() - began_ms);
}

static void measure(const place *at, tdm_context *context, const text *like, manner how) {
  static stream kept[MOST_TEXTS], anew[MOST_TEXTS];
  double rates[2][ROUNDS];
  tdm_session *writes =
      gpt_writing_session(context, at->store, &sizes, NULL, at->map, how.texts, how.streams);
  if (!writes) bench_fail("session");
  for (int i = 0; i < how.streams; i++) {
    kept[i] = anew[i] = (stream){.at = at,
                                 .context = context,
                                 .like = like,
                                 .seed = 1 + (uint64_t)(i * how.texts),
                                 .texts = how.texts};
    kept[i].sequence = tdm_sequence_create(writes);
    if (!kept[i].sequence) bench_fail("sequence");
  }
  for (int round = -1; round < ROUNDS; round++) {
    const double fast = write_streams(kept, how.streams), slow = write_streams(anew, how.streams);
    if (round < 0) continue;
    rates[0][round] = fast;
    rates[1][round] = slow;
  }
  bool same = true;
  for (int i = 0; i < how.streams; i++) {
    same = same && memcmp(kept[i].text, anew[i].text, (size_t)(how.texts * COUNT)) == 0;
    tdm_sequence_release(kept[i].sequence);
  }
  tdm_session_release(writes);
  const double fast = bench_median(rates[0], ROUNDS), slow = bench_median(rates[1], ROUNDS);
  printf("%-14s %8d %8d %12.0f %12.0f %8.1f  %s\n", at->name, how.streams, how.texts, fast, slow,
         fast / slow, same ? "the same" : "DIFFERS");
  fflush(stdout);
}

int main(int argc, char **argv) {
  bench_help(argc, argv,
             "generate: characters a second of a GPT of 4 layers of 128, window 128, whose keys\n"
             "and values are kept, and which computes all of its window for every character.\n");
  tdm_context_options options = tdm_context_options_default();
  options.cpu_devices = 2;
  tdm_context *context = tdm_context_create(&options);
  if (!context) bench_fail("context");
  text like = {.character_count = LETTERS};
  for (int i = 0; i < 256; i++)
    like.ids[i] = (int16_t)(i % LETTERS);
  for (int i = 0; i < LETTERS; i++)
    like.characters[i] = (unsigned char)(i + ' ');
  place places[] = {{.name = "cpu:0", .first = "cpu:0", .second = "cpu:0"},
                    {.name = "cpu:0, cpu:1", .first = "cpu:0", .second = "cpu:1"}};
  static const manner manners[] = {{1, 1}, {8, 1}, {2, 4}, {1, 8}};
  printf("%-14s %8s %8s %12s %12s %8s  %s\n", "devices", "threads", "texts", "kept, /s", "anew, /s",
         "ratio", "texts are");
  for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
    place_open(&places[p], context);
    for (size_t i = 0; i < sizeof manners / sizeof *manners; i++)
      measure(&places[p], context, &like, manners[i]);
    tdm_session_release(places[p].learns);
    tdm_store_release(places[p].store);
  }
  tdm_context_release(context);
  return 0;
}
