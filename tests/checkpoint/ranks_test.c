/* Files of jobs: several ranks save the bytes that one process saves, and any number of ranks
 * continues from the file. A failure on one rank fails on all, and keeps the old file. */
#define _GNU_SOURCE /* usleep */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/hash.h"
#include "graph/store/store.h"
#include "tests/graph/job.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

enum { ROWS = 12, BEFORE = 4, AFTER = 5, MOST = 3, PATH_BYTES = 512 };

/* The steps of every rank: load the named file, train, save the named file. */
typedef struct stages {
  const char *load;
  const char *load_parameters;
  int first; /* step, from 1 */
  int steps;
  const char *save;
  const char *save_parameters;
  int breaks; /* the rank whose store breaks before it saves; 0: none */
} stages;

static const char *path_of(char path[PATH_BYTES], const char *name) {
  const char *folder = getenv("TEST_TMPDIR");
  (void)snprintf(path, PATH_BYTES, "%s/%s.safetensors", folder ? folder : "/tmp", name);
  return path;
}

/* ---- A rank's part --------------------------------------------------------------------------- */

static tdm_session *make_session(job_rank *rank) {
  const job_model model = {.optimizer = tdm_adam(0.01)};
  char second[24], third[24];
  (void)snprintf(second, sizeof second, "host:%d/cpu:0", 1 % rank->rank_count);
  (void)snprintf(third, sizeof third, "host:%d/cpu:0", 2 % rank->rank_count);
  tdm_value loss;
  tdm_graph *graph = tied_graph(rank->context, second, third, &loss);
  return job_session(graph, loss, &model);
}

static tdm_status train(job_rank *rank, tdm_session *session, const stages *asked) {
  tdm_status status = TDM_OK;
  for (int i = 0; i < asked->steps && status == TDM_OK; i++) {
    test_batch batch;
    test_batch_make(&batch, rank->context, ROWS, (uint64_t)(asked->first + i));
    status = tdm_train_step(session, batch.feeds, 2, NULL, 0, &rank->loss);
    test_batch_release(&batch);
  }
  return status;
}

/* A tensor of the caller's own goes with the checkpoint, rank 0's. */
static tdm_status save(job_rank *rank, tdm_session *session, const char *path) {
  const int64_t number = 42 + rank->rank;
  tdm_tensor_list *own = tdm_tensor_list_create(rank->context);
  tdm_tensor *tensor = tdm_tensor_from(rank->context, TDM_INT64, tdm_shape_of(1, 1), &number);
  tdm_status status = tdm_tensor_list_add(own, "number", tensor);
  if (status == TDM_OK) status = tdm_checkpoint_save_with(session, NULL, own, path);
  tdm_tensor_release(tensor);
  tdm_tensor_list_release(own);
  return status;
}

static tdm_status load(job_rank *rank, tdm_session *session, const char *path) {
  tdm_tensor_list *own;
  TDM_TRY(tdm_checkpoint_load_with(session, NULL, path, &own));
  const tdm_tensor *tensor = tdm_tensor_list_find(own, "number");
  rank->number = tensor ? *(const uint64_t *)tdm_tensor_data(tensor) : 0;
  tdm_tensor_list_release(own);
  return TDM_OK;
}

/* Returns a hash of this rank's list of the whole store. */
static tdm_status hash_of_all(job_rank *rank, tdm_session *session) {
  tdm_tensor_list *list = tdm_store_save(tdm_session_store(session), true);
  if (!list) return TDM_INTERNAL;
  rank->hash = tdm_tensor_list_count(list);
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++) {
    const tdm_tensor *tensor = tdm_tensor_list_tensor(list, i);
    rank->hash = tdm_hash_string(tdm_tensor_list_name(list, i), rank->hash);
    rank->hash = tdm_hash_bytes(tdm_tensor_data(tensor), tdm_tensor_bytes(tensor), rank->hash);
  }
  tdm_tensor_list_release(list);
  return TDM_OK;
}

static tdm_status live(job_rank *rank, tdm_session *session) {
  const stages *asked = rank->user;
  if (asked->load) TDM_TRY(load(rank, session, asked->load));
  if (asked->load_parameters) TDM_TRY(tdm_state_dict_load(session, asked->load_parameters, NULL));
  TDM_TRY(train(rank, session, asked));
  if (asked->breaks > 0 && rank->rank == asked->breaks)
    tdm_store_break(tdm_session_store(session), TDM_INTERNAL, "a test");
  if (asked->save) TDM_TRY(save(rank, session, asked->save));
  if (asked->save_parameters) TDM_TRY(tdm_state_dict_save(session, asked->save_parameters, NULL));
  return hash_of_all(rank, session);
}

