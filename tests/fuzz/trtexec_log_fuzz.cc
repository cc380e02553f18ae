// SPDX-License-Identifier: Apache-2.0
// Any bytes either end in an Error or give runs that are written and read back as the same result.
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "interop/trtexec_explain.h"
#include "interop/trtexec_import.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace temper;
  const std::string text(reinterpret_cast<const char*>(data), size);
  TrtexecImport imported;
  try {
    imported = import_trtexec({{"x.log", text}});
  } catch (const Error&) {  // no log, so perhaps a command line
    const TrtexecCommand command = parse_trtexec_command(text);
    if (size % 8) return 0;  // the rest takes ten times as long as what came before, here and below
    explain_trtexec(command);
    for (const char* release : {"8.6", "11"}) translate_trtexec(command, release);
    return 0;
  }
  check(BenchResult{{}, imported.runs});
  if (size % 32) return 0;
  const std::string once = to_json(BenchResult{{}, imported.runs});
  if (to_json(result_from_json(once)) != once) {
    std::fprintf(stderr, "not the same when read back:\n%s\n", once.c_str());
    std::abort();
  }
  return 0;
}
