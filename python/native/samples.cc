// SPDX-License-Identifier: Apache-2.0
// Data batch by batch, with what a model answers: a folder of pictures is read and run without its samples ever lying
// in memory together.
#include "base/log.h"
#include "bind.h"
#include "data.h"
#include "data/batches.h"
#include "data/not_finite.h"
#include "data/sample.h"
#include "engine.h"
#include "guard.h"
#include "runtime/keep_current_gpu.h"

namespace nb = nanobind;

namespace temper::python {

namespace {

class Samples {
 public:
  // `runs`: answers are wanted, so that a model is built for the data now.
  Samples(nb::object model, nb::dict build, nb::dict data, int64_t batch, bool runs, nb::object progress)
      : given_(data_of(data)), progress_(progress_of(std::move(progress))) {
    BuildOptions built = options_of(build);
    built.progress = progress_;
    const KeepCurrentGpu kept(built.device.starts_with("cuda"));
    DataModel opened_model = data_model_of(model, built);
    const WithoutGil released;
    data_ = given_.request.open(opened_model.inputs());
    for (const InputSpec& input : opened_model.inputs()) inputs_.push_back(input.name);
    chosen_ = samples_of(data_, given_.request);
    left_out_ = leave_out(data_, given_.request, chosen_, progress_);
    sizes_ = opened_model.choose_batch(data_, batch);
    log(LogLevel::info, data_.text(), ", in batches of ", sizes_.size);
    if (runs) {
      engine_ = opened_model.engine(data_, sizes_, int64_t(chosen_.size()));
      session_ = std::make_unique<Session>(engine_);
    }
  }
  ~Samples() {
    const KeepCurrentGpu kept(session_ != nullptr);
    session_.reset();
    engine_.reset();
  }

  // (names, labels or None, inputs by name, answers by name or None) of the next batch; None behind the last one.
  nb::object next() {
    const KeepCurrentGpu kept(session_ != nullptr);
    Batch batch;
    std::vector<Tensor> outputs;
    {
      const WithoutGil released;
      if (at_ >= chosen_.size()) finish();
    }
    if (at_ >= chosen_.size()) return nb::none();
    {
      const WithoutGil released;
      tell(progress_, {session_ ? "running" : "reading", double(at_), double(chosen_.size()), "samples"});
      batch = gather_batch(data_, std::span(chosen_).subspan(at_, std::min(size_t(sizes_.size), chosen_.size() - at_)));
      at_ += size_t(batch.count);
      for (size_t i = 0; i < batch.inputs.size(); ++i)
        broken_.look(concat("the input '", inputs_[i], "'"), batch.inputs[i], batch.names);
      if (session_) outputs = run_batch(*session_, data_, batch, sizes_);
    }
    nb::dict inputs, answers;
    for (size_t i = 0; i < batch.inputs.size(); ++i) inputs[inputs_[i].c_str()] = array_from(batch.inputs[i]);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].defined()) answers[engine_->outputs()[i].name.c_str()] = array_from(outputs[i]);
    return nb::make_tuple(batch.names, batch.labels.empty() ? nb::none() : nb::cast(batch.labels), inputs,
                          session_ ? nb::object(answers) : nb::none());
  }

  PyEngine engine() const { return opened(engine_); }
  int64_t size() const { return int64_t(chosen_.size()); }
  int64_t batch() const { return sizes_.size; }
  nb::dict preprocess() const {
    nb::dict said;
    for (const auto& [input, words] : data_.preprocess()) said[input.c_str()] = words;
    return said;
  }
  const std::string& text() const { return data_.text(); }
  const std::vector<std::string>& class_names() const { return data_.class_names(); }
  std::vector<std::pair<std::string, std::string>> left_out() const {
    std::vector<std::pair<std::string, std::string>> list;
    list.reserve(left_out_.size());
    for (const Unreadable& one : left_out_) list.emplace_back(one.name, one.error.what());
    return list;
  }

 private:
  void finish() {
    for (const std::string& warning : broken_.warnings(int64_t(chosen_.size())))
      log(LogLevel::warning, warning, "; look at the data and at the preprocessing");
    broken_ = {};
  }

  PyData given_;
  Progress progress_;
  Dataset data_;
  std::vector<std::string> inputs_;
  std::vector<int64_t> chosen_;
  std::vector<Unreadable> left_out_;
  BatchSizes sizes_;
  std::shared_ptr<const Engine> engine_;
  std::unique_ptr<Session> session_;
  NotFinite broken_;
  size_t at_ = 0;
};

}  // namespace

void bind_samples(nb::module_& module) {
  nb::class_<Samples>(module, "Samples")
      .def(nb::init<nb::object, nb::dict, nb::dict, int64_t, bool, nb::object>(), nb::arg("model"), nb::arg("build"),
           nb::arg("data"), nb::arg("batch"), nb::arg("runs"), nb::arg("progress").none())
      .def("next", &Samples::next)
      .def("engine", &Samples::engine)
      .def("size", &Samples::size)
      .def("batch", &Samples::batch)
      .def("preprocess", &Samples::preprocess)
      .def("text", &Samples::text)
      .def("class_names", &Samples::class_names)
      .def("left_out", &Samples::left_out);
}

}  // namespace temper::python
