// SPDX-License-Identifier: Apache-2.0
// The server's errors as exceptions and back, and its log.
#pragma once
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "temper/temper_c.h"
#include "triton/api.h"

namespace temper::triton {

// An error of the backend, or of a call of the server's.
class Refusal : public std::exception {
 public:
  Refusal(TRITONSERVER_Error_Code code, std::string text) : code_(code), text_(std::move(text)) {}
  TRITONSERVER_Error_Code code() const { return code_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  TRITONSERVER_Error_Code code_;
  std::string text_;
};

[[noreturn]] inline void refuse(const std::string& text,
                                TRITONSERVER_Error_Code code = TRITONSERVER_ERROR_INVALID_ARG) {
  throw Refusal(code, text);
}

// Throws what a call of the server's gave, if it is an error.
void check(TRITONSERVER_Error* error);

// Throws Refusal with the message of the library's last call, where it failed.
void check(temper_status status);

// A line in the server's log; what the server says of it is not asked.
void log(TRITONSERVER_LogLevel level, const std::string& text) noexcept;

// An error of a call whose failure changes nothing for requests: logged, and gone.
void log_error(TRITONSERVER_Error* error, const char* what) noexcept;

// Turns what a function of the backend throws into the server's error: no exception crosses the border.
template <class Body>
TRITONSERVER_Error* guarded(Body&& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (const Refusal& refusal) {
    return TRITONSERVER_ErrorNew(refusal.code(), refusal.what());
  } catch (const std::bad_alloc&) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "out of memory");
  } catch (const std::exception& error) { return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, error.what()); }
}

}  // namespace temper::triton
