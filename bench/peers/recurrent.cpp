// recurrent_rows_dnnl --threads N CELL:IN:HIDDEN:BATCH:LENGTH...: the rows of bench/recurrent with
// oneDNN's primitives (2.x). CELL is lstm or gru (linear before reset, as PyTorch has it); rows of
// rnn are passed over. Primitives are made, and weights brought into the layouts they ask for,
// before anything is timed; a step is only the primitives forward and backward, without a loss or
// an update, but with the gradient of x.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <unordered_map>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

using dnnl::memory;
using tag = memory::format_tag;
using arguments = std::unordered_map<int, memory>;

namespace {

struct layer {
  char cell[8];
  long long in, hidden, batch, length;
};

double seconds_of(const std::function<void()> &work, int calls) {
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; i++)
    work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

// As bench/timing.c takes it.
double hot_ns(const std::function<void()> &work) {
  int calls = 1;
  while (seconds_of(work, calls) < 0.005)
    calls *= 2;
  std::vector<double> samples;
  double total = 0;
  while (samples.size() < 41 && (samples.size() < 5 || total < 1)) {
    const double took = seconds_of(work, calls);
    total += took;
    samples.push_back(took / calls);
  }
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2] * 1e9;
}

// Ends the program if what was computed is not there.
void check(const memory &y, const char *word) {
  const float *data = static_cast<const float *>(y.get_data_handle());
  const size_t count = y.get_desc().get_size() / sizeof(float);
  bool computed = false;
  for (size_t i = count - count / 4; i < count; i++)
    computed |= data[i] != 0 && data[i] == data[i];
  if (computed) return;
  std::fprintf(stderr, "%s: oneDNN left no result\n", word);
  std::exit(1);
}

// Shared by the primitives of one layer: the engine, the plain operands, and derived memory.
class bench {
public:
  explicit bench(const layer &timed)
      : timed_(timed), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_),
        gates_(std::strcmp(timed.cell, "lstm") == 0 ? 4 : 3) {}

  void run(const char *word);

private:
  memory::desc any(memory::dims dims) const {
    return {dims, memory::data_type::f32, tag::any};
  }
  memory::desc x() const {
    return {{timed_.length, timed_.batch, timed_.in}, memory::data_type::f32, tag::tnc};
  }
  memory::desc y() const {
    return {{timed_.length, timed_.batch, timed_.hidden}, memory::data_type::f32, tag::tnc};
  }
  memory::desc bias() const {
    // Also used for gru: one more bias, of the state's product.
    return {{1, 1, 4, timed_.hidden}, memory::data_type::f32, tag::ldgo};
  }
  memory::desc of_input() const {
    return any({1, 1, timed_.in, gates_, timed_.hidden});
  }
  memory::desc of_state() const {
    return any({1, 1, timed_.hidden, gates_, timed_.hidden});
  }

  memory make(const memory::desc &desc, float scale) {
    memory made(desc, engine_);
    float *data = static_cast<float *>(made.get_data_handle());
    for (size_t i = 0; i < desc.get_size() / sizeof(float); i++)
      data[i] = scale * (static_cast<float>(i * 2654435761u % 2000) / 1000.f - 1.f);
    return made;
  }

  // Weights of the sizes of `wanted`, brought from a plain layout into that one, which may be
  // opaque.
  memory make_weights(const memory::desc &wanted, long long in) {
    const memory::desc plain({1, 1, in, gates_, timed_.hidden}, memory::data_type::f32, tag::ldigo);
    memory from = make(plain, 0.04f);
    memory made(wanted, engine_);
    dnnl::reorder(from, made).execute(stream_, from, made);
    stream_.wait();
    return made;
  }

  template <class Primitive> typename Primitive::primitive_desc forward_desc(dnnl::prop_kind kind);
  template <class Forward, class Backward> void time(const char *word);

  layer timed_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  long long gates_;
};

const auto direction = dnnl::rnn_direction::unidirectional_left2right;

template <>
dnnl::lstm_forward::primitive_desc bench::forward_desc<dnnl::lstm_forward>(dnnl::prop_kind kind) {
  const memory::desc none;
  return {{kind, direction, x(), none, none, of_input(), of_state(), bias(), y(), none, none},
          engine_};
}

template <>
dnnl::lbr_gru_forward::primitive_desc
bench::forward_desc<dnnl::lbr_gru_forward>(dnnl::prop_kind kind) {
  const memory::desc none;
  return {{kind, direction, x(), none, of_input(), of_state(), bias(), y(), none}, engine_};
}

