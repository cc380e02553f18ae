// SPDX-License-Identifier: Apache-2.0
// Sessions, and bindings: arrays that a session was given once, for many runs.
#include <atomic>

#include "base/string_table.h"
#include "bind.h"
#include "device_array.h"
#include "engine.h"
#include "guard.h"

namespace nb = nanobind;

namespace temper::python {

namespace {

// Belongs to one thread at a time, which is checked: two in one session would write into the same memory.
class PySession {
 public:
  // `state`: outputs by the inputs that they are of the next run.
  PySession(const PyEngine& engine, nb::dict state) : open_(engine.open), place_(place_of(*engine.get())) {
    const KeepCurrentGpu kept(of_gpu());
    session_ = std::make_unique<Session>(engine.get());
    std::vector<StateBinding> bindings;
    for (auto [input, output] : state)
      bindings.push_back({nb::cast<std::string>(input), nb::cast<std::string>(output)});
    session_->keep_state(bindings);
    if (of_gpu()) place_.stream = reinterpret_cast<intptr_t>(session_->stream());
  }

  ~PySession() {
    if (of_gpu()) let_go_on_gpu(session_);
  }

  class Turn {
   public:
    explicit Turn(PySession& session, bool closing = false) : session_(session) {
      if (session_.busy_.exchange(true, std::memory_order_acquire))
        fail(ErrorKind::usage,
             "this session is running in another thread; make one for each thread with engine.session(), or a binding "
             "with engine.bind()");
      try {
        if (!closing && !session_.session_) fail(ErrorKind::usage, "the session is closed");
        if (!closing) session_.open_->get();
      } catch (const Error&) {
        session_.busy_ = false;
        throw;
      }
    }
    ~Turn() { session_.busy_.store(false, std::memory_order_release); }

   private:
    PySession& session_;
  };

  // What prepare() found for the shapes of the inputs.
  struct Ready {
    struct Made {
      nb::object name, dtype;
      TensorType type;
      Dims dims;  // of the type
    };
    std::vector<Dims> shapes;
    bool partitioned = false;  // shapes depend on data
    std::vector<Made> made;    // the outputs, where they do not
  };

  // Arrays that a run reads and writes, checked and in order. They keep the memory; of outputs that were made here,
  // `results` does.
  struct Arrays {
    std::vector<Array> inputs, targets;
    std::vector<size_t> input_at, target_at;  // their places among the engine's ports: a state may have no array
    std::vector<const void*> in;
    std::vector<void*> out;
    std::vector<std::pair<size_t, Tensor>> strings;  // outputs that are strings: their codes
    std::shared_ptr<const Ready> ready;
    bool on_device = false;
    nb::dict results;  // by name
  };

  nb::dict run(nb::handle inputs, nb::handle outputs, nb::handle stream) {
    const Turn turn(*this);
    const KeepCurrentGpu kept(of_gpu());
    strings_.clear();
    const UseStrings used(strings_);
    if (!stream.is_none()) return run_in_stream(inputs, outputs, nb::cast<intptr_t>(stream));
    Arrays arrays = check(given_for(inputs), outputs);
    if (ready_->partitioned) run_partitioned(arrays);
    else launch(arrays);
    for (const auto& [output, codes] : arrays.strings)
      arrays.results[engine().outputs()[output].name.c_str()] = array_from(codes);
    return std::move(arrays.results);
  }

  // What was given for inputs, and which they are: all, but states that are left to the session.
  struct GivenObjects {
    std::vector<nb::object> objects;
    std::vector<PortInfo> ports;
    std::vector<size_t> at;
  };
  GivenObjects given_for(nb::handle inputs) const {
    GivenObjects given;
    const std::vector<PortInfo>& ports = engine().inputs();
    const auto is_left = [&](size_t i) {
      const auto& states = session_->states();
      return std::any_of(states.begin(), states.end(), [&](const State& state) { return state.input == i; }) &&
             !(PyMapping_Check(inputs.ptr()) && PyMapping_HasKeyString(inputs.ptr(), ports[i].name.c_str()));
    };
    for (size_t i = 0; i < ports.size(); ++i) {
      if (is_left(i)) continue;
      given.at.push_back(i);
      given.ports.push_back(ports[i]);
    }
    given.objects = objects_of(inputs, given.ports);
    return given;
  }

