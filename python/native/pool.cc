// SPDX-License-Identifier: Apache-2.0
// Pools: several devices that run batches of one engine.
#include "runtime/pool.h"

#include <atomic>

#include "bind.h"
#include "device_array.h"
#include "engine.h"
#include "guard.h"

namespace nb = nanobind;

namespace temper::python {

namespace {

class PyPool {
 public:
  PyPool(const PyEngine& engine, const std::string& devices, const std::vector<std::string>& library_folders)
      : open_(engine.open) {
    const KeepCurrentGpu kept;
    const WithoutGil released;
    on_ = std::make_unique<EnginePool>(engines_on_list(open_->get(), devices, {library_folders, nullptr}));
    of_gpu_ = on_->of_gpu();
  }
  ~PyPool() {
    if (of_gpu_) let_go_on_gpu(on_);
  }

  // The outputs of each batch, in their order.
  nb::list run(nb::list batches) {
    const Turn turn(busy_);
    const std::vector<PortInfo>& ports = open_->get()->inputs();
    std::vector<std::vector<Array>> arrays;
    std::vector<std::vector<Tensor>> inputs;
    for (nb::handle batch : batches)
      with_context([&] { return concat("batch ", arrays.size()); },
                   [&] {
                     std::vector<Array> given = arrays_of(batch, ports);
                     std::vector<Tensor> tensors;
                     std::vector<Dims> shapes;
                     for (const Array& array : given) {
                       tensors.push_back(array.tensor());
                       shapes.push_back(array.dims);
                     }
                     open_->get()->check_shapes(shapes);
                     arrays.push_back(std::move(given));
                     inputs.push_back(std::move(tensors));
                   });
    std::vector<std::vector<Tensor>> answers;
    {
      const KeepCurrentGpu kept(of_gpu_);
      const WithoutGil released;
      on_->pool.run(int64_t(inputs.size()), [&](size_t device, int64_t b) -> Pool::Finish {
        return [&, outputs = on_->sessions.at(device).run(inputs[size_t(b)])] {
          check_interrupted();
          answers.push_back(outputs);
        };
      });
    }
    nb::list results;
    for (std::vector<Tensor>& outputs : answers) {
      nb::dict by_name;
      for (size_t i = 0; i < outputs.size(); ++i)
        by_name[open_->get()->outputs()[i].name.c_str()] = array_from(std::exchange(outputs[i], {}));
      results.append(by_name);
    }
    return results;
  }

  // (name, batches that it has run, why it gets no more or None) of each.
  nb::list devices() {
    const Turn turn(busy_);
    nb::list list;
    for (size_t d = 0; d < on_->pool.size(); ++d) {
      const std::string& loss = on_->pool.loss(d);
      list.append(nb::make_tuple(on_->engines[d]->info().device, on_->pool.done()[d],
                                 loss.empty() ? nb::none() : nb::object(nb::str(loss.c_str(), loss.size()))));
    }
    return list;
  }

 private:
  // One thread at a time, which is checked.
  class Turn {
   public:
    explicit Turn(std::atomic<bool>& busy) : busy_(busy) {
      if (busy_.exchange(true, std::memory_order_acquire))
        fail(ErrorKind::usage, "this pool is running in another thread; its devices take the batches of one at a time");
    }
    ~Turn() { busy_.store(false, std::memory_order_release); }

   private:
    std::atomic<bool>& busy_;
  };

  std::shared_ptr<OpenEngine> open_;
  std::unique_ptr<EnginePool> on_;
  bool of_gpu_ = false;
  std::atomic<bool> busy_{false};
};

}  // namespace

void bind_pool(nb::module_& module) {
  nb::class_<PyPool>(module, "Pool")
      .def(nb::init<const PyEngine&, const std::string&, const std::vector<std::string>&>(), nb::arg("engine"),
           nb::arg("devices"), nb::arg("library_folders"))
      .def("run", &PyPool::run)
      .def("devices", &PyPool::devices);
}

}  // namespace temper::python
