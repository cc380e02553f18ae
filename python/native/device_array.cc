// SPDX-License-Identifier: Apache-2.0
#include "device_array.h"

#include <nanobind/ndarray.h>

#include "bind.h"
#include "guard.h"

namespace nb = nanobind;

namespace temper::python {

namespace {

// DLManagedTensor of dlpack.h, and what it points to.
struct Managed {
  nb::dlpack::dltensor tensor;
  void* context = nullptr;
  void (*deleter)(Managed*) = nullptr;
  Dims shape, strides;
  std::shared_ptr<void> memory;
};

// Types that are stored only are given as the bytes that hold their codes: DLPack packs those of 4 and 2 bits.
nb::dlpack::dtype dlpack_type(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  const auto bits = uint8_t(8 * size_of(dtype));
  switch (carrier_of(dtype)) {
    case DType::bf16: return {uint8_t(Code::Bfloat), bits, 1};
    case DType::boolean: return {uint8_t(Code::Bool), bits, 1};
    case DType::f16:
    case DType::f32:
    case DType::f64: return {uint8_t(Code::Float), bits, 1};
    case DType::u8:
    case DType::u16:
    case DType::u32:
    case DType::u64: return {uint8_t(Code::UInt), bits, 1};
    default: return {uint8_t(Code::Int), bits, 1};
  }
}

// A consumer renames the capsule and calls the deleter itself.
void drop_capsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, "dltensor"));
  managed->deleter(managed);
}

// `stream` is the consumer's: nothing writes the memory any more, so none has to wait.
nb::object to_dlpack(const DeviceArray& self, nb::object /*stream*/, nb::object /*max_version*/, nb::object dl_device,
                     nb::object copy) {
  const bool elsewhere =
      !dl_device.is_none() && nb::cast<std::pair<int, int>>(dl_device) != std::pair(self.place.type, self.place.index);
  if (elsewhere || (!copy.is_none() && nb::cast<bool>(copy))) {
    PyErr_SetString(PyExc_BufferError,
                    "an output of Temper gives its own memory, without a copy and on its own device");
    throw nb::python_error();
  }
  auto managed = std::make_unique<Managed>();
  managed->shape = self.dims;
  managed->strides = row_major_strides(self.dims);
  managed->memory = self.memory;
  managed->tensor.data = self.memory.get();
  managed->tensor.device = {self.place.type, self.place.index};
  managed->tensor.ndim = int32_t(self.dims.size());
  managed->tensor.dtype = dlpack_type(self.dtype);
  managed->tensor.shape = managed->shape.data();
  managed->tensor.strides = managed->strides.data();
  managed->deleter = [](Managed* given) { delete given; };
  PyObject* capsule = PyCapsule_New(managed.get(), "dltensor", drop_capsule);
  if (!capsule) throw nb::python_error();
  managed.release();
  return nb::steal(capsule);
}

// A copy in the host's memory, as numpy.asarray asks for it.
nb::object to_array(const DeviceArray& self, nb::object dtype, nb::object copy) {
  if (!copy.is_none() && !nb::cast<bool>(copy)) {
    PyErr_SetString(PyExc_ValueError, "an output in a GPU's memory cannot be an array of the host's without a copy");
    throw nb::python_error();
  }
  void* data = nullptr;
  nb::object array = new_array(self.dtype, self.dims, &data);
  const int64_t bytes = byte_count(self.dtype, self.dims);
  if (bytes > 0) {
    const KeepCurrentGpu kept;
    const WithoutGil released;
    Session(self.engine).copy_to_host(data, self.memory.get(), bytes);
  }
  return dtype.is_none() ? array : array.attr("astype")(dtype);
}

}  // namespace

void bind_device_array(nb::module_& module) {
  nb::class_<DeviceArray>(module, "DeviceArray")
      .def("__dlpack__", to_dlpack, nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
           nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none())
      .def("__dlpack_device__",
           [](const DeviceArray& self) { return nb::make_tuple(self.place.type, self.place.index); })
      .def("__array__", to_array, nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none())
      .def_prop_ro("shape", [](const DeviceArray& self) { return shape_tuple(self.dims); })
      .def_prop_ro("dtype", [](const DeviceArray& self) { return numpy_name(self.dtype); })
      .def_prop_ro("device", [](const DeviceArray& self) { return self.place.name; })
      .def("__repr__", [](const DeviceArray& self) {
        return concat("<temper.DeviceArray ", numpy_name(self.dtype), self.dims, " on ", self.place.name, ">");
      });
}

}  // namespace temper::python