static tdm_status take_part(job_rank *rank) {
  tdm_session *session = make_session(rank);
  if (!session) return TDM_INTERNAL;
  const tdm_status status = live(rank, session);
  tdm_session_release(session);
  return status;
}

static void must(int count, const stages *asked, job_rank ranks[MOST]) {
  job_must(&(job_options){.rank_count = count, .user = asked}, take_part, ranks);
  for (int r = 1; r < count; r++) {
    assert_true(ranks[r].loss == ranks[0].loss);
    assert_true(ranks[r].hash == ranks[0].hash);
  }
}

/* ---- Files ----------------------------------------------------------------------------------- */

static char *contents(const char *path, size_t *out_size) {
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  char *bytes = malloc(1 << 20);
  *out_size = fread(bytes, 1, 1 << 20, file);
  (void)fclose(file);
  return bytes;
}

static void assert_same_files(const char *a, const char *b) {
  size_t sizes[2];
  char *mine = contents(a, &sizes[0]);
  char *other = contents(b, &sizes[1]);
  assert_int_equal(sizes[0], sizes[1]);
  assert_memory_equal(mine, other, sizes[0]);
  free(mine);
  free(other);
}

static void files_of_ranks_are_those_of_one_process(void **state) {
  (void)state;
  char one[PATH_BYTES], several[PATH_BYTES], names[PATH_BYTES], others[PATH_BYTES];
  job_rank alone[MOST], ranks[MOST];
  path_of(one, "one");
  path_of(several, "several");
  path_of(names, "names");
  path_of(others, "others");
  must(1, &(stages){.first = 1, .steps = BEFORE, .save = one, .save_parameters = names}, alone);
  for (int count = 2; count <= MOST; count++) {
    const stages asked = {.first = 1, .steps = BEFORE, .save = several, .save_parameters = others};
    must(count, &asked, ranks);
    assert_true(ranks[0].hash == alone[0].hash);
    assert_same_files(one, several);
    assert_same_files(names, others);
  }
}

static void any_number_of_ranks_goes_on(void **state) {
  (void)state;
  char path[PATH_BYTES];
  job_rank whole[MOST], ranks[MOST];
  path_of(path, "whole");
  must(1, &(stages){.first = 1, .steps = BEFORE + AFTER}, whole);
  for (int saving = 1; saving <= MOST; saving++) {
    must(saving, &(stages){.first = 1, .steps = BEFORE, .save = path}, ranks);
    for (int count = 1; count <= MOST; count++) {
      must(count, &(stages){.load = path, .first = BEFORE + 1, .steps = AFTER}, ranks);
      assert_true(ranks[0].loss == whole[0].loss);
      assert_true(ranks[0].hash == whole[0].hash);
      for (int r = 0; r < count; r++)
        assert_int_equal(ranks[r].number, 42);
    }
  }
}

/* The path of the checkpoint selects a set of files with an index. */
static void sets_of_files_load_on_any_number_of_ranks(void **state) {
  (void)state;
  char path[PATH_BYTES];
  job_rank whole[MOST], ranks[MOST];
  const char *folder = getenv("TEST_TMPDIR");
  (void)snprintf(path, sizeof path, "%s/set.safetensors.index.json", folder ? folder : "/tmp");
  must(1, &(stages){.first = 1, .steps = BEFORE + AFTER}, whole);
  must(MOST, &(stages){.first = 1, .steps = BEFORE, .save = path}, ranks);
  for (int count = 1; count <= MOST; count++) {
    must(count, &(stages){.load = path, .first = BEFORE + 1, .steps = AFTER}, ranks);
    assert_true(ranks[0].loss == whole[0].loss);
    assert_true(ranks[0].hash == whole[0].hash);
  }
}

/* ---- A rank that is lost --------------------------------------------------------------------- */

/* Saves, and loses its last rank at a post of the step that follows. */
typedef struct losing {
  stages saved;
  uint64_t at;       /* the post, from 1 */
  _Atomic int ended; /* ranks whose last step is over */
} losing;

static tdm_status lose_last(job_rank *rank) {
  losing *of = (losing *)(uintptr_t)rank->user;
  tdm_session *session = make_session(rank);
  if (!session) return TDM_INTERNAL;
  tdm_status status = train(rank, session, &of->saved);
  if (status == TDM_OK) status = save(rank, session, of->saved.save);
  if (rank->rank == MOST - 1)
    tdm_simnet_kill_at(rank->net, rank->rank, tdm_simnet_posts(rank->net, rank->rank) + of->at);
  const stages next = {.first = BEFORE + 1, .steps = 1};
  rank->number = status == TDM_OK && train(rank, session, &next) != TDM_OK;
  if (rank->number) (void)snprintf(rank->message, sizeof rank->message, "%s", tdm_last_message());
  (void)atomic_fetch_add(&of->ended, 1);
  while (atomic_load(&of->ended) < rank->rank_count)
    (void)usleep(1000);
  tdm_session_release(session);
  return status;
}

