// SPDX-License-Identifier: Apache-2.0
// Sessions, and bindings: arrays that a session was given once, for many runs.
#include <atomic>

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
  explicit PySession(const PyEngine& engine) : open_(engine.open), place_(place_of(*engine.get())) {
    const KeepCurrentGpu kept(of_gpu());
    session_ = std::make_unique<Session>(engine.get());
    if (of_gpu()) place_.stream = reinterpret_cast<intptr_t>(session_->stream());
  }

  ~PySession() {
    const KeepCurrentGpu kept(of_gpu());
    session_.reset();
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
    std::vector<const void*> in;
    std::vector<void*> out;
    std::shared_ptr<const Ready> ready;
    bool on_device = false;
    nb::dict results;  // by name
  };

  nb::dict run(nb::handle inputs, nb::handle outputs) {
    const Turn turn(*this);
    const KeepCurrentGpu kept(of_gpu());
    Arrays arrays = check(objects_of(inputs, session_->engine().inputs()), outputs);
    if (ready_->partitioned) run_partitioned(arrays);
    else launch(arrays);
    return std::move(arrays.results);
  }

  // Both within a turn.
  Arrays check(const std::vector<nb::object>& inputs, nb::handle outputs) {
    Arrays arrays;
    arrays.inputs = arrays_of(inputs, session_->engine().inputs(), place_);
    arrays.on_device = !inputs.empty() && arrays.inputs[0].on_device;
    make_ready(arrays.inputs);
    arrays.ready = ready_;
    if (ready_->partitioned) {
      if (arrays.on_device || !outputs.is_none()) refuse_partitioned();
      return arrays;
    }
    for (const Array& array : arrays.inputs) arrays.in.push_back(array.data);
    arrays.out.resize(ready_->made.size());
    if (outputs.is_none()) make_outputs(arrays);
    else take_outputs(arrays, objects_of(outputs, session_->engine().outputs(), "output"));
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

  SessionStatistics statistics() { return Turn(*this), session_->statistics(); }
  int64_t arena_bytes() { return Turn(*this), session_->arena_bytes(); }

  bool of_gpu() const { return place_.type != Place::kCpu; }
  const Engine& engine() const { return session_->engine(); }  // within a turn
  [[noreturn]] static void refuse_partitioned() {
    fail(ErrorKind::unsupported,
         "shapes inside this model depend on data, so it reads and writes the host's memory, in arrays of "
         "its own: use run() with x.cpu() and no outputs");
  }

 private:
  // The memory of outputs is known afterwards only.
  void run_partitioned(Arrays& arrays) {
    std::vector<Tensor> tensors;
    for (const Array& array : arrays.inputs) tensors.push_back(array.tensor());
    {
      const WithoutGil released;
      tensors = session_->run(tensors);
    }
    const std::vector<PortInfo>& ports = engine().outputs();
    for (size_t i = 0; i < ports.size(); ++i) arrays.results[ports[i].name.c_str()] = array_from(tensors[i]);
  }

  void make_outputs(Arrays& arrays) {
    for (size_t i = 0; i < ready_->made.size(); ++i) {
      const Ready::Made& made = ready_->made[i];
      arrays.results[made.name] =
          arrays.on_device ? device_array(made, &arrays.out[i]) : new_array(made.dims, made.dtype, &arrays.out[i]);
    }
  }

  void take_outputs(Arrays& arrays, const std::vector<nb::object>& objects) {
    arrays.targets = arrays_of(objects, engine().outputs(), place_, "output");
    for (size_t i = 0; i < objects.size(); ++i) {
      const Ready::Made& made = ready_->made[i];
      const Array& target = arrays.targets[i];
      const std::string& name = engine().outputs()[i].name;
      if (target.dims != made.dims)
        fail(ErrorKind::usage, "output '", name, "' was given the shape ", target.dims, "; for these inputs it is ",
             made.dims);
      if (!target.writable) fail(ErrorKind::usage, "output '", name, "' was given an array that cannot be written");
      if (target.on_device != arrays.on_device)
        fail(ErrorKind::usage, "output '", name, "' is ",
             target.on_device ? concat("on ", place_.name) : "in the host's memory",
             " and the inputs are not: give all of them in one place");
      arrays.out[i] = const_cast<void*>(target.data);
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
      fail(ErrorKind::usage, "output '", engine().outputs()[i].name, "' shares memory with the ", role, " '", other,
           "': give it memory of its own");
    };
    for (size_t i = 0; i < arrays.targets.size(); ++i) {
      const Range written = range(arrays.targets[i]);
      for (size_t j = 0; j < arrays.inputs.size(); ++j)
        if (written.meets(range(arrays.inputs[j]))) refuse(i, "input", engine().inputs()[j].name);
      for (size_t j = 0; j < i; ++j)
        if (written.meets(range(arrays.targets[j]))) refuse(i, "output", engine().outputs()[j].name);
    }
  }

  nb::object device_array(const Ready::Made& made, void** data) {
    const DType dtype = made.type.dtype;
    DeviceArray array{dtype, made.dims, keeping_current_gpu(session_->allocate_resident(byte_count(dtype, made.dims))),
                      place_};
    *data = array.memory.get();
    return nb::cast(std::move(array));
  }

  // For the shapes of these inputs, which ready_ is of then.
  void make_ready(const std::vector<Array>& inputs) {
    bool same = ready_ && ready_->shapes.size() == inputs.size();
    for (size_t i = 0; same && i < inputs.size(); ++i) same = ready_->shapes[i] == inputs[i].dims;
    if (same) return;
    std::vector<Dims> shapes;
    for (const Array& array : inputs) shapes.push_back(array.dims);
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
        ready->made.push_back(
            {nb::str(engine().outputs()[i].name.c_str()), numpy_type(types[i].dtype), types[i], types[i].dims()});
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
    const std::vector<PortInfo>& ports = session_.engine().inputs();
    given_ = objects_of(inputs, ports);
    arrays_ = session_.check(given_, outputs);
    if (arrays_.ready->partitioned) PySession::refuse_partitioned();
    // Whoever reads an output on a stream of his own must be waited for before the next run, and only his framework
    // knows him.
    if (arrays_.on_device && outputs.is_none())
      fail(ErrorKind::usage,
           "a binding in the memory of a GPU writes where you say: give outputs, such as torch.empty(..., device=...)");
    nb::dict by_name;
    for (size_t i = 0; i < ports.size(); ++i) by_name[ports[i].name.c_str()] = given_[i];
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
  std::vector<nb::object> given_;
  PySession::Arrays arrays_;
  nb::object inputs_, outputs_;  // by name, and read only: what is put there would not be run
};

}  // namespace

void bind_session(nb::module_& module) {
  nb::class_<PySession>(module, "Session")
      .def(nb::init<const PyEngine&>())
      .def("run", &PySession::run, nb::arg("inputs"), nb::arg("outputs") = nb::none())
      .def(
          "bind",
          [](nb::handle self, nb::handle inputs, nb::handle outputs) {
            return Binding(nb::borrow(self), inputs, outputs);
          },
          nb::arg("inputs"), nb::arg("outputs") = nb::none(),
          "As Engine.bind, in this session: its bindings share its memory and take turns.")
      .def("prepare", &PySession::prepare)
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
