// SPDX-License-Identifier: Apache-2.0
// Arrays of Python as tensors of Temper and back, without copies.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include "graph/tensor.h"
#include "runtime/engine.h"

namespace temper::python {

// What an array holds, in the memory that it holds it in. It keeps that alive and is let go with the GIL only.
struct Array {
  DType dtype = DType::f32;
  Dims dims;
  const void* data = nullptr;
  bool on_device = false;  // data is an address of the Place
  bool writable = false;   // what DLPack gives is, as nothing says otherwise
  // Of the memory: one of the two.
  struct Release {
    void operator()(Py_buffer* held) const {
      PyBuffer_Release(held);
      delete held;
    }
  };
  std::unique_ptr<Py_buffer, Release> buffer;
  nanobind::object owner;  // an array of NumPy, or DLPack's capsule
  Tensor tensor() const { return Tensor::view(dtype, dims, data); }
};

std::string class_of(nanobind::handle object);  // "ndarray"

// What an array is called in errors ("input 'x'"): put together only there, runs are short.
struct What {
  std::string_view role, name;
};
inline void append(std::string& out, const What& what) { out += concat(what.role, " '", what.name, "'"); }

// Where an engine runs, as DLPack names it.
struct Place {
  static constexpr int kCpu = 1, kCuda = 2, kPinned = 3, kManaged = 13;  // of dlpack.h
  int type = kCpu, index = 0;
  std::string name = "cpu";  // "cuda:0"
  // Arrays are let go when the call ends: a tensor keeps its memory till then, but a program may put another into it.
  bool borrows = false;
  intptr_t stream = 0;  // of a GPU: what writes an array is put ahead of this (the protocol's __dlpack__(stream=...))
};
Place place_of(const Engine& engine);

// `what` names it in errors. Takes what has the buffer protocol or DLPack. Throws Error{usage}, with the
// fix, for what is no array, is neither in the host's memory nor in that of the place, is not C-contiguous or has
// elements that Temper has no type for. Nothing is copied or converted.
Array array_of(nanobind::handle object, const What& what, const Place& place = {});

// What was given for each of `ports`, in their order: a dict by name, a tuple or list in that order, or one array where
// there is one port. Throws Error{usage} with what is expected. `role`: "input" or "output".
std::vector<nanobind::object> objects_of(nanobind::handle given, const std::vector<PortInfo>& ports,
                                         std::string_view role = "input");

// The arrays that they are. Throws Error{usage} also where a dtype differs from the port's, and where some lie on the
// place and others do not.
std::vector<Array> arrays_of(const std::vector<nanobind::object>& objects, const std::vector<PortInfo>& ports,
                             const Place& place = {}, std::string_view role = "input");
inline std::vector<Array> arrays_of(nanobind::handle given, const std::vector<PortInfo>& ports) {
  return arrays_of(objects_of(given, ports), ports);
}

// An uninitialised numpy array and its memory. bfloat16 needs the package ml_dtypes; Error{unsupported} without it.
nanobind::object new_array(DType dtype, const Dims& dims, void** data);
// The same from numpy's own dtype, which a session keeps.
nanobind::object new_array(const Dims& dims, nanobind::handle dtype, void** data);
nanobind::object shape_tuple(const Dims& dims);
nanobind::object numpy_type(DType dtype);
nanobind::object array_from(const Tensor& tensor);  // copies; of strings an array of objects, each a str

// "float32": numpy's name of the type.
std::string numpy_name(DType dtype);

// (name, dtype, shape): of shape, open dimensions are strings.
nanobind::list ports_list(const std::vector<PortInfo>& ports);

}  // namespace temper::python
