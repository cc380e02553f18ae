// SPDX-License-Identifier: Apache-2.0
#include "triton/server.h"

#include <memory>

namespace temper::triton {

void check(TRITONSERVER_Error* error) {
  if (!error) return;
  const std::unique_ptr<TRITONSERVER_Error, void (*)(TRITONSERVER_Error*)> owned(error, TRITONSERVER_ErrorDelete);
  throw Refusal(TRITONSERVER_ErrorCode(error), TRITONSERVER_ErrorMessage(error));
}

void check(temper_status status) {
  if (status == TEMPER_OK) return;
  const TRITONSERVER_Error_Code code = status == TEMPER_USAGE         ? TRITONSERVER_ERROR_INVALID_ARG
                                       : status == TEMPER_UNSUPPORTED ? TRITONSERVER_ERROR_UNSUPPORTED
                                       : status == TEMPER_MACHINE     ? TRITONSERVER_ERROR_UNAVAILABLE
                                                                      : TRITONSERVER_ERROR_INTERNAL;
  throw Refusal(code, temper_last_error());
}

void log(TRITONSERVER_LogLevel level, const std::string& text) noexcept {
  if (!TRITONSERVER_LogIsEnabled(level)) return;
  if (TRITONSERVER_Error* const error = TRITONSERVER_LogMessage(level, "temper", 0, text.c_str()))
    TRITONSERVER_ErrorDelete(error);
}

void log_error(TRITONSERVER_Error* error, const char* what) noexcept {
  if (!error) return;
  try {
    log(TRITONSERVER_LOG_ERROR, std::string(what) + ": " + TRITONSERVER_ErrorMessage(error));
  } catch (const std::bad_alloc&) {  // then there is no line
  }
  TRITONSERVER_ErrorDelete(error);
}

}  // namespace temper::triton
