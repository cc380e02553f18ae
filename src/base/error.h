// SPDX-License-Identifier: Apache-2.0
// The one exception of the project. It ends an operation; what is expected (a refusing tactic, a cache miss) is a
// value.
#pragma once
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "base/concat.h"

namespace temper {

// The kinds are the exit codes of the command line.
enum class ErrorKind {
  check_failed = 1,  // a gate, a verification or a limit was not met
  usage = 2,         // wrong arguments, wrong input name, dtype or shape
  bad_file = 3,      // missing, damaged or not what it should be
  unsupported = 4,   // not implemented exactly, or made for another machine or version
  machine = 5,       // out of memory, disk full, device failure
};

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), text_(std::move(message)) {}

  ErrorKind kind() const { return kind_; }
  const char* what() const noexcept override { return text_.c_str(); }
  // Puts one line of context in front: file, then node, then pass or tactic, on the way up.
  void add_context(std::string_view context) { text_ = concat(context, ": ", text_); }

 private:
  ErrorKind kind_;
  std::string text_;
};

template <class... Parts>
[[noreturn]] void fail(ErrorKind kind, const Parts&... parts) {
  throw Error(kind, concat(parts...));
}

// Runs `body`; an Error that passes through gets `context()` in front of its message.
template <class Body, class Context>
decltype(auto) with_context(Context&& context, Body&& body) {
  try {
    return body();
  } catch (Error& error) {
    error.add_context(context());
    throw;
  }
}

}  // namespace temper
