// The small rows of bench/models in PyTorch's C++: "name<TAB>nanoseconds", medians.
//   model_rows_libtorch --threads N [ROW...]
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace nn = torch::nn;
using Work = std::function<void()>;

static double time_calls_ns(const Work &work, long calls) {
  const auto began = std::chrono::steady_clock::now();
  for (long i = 0; i < calls; i++)
    work();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - began).count();
}

// As bench/timing.c takes it.
static double hot_ns(const Work &work) {
  long calls = 1;
  while (time_calls_ns(work, calls) < 5e6)
    calls *= 2;
  std::vector<double> samples;
  double total_ns = 0;
  while (samples.size() < 41 && (samples.size() < 5 || total_ns < 1e9)) {
    total_ns += time_calls_ns(work, calls);
    samples.push_back(0);
    samples.back() = total_ns;
  }
  for (size_t i = samples.size() - 1; i > 0; i--)
    samples[i] -= samples[i - 1];
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2] / calls;
}

struct Printer {
  std::vector<std::string> wanted;

  void row(const std::string &name, const Work &work) const {
    const bool asked =
        wanted.empty() || std::any_of(wanted.begin(), wanted.end(), [&](const std::string &word) {
          return name.compare(0, word.size(), word) == 0;
        });
    if (asked) std::printf("%s\t%.1f\n", name.c_str(), hot_ns(work));
    std::fflush(stdout);
  }
};

using Loss = std::function<torch::Tensor(const torch::Tensor &, const torch::Tensor &)>;

static void rows_of(const Printer &printer, const std::string &name, nn::Sequential model,
                    torch::Tensor x, torch::Tensor target, const Loss &loss) {
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  {
    torch::InferenceMode guard;
    printer.row(name + " forward", [&] { model->forward(x); });
  }
  printer.row(name + " step", [&] {
    optimizer.zero_grad();
    loss(model->forward(x), target).backward();
    optimizer.step();
  });
}

static torch::Tensor ids(int64_t count, int64_t step, int64_t limit) {
  return torch::arange(count, torch::kLong) * step % limit;
}

static torch::Tensor cross_entropy(const torch::Tensor &scores, const torch::Tensor &classes) {
  return nn::functional::cross_entropy(scores, classes);
}

static torch::Tensor mean_squared_error(const torch::Tensor &y, const torch::Tensor &wanted) {
  return nn::functional::mse_loss(y, wanted);
}

int main(int argc, char **argv) {
  Printer printer;
  for (int i = 1; i < argc; i++) {
    if (std::string(argv[i]) == "--threads" && i + 1 < argc)
      torch::set_num_threads(std::atoi(argv[++i]));
    else
      printer.wanted.push_back(argv[i]);
  }
  torch::manual_seed(1);
  for (const int64_t rows : {30, 65536}) {
    nn::Sequential words(nn::Embedding(1000, 10), nn::Linear(10, 10));
    rows_of(printer, "words " + std::to_string(rows), words, ids(rows, 7919, 1000),
            ids(rows, 1, 10), cross_entropy);
  }
  nn::Sequential chain;
  for (int i = 0; i < 100; i++)
    chain->push_back(nn::Linear(10, 10));
  rows_of(printer, "chain of 100", chain, torch::rand({30, 10}) * 2 - 1,
          torch::rand({30, 10}) * 2 - 1, mean_squared_error);
  return 0;
}
