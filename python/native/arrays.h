// SPDX-License-Identifier: Apache-2.0
// Arrays of Python as tensors of Temper and back, without copies.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include "graph/tensor.h"
#include "plan/plan.h"

namespace temper::python {

// What an array holds, in the memory that it holds it in. The owner keeps that alive and is let go with the GIL only.
struct Array {
  DType dtype = DType::f32;
  Dims dims;
  const void* data = nullptr;
  nanobind::object owner;  // of the memory: a memoryview or a DLPack capsule's array
  Tensor tensor() const { return Tensor::view(dtype, dims, data); }
};

// What an array is called in errors ("input 'x'"): put together only there, runs are short.
struct What {
  std::string_view role, name;
};
inline void append(std::string& out, const What& what) { out += concat(what.role, " '", what.name, "'"); }

// `what` names it in errors. Takes what has the buffer protocol or DLPack. Throws Error{usage}, with the
// fix, for what is no array, is on a GPU, is not C-contiguous or has elements that Temper has no type for. Nothing is
// copied or converted.
Array array_of(nanobind::handle object, const What& what);

// A dict by input name, a tuple or list in the engine's order, or one array where there is one input; in the order of
// `ports`. Throws Error{usage} with what is expected, also where a dtype differs from the port's.
std::vector<Array> arrays_of(nanobind::handle inputs, const std::vector<PortInfo>& ports);

// An uninitialised numpy array and its memory. bfloat16 needs the package ml_dtypes; Error{unsupported} without it.
nanobind::object new_array(DType dtype, const Dims& dims, void** data);
// The same from numpy's own words, which a session keeps: the shape as a tuple, and the dtype.
nanobind::object new_array(nanobind::handle shape, nanobind::handle dtype, void** data);
nanobind::object shape_tuple(const Dims& dims);
nanobind::object numpy_type(DType dtype);
nanobind::object array_from(const Tensor& tensor);  // copies

// "float32": numpy's name of the type.
std::string numpy_name(DType dtype);

// (name, dtype, shape): of shape, open dimensions are strings.
nanobind::list ports_list(const std::vector<PortInfo>& ports);

}  // namespace temper::python
