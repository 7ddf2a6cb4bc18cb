// Tandem from C++17: objects that let go of themselves, failures as exceptions, and the C functions
// as they are. A handle converts to the pointer that those take:
//
//   tandem::context context;
//   tandem::graph graph(context);
//   const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 4));
//   tdm_output(graph, "y", tdm_linear(graph, "layer", x, 2));
//   tandem::session session(graph);
//   tandem::tensor rows = tandem::tensor_from(context, {3, 4}, numbers);
//   std::vector<float> y = tandem::elements<float>(tandem::run(session, {{"x", rows}}, {"y"})[0]);
//
// Header only. Whatever throws throws tandem::error, or std::bad_alloc of the standard library's.
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

// ---- Failures
// ------------------------------------------------------------------------------------

// What a call of the library failed with; what() is its message.
class error : public std::runtime_error {
public:
  error(tdm_status status, const char *message) : std::runtime_error(message), status_(status) {}
  tdm_status status() const noexcept {
    return status_;
  }

private:
  tdm_status status_;
};

// Throws unless status is TDM_OK.
inline void check(tdm_status status) {
  if (status != TDM_OK) throw error(status, tdm_last_message());
}

// Throws where a call that answers an object has answered none; else hands it on.
template <class object> object *check(object *made) {
  const tdm_status status = tdm_last_status();
  if (!made) throw error(status == TDM_OK ? TDM_INVALID_ARGUMENT : status, tdm_last_message());
  return made;
}

// ---- Objects
// -------------------------------------------------------------------------------------

// Gives references back.
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
  void operator()(tdm_words *of) const noexcept {
    tdm_words_release(of);
  }
  void operator()(tdm_vocabulary *of) const noexcept {
    tdm_vocabulary_release(of);
  }
};

// Owns one reference, or nothing. Moved, not copied: shared() makes another one of what is counted.
template <class object> class handle {
public:
  handle() noexcept = default;
  // Takes over the caller's reference; throws where it is NULL, with the last message.
  explicit handle(object *made) : owned_(check(made)) {}

  // What the C functions take; borrowed.
  operator object *() const noexcept {
    return owned_.get();
  }
  object *get() const noexcept {
    return owned_.get();
  }
  // The reference is the caller's again.
  object *release() noexcept {
    return owned_.release();
  }
  // Lets go of what it has, and takes over this reference instead.
  void reset(object *made = nullptr) noexcept {
    owned_.reset(made);
  }

private:
  std::unique_ptr<object, releaser> owned_;
};

using tensor = handle<tdm_tensor>;
using tensor_list = handle<tdm_tensor_list>;
using sequence = handle<tdm_sequence>;
using costs = handle<tdm_costs>;
using forecast = handle<tdm_forecast>;
using dataset = handle<tdm_dataset>;
using loader = handle<tdm_loader>;
using words = handle<tdm_words>;
using vocabulary = handle<tdm_vocabulary>;

class context : public handle<tdm_context> {
public:
  using handle::handle;
  context() : handle(tdm_context_create(nullptr)) {}
  explicit context(tdm_context_options options)
      : handle(tdm_context_create(&options)) {}
};

class graph : public handle<tdm_graph> {
public:
  using handle::handle;
  explicit graph(const context &of) : handle(tdm_graph_create(of)) {}
};

class store : public handle<tdm_store> {
public:
  using handle::handle;
  explicit store(const context &of) : handle(tdm_store_create(of)) {}
};

class session : public handle<tdm_session> {
public:
  using handle::handle;
  explicit session(const graph &of) : handle(tdm_session_create(of, nullptr)) {}
  session(const graph &of, tdm_session_options options)
      : handle(tdm_session_create(of, &options)) {}
};

namespace detail {

// Of a handle that owns nothing the last message is about something else.
template <class object> object *full(const handle<object> &of) {
  if (of.get()) return of.get();
  tdm_fail(TDM_INVALID_ARGUMENT, "tandem::shared: the handle owns nothing");
  throw error(TDM_INVALID_ARGUMENT, tdm_last_message());
}

} // namespace detail

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
inline vocabulary shared(const vocabulary &of) {
  return vocabulary(tdm_vocabulary_retain(detail::full(of)));
}

// ---- Building
// ------------------------------------------------------------------------------------

// Names made while it lives are prefixed with "name/"; nullptr: the next number.
class scope {
public:
  scope(tdm_graph *of, const char *name) : graph_(of) {
    tdm_scope_push(of, name);
  }
  // With "name/index/", a member of a list.
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

// ---- Elements
// ------------------------------------------------------------------------------------

template <class element> struct dtype_of;
template <> struct dtype_of<float> { static constexpr tdm_dtype value = TDM_FLOAT32; };
template <> struct dtype_of<double> { static constexpr tdm_dtype value = TDM_FLOAT64; };
template <> struct dtype_of<std::int32_t> { static constexpr tdm_dtype value = TDM_INT32; };
template <> struct dtype_of<std::int64_t> { static constexpr tdm_dtype value = TDM_INT64; };
template <> struct dtype_of<std::uint8_t> { static constexpr tdm_dtype value = TDM_UINT8; };

// A tensor on cpu:0 with a copy of elements, row-major; as many as dims say, else it throws.
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

// A copy of a tensor's elements, wherever it lies; throws where they are of another dtype.
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

// ---- Running
// -------------------------------------------------------------------------------------

// A tensor that an input is fed, borrowed for the call.
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

// The outputs of these names, in their order.
inline std::vector<tensor> run(const session &of, std::initializer_list<feed> feeds,
                               std::initializer_list<const char *> names) {
  const std::vector<tdm_feed> fed = detail::feeds_of(feeds);
  std::vector<tdm_fetch> fetched = detail::fetches_of(names);
  std::vector<tensor> tensors(fetched.size()); // before there is something that could be lost
  check(tdm_run(of, fed.data(), fed.size(), fetched.data(), fetched.size()));
  for (std::size_t i = 0; i < fetched.size(); i++)
    tensors[i].reset(fetched[i].tensor);
  return tensors;
}

// Forward, backward and update; answers the loss.
inline double train_step(const session &of, std::initializer_list<feed> feeds) {
  const std::vector<tdm_feed> fed = detail::feeds_of(feeds);
  double loss = 0;
  check(tdm_train_step(of, fed.data(), fed.size(), nullptr, 0, &loss));
  return loss;
}

} // namespace tandem

#endif
