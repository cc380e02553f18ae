// SPDX-License-Identifier: Apache-2.0
// Which names TensorRT's Python API has in which release, which of them are here, and why the others are not; and which
// names of its C++ API are here.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace temper::nvinfer {

constexpr std::array<std::string_view, 3> kApiReleases = {"8.6", "10.13", "11.1"};

struct ApiName {
  std::string owner;    // a class, or "": the module
  std::string name;     // of a class, a function, a member
  int first = 0;        // of kApiReleases
  int last = 0;         // the same
  bool early = false;   // it harms nobody, and is shown before its first release, too
  std::string refused;  // why it is not here; "": it is
};
// Classes come before their names. A class that is refused stands there without its names.
const std::vector<ApiName>& api_names();
// A class or enumeration that include/nvinfer has, its range of releases, and its members with theirs, as in the table
// of Python's names (api_table.cc). What is not among them does not compile.
struct CppClass {
  const char *name, *range, *members;
};
const std::vector<CppClass>& cpp_classes();
// The tables as `temper as-tensorrt --list` prints them.
std::string api_list();

}  // namespace temper::nvinfer