/* Two of three ranks, and one, have the bits of a process that was not interrupted. */
static void fewer_ranks_go_on_without_one_that_was_killed(void **state) {
  (void)state;
  char path[PATH_BYTES];
  job_rank whole[MOST], ranks[MOST];
  path_of(path, "lost");
  must(1, &(stages){.first = 1, .steps = BEFORE + AFTER}, whole);
  for (uint64_t at = 1; at <= 3; at++) {
    losing of = {.saved = {.first = 1, .steps = BEFORE, .save = path}, .at = at};
    job_must(&(job_options){.rank_count = MOST, .user = &of}, lose_last, ranks);
    for (int r = 0; r < MOST; r++) {
      assert_int_equal(ranks[r].number, 1);
      if (!strstr(ranks[r].message, "rank")) fail_msg("rank %d says \"%s\"", r, ranks[r].message);
    }
    for (int count = MOST - 1; count >= 1; count--) {
      must(count, &(stages){.load = path, .first = BEFORE + 1, .steps = AFTER}, ranks);
      assert_true(ranks[0].loss == whole[0].loss);
      assert_true(ranks[0].hash == whole[0].hash);
    }
  }
}

static void parameters_by_pytorchs_names_go_both_ways(void **state) {
  (void)state;
  char path[PATH_BYTES], again[PATH_BYTES];
  job_rank ranks[MOST];
  path_of(path, "parameters");
  path_of(again, "again");
  must(2, &(stages){.first = 1, .steps = BEFORE, .save_parameters = path}, ranks);
  for (int count = 1; count <= MOST; count++) {
    must(count, &(stages){.load_parameters = path, .save_parameters = again}, ranks);
    assert_same_files(path, again);
  }
}

/* ---- Failures -------------------------------------------------------------------------------- */

static void must_fail(const stages *asked, tdm_status expected, const char *first,
                      const char *second) {
  job_rank ranks[MOST];
  job_run(&(job_options){.rank_count = MOST, .user = asked}, take_part, ranks);
  for (int r = 0; r < MOST; r++) {
    assert_status(ranks[r].status, expected);
    if (!strstr(ranks[r].message, first) || !strstr(ranks[r].message, second))
      fail_msg("rank %d: \"%s\" does not say \"%s\" and \"%s\"", r, ranks[r].message, first,
               second);
  }
}

static void write_old(const char *path) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs("the old contents", file);
  assert_int_equal(fclose(file), 0);
}

static void assert_old(const char *path) {
  size_t size;
  char *bytes = contents(path, &size);
  assert_int_equal(size, strlen("the old contents"));
  assert_memory_equal(bytes, "the old contents", size);
  free(bytes);
}

/* The disk is full, so to say, after 256 bytes. */
static void a_full_disk_fails_the_save_on_all_ranks(void **state) {
  (void)state;
  char path[PATH_BYTES];
  write_old(path_of(path, "full"));
  struct rlimit before;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  const struct rlimit small = {.rlim_cur = 256, .rlim_max = before.rlim_max};
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  const stages checkpoint = {.first = 1, .steps = 1, .save = path};
  const stages parameters = {.first = 1, .steps = 1, .save_parameters = path};
  must_fail(&checkpoint, TDM_IO, "rank 0: ", "File too large");
  must_fail(&parameters, TDM_IO, "rank 0: ", "File too large");
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  (void)signal(SIGXFSZ, handler);
  assert_old(path);
}

static void a_rank_that_cannot_save_is_named_to_all(void **state) {
  (void)state;
  char path[PATH_BYTES];
  write_old(path_of(path, "broken"));
  for (int rank = 1; rank < MOST; rank++) {
    char name[24];
    (void)snprintf(name, sizeof name, "rank %d: ", rank);
    const stages asked = {.first = 1, .steps = 1, .save = path, .breaks = rank};
    must_fail(&asked, TDM_INTERNAL, name, "the store is broken");
    assert_old(path);
  }
}

/* All bytes of exchanges between ranks are returned to each rank's allocator, also if the file does
 * not exist. */
