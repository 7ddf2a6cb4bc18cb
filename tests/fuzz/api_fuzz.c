/* The API: bytes become calls of tandem.h. Invariant: an accepted graph runs or fails with a
 * message and a status other than INTERNAL, and finally all its resources are released. */
#include "tests/fuzz/api/api.h"

#include <time.h>

enum { MOST_CALLS = 24, MOST_WAITS = 1000 };

/* Bytes from here on select kinds of calls that were added later, so that older inputs keep their
 * meaning. */
enum { LATER_CALLS = 232 };

static void call(api *self) {
  char name[API_NAME_BYTES];
  const uint8_t kind = fuzz_byte(&self->input);
  if (kind < LATER_CALLS && kind % 3 == 0)
    api_call_building(self);
  else if (kind < LATER_CALLS)
    api_call_layer(self, api_name(self, name));
  else if (kind % 3 == 0)
    api_call_graph(self);
  else if (kind % 3 == 1)
    api_call_move(self, api_name(self, name));
  else
    api_call_block(self, api_name(self, name));
}

static void program(const uint8_t *data, size_t size) {
  api self = {.input = {data, size}, .context = fuzz_context(2, 2)};
  self.graph = tdm_graph_create(self.context);
  fuzz_expect(self.graph != NULL, "no graph");
  const uint32_t calls = fuzz_below(&self.input, MOST_CALLS);
  for (uint32_t i = 0; i < calls && tdm_graph_status(self.graph) == TDM_OK; i++)
    call(&self);
  const tdm_status status = tdm_graph_status(self.graph);
  if (status != TDM_OK) (void)fuzz_judge(status);
  api_run(&self);
  tdm_graph_release(self.graph);
}

/* Waits for memory that a device's thread is about to release. */
static int64_t settled_outstanding(int64_t wanted) {
  for (int i = 0; i < MOST_WAITS && fuzz_outstanding() > wanted; i++)
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  return fuzz_outstanding();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  (void)fuzz_context(2, 2);
  int64_t before = fuzz_outstanding();
  program(data, size);
  int64_t after = fuzz_outstanding();
  /* The context keeps some for the next: what grows each time is lost. */
  for (int i = 0; i < 4 && after > before; i++) {
    before = after;
    program(data, size);
    after = settled_outstanding(before);
  }
  fuzz_expect(after <= before, "%lld bytes are lost each time", (long long)(after - before));
  return 0;
}
