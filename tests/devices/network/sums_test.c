/* Sums and votes of three ranks, turn by turn: the terms, ranks that contribute nothing, and the
 * agreed result. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "devices/network/network_state.h"
#include "tests/devices/support.h"
#include "tests/support/simnet.h"

enum { RANKS = 3, ENOUGH_TURNS = 1000000, MOST = 2 * TDM_SUM_PIECE_BYTES / 8 + 3, BEHIND = 4 };

typedef struct rank {
  tdm_network *network;
  double *memory; /* (MOST + an unused margin) */
  tdm_address base;
  tdm_run_scalars scalars;
  uint8_t failed_ids[1];
  tdm_flight flight;
  bool spoiled;
  tdm_status status;
  char message[TDM_MESSAGE_BYTES];
} rank;

typedef struct job {
  tdm_simnet *net;
  rank ranks[RANKS];
} job;

static int set_up(void **state) {
  job *made = calloc(1, sizeof *made);
  const tdm_allocator allocator = tdm_allocator_default();
  const tdm_simnet_options options = {.struct_size = sizeof options, .rank_count = RANKS};
  assert_non_null(made);
  assert_ok(tdm_simnet_create(&allocator, &options, &made->net));
  for (int r = 0; r < RANKS; r++) {
    rank *own = &made->ranks[r];
    tdm_endpoint *endpoint;
    assert_ok(tdm_simnet_endpoint(made->net, r, &endpoint));
    assert_ok(tdm_network_create(&allocator, endpoint, &own->network));
    own->memory = calloc(MOST + BEHIND, sizeof(double));
    assert_non_null(own->memory);
    own->base = (tdm_address)own->memory;
    own->flight =
        (tdm_flight){.bases = &own->base, .scalars = &own->scalars, .failed_ids = own->failed_ids};
    tdm_flight_reset(&own->flight, 1);
  }
  *state = made;
  return 0;
}

static void *leave(void *network) {
  tdm_network_destroy(network);
  return NULL;
}

static int tear_down(void **state) {
  job *made = *state;
  pthread_t threads[RANKS];
  for (int r = 0; r < RANKS; r++)
    assert_int_equal(pthread_create(&threads[r], NULL, leave, made->ranks[r].network), 0);
  for (int r = 0; r < RANKS; r++)
    assert_int_equal(pthread_join(threads[r], NULL), 0);
  for (int r = 0; r < RANKS; r++)
    free(made->ranks[r].memory);
  tdm_simnet_release(made->net);
  free(made);
  return 0;
}

