// SPDX-License-Identifier: Apache-2.0
#include "arrays.h"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/parse.h"
#include "base/string_table.h"
#include "bind.h"
#include "graph/strings.h"
#include "numpy_abi.h"

namespace nb = nanobind;

namespace temper::python {

namespace {

// Of numpy, and of the package ml_dtypes, which holds the types that are stored only one in a byte as Temper does.
constexpr const char* numpy_names[kAllDTypeCount] = {"float32",
                                                     "float16",
                                                     "bfloat16",
                                                     "float64",
                                                     "int8",
                                                     "uint8",
                                                     "int16",
                                                     "uint16",
                                                     "int32",
                                                     "uint32",
                                                     "int64",
                                                     "uint64",
                                                     "bool",
                                                     "float8_e4m3fn",
                                                     "float8_e4m3fnuz",
                                                     "float8_e5m2",
                                                     "float8_e5m2fnuz",
                                                     "float8_e8m0fnu",
                                                     "float4_e2m1fn",
                                                     "int4",
                                                     "uint4",
                                                     "int2",
                                                     "uint2",
                                                     "str"};
bool is_of_ml_dtypes(DType dtype) { return dtype == DType::bf16 || (is_stored_only(dtype) && dtype != DType::string); }

// numpy functions and types that every run needs. Never freed: an interpreter that ends has let go of modules by then.
struct Numpy {
  nb::object empty, types[kAllDTypeCount];
};
Numpy& numpy() {
  static Numpy* const all = [] {
    auto* numpy = new Numpy;
    const nb::module_ module = nb::module_::import_("numpy");
    numpy->empty = module.attr("empty");
    for (int i = 0; i < kDTypeCount; ++i)
      if (!is_of_ml_dtypes(DType(i))) numpy->types[i] = module.attr("dtype")(numpy_names[i]);
    return numpy;
  }();
  return *all;
}

// Of one element, in the notation of the struct module.
std::optional<DType> dtype_of_format(const char* format, Py_ssize_t size) {
  if (!format) return DType::u8;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (format[0] == 0 || format[1] != 0) return std::nullopt;
  switch (*format) {
    case 'f': return DType::f32;
    case 'e': return DType::f16;
    case 'd': return DType::f64;
    case '?': return DType::boolean;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q': return size == 1 ? DType::i8 : size == 2 ? DType::i16 : size == 4 ? DType::i32 : DType::i64;
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q': return size == 1 ? DType::u8 : size == 2 ? DType::u16 : size == 4 ? DType::u32 : DType::u64;
    default: return std::nullopt;
  }
}

[[noreturn]] void refuse_order(const What& what) {
  fail(ErrorKind::usage, what, " is not contiguous in C order (it is a transposed, strided or Fortran array); ",
       "numpy.ascontiguousarray(x), or x.contiguous() of a torch tensor, makes a copy that is");
}

// Strides in elements of `unit`. Where there is one element, or none, they say nothing.
template <class Stride>
bool is_contiguous(const Dims& dims, const Stride* strides, int64_t unit) {
  if (!strides) return true;
  for (int64_t dim : dims)
    if (dim == 0) return true;
  int64_t expected = unit;
  for (size_t axis = dims.size(); axis-- > 0;) {
    if (dims[axis] != 1 && int64_t(strides[axis]) != expected) return false;
    expected *= dims[axis];
  }
  return true;
}

Array from_buffer(nb::handle object, const What& what) {
  Array array;
  auto given = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object.ptr(), given.get(), PyBUF_FULL_RO) != 0) {
    nb::python_error error;
    // numpy gives no buffer of ml_dtypes' types; their bits are another view of the same memory.
    if (!nb::hasattr(object, "dtype")) throw error;
    const nb::str name(object.attr("dtype"));
    for (int i = 0; i < kAllDTypeCount; ++i) {
      if (!is_of_ml_dtypes(DType(i)) || !name.equal(nb::str(numpy_names[i]))) continue;
      const DType bits = DType(i) == DType::bf16 ? DType::u16 : carrier_of(DType(i));
      array = from_buffer(object.attr("view")(numpy_names[int(bits)]), what);
      array.dtype = DType(i);
      return array;
    }
    throw error;
  }
  array.buffer.reset(given.release());
  const Py_buffer& view = *array.buffer;
  const std::optional<DType> dtype = dtype_of_format(view.format, view.itemsize);
  if (!dtype)
    fail(ErrorKind::usage, what, " has elements of the format ", "'", view.format, "'",
         ", which Temper has no type for",
         *view.format == '>' ? " (big-endian; x.astype(x.dtype.newbyteorder(\"=\")) converts)" : "");
  array.dtype = *dtype;
  array.dims.assign(view.shape, view.shape + view.ndim);
  if (!is_contiguous(array.dims, view.strides, view.itemsize)) refuse_order(what);
  array.data = view.buf;
  array.writable = !view.readonly;
  return array;
}