static void ranks_give_their_memory_back(void **state) {
  (void)state;
  char path[PATH_BYTES], missing[PATH_BYTES];
  const stages all[] = {{.first = 1, .steps = BEFORE, .save = path_of(path, "counted")},
                        {.load = path, .first = BEFORE + 1, .steps = 1},
                        {.load = path_of(missing, "counted_missing")}};
  for (size_t i = 0; i < TDM_COUNT_OF(all); i++) {
    tdm_faulty_allocator *counted[MOST];
    tdm_allocator allocators[MOST];
    for (int r = 0; r < MOST; r++) {
      counted[r] = tdm_faulty_allocator_create();
      allocators[r] = tdm_faulty_allocator_view(counted[r]);
    }
    job_rank ranks[MOST];
    job_run(&(job_options){.rank_count = MOST, .allocators = allocators, .user = &all[i]},
            take_part, ranks);
    for (int r = 0; r < MOST; r++) {
      assert_int_equal(ranks[r].status, i < 2 ? TDM_OK : TDM_UNAVAILABLE);
      assert_int_equal(tdm_faulty_allocator_outstanding_bytes(counted[r]), 0);
      tdm_faulty_allocator_destroy(counted[r]);
    }
  }
}

static void a_file_that_rank_0_cannot_read_is_told_to_all(void **state) {
  (void)state;
  char path[PATH_BYTES];
  path_of(path, "not_there");
  must_fail(&(stages){.load = path}, TDM_UNAVAILABLE, "rank 0: ", "not_there");
  must_fail(&(stages){.load_parameters = path}, TDM_UNAVAILABLE, "rank 0: ", "not_there");
  write_old(path_of(path, "damaged"));
  must_fail(&(stages){.load = path}, TDM_CORRUPT_DATA, "rank 0: ", "damaged");
}

/* ---- Loaders --------------------------------------------------------------------------------- */

static tdm_loader *make_loader(job_rank *rank, uint64_t seed) {
  const char *const names[] = {"ids"};
  tdm_tensor *ids = tdm_tensor_zeros(rank->context, "cpu:0", TDM_INT64, tdm_shape_of(1, ROWS));
  tdm_dataset *dataset = tdm_dataset_from_tensors(rank->context, names, &ids, 1);
  const tdm_loader_options options =
      OPTIONS(tdm_loader_options, o.batch_size = 2, o.shuffle = true, o.seed = seed);
  tdm_loader *loader = tdm_loader_create(dataset, &options);
  tdm_dataset_release(dataset);
  tdm_tensor_release(ids);
  return loader;
}

/* The last rank's loader has another seed than the one that was saved. */
static tdm_status load_beside_another_loader(job_rank *rank) {
  const char *path = rank->user;
  const bool is_other = rank->rank == rank->rank_count - 1;
  tdm_session *session = make_session(rank);
  tdm_loader *saved = make_loader(rank, 7), *other = make_loader(rank, is_other ? 8 : 7);
  if (!session || !saved || !other) return TDM_INTERNAL;
  tdm_status status = tdm_checkpoint_save(session, saved, path);
  if (status == TDM_OK) {
    rank->number = (uint64_t)tdm_checkpoint_load(session, other, path);
    (void)snprintf(rank->message, sizeof rank->message, "%s", tdm_last_message());
    status = tdm_checkpoint_load(session, saved, path); /* nothing of that is left over */
  }
  tdm_loader_release(saved);
  tdm_loader_release(other);
  tdm_session_release(session);
  return status;
}

static void a_rank_whose_loader_does_not_fit_is_named_to_all(void **state) {
  (void)state;
  char path[PATH_BYTES];
  job_rank ranks[MOST];
  for (int count = 1; count <= MOST; count++) {
    char name[24];
    (void)snprintf(name, sizeof name, "rank %d: ", count - 1);
    job_must(&(job_options){.rank_count = count, .user = path_of(path, "loader")},
             load_beside_another_loader, ranks);
    for (int r = 0; r < count; r++) {
      assert_status((tdm_status)ranks[r].number, TDM_INVALID_ARGUMENT);
      if (!strstr(ranks[r].message, "seed was 7, and is 8") ||
          (count > 1 && !strstr(ranks[r].message, name)))
        fail_msg("rank %d says \"%s\"", r, ranks[r].message);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(files_of_ranks_are_those_of_one_process),
      cmocka_unit_test(any_number_of_ranks_goes_on),
      cmocka_unit_test(sets_of_files_load_on_any_number_of_ranks),
      cmocka_unit_test(fewer_ranks_go_on_without_one_that_was_killed),
      cmocka_unit_test(parameters_by_pytorchs_names_go_both_ways),
      cmocka_unit_test(a_full_disk_fails_the_save_on_all_ranks),
      cmocka_unit_test(a_rank_that_cannot_save_is_named_to_all),
      cmocka_unit_test(a_file_that_rank_0_cannot_read_is_told_to_all),
      cmocka_unit_test(a_rank_whose_loader_does_not_fit_is_named_to_all),
      cmocka_unit_test(ranks_give_their_memory_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
