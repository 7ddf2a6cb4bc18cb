// Tandem for C++17: objects that release themselves, and failures as exceptions. All functions are
// those of the C headers; a handle converts to the pointer that they take:
//
//   tandem::context context;
//   tandem::graph graph(context);
//   const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 4));
//   tdm_output(graph, "y", tdm_linear(graph, "layer", x, 2));
//   tandem::session session(graph);
//   tandem::tensor rows = tandem::tensor_from(context, {3, 4}, numbers);
//   std::vector<float> y = tandem::elements<float>(tandem::run(session, {{"x", rows}}, {"y"})[0]);
//
// The header has no library of its own. Functions throw tandem::error on failure, or the standard
// library's std::bad_alloc. The C functions report errors as described in core/core.h.
#ifndef TANDEM_HPP
#define TANDEM_HPP

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tandem/tandem.h"

namespace tandem {

// ---- Failures ----

// Failure of a library call. status() is its status, and what() is its message.
class error : public std::runtime_error {
public:
  error(tdm_status status, const char *message) : std::runtime_error(message), status_(status) {}
  tdm_status status() const noexcept {
    return status_;
  }

private:
  tdm_status status_;
};

// Throws an error with the last message unless status is TDM_OK.
inline void check(tdm_status status) {
  if (status != TDM_OK) throw error(status, tdm_last_message());
}

// Returns made, the result of a function that returns an object. Throws an error with the last
// status and message if it is NULL.
template <class object> object *check(object *made) {
  const tdm_status status = tdm_last_status();
  if (!made) throw error(status == TDM_OK ? TDM_INVALID_ARGUMENT : status, tdm_last_message());
  return made;
}

// ---- Objects ----

// Deleter of std::unique_ptr that calls the object's release function.
struct releaser {
  void operator()(tdm_context *of) const noexcept {
    tdm_context_release(of);
  }
  void operator()(tdm_tensor *of) const noexcept {
    tdm_tensor_release(of);
  }
  void operator()(tdm_tensor_list *of) const noexcept {
    tdm_tensor_list_release(of);
  }
  void operator()(tdm_graph *of) const noexcept {
    tdm_graph_release(of);
  }
  void operator()(tdm_store *of) const noexcept {
    tdm_store_release(of);
  }
  void operator()(tdm_session *of) const noexcept {
    tdm_session_release(of);
  }
  void operator()(tdm_sequence *of) const noexcept {
    tdm_sequence_release(of);
  }
  void operator()(tdm_costs *of) const noexcept {
    tdm_costs_release(of);
  }
  void operator()(tdm_forecast *of) const noexcept {
    tdm_forecast_release(of);
  }
  void operator()(tdm_dataset *of) const noexcept {
    tdm_dataset_release(of);
  }
  void operator()(tdm_loader *of) const noexcept {
    tdm_loader_release(of);
  }
};

// Owns one reference to an object, or none. It can be moved but not copied; shared() adds a
// reference to a reference counted object.
template <class object> class handle {
public:
  handle() noexcept = default;
  // Takes the caller's reference. Throws an error with the last message if it is NULL.
  explicit handle(object *made) : owned_(check(made)) {}

  // Returns the pointer that C functions take; borrowed.
  operator object *() const noexcept {
    return owned_.get();
  }
  // Returns the pointer that C functions take; borrowed. nullptr if the handle is empty.
  object *get() const noexcept {
    return owned_.get();
  }
  // Returns the reference, which the caller then owns.
  object *release() noexcept {
    return owned_.release();
  }
  // Releases the reference, and takes the caller's instead.
  void reset(object *made = nullptr) noexcept {
    owned_.reset(made);
  }

private:
  std::unique_ptr<object, releaser> owned_;
};

// Handles of the other objects.
using tensor = handle<tdm_tensor>;
using tensor_list = handle<tdm_tensor_list>;
using sequence = handle<tdm_sequence>;
using costs = handle<tdm_costs>;
using forecast = handle<tdm_forecast>;
using dataset = handle<tdm_dataset>;
using loader = handle<tdm_loader>;

// Owns a context; created with default or given options.
class context : public handle<tdm_context> {
public:
  using handle::handle;
  context() : handle(tdm_context_create(nullptr)) {}
  explicit context(tdm_context_options options) : handle(tdm_context_create(&options)) {}
};

// Owns a graph; created empty.
class graph : public handle<tdm_graph> {
public:
  using handle::handle;
  explicit graph(const context &of) : handle(tdm_graph_create(of)) {}
};

// Owns a store; created empty.
class store : public handle<tdm_store> {
public:
  using handle::handle;
  explicit store(const context &of) : handle(tdm_store_create(of)) {}
};

// Owns a session; created with default or given options.
class session : public handle<tdm_session> {
public:
  using handle::handle;
  explicit session(const graph &of) : handle(tdm_session_create(of, nullptr)) {}
  session(const graph &of, tdm_session_options options)
      : handle(tdm_session_create(of, &options)) {}
};

namespace detail {

// Returns the object of a handle. Throws an error with a message of its own if the handle is empty.
template <class object> object *full(const handle<object> &of) {
  if (of.get()) return of.get();
  tdm_fail(TDM_INVALID_ARGUMENT, "tandem::shared: the handle owns nothing");
  throw error(TDM_INVALID_ARGUMENT, tdm_last_message());
}

} // namespace detail

// Returns a further handle of the same object. Throws an error if the handle is empty.
inline context shared(const context &of) {
  return context(tdm_context_retain(detail::full(of)));
}
inline graph shared(const graph &of) {
  return graph(tdm_graph_retain(detail::full(of)));
}
inline store shared(const store &of) {
  return store(tdm_store_retain(detail::full(of)));
}
inline session shared(const session &of) {
  return session(tdm_session_retain(detail::full(of)));
}
inline tensor shared(const tensor &of) {
  return tensor(tdm_tensor_retain(detail::full(of)));
}
inline sequence shared(const sequence &of) {
  return sequence(tdm_sequence_retain(detail::full(of)));
}
inline dataset shared(const dataset &of) {
  return dataset(tdm_dataset_retain(detail::full(of)));
}

// ---- Building ----

// Opens a scope of a graph for its lifetime: names have the prefix "name/"; nullptr selects the
// next number. See tdm_scope_push.
class scope {
public:
  scope(tdm_graph *of, const char *name) : graph_(of) {
    tdm_scope_push(of, name);
  }
  // Opens a scope with the prefix "name/index/", as for a member of a list.
  scope(tdm_graph *of, const char *name, std::int64_t index) : graph_(of) {
    tdm_scope_push_index(of, name, index);
  }
  ~scope() {
    tdm_scope_pop(graph_);
  }
  scope(const scope &) = delete;
  scope &operator=(const scope &) = delete;

private:
  tdm_graph *graph_;
};

// ---- Elements ----

// The dtype of a C++ type.
template <class element> struct dtype_of;
template <> struct dtype_of<float> { static constexpr tdm_dtype value = TDM_FLOAT32; };
template <> struct dtype_of<double> { static constexpr tdm_dtype value = TDM_FLOAT64; };
template <> struct dtype_of<std::int32_t> { static constexpr tdm_dtype value = TDM_INT32; };
template <> struct dtype_of<std::int64_t> { static constexpr tdm_dtype value = TDM_INT64; };
template <> struct dtype_of<std::uint8_t> { static constexpr tdm_dtype value = TDM_UINT8; };

// Returns a tensor on cpu:0 with a copy of elements, in row-major order. Throws an error unless
// their number is that of the shape dims.
template <class element>
tensor tensor_from(const context &of, std::initializer_list<tdm_dim> dims,
                   const std::vector<element> &elements) {
  const tdm_shape shape = tdm_shape_make(static_cast<int>(dims.size()), dims.begin());
  if (tdm_shape_count(&shape) != static_cast<std::int64_t>(elements.size())) {
    char text[TDM_SHAPE_TEXT];
    tdm_fail(TDM_INVALID_ARGUMENT, "%zu elements are not those of shape %s", elements.size(),
             tdm_shape_text(&shape, text, sizeof text));
    throw error(TDM_INVALID_ARGUMENT, tdm_last_message());
  }
  return tensor(tdm_tensor_from(of, dtype_of<element>::value, shape, elements.data()));
}

// Returns a copy of a tensor's elements, from any device. Throws an error if they have another
// dtype.
template <class element> std::vector<element> elements(const tensor &of) {
  if (tdm_tensor_dtype(of) != dtype_of<element>::value) {
    tdm_fail(TDM_INVALID_ARGUMENT, "elements of %s are asked for as %s",
             tdm_dtype_name(tdm_tensor_dtype(of)), tdm_dtype_name(dtype_of<element>::value));
    throw error(TDM_INVALID_ARGUMENT, tdm_last_message());
  }
  std::vector<element> copied(tdm_tensor_bytes(of) / sizeof(element));
  check(tdm_tensor_read(of, copied.data(), copied.size() * sizeof(element)));
  return copied;
}

// ---- Running ----

// A tensor that is fed to an input; borrowed during the call.
struct feed {
  const char *name;
  const tensor &fed;
};

namespace detail {

inline std::vector<tdm_feed> feeds_of(std::initializer_list<feed> feeds) {
  std::vector<tdm_feed> listed;
  listed.reserve(feeds.size());
  for (const feed &each : feeds)
    listed.push_back(tdm_feed{each.name, each.fed, false});
  return listed;
}

inline std::vector<tdm_fetch> fetches_of(std::initializer_list<const char *> names) {
  std::vector<tdm_fetch> listed;
  listed.reserve(names.size());
  for (const char *name : names)
    listed.push_back(tdm_fetch{name, nullptr});
  return listed;
}

} // namespace detail

// Computes outputs and returns them in the order of names. See tdm_run.
inline std::vector<tensor> run(const session &of, std::initializer_list<feed> feeds,
                               std::initializer_list<const char *> names) {
  const std::vector<tdm_feed> fed = detail::feeds_of(feeds);
  std::vector<tdm_fetch> fetched = detail::fetches_of(names);
  std::vector<tensor> tensors(fetched.size()); // allocated before the run, so that no output leaks
  check(tdm_run(of, fed.data(), fed.size(), fetched.data(), fetched.size()));
  for (std::size_t i = 0; i < fetched.size(); i++)
    tensors[i].reset(fetched[i].tensor);
  return tensors;
}

// Runs one training step and returns the loss. See tdm_train_step.
inline double train_step(const session &of, std::initializer_list<feed> feeds) {
  const std::vector<tdm_feed> fed = detail::feeds_of(feeds);
  double loss = 0;
  check(tdm_train_step(of, fed.data(), fed.size(), nullptr, 0, &loss));
  return loss;
}

} // namespace tandem

#endif