  // Within a turn.
  Arrays check_to_keep(const GivenObjects& inputs, nb::handle outputs) { return check(inputs, outputs, place_); }
  Arrays check(const GivenObjects& inputs, nb::handle outputs) {
    Place place = place_;
    place.borrows = true;
    return check(inputs, outputs, place);
  }
  Arrays check(const GivenObjects& inputs, nb::handle outputs, const Place& place) {
    Arrays arrays;
    arrays.inputs = arrays_of(inputs.objects, inputs.ports, place);
    arrays.input_at = inputs.at;
    arrays.on_device = !arrays.inputs.empty() && arrays.inputs[0].on_device;
    make_ready(arrays);
    arrays.ready = ready_;
    if (ready_->partitioned) {
      if (arrays.on_device || !outputs.is_none()) refuse_partitioned();
      return arrays;
    }
    arrays.in.resize(engine().inputs().size());
    for (size_t i = 0; i < arrays.inputs.size(); ++i) arrays.in[arrays.input_at[i]] = arrays.inputs[i].data;
    arrays.out.resize(ready_->made.size());
    std::vector<PortInfo> ports;
    for (size_t o = 0; o < ready_->made.size(); ++o) {
      const auto& states = session_->states();
      if (std::any_of(states.begin(), states.end(), [&](const State& state) { return state.output == o; })) continue;
      arrays.target_at.push_back(o);
      ports.push_back(engine().outputs()[o]);
    }
    if (outputs.is_none()) make_outputs(arrays);
    else take_outputs(arrays, objects_of(outputs, ports, "output"), ports, place);
    return arrays;
  }
  void launch(const Arrays& arrays) {
    if (arrays.ready != ready_) prepare_again(arrays.ready);
    const WithoutGil released;
    if (arrays.on_device) session_->run_resident(arrays.in, arrays.out);
    else session_->run_prepared(arrays.in, arrays.out);
  }

  void prepare(const std::vector<Dims>& shapes) {
    const Turn turn(*this);
    const KeepCurrentGpu kept(of_gpu());
    make_ready(shapes);
  }

  void close() {
    const Turn turn(*this, true);
    const KeepCurrentGpu kept(of_gpu());
    session_.reset();
  }

  nb::dict state() {
    const Turn turn(*this);
    const KeepCurrentGpu kept(of_gpu());
    nb::dict values;
    for (const State& state : session_->states())
      if (const Tensor value = session_->state(state.input); value.defined())
        values[engine().inputs()[state.input].name.c_str()] = array_from(value);
    return values;
  }
  void reset() {
    const Turn turn(*this);
    session_->reset_state();
  }
  std::unique_ptr<PySession> fork() {
    const Turn turn(*this);
    const KeepCurrentGpu kept(of_gpu());
    return std::make_unique<PySession>(*this, session_->fork());
  }
  PySession(const PySession& other, std::unique_ptr<Session> session)
      : open_(other.open_), session_(std::move(session)), place_(other.place_) {
    if (of_gpu()) place_.stream = reinterpret_cast<intptr_t>(session_->stream());
  }

  SessionStatistics statistics() { return Turn(*this), session_->statistics(); }
  int64_t arena_bytes() { return Turn(*this), session_->arena_bytes(); }

  bool of_gpu() const { return place_.type != Place::kCpu; }
  const Engine& engine() const { return session_->engine(); }  // within a turn
  [[noreturn]] static void refuse_strings() {
    fail(ErrorKind::unsupported,
         "strings are taken and given by run() alone, in arrays of its own on the host: give no outputs");
  }
  void expect_no_strings() const {
    for (const auto* ports : {&engine().inputs(), &engine().outputs()})
      for (const PortInfo& port : *ports)
        if (port.type.dtype == DType::string) refuse_strings();
  }
  [[noreturn]] static void refuse_partitioned() {
    fail(ErrorKind::unsupported,
         "shapes inside this model depend on data, so it reads and writes the host's memory, in arrays of "
         "its own: use run() with x.cpu() and no outputs");
  }

