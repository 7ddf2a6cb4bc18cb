// tandem.hpp as a program uses it: a model is built, trained and run by handles, failures are
// exceptions with status and message, and nothing is lost or let go of twice.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

extern "C" {
#include <cmocka.h>
}

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "tandem/tandem.hpp"

namespace {

tdm_session_options training(tdm_value loss, const tdm_optimizer &optimizer) {
  tdm_session_options options = tdm_session_options_default();
  options.loss = loss;
  options.optimizer = &optimizer;
  return options;
}

void a_model_is_trained_and_run(void **) {
  tandem::context context;
  tandem::graph graph(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 2));
  const tdm_value t = tdm_input(graph, "t", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 1));
  tdm_value y;
  {
    const tandem::scope scope(graph, "parts", 3);
    y = tdm_linear(graph, "layer", x, 1);
  }
  tdm_output(graph, "y", y);
  const tdm_optimizer sgd = tdm_sgd(0.1);
  const tandem::session session(graph, training(tdm_mse(graph, "loss", y, t), sgd));
  const tandem::tensor rows = tandem::tensor_from<float>(context, {2, 2}, {1, 0, 0, 1});
  const tandem::tensor targets = tandem::tensor_from<float>(context, {2, 1}, {2, -1});
  double loss = 0;
  for (int step = 0; step < 200; step++)
    loss = tandem::train_step(session, {{"x", rows}, {"t", targets}});
  assert_true(loss < 1e-3);
  const std::vector<tandem::tensor> outputs = tandem::run(session, {{"x", rows}}, {"y"});
  assert_int_equal(outputs.size(), 1);
  const std::vector<float> numbers = tandem::elements<float>(outputs[0]);
  assert_int_equal(numbers.size(), 2);
  assert_true(numbers[0] > 1.9F && numbers[0] < 2.1F && numbers[1] < -0.9F && numbers[1] > -1.1F);
  tdm_tensor_list *state = nullptr;
  tandem::check(tdm_session_state_dict(session, nullptr, &state));
  const tandem::tensor_list listed(state);
  assert_non_null(tdm_tensor_list_find(listed, "parts.3.layer.weight"));
}

void handles_move_and_share(void **) {
  tandem::context context;
  tandem::tensor first = tandem::tensor_from<std::int64_t>(context, {3}, {1, 2, 3});
  tdm_tensor *const same = first;
  tandem::tensor second = std::move(first);
  assert_null(first.get());
  assert_ptr_equal(second.get(), same);
  {
    const tandem::tensor third = tandem::shared(second);
    second.reset();
    assert_ptr_equal(third.get(), same);
    assert_int_equal(tandem::elements<std::int64_t>(third)[2], 3);
  }
  const tandem::context again = tandem::shared(context);
  assert_ptr_equal(again.get(), context.get());
}

// What call throws; empty: nothing.
template <class function> std::string message_of(tdm_status status, function call) {
  try {
    call();
  } catch (const tandem::error &failed) {
    assert_int_equal(failed.status(), status);
    return failed.what();
  }
  return "";
}

bool has(const std::string &text, const char *part) {
  return std::strstr(text.c_str(), part) != nullptr;
}

void failures_are_exceptions(void **) {
  tandem::context context;
  tandem::graph graph(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, 2));
  tdm_output(graph, "y", tdm_relu(graph, "relu", x));
  const tandem::session session(graph);
  const tandem::tensor rows = tandem::tensor_from<float>(context, {2}, {-1, 1});
  assert_true(has(message_of(TDM_INVALID_ARGUMENT,
                             [&] {
                               tandem::run(session, {{"z", rows}}, {"y"});
                             }),
                  "z"));
  assert_true(has(message_of(TDM_INVALID_ARGUMENT,
                             [&] {
                               tandem::run(session, {{"x", rows}}, {"why"});
                             }),
                  "why"));
  assert_true(has(message_of(TDM_INVALID_ARGUMENT,
                             [&] {
                               tandem::tensor_from<float>(context, {3}, {1, 2});
                             }),
                  "2 elements"));
  assert_true(
      has(message_of(TDM_INVALID_ARGUMENT, [&] { tandem::elements<double>(rows); }), "float32"));
  assert_true(has(message_of(TDM_INVALID_ARGUMENT,
                             [&] {
                               tandem::tensor(tdm_tensor_zeros(context, "gpu", TDM_FLOAT32,
                                                               tdm_shape_scalar()));
                             }),
                  "gpu"));
  assert_true(
      has(message_of(TDM_UNAVAILABLE,
                     [&] { tandem::tensor_list(tdm_safetensors_load(context, "not there")); }),
          "not there"));
  assert_true(has(message_of(TDM_OUT_OF_MEMORY,
                             [&] {
                               tandem::tensor(tdm_tensor_create(context, "cpu:0", TDM_FLOAT32,
                                                                tdm_shape_of(1, INT64_C(1) << 50)));
                             }),
                  "out of memory"));
  assert_true(message_of(TDM_OK, [&] { tandem::run(session, {{"x", rows}}, {"y"}); }).empty());
}

// ---- Memory ------------------------------------------------------------------------------------

thread_local long allocations_left = -1; // of operator new; -1: as many as are wanted
long kept = 0;                           // pieces of the context's memory that are not given back

void *count_allocate(void *, size_t bytes, size_t alignment) {
  void *memory = std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
  if (memory) __atomic_add_fetch(&kept, 1, __ATOMIC_RELAXED);
  return memory;
}

void count_release(void *, void *memory, size_t) {
  if (memory) __atomic_sub_fetch(&kept, 1, __ATOMIC_RELAXED);
  std::free(memory);
}

// A run's outputs are given back where no list of them can be made.
void no_output_is_lost_where_memory_is_short(void **) {
  {
    const tdm_allocator counting = {count_allocate, count_release, nullptr};
    tdm_context_options options = tdm_context_options_default();
    options.allocator = &counting;
    tandem::context context(options);
    tandem::graph graph(context);
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, 2));
    tdm_output(graph, "y", tdm_relu(graph, "relu", x));
    const tandem::session session(graph);
    const tandem::tensor rows = tandem::tensor_from<float>(context, {2}, {-1, 1});
    int failed = 0;
    for (bool done = false; !done;) {
      allocations_left = failed;
      try {
        tandem::run(session, {{"x", rows}}, {"y"});
        done = true;
      } catch (const std::bad_alloc &) {
        failed++;
      }
      allocations_left = -1;
    }
    assert_int_equal(failed, 3);
  }
  assert_int_equal(kept, 0);
}

void what_was_moved_from_is_told(void **) {
  tandem::context context;
  tandem::tensor rows = tandem::tensor_from<float>(context, {2}, {-1, 1});
  const tandem::tensor moved = std::move(rows);
  (void)tdm_fail(TDM_IO, "a failure long past");
  assert_true(has(message_of(TDM_INVALID_ARGUMENT, [&] { (void)tandem::shared(rows); }),
                  "the handle owns nothing"));
}

} // namespace

void *operator new(std::size_t bytes) {
  if (allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
  void *memory = std::malloc(bytes ? bytes : 1);
  if (!memory) throw std::bad_alloc();
  return memory;
}

void operator delete(void *memory) noexcept {
  std::free(memory);
}

void operator delete(void *memory, std::size_t) noexcept {
  std::free(memory);
}

int main() {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_model_is_trained_and_run),
      cmocka_unit_test(handles_move_and_share),
      cmocka_unit_test(failures_are_exceptions),
      cmocka_unit_test(no_output_is_lost_where_memory_is_short),
      cmocka_unit_test(what_was_moved_from_is_told),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
