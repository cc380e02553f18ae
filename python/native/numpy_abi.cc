// SPDX-License-Identifier: Apache-2.0
#include "numpy_abi.h"

namespace nb = nanobind;

namespace temper::python {

namespace {

struct Abi {
  PyTypeObject* array = nullptr;
  // PyArray_NewFromDescr: takes the reference to the dtype; without strides, memory and flags, as numpy.empty.
  PyObject* (*create)(PyTypeObject*, PyObject*, int, const Py_ssize_t*, const Py_ssize_t*, void*, int,
                      PyObject*) = nullptr;
};

// Where functions stand in the table of numpy/__multiarray_api.h, which only grows while the version of the ABI is the
// same.
enum { kVersionAt = 0, kArrayAt = 2, kCreateAt = 94 };

Abi find_abi() {
  Abi abi;
  for (const char* name : {"numpy._core.multiarray", "numpy.core.multiarray"}) try {  // from 2.0 on, and before
      const nb::object capsule = nb::module_::import_(name).attr("_ARRAY_API");
      void* const* table = static_cast<void* const*>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
      if (!table) throw nb::python_error();
      const unsigned version = reinterpret_cast<unsigned (*)()>(table[kVersionAt])();
      if (version != 0x01000009 && version != 0x02000000) return abi;
      abi.array = static_cast<PyTypeObject*>(table[kArrayAt]);
      abi.create = reinterpret_cast<decltype(abi.create)>(table[kCreateAt]);
      return abi;
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_ImportError) && !error.matches(PyExc_AttributeError)) throw;
    }
  return abi;
}

const Abi& abi() {
  static const Abi found = find_abi();
  return found;
}

}  // namespace

const NumpyFields* numpy_fields(nb::handle object) {
  return Py_TYPE(object.ptr()) == abi().array ? reinterpret_cast<const NumpyFields*>(object.ptr()) : nullptr;
}

nb::object numpy_empty(const int64_t* dims, size_t count, nb::handle dtype) {
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
  if (!abi().create) return {};
  Py_INCREF(dtype.ptr());
  PyObject* array = abi().create(abi().array, dtype.ptr(), int(count), reinterpret_cast<const Py_ssize_t*>(dims),
                                 nullptr, nullptr, 0, nullptr);
  if (!array) throw nb::python_error();
  return nb::steal(array);
}

}  // namespace temper::python