 private:
  // The memory of outputs is known afterwards only.
  void run_partitioned(Arrays& arrays) {
    std::vector<Tensor> tensors(engine().inputs().size());
    for (size_t i = 0; i < arrays.inputs.size(); ++i) tensors[arrays.input_at[i]] = arrays.inputs[i].tensor();
    {
      const WithoutGil released;
      tensors = session_->run(tensors);
    }
    const std::vector<PortInfo>& ports = engine().outputs();
    for (size_t i = 0; i < ports.size(); ++i)
      if (tensors[i].defined()) arrays.results[ports[i].name.c_str()] = array_from(tensors[i]);
  }

  // Nothing is waited for here: what is in the stream, and will be, is the order.
  nb::dict run_in_stream(nb::handle inputs, nb::handle outputs, intptr_t stream) {
    session_->stream();  // refuses other devices
    if (outputs.is_none())
      fail(ErrorKind::usage,
           "a run in a stream writes where you say: give outputs, such as torch.empty(..., device=...)");
    Place place = place_;
    place.borrows = true;
    place.stream = -1;  // of DLPack: the producer makes nobody wait
    Arrays arrays = check(given_for(inputs), outputs, place);
    if (arrays.ready->partitioned) refuse_partitioned();
    if (!arrays.on_device) fail(ErrorKind::usage, "a run in a stream reads and writes the memory of ", place.name);
    {
      const WithoutGil released;
      session_->run_resident(arrays.in, arrays.out, reinterpret_cast<void*>(stream));
    }
    return std::move(arrays.results);
  }

  void make_outputs(Arrays& arrays) {
    for (size_t i : arrays.target_at) {
      const Ready::Made& made = ready_->made[i];
      if (made.type.dtype == DType::string) {
        if (arrays.on_device) refuse_strings();
        arrays.strings.emplace_back(i, Tensor(DType::string, made.dims));
        arrays.out[i] = arrays.strings.back().second.raw_mutable();
        continue;
      }
      arrays.results[made.name] =
          arrays.on_device ? device_array(made, &arrays.out[i]) : new_array(made.dims, made.dtype, &arrays.out[i]);
    }
  }

  void take_outputs(Arrays& arrays, const std::vector<nb::object>& objects, const std::vector<PortInfo>& ports,
                    const Place& place) {
    for (const PortInfo& port : ports)
      if (port.type.dtype == DType::string) refuse_strings();
    arrays.targets = arrays_of(objects, ports, place, "output");
    for (size_t i = 0; i < objects.size(); ++i) {
      const Ready::Made& made = ready_->made[arrays.target_at[i]];
      const Array& target = arrays.targets[i];
      const std::string& name = ports[i].name;
      if (target.dims != made.dims)
        fail(ErrorKind::usage, "output '", name, "' was given the shape ", target.dims, "; for these inputs it is ",
             made.dims);
      if (!target.writable) fail(ErrorKind::usage, "output '", name, "' was given an array that cannot be written");
      if (target.on_device != arrays.on_device)
        fail(ErrorKind::usage, "output '", name, "' is ",
             target.on_device ? concat("on ", place_.name) : "in the host's memory",
             " and the inputs are not: give all of them in one place");
      arrays.out[arrays.target_at[i]] = const_cast<void*>(target.data);
      arrays.results[made.name] = objects[i];
    }
    if (!arrays.on_device) check_disjoint(arrays);  // in a GPU's memory, what meets is copied
  }