// False for what only the buffer protocol can tell, or refuse.
bool from_numpy(nb::handle object, Array& array) {
  const NumpyFields* fields = numpy_fields(object);
  if (!fields || !(fields->flags & NumpyFields::kContiguous)) return false;
  const nb::object* const types = numpy().types;
  const nb::object* const type =
      std::find_if(types, types + kAllDTypeCount, [&](const nb::object& one) { return one.ptr() == fields->descr; });
  if (type == types + kAllDTypeCount) return false;
  array.dtype = DType(type - types);
  array.dims.assign(fields->dimensions, fields->dimensions + fields->nd);
  array.data = fields->data;
  array.writable = fields->flags & NumpyFields::kWriteable;
  array.owner = nb::borrow(object);
  return true;
}

std::optional<DType> dtype_of_dlpack(nb::dlpack::dtype type) {
  if (type.lanes != 1) return std::nullopt;
  const auto sized = [&](DType b8, DType b16, DType b32, DType b64) -> std::optional<DType> {
    switch (type.bits) {
      case 8: return b8;
      case 16: return b16;
      case 32: return b32;
      case 64: return b64;
      default: return std::nullopt;
    }
  };
  switch (nb::dlpack::dtype_code(type.code)) {
    case nb::dlpack::dtype_code::Float:
      if (type.bits == 8) return std::nullopt;
      return sized(DType::f32, DType::f16, DType::f32, DType::f64);
    case nb::dlpack::dtype_code::Bfloat: return type.bits == 16 ? std::optional(DType::bf16) : std::nullopt;
    case nb::dlpack::dtype_code::Int: return sized(DType::i8, DType::i16, DType::i32, DType::i64);
    case nb::dlpack::dtype_code::UInt: return sized(DType::u8, DType::u16, DType::u32, DType::u64);
    case nb::dlpack::dtype_code::Bool: return type.bits == 8 ? std::optional(DType::boolean) : std::nullopt;
    default: return std::nullopt;
  }
}

// "cuda:1"
std::string place_text(int type, int index) {
  switch (type) {
    case Place::kCuda:
    case Place::kManaged: return concat("cuda:", index);
    case 10: return concat("the ROCm device ", index);
    default: return concat("a device of DLPack's type ", type);
  }
}

Array from_dlpack(nb::handle object, const What& what, const Place& place) {
  const auto device = nb::cast<std::pair<int, int>>(object.attr("__dlpack_device__")());
  const bool of_gpu = device.first == Place::kCuda || device.first == Place::kManaged;
  Array array;
  array.on_device = device.first != Place::kCpu && device.first != Place::kPinned;
  array.writable = true;
  if (array.on_device && (place.type != Place::kCuda || !of_gpu))
    fail(ErrorKind::usage, what, " (", class_of(object), ") is in the memory of ",
         place_text(device.first, device.second), ", and this runs on ", place.name,
         ": x.cpu() copies it to the host's memory");
  if (array.on_device && device.second != place.index)
    fail(ErrorKind::usage, what, " (", class_of(object), ") is on cuda:", device.second, ", and the engine on ",
         place.name, ": x.to(\"", place.name, "\") copies it there");
  nb::object capsule;
  try {
    // The producer makes our stream wait for whatever still writes the array.
    capsule =
        array.on_device ? object.attr("__dlpack__")(nb::arg("stream") = place.stream) : object.attr("__dlpack__")();
  } catch (nb::python_error& error) {
    // "Can't export tensors that require gradient, use tensor.detach()": the framework knows the reason.
    if (!error.matches(PyExc_BufferError) && !error.matches(PyExc_RuntimeError)) throw;
    fail(ErrorKind::usage, what, " (", class_of(object),
         ") does not give its memory by DLPack: ", nb::cast<std::string>(nb::str(error.value())));
  }
  // Left in the capsule, which gives the memory back when it goes.
  const auto* shared = static_cast<const nb::dlpack::dltensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (!shared) throw nb::python_error();
  const std::optional<DType> dtype = dtype_of_dlpack(shared->dtype);
  if (!dtype)
    fail(ErrorKind::usage, what, " has elements of the DLPack type ", int(shared->dtype.code), " with ",
         int(shared->dtype.bits), " bits, which Temper has no type for");
  array.dtype = *dtype;
  array.dims.assign(shared->shape, shared->shape + shared->ndim);
  if (!is_contiguous(array.dims, shared->strides, 1)) refuse_order(what);
  array.data = static_cast<const std::byte*>(shared->data) + shared->byte_offset;
  array.owner = std::move(capsule);
  return array;
}