/* Turns of all ranks until all have ended. */
static void make(job *in, const tdm_command *command) {
  bool ended[RANKS] = {false};
  int left = RANKS;
  for (int i = 0; i < ENOUGH_TURNS && left > 0; i++) {
    rank *own = &in->ranks[i % RANKS];
    if (ended[i % RANKS]) continue;
    tdm_messenger *messenger = tdm_network_messenger(own->network);
    own->status =
        messenger->advance(messenger, command, &own->flight, own->spoiled, &ended[i % RANKS]);
    (void)snprintf(own->message, sizeof own->message, "%s", tdm_last_message());
    left -= ended[i % RANKS];
  }
  assert_int_equal(left, 0);
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* As many numbers as pieces can hold, and one more. */
static void sums_are_the_same_on_all_ranks(void **state) {
  job *in = *state;
  static const size_t counts[] = {1, TDM_SUM_PIECE_BYTES / 8, TDM_SUM_PIECE_BYTES / 8 + 1, MOST};
  for (size_t i = 0; i < TDM_COUNT_OF(counts); i++) {
    for (int spoiled = -1; spoiled < RANKS; spoiled++) { /* a rank has not made its terms */
      const tdm_command sum = {
          .kind = TDM_COMMAND_ALL_REDUCE,
          .message = {.dtype = TDM_FLOAT64, .bytes = counts[i] * sizeof(double)}};
      for (int r = 0; r < RANKS; r++) {
        in->ranks[r].spoiled = r == spoiled;
        for (size_t k = 0; k < MOST + BEHIND; k++)
          in->ranks[r].memory[k] = (double)(k % 97) * (1 << 2 * r);
      }
      make(in, &sum);
      const int factor = 1 + 4 + 16 - (spoiled < 0 ? 0 : 1 << 2 * spoiled);
      for (int r = 0; r < RANKS; r++) {
        assert_ok(in->ranks[r].status);
        for (size_t k = 0; k < MOST + BEHIND; k++) {
          const bool summed = k < counts[i] && r != spoiled;
          if (in->ranks[r].memory[k] != (double)(k % 97) * (summed ? factor : 1 << 2 * r))
            fail_msg("%zu numbers, rank %d, without %d: number %zu is %g", counts[i], r, spoiled, k,
                     in->ranks[r].memory[k]);
        }
      }
    }
  }
}

/* ---- Votes ----------------------------------------------------------------------------------- */

static const tdm_command vote = {.kind = TDM_COMMAND_VOTE};

static void begin_votes(job *in, uint64_t settings) {
  for (int r = 0; r < RANKS; r++) {
    in->ranks[r].spoiled = false;
    in->ranks[r].flight.settings = settings;
    tdm_flight_reset(&in->ranks[r].flight, 1);
  }
}

static void assert_all(const job *in, tdm_status status) {
  for (int r = 0; r < RANKS; r++)
    if (in->ranks[r].status != status)
      fail_msg("rank %d: %s: %s", r, tdm_status_name(in->ranks[r].status), in->ranks[r].message);
}

/* Nothing stops a step from where all have agreed to it. */
static void a_step_that_is_agreed_on_is_closed(void **state) {
  job *in = *state;
  static const uint64_t settings[] = {0, 1, UINT64_MAX, UINT64_C(0x123456789abcdef0)};
  for (size_t i = 0; i < TDM_COUNT_OF(settings); i++) {
    begin_votes(in, settings[i]);
    make(in, &vote);
    assert_all(in, TDM_OK);
    for (int r = 0; r < RANKS; r++)
      assert_false(tdm_flight_stop(&in->ranks[r].flight, TDM_CANCELLED));
  }
}

static void failures_are_counted(void **state) {
  job *in = *state;
  for (int which = 1; which < 1 << RANKS; which++) { /* ranks that have failed, or were stopped */
    char words[128];
    begin_votes(in, 5);
    for (int r = 0; r < RANKS; r++) {
      tdm_flight *flight = &in->ranks[r].flight;
      if (which >> r & 1 && r == 1) assert_true(tdm_flight_stop(flight, TDM_CANCELLED));
      if (which >> r & 1 && r != 1) tdm_flight_fail(flight, 0, TDM_IO, "no disk");
    }
    make(in, &vote);
    assert_all(in, TDM_CANCELLED);
    (void)snprintf(words, sizeof words, "the step has failed on %d of 3 ranks: none is updated",
                   __builtin_popcount((unsigned)which));
    for (int r = 0; r < RANKS; r++)
      assert_string_equal(in->ranks[r].message, words);
  }
}

/* A difference in any reported bit, of any rank, also where sums are those of equal ranks. */
static void settings_that_differ_are_found(void **state) {
  job *in = *state;
  for (int bit = 0; bit < 12 * TDM_NETWORK_SETTING_PARTS; bit++) {
    begin_votes(in, UINT64_C(0x0f0f0f0f0f0f0f0f));
    in->ranks[bit % RANKS].flight.settings ^= UINT64_C(1) << bit;
    make(in, &vote);
    assert_all(in, TDM_INVALID_ARGUMENT);
  }
  begin_votes(in, 2);
  in->ranks[0].flight.settings = 1;
  in->ranks[2].flight.settings = 3;
  for (int r = 0; r < RANKS; r++)
    in->ranks[r].scalars =
        (tdm_run_scalars){.learning_rate = 0.5f, .momentum = 0.25f, .has_momentum = r == 1};
  make(in, &vote);
  assert_all(in, TDM_INVALID_ARGUMENT);
  assert_string_equal(in->ranks[1].message,
                      "learning rates or momenta differ between ranks, and must be the same on "
                      "all: rank 1 has 0.5 with momentum 0.25, for its first parameters; none is "
                      "updated");
  assert_string_equal(in->ranks[2].message,
                      "learning rates or momenta differ between ranks, and must be the same on "
                      "all: rank 2 has 0.5 with the optimizer's momentum, for its first "
                      "parameters; none is updated");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(sums_are_the_same_on_all_ranks, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_step_that_is_agreed_on_is_closed, set_up, tear_down),
      cmocka_unit_test_setup_teardown(failures_are_counted, set_up, tear_down),
      cmocka_unit_test_setup_teardown(settings_that_differ_are_found, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