  // Kernels may write an output while they, or others, still read an input.
  void check_disjoint(const Arrays& arrays) const {
    struct Range {
      const std::byte* begin;
      int64_t bytes;
      bool meets(const Range& other) const { return begin < other.begin + other.bytes && other.begin < begin + bytes; }
    };
    const auto range = [](const Array& array) {
      return Range{static_cast<const std::byte*>(array.data), byte_count(array.dtype, array.dims)};
    };
    const auto refuse = [&](size_t i, const char* role, const std::string& other) {
      fail(ErrorKind::usage, "output '", engine().outputs()[arrays.target_at[i]].name, "' shares memory with the ",
           role, " '", other, "': give it memory of its own");
    };
    for (size_t i = 0; i < arrays.targets.size(); ++i) {
      const Range written = range(arrays.targets[i]);
      for (size_t j = 0; j < arrays.inputs.size(); ++j)
        if (written.meets(range(arrays.inputs[j]))) refuse(i, "input", engine().inputs()[arrays.input_at[j]].name);
      for (size_t j = 0; j < i; ++j)
        if (written.meets(range(arrays.targets[j]))) refuse(i, "output", engine().outputs()[arrays.target_at[j]].name);
    }
  }

  nb::object device_array(const Ready::Made& made, void** data) {
    const DType dtype = made.type.dtype;
    DeviceArray array{dtype, made.dims, keeping_current_gpu(session_->allocate_resident(byte_count(dtype, made.dims))),
                      place_, open_->get()};
    *data = array.memory.get();
    return nb::cast(std::move(array));
  }

  // For the shapes of these inputs, which ready_ is of then.
  void make_ready(const Arrays& arrays) {
    const std::vector<Array>& inputs = arrays.inputs;
    bool same = session_->states().empty() && ready_ && ready_->shapes.size() == inputs.size();
    for (size_t i = 0; same && i < inputs.size(); ++i) same = ready_->shapes[i] == inputs[i].dims;
    if (same) return;
    std::vector<Dims> shapes(engine().inputs().size());
    std::vector<char> given(shapes.size(), 0);
    for (size_t i = 0; i < inputs.size(); ++i) {
      shapes[arrays.input_at[i]] = inputs[i].dims;
      given[arrays.input_at[i]] = 1;
    }
    session_->add_state_shapes(given, shapes);
    if (ready_ && ready_->shapes == shapes) return;
    make_ready(shapes);
  }
  void make_ready(const std::vector<Dims>& shapes) {
    ready_.reset();  // of none, where this throws
    std::vector<TensorType> types;
    {
      const WithoutGil released;
      types = session_->prepare(shapes);
    }
    auto ready = std::make_shared<Ready>();
    ready->shapes = shapes;
    ready->partitioned = session_->is_partitioned();
    if (!ready->partitioned)
      for (size_t i = 0; i < types.size(); ++i)
        ready->made.push_back({nb::str(engine().outputs()[i].name.c_str()),
                               types[i].dtype == DType::string ? nb::object() : numpy_type(types[i].dtype), types[i],
                               types[i].dims()});
    ready_ = std::move(ready);
  }

  // Another binding of this session, or run(), had other shapes since.
  void prepare_again(const std::shared_ptr<const Ready>& ready) {
    {
      const WithoutGil released;
      session_->prepare(ready->shapes);
    }
    ready_ = ready;
  }

  std::shared_ptr<OpenEngine> open_;
  StringTable strings_;               // of the last run
  std::unique_ptr<Session> session_;  // null: closed
  Place place_;
  std::atomic<bool> busy_{false};
  std::shared_ptr<const Ready> ready_;  // what the session is prepared for; let go with the GIL only
};

// As run(inputs, outputs) of its session, on arrays that are checked and taken once.
class Binding {
 public:
  Binding(nb::object session, nb::handle inputs, nb::handle outputs)
      : owner_(std::move(session)), session_(nb::cast<PySession&>(owner_)) {
    const PySession::Turn turn(session_);
    const KeepCurrentGpu kept(session_.of_gpu());
    session_.expect_no_strings();
    given_ = session_.given_for(inputs);
    arrays_ = session_.check_to_keep(given_, outputs);
    if (arrays_.ready->partitioned) PySession::refuse_partitioned();
    // Whoever reads an output on a stream of his own must be waited for before the next run, and only his framework
    // knows him.
    if (arrays_.on_device && outputs.is_none())
      fail(ErrorKind::usage,
           "a binding in the memory of a GPU writes where you say: give outputs, such as torch.empty(..., device=...)");
    nb::dict by_name;
    for (size_t i = 0; i < given_.ports.size(); ++i) by_name[given_.ports[i].name.c_str()] = given_.objects[i];
    inputs_ = read_only(by_name);
    outputs_ = read_only(arrays_.results);
  }

