// SPDX-License-Identifier: Apache-2.0
#include "cli/side_by_side.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/bench_engine.h"
#include "bench/table.h"
#include "cli/model.h"

namespace temper::cli {

Paired time_side_by_side(const std::shared_ptr<const Engine>& a, const std::shared_ptr<const Engine>& b, const std::vector<Dims>& shapes, double seconds, const std::string& what,
                         const Context& context) {
  bool same = a->inputs().size() == b->inputs().size();
  for (size_t i = 0; same && i < a->inputs().size(); ++i) same = a->inputs()[i].name == b->inputs()[i].name && a->inputs()[i].type.dtype == b->inputs()[i].type.dtype;
  if (!same) fail(ErrorKind::unsupported, "the two take different inputs, so their times do not compare");
  if (a->info().device != b->info().device) fail(ErrorKind::unsupported, "one runs on '", a->info().device, "', the other on '", b->info().device, "'; their times do not compare");
  if (a->threads() != b->threads()) fail(ErrorKind::unsupported, "one uses ", a->threads(), " threads, the other ", b->threads(), "; build both with the same --threads");
  b->check_shapes(shapes);
  BenchSession first(a, shapes), second(b, shapes);
  Progress progress(context);
  PairedOptions options;
  options.max_seconds = seconds;
  options.progress = [&](int rounds, double s) { progress.show(concat(what, ": ", rounds, " rounds in ", format_number(s, 3), " s")); };
  return measure_paired([&] { first.run(); }, [&] { second.run(); }, options);
}

int64_t running_bytes(const Engine& engine, const std::vector<Dims>& shapes) {
  const auto plan = engine.plan_for(shapes);
  if (!plan) return 0;
  int64_t bytes = plan->arena_bytes();
  for (const auto& constant : plan->constants) bytes += constant->bytes();
  return bytes;
}

std::string paired_text(const Paired& paired) {
  return concat(format_number(paired.ratio), "x as fast, 95 % interval ", format_number(paired.interval.low), " to ", format_number(paired.interval.high), " (", paired.ratios.size(),
                " rounds of turns): ", name_of(paired.verdict));
}

nlohmann::ordered_json json_of(const Paired& paired) {
  return {{"ratio", paired.ratio}, {"ci95", {paired.interval.low, paired.interval.high}}, {"verdict", name_of(paired.verdict)}, {"a_ms", paired.a_ms}, {"b_ms", paired.b_ms}};
}

}  // namespace temper::cli
