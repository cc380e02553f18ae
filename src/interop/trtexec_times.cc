// SPDX-License-Identifier: Apache-2.0
#include "interop/trtexec_times.h"

#include <algorithm>
#include <cmath>

#include "base/json_struct.h"

namespace temper {

TrtexecTimes read_trtexec_times(std::string_view json) {
  const strict::Json file = strict::parse(json, "the file of times");
  const auto& records = JsonInput(file, "the file of times", "").list();
  if (records.empty()) fail(ErrorKind::bad_file, "the file of times holds no query");
  TrtexecTimes times;
  const strict::Json& first = records[0];
  if (!first.is_object() || !first.contains("latencyMs") || !first.contains("computeMs"))
    fail(ErrorKind::bad_file,
         "this is no file of trtexec --exportTimes: its first record has no latencyMs and computeMs");
  const bool old = first.contains("inMs");  // 7.x
  times.temper = first.contains("temper");
  if (first.contains("endToEndMs")) times.end_to_end.emplace();
  if (!old && first.contains("startEnqMs") && first.contains("endEnqMs")) times.enqueue.emplace();
  for (size_t i = 0; i < records.size(); ++i)
    with_context(
        [&] { return concat("record ", i); },
        [&] {
          auto ms = [&](const char* name) {
            if (!records[i].is_object() || !records[i].contains(name)) fail(ErrorKind::bad_file, "it has no ", name);
            const double value = JsonInput(records[i][name], name, "").number();
            if (value < 0) fail(ErrorKind::bad_file, name, " is ", value, ", a negative time");
            return value;
          };
          times.latency.push_back(ms("latencyMs"));
          times.gpu.push_back(ms("computeMs"));
          times.h2d.push_back(ms(old ? "inMs" : "h2dMs"));
          times.d2h.push_back(ms(old ? "outMs" : "d2hMs"));
          if (times.end_to_end) times.end_to_end->push_back(ms("endToEndMs"));
          // Two times since the start of the run, with six digits each: rounding may put the end before the start, and
          // the digits that the subtraction adds mean nothing.
          if (times.enqueue)
            times.enqueue->push_back(std::max(0.0, std::round((ms("endEnqMs") - ms("startEnqMs")) * 1e6) / 1e6));
        });
  return times;
}

}  // namespace temper