dnnl::lstm_backward::primitive_desc
backward_desc(const dnnl::lstm_forward::primitive_desc &hint, const memory::desc &x,
              const memory::desc &y, const memory::desc &of_input, const memory::desc &of_state,
              const memory::desc &bias, const dnnl::engine &engine) {
  const memory::desc none;
  return {{dnnl::prop_kind::backward,
           direction,
           x,
           none,
           none,
           of_input,
           of_state,
           bias,
           y,
           none,
           none,
           x,
           none,
           none,
           of_input,
           of_state,
           bias,
           y,
           none,
           none},
          engine,
          hint};
}

dnnl::lbr_gru_backward::primitive_desc
backward_desc(const dnnl::lbr_gru_forward::primitive_desc &hint, const memory::desc &x,
              const memory::desc &y, const memory::desc &of_input, const memory::desc &of_state,
              const memory::desc &bias, const dnnl::engine &engine) {
  const memory::desc none;
  return {{dnnl::prop_kind::backward, direction, x, none, of_input, of_state, bias, y, none, x,
           none, of_input, of_state, bias, y, none},
          engine,
          hint};
}

template <class Forward, class Backward> void bench::time(const char *word) {
  const memory x_made = make(x(), 1), bias_made = make(bias(), 0.04f), y_made = make(y(), 0);
  const auto infers = forward_desc<Forward>(dnnl::prop_kind::forward_inference);
  const Forward forward(infers);
  const arguments inferred = {
      {DNNL_ARG_SRC_LAYER, x_made},
      {DNNL_ARG_WEIGHTS_LAYER, make_weights(infers.weights_layer_desc(), timed_.in)},
      {DNNL_ARG_WEIGHTS_ITER, make_weights(infers.weights_iter_desc(), timed_.hidden)},
      {DNNL_ARG_BIAS, bias_made},
      {DNNL_ARG_DST_LAYER, y_made}};
  std::printf("%s forward\t%.1f\n", word, hot_ns([&] {
                forward.execute(stream_, inferred);
                stream_.wait();
              }));
  check(y_made, word);

  const auto trains = forward_desc<Forward>(dnnl::prop_kind::forward_training);
  const Forward kept(trains);
  arguments given = {
      {DNNL_ARG_SRC_LAYER, x_made},
      {DNNL_ARG_WEIGHTS_LAYER, make_weights(trains.weights_layer_desc(), timed_.in)},
      {DNNL_ARG_WEIGHTS_ITER, make_weights(trains.weights_iter_desc(), timed_.hidden)},
      {DNNL_ARG_BIAS, bias_made},
      {DNNL_ARG_DST_LAYER, y_made},
      {DNNL_ARG_WORKSPACE, memory(trains.workspace_desc(), engine_)}};
  const auto backs = backward_desc(trains, x(), y(), of_input(), of_state(), bias(), engine_);
  const Backward backward(backs);
  arguments returned = given;
  returned[DNNL_ARG_WEIGHTS_LAYER] = make_weights(backs.weights_layer_desc(), timed_.in);
  returned[DNNL_ARG_WEIGHTS_ITER] = make_weights(backs.weights_iter_desc(), timed_.hidden);
  returned[DNNL_ARG_DIFF_DST_LAYER] = make(y(), 0.1f);
  returned[DNNL_ARG_DIFF_SRC_LAYER] = make(x(), 0);
  returned[DNNL_ARG_DIFF_WEIGHTS_LAYER] = make(backs.diff_weights_layer_desc(), 0);
  returned[DNNL_ARG_DIFF_WEIGHTS_ITER] = make(backs.diff_weights_iter_desc(), 0);
  returned[DNNL_ARG_DIFF_BIAS] = make(bias(), 0);
  std::printf("%s step\t%.1f\n", word, hot_ns([&] {
                kept.execute(stream_, given);
                backward.execute(stream_, returned);
                stream_.wait();
              }));
  std::fflush(stdout);
}

void bench::run(const char *word) {
  if (gates_ == 4)
    time<dnnl::lstm_forward, dnnl::lstm_backward>(word);
  else
    time<dnnl::lbr_gru_forward, dnnl::lbr_gru_backward>(word);
}

} // namespace

int main(int argc, char **argv) {
  int first = 1;
  if (argc > 2 && std::strcmp(argv[1], "--threads") == 0) {
    omp_set_num_threads(std::atoi(argv[2]));
    first = 3;
  }
  for (int i = first; i < argc; i++) {
    layer timed;
    if (std::sscanf(argv[i], "%7[a-z]:%lld:%lld:%lld:%lld", timed.cell, &timed.in, &timed.hidden,
                    &timed.batch, &timed.length) != 5)
      return 2;
    if (std::strcmp(timed.cell, "rnn") != 0) bench(timed).run(argv[i]);
  }
  return 0;
}