  Binding(Binding&&) = default;

  nb::object run() {
    const PySession::Turn turn(session_);
    if (session_.of_gpu()) run_on_gpu();
    else session_.launch(arrays_);
    return outputs_;
  }

  nb::object inputs() const { return inputs_; }
  nb::object outputs() const { return outputs_; }

 private:
  static nb::object read_only(const nb::dict& dict) { return nb::steal(PyDictProxy_New(dict.ptr())); }

  // Tensors of a GPU are asked for their memory again: that is how their frameworks learn which stream must wait.
  void run_on_gpu() {
    const KeepCurrentGpu kept;
    if (arrays_.on_device) session_.launch(session_.check(given_, arrays_.results));
    else session_.launch(arrays_);
  }

  nb::object owner_;
  PySession& session_;
  PySession::GivenObjects given_;
  PySession::Arrays arrays_;
  nb::object inputs_, outputs_;  // by name, and read only: what is put there would not be run
};

}  // namespace

void bind_session(nb::module_& module) {
  nb::class_<PySession>(module, "Session")
      .def(nb::init<const PyEngine&, nb::dict>(), nb::arg("engine"), nb::arg("state") = nb::dict())
      .def("run", &PySession::run, nb::arg("inputs").none(), nb::arg("outputs") = nb::none(), nb::kw_only(),
           nb::arg("stream") = nb::none())
      .def(
          "bind",
          [](nb::handle self, nb::handle inputs, nb::handle outputs) {
            return Binding(nb::borrow(self), inputs, outputs);
          },
          nb::arg("inputs").none(), nb::arg("outputs") = nb::none(),
          "As Engine.bind, in this session: its bindings share its memory and take turns.")
      .def("prepare", &PySession::prepare)
      .def("state", &PySession::state,
           "By input: a copy of what the next run takes; nothing before the first run. `Engine.session` says what a "
           "state is.")
      .def("reset", &PySession::reset, "States begin again, with zeros.")
      .def("reset_state", &PySession::reset, "`reset`, by its name in C.")
      .def("fork", &PySession::fork,
           "A session of the same engine that goes on from copies of the states, as for several answers to one "
           "beginning.")
      .def("close", &PySession::close)
      .def_prop_ro("runs", [](PySession& self) { return self.statistics().runs; })
      .def_prop_ro("plans_made", [](PySession& self) { return self.statistics().plans_made; })
      .def_prop_ro(
          "prepared", [](PySession& self) { return self.statistics().prepared; }, "Shapes that it is ready for.")
      .def_prop_ro(
          "prepared_bytes", [](PySession& self) { return self.statistics().prepared_bytes; },
          "Of those, with an estimate of what the kernels take.")
      .def_prop_ro(
          "evictions", [](PySession& self) { return self.statistics().evictions; },
          "Shapes let go by the engine's limits.")
      .def_prop_ro("arena_bytes", &PySession::arena_bytes);
  nb::class_<Binding>(module, "Binding", "Arrays that were checked once, for many runs; made by Engine.bind.")
      .def("run", &Binding::run, nb::sig("def run(self) -> collections.abc.Mapping[str, typing.Any]"),
           "Runs once on what the inputs hold now, without the GIL; returns `outputs`, all of them written.")
      .def_prop_ro("inputs", &Binding::inputs, nb::sig("def inputs(self) -> collections.abc.Mapping[str, typing.Any]"),
                   "The arrays by name.")
      .def_prop_ro("outputs", &Binding::outputs,
                   nb::sig("def outputs(self) -> collections.abc.Mapping[str, typing.Any]"),
                   "The arrays by name, which each run writes again.");
}

}  // namespace temper::python
