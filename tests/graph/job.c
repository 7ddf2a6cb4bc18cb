/* See job.h. */
#include "tests/graph/job.h"

#include <pthread.h>
#include <stdio.h>

#include "core/hash.h"
#include "devices/creation/job.h"
#include "graph/store/store.h"

typedef struct rank_thread {
  const job_options *options;
  tdm_simnet *net;
  job_body body;
  job_rank *rank;
  pthread_t thread;
} rank_thread;

static tdm_status live(rank_thread *mine) {
  const job_options *options = mine->options;
  tdm_endpoint *endpoint;
  TDM_TRY(tdm_simnet_endpoint(mine->net, mine->rank->rank, &endpoint));
  const tdm_context_options context = {.struct_size = sizeof context,
                                       .cpu_devices = options->cpu_devices + !options->cpu_devices,
                                       .sim_devices =
                                           options->sim_devices > 0 ? options->sim_devices : -1,
                                       .sim = "latency_us=0,gigabytes_per_second=0"};
  mine->rank->context = tdm_context_create_in_job(&context, endpoint);
  if (!mine->rank->context) return TDM_INTERNAL;
  return mine->body(mine->rank);
}

static void *rank_main(void *user) {
  rank_thread *mine = user;
  job_rank *rank = mine->rank;
  rank->status = live(mine);
  if (rank->status != TDM_OK)
    (void)snprintf(rank->message, sizeof rank->message, "%s", tdm_last_message());
  tdm_context_release(rank->context);
  rank->context = NULL;
  return NULL;
}

void job_run(const job_options *options, job_body body, job_rank *ranks) {
  const tdm_allocator allocator = tdm_allocator_default();
  tdm_simnet_options net_options = options->net;
  net_options.struct_size = sizeof net_options;
  net_options.rank_count = options->rank_count;
  rank_thread threads[JOB_MOST_RANKS];
  tdm_simnet *net;
  assert_ok(tdm_simnet_create(&allocator, &net_options, &net));
  assert_in_range(options->rank_count, 1, JOB_MOST_RANKS);
  for (int r = 0; r < options->rank_count; r++) {
    ranks[r] = (job_rank){.rank = r, .rank_count = options->rank_count, .user = options->user};
    threads[r] = (rank_thread){.options = options, .net = net, .body = body, .rank = &ranks[r]};
    assert_int_equal(pthread_create(&threads[r].thread, NULL, rank_main, &threads[r]), 0);
  }
  for (int r = 0; r < options->rank_count; r++)
    assert_int_equal(pthread_join(threads[r].thread, NULL), 0);
  tdm_simnet_release(net);
}

void job_must(const job_options *options, job_body body, job_rank *ranks) {
  job_run(options, body, ranks);
  for (int r = 0; r < options->rank_count; r++)
    if (ranks[r].status != TDM_OK)
      fail_msg("rank %d of %d: %s: %s", r, options->rank_count, tdm_status_name(ranks[r].status),
               ranks[r].message);
}

uint64_t job_hash(tdm_session *session) {
  const tdm_store *store = tdm_session_store(session);
  uint64_t hash = 0;
  for (const tdm_store_entry *entry = store->first; entry; entry = entry->next) {
    if (!entry->storage || entry->storage->memory.device->described) continue;
    const tdm_memory *memory = &entry->storage->memory;
    const size_t bytes = (size_t)tdm_shape_bytes(&entry->spec.shape, entry->spec.dtype);
    tdm_tensor *copy = tdm_tensor_create(tdm_session_context(session), "cpu:0", entry->spec.dtype,
                                         entry->spec.shape);
    const tdm_memory to = {tdm_tensor_owner(copy), tdm_tensor_address(copy), bytes, NULL};
    if (tdm_context_copy(tdm_session_context(session), memory, &to, bytes) == TDM_OK)
      hash ^= tdm_hash_bytes(tdm_tensor_data(copy), bytes, tdm_hash_string(entry->name, 1));
    tdm_tensor_release(copy);
  }
  return hash;
}