// The codes of an array or list of str or bytes, in the current table.
Array from_strings(nb::handle object, const What& what) {
  const nb::object given = nb::module_::import_("numpy").attr("asarray")(object);
  const auto kind = nb::cast<std::string>(given.attr("dtype").attr("kind"));
  if (kind != "U" && kind != "S" && kind != "O" && kind != "T")
    fail(ErrorKind::usage, what, " was given ", nb::cast<std::string>(given.attr("dtype").attr("name")),
         "; expected are strings: an array or list of str");
  Array array;
  array.dtype = DType::string;
  for (nb::handle dim : given.attr("shape")) array.dims.push_back(nb::cast<int64_t>(dim));
  std::vector<uint64_t> codes;
  for (nb::handle one : given.attr("ravel")().attr("tolist")()) {
    Py_ssize_t size = 0;
    if (PyUnicode_Check(one.ptr())) {
      const char* text = PyUnicode_AsUTF8AndSize(one.ptr(), &size);
      if (!text) throw nb::python_error();
      codes.push_back(current_strings().code_of({text, size_t(size)}));
    } else if (PyBytes_Check(one.ptr())) {
      codes.push_back(current_strings().code_of({PyBytes_AS_STRING(one.ptr()), size_t(PyBytes_GET_SIZE(one.ptr()))}));
    } else {
      fail(ErrorKind::usage, what, " holds a ", class_of(one), " where a str is expected");
    }
  }
  const nb::bytes memory(codes.data(), codes.size() * sizeof(uint64_t));
  array.data = PyBytes_AS_STRING(memory.ptr());
  array.owner = memory;
  return array;
}

// What torch.Tensor shows to those who speak C (DLPackExchangeAPI of dlpack.h, from version 1.2 on).
struct Exchange {
  struct {
    uint32_t major, minor;
  } version;
  const void* previous;
  const void *allocate, *managed_of_object, *object_of_managed;
  int (*look)(void* object, nb::dlpack::dltensor* out);  // what it gives holds while the tensor does; -1: an exception
  const void* current_stream;
};

// Of tensors themselves; those of a class of their own may mean something else by __dlpack__. Null: there is none.
const Exchange* exchange_of(nb::handle object) {
  static const PyTypeObject* tensor = nullptr;  // once it is known, with a reference that is never given back
  static const Exchange* exchange = nullptr;
  const nb::handle type = object.type();
  if (tensor) return type.ptr() == reinterpret_cast<const PyObject*>(tensor) ? exchange : nullptr;
  constexpr const char* kName = "__dlpack_c_exchange_api__";
  if (!nb::hasattr(type, kName) || !nb::str("torch").equal(type.attr("__module__")) || class_of(object) != "Tensor")
    return nullptr;
  const nb::object capsule = type.attr(kName);
  const auto* found = static_cast<const Exchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (!found) PyErr_Clear();
  if (found && found->version.major == 1 && found->look) exchange = found;
  tensor = reinterpret_cast<const PyTypeObject*>(nb::borrow(type).release().ptr());
  return exchange;
}

