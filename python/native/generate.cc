// SPDX-License-Identifier: Apache-2.0
// Generation: rows of tokens, and what comes behind them.
#include "runtime/generate.h"

#include "arrays.h"
#include "bind.h"
#include "engine.h"
#include "guard.h"
#include "runtime/keep_current_gpu.h"

namespace nb = nanobind;

namespace temper::python {

namespace {

// Belongs to one thread at a time, which the package sees to.
class PyReader {
 public:
  explicit PyReader(const PyEngine& engine) : open_(engine.open), of_gpu_(place_of(*engine.get()).type != Place::kCpu) {
    const KeepCurrentGpu kept(of_gpu_);
    reader_ = std::make_unique<TokenReader>(engine.get());
  }
  PyReader(const PyReader& other, std::unique_ptr<TokenReader> reader)
      : open_(other.open_), of_gpu_(other.of_gpu_), reader_(std::move(reader)) {}
  ~PyReader() {
    const KeepCurrentGpu kept(of_gpu_);
    reader_.reset();
  }

  TokenReader& get() { return *reader_; }
  bool of_gpu() const { return of_gpu_; }
  std::unique_ptr<PyReader> fork() {
    const KeepCurrentGpu kept(of_gpu_);
    return std::make_unique<PyReader>(*this, reader_->fork());
  }
  void read(const std::vector<std::vector<int64_t>>& tokens) {
    const KeepCurrentGpu kept(of_gpu_);
    const WithoutGil released;
    reader_->read(tokens);
  }
  nb::object logits(int64_t row) {
    const auto values = reader_->logits(row);
    Tensor tensor(DType::f32, {int64_t(values.size())});
    std::copy(values.begin(), values.end(), tensor.data<float>());
    return array_from(tensor);
  }

 private:
  std::shared_ptr<OpenEngine> open_;
  bool of_gpu_;
  std::unique_ptr<TokenReader> reader_;
};

class PyGenerator {
 public:
  PyGenerator(nb::object reader, const std::vector<std::vector<int64_t>>& prompts, nb::dict options)
      : owner_(std::move(reader)), reader_(nb::cast<PyReader&>(owner_)) {
    GenerateOptions generate;
    const auto read = [&](const char* name, auto& value) {
      if (options.contains(name)) value = nb::cast<std::decay_t<decltype(value)>>(options[name]);
    };
    read("max_tokens", generate.most);
    read("end_with", generate.end_with);
    read("temperature", generate.sample.temperature);
    read("top_k", generate.sample.top_k);
    read("top_p", generate.sample.top_p);
    read("repetition_penalty", generate.sample.repetition_penalty);
    read("seed", generate.sample.seed);
    const KeepCurrentGpu kept(reader_.of_gpu());
    const WithoutGil released;
    generator_ = std::make_unique<Generator>(reader_.get(), prompts, generate);
  }
  std::vector<int64_t> next() {
    const KeepCurrentGpu kept(reader_.of_gpu());
    const WithoutGil released;
    return generator_->next();
  }
  Generator& get() { return *generator_; }
  // Goes on by `reader`, a fork of its own.
  std::unique_ptr<PyGenerator> fork(nb::object reader, std::optional<uint64_t> seed) {
    std::unique_ptr<PyGenerator> other(new PyGenerator(std::move(reader)));
    const KeepCurrentGpu kept(reader_.of_gpu());
    const WithoutGil released;
    other->generator_ = generator_->fork(other->reader_.get(), seed);
    return other;
  }

 private:
  explicit PyGenerator(nb::object reader) : owner_(std::move(reader)), reader_(nb::cast<PyReader&>(owner_)) {}

  nb::object owner_;
  PyReader& reader_;
  std::unique_ptr<Generator> generator_;
};

}  // namespace

void bind_generate(nb::module_& module) {
  nb::class_<PyReader>(module, "TokenReader")
      .def(nb::init<const PyEngine&>())
      .def_prop_ro("batch", [](PyReader& self) { return self.get().batch(); })
      .def_prop_ro("positions", [](PyReader& self) { return self.get().positions(); })
      .def_prop_ro("vocabulary", [](PyReader& self) { return self.get().vocabulary(); })
      .def("length", [](PyReader& self, int64_t row) { return self.get().length(row); })
      .def("next", [](PyReader& self, int64_t row) { return self.get().next(row); })
      .def("read", &PyReader::read)
      .def("logits", &PyReader::logits)
      .def("reset", [](PyReader& self) { self.get().reset(); })
      .def("fork", &PyReader::fork);
  nb::class_<PyGenerator>(module, "Generator")
      .def(nb::init<nb::object, const std::vector<std::vector<int64_t>>&, nb::dict>())
      .def("next", &PyGenerator::next)
      .def("fork", &PyGenerator::fork, nb::arg("reader"), nb::arg("seed").none())
      .def("why", [](PyGenerator& self, int64_t row) { return self.get().why(row); })
      .def("end", [](PyGenerator& self, int64_t row, const std::string& why) { self.get().end(row, why); })
      .def_prop_ro("first_ms", [](PyGenerator& self) { return self.get().first_ms(); })
      .def_prop_ro("rest_ms", [](PyGenerator& self) { return self.get().rest_ms(); })
      .def_prop_ro("tokens", [](PyGenerator& self) { return self.get().tokens(); });
}

}  // namespace temper::python