// A tensor that is borrowed for a call, without asking __dlpack__, which takes 5 us of Python. False for what only that
// can tell, or refuse.
bool from_torch(nb::handle object, Array& array, const Place& place) {
  const Exchange* const exchange = exchange_of(object);
  if (!exchange) return false;
  static PyObject* const requires_grad = PyUnicode_InternFromString("requires_grad");
  const nb::object wanted = nb::steal(PyObject_GetAttr(object.ptr(), requires_grad));
  nb::dlpack::dltensor shared;
  if (wanted.ptr() != Py_False || exchange->look(object.ptr(), &shared) != 0) {
    PyErr_Clear();
    return false;
  }
  array.on_device = shared.device.device_type == Place::kCuda;
  if (!array.on_device && shared.device.device_type != Place::kCpu) return false;
  // Only __dlpack__ makes a stream wait for another.
  if (array.on_device && (place.type != Place::kCuda || shared.device.device_id != place.index || place.stream != -1))
    return false;
  const std::optional<DType> dtype = dtype_of_dlpack(shared.dtype);
  if (!dtype) return false;
  array.dims.assign(shared.shape, shared.shape + shared.ndim);
  if (!is_contiguous(array.dims, shared.strides, 1)) return false;
  array.dtype = *dtype;
  array.data = static_cast<const std::byte*>(shared.data) + shared.byte_offset;
  array.writable = true;
  array.owner = nb::borrow(object);
  return true;
}

std::string expected_text(const std::vector<PortInfo>& ports) {
  std::string text;
  for (const PortInfo& port : ports) {
    text += concat(text.empty() ? "" : "; ", "'", port.name, "': ", numpy_names[int(port.type.dtype)], " (");
    for (size_t i = 0; i < port.type.shape.size(); ++i) text += concat(i ? ", " : "", port.type.shape[i]);
    text += ")";
  }
  return text;
}

}  // namespace

std::string class_of(nb::handle object) { return nb::cast<std::string>(object.type().attr("__name__")); }

Place place_of(const Engine& engine) {
  Place place;
  place.name = engine.info().device;
  if (engine.device().backend != "cuda") return place;
  place.type = Place::kCuda;
  if (const size_t colon = place.name.find(':'); colon != std::string::npos)
    place.index = parse_number<int>(std::string_view(place.name).substr(colon + 1)).value_or(0);
  return place;
}

Array array_of(nb::handle object, const What& what, const Place& place) {
  Array array;
  if (from_numpy(object, array) || (place.borrows && from_torch(object, array, place))) return array;
  if (PyObject_CheckBuffer(object.ptr())) return from_buffer(object, what);
  if (nb::hasattr(object, "__dlpack__")) return from_dlpack(object, what, place);
  fail(ErrorKind::usage, what, " is a ", class_of(object), ", which has neither the buffer protocol nor DLPack; ",
       "numpy.asarray(x, dtype=...) makes an array of numbers");
}

std::vector<nb::object> objects_of(nb::handle given, const std::vector<PortInfo>& ports, std::string_view role) {
  if (Py_TYPE(given.ptr()) == &PyDictProxy_Type) {  // the outputs of a binding, for the next model
    nb::dict copy;
    copy.update(given);
    return objects_of(copy, ports, role);
  }
  std::vector<nb::object> objects(ports.size());
  if (PyDict_Check(given.ptr())) {
    for (size_t i = 0; i < ports.size(); ++i) {
      PyObject* found = PyDict_GetItemString(given.ptr(), ports[i].name.c_str());
      if (!found)
        fail(ErrorKind::usage, "no array was given for the ", role, " '", ports[i].name, "'; expected are ",
             expected_text(ports));
      objects[i] = nb::borrow(found);
    }
    if (size_t(PyDict_Size(given.ptr())) != ports.size())
      for (const auto& [key, value] : nb::borrow<nb::dict>(given)) {
        bool known = false;
        const std::string name = nb::cast<std::string>(nb::str(key));
        for (const PortInfo& port : ports) known |= port.name == name;
        if (!known) fail(ErrorKind::usage, "there is no ", role, " '", name, "'; expected are ", expected_text(ports));
      }
  } else if (PyTuple_Check(given.ptr()) || PyList_Check(given.ptr())) {
    const auto list = nb::borrow<nb::sequence>(given);
    if (nb::len(list) != ports.size())
      fail(ErrorKind::usage, nb::len(list), ' ', role, "s were given; expected are ", expected_text(ports));
    for (size_t i = 0; i < ports.size(); ++i) objects[i] = list[i];
  } else {
    if (ports.size() != 1)
      fail(ErrorKind::usage, "one array was given; expected are ", expected_text(ports), ": give a dict by name");
    objects[0] = nb::borrow(given);
  }
  return objects;
}

std::vector<Array> arrays_of(const std::vector<nb::object>& objects, const std::vector<PortInfo>& ports,
                             const Place& place, std::string_view role) {
  std::vector<Array> arrays;
  arrays.reserve(ports.size());
  for (size_t i = 0; i < ports.size(); ++i) {
    const What what{role, ports[i].name};
    Array& array = arrays.emplace_back(ports[i].type.dtype == DType::string ? from_strings(objects[i], what)
                                                                            : array_of(objects[i], what, place));
    if (array.dtype != ports[i].type.dtype)
      fail(ErrorKind::usage, role, " '", ports[i].name, "' was given ", numpy_names[int(array.dtype)], "; expected is ",
           numpy_names[int(ports[i].type.dtype)], ": x.astype(\"", numpy_names[int(ports[i].type.dtype)],
           "\") converts, nothing is converted silently");
    if (array.on_device != arrays[0].on_device)
      fail(ErrorKind::usage, role, " '", ports[array.on_device ? i : 0].name, "' is on ", place.name, " and ", role,
           " '", ports[array.on_device ? 0 : i].name, "' in the host's memory: give all of them in one place, x.to(\"",
           place.name, "\") or x.cpu()");
  }
  return arrays;
}

nb::object numpy_type(DType dtype) {
  nb::object& type = numpy().types[int(dtype)];
  if (type.is_valid()) return type;
  try {
    type = nb::module_::import_("numpy").attr("dtype")(nb::module_::import_("ml_dtypes").attr(numpy_names[int(dtype)]));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ImportError)) throw;
    fail(ErrorKind::unsupported, "numpy has no ", numpy_names[int(dtype)],
         " of its own, and the model gives it: pip install ml_dtypes");
  }
  return type;
}

nb::object shape_tuple(const Dims& dims) {
  nb::object shape = nb::steal(PyTuple_New(Py_ssize_t(dims.size())));
  for (size_t i = 0; i < dims.size(); ++i) PyTuple_SetItem(shape.ptr(), Py_ssize_t(i), PyLong_FromLongLong(dims[i]));
  return shape;
}

nb::object new_array(const Dims& dims, nb::handle dtype, void** data) {
  nb::object array = numpy_empty(dims.data(), dims.size(), dtype);
  if (array.is_valid()) {
    *data = numpy_fields(array)->data;
  } else {
    array = numpy().empty(shape_tuple(dims), dtype);
    *data = const_cast<void*>(from_buffer(array, What{"output", ""}).data);  // the array goes on owning the memory
  }
  return array;
}

nb::object new_array(DType dtype, const Dims& dims, void** data) { return new_array(dims, numpy_type(dtype), data); }

// An array of objects, as the models' other runtimes give strings.
nb::object array_from_strings(const Tensor& tensor) {
  nb::object array = numpy().empty(nb::make_tuple(tensor.count()), nb::module_::import_("builtins").attr("object"));
  size_t i = 0;
  for (uint64_t code : codes_of(tensor)) {
    const std::string_view text = current_strings().at(code);
    array[nb::int_(i++)] = nb::steal(PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), "replace"));
  }
  return array.attr("reshape")(shape_tuple(tensor.dims()));
}

nb::object array_from(const Tensor& tensor) {
  if (tensor.dtype() == DType::string) return array_from_strings(tensor);
  void* data = nullptr;
  nb::object array = new_array(tensor.dtype(), tensor.dims(), &data);
  if (tensor.bytes()) std::memcpy(data, tensor.raw().data(), size_t(tensor.bytes()));
  return array;
}

std::string numpy_name(DType dtype) { return numpy_names[int(dtype)]; }

nb::list ports_list(const std::vector<PortInfo>& ports) {
  nb::list list;
  for (const PortInfo& port : ports) {
    nb::list shape;
    for (const Dim& dim : port.type.shape)
      if (dim.is_constant()) shape.append(dim.value());
      else shape.append(dim.text());
    list.append(nb::make_tuple(port.name, numpy_name(port.type.dtype), nb::tuple(shape)));
  }
  return list;
}

}  // namespace temper::python
