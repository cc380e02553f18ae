// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/model.h"
#include "data/random.h"
#include "onnx/import.h"

namespace temper::cli {

namespace {

struct Options {
  std::string model;
  ModelFlags flags;
  double relative = 1e-3, absolute = 1e-4;
  uint64_t seed = 1;
};

struct Difference {
  double largest = 0, largest_relative = 0;  // |got - want|, and over |want|
  int64_t beyond = 0;                        // elements over the tolerance
};

Difference compare(const Tensor& got, const Tensor& want, double relative, double absolute) {
  if (got.dtype() != want.dtype() || got.dims() != want.dims())
    fail(ErrorKind::check_failed, "the output is ", got.type(), "; the reference gives ", want.type());
  Difference d;
  const auto a = got.to_doubles(), b = want.to_doubles();
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i]) continue;  // equal infinities
    const double error = std::fabs(a[i] - b[i]);
    if (!(error <= absolute + relative * std::fabs(b[i]))) ++d.beyond;
    d.largest = std::max(d.largest, std::isnan(error) ? INFINITY : error);
    if (b[i] != 0) d.largest_relative = std::max(d.largest_relative, std::isnan(error) ? INFINITY : error / std::fabs(b[i]));
  }
  return d;
}

}  // namespace

void add_verify(CLI::App& verb, Context& context) {
  auto options = std::make_shared<Options>();
  verb.add_option("model", options->model, "an ONNX model")->required();
  verb.add_option("--rtol", options->relative, "relative tolerance")->capture_default_str();
  verb.add_option("--atol", options->absolute, "absolute tolerance")->capture_default_str();
  verb.add_option("--seed", options->seed, "of the random inputs")->capture_default_str();
  add_model_flags(verb, options->flags);
  verb.callback([options, &context] {
    if (is_plan(options->model))
      fail(ErrorKind::usage, "'", options->model, "' is a plan, which has no reference in it any more; verify the ONNX model (with the same --shapes)");
    const auto engine = load_or_build(options->model, options->flags, context);
    const ImportedModel model = import_onnx(options->model);  // as imported: no pass has touched it
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < engine->inputs().size(); ++i) {
      const PortInfo& port = engine->inputs()[i];
      inputs.push_back(random_tensor(port.type.dtype, engine->info().shapes.at(port.name).opt, options->seed + i));
    }
    Session session(engine);
    const auto got = session.run(inputs);
    const auto want = run_reference(model.graph, inputs);
    nlohmann::json json = nlohmann::json::array();
    bool good = true;
    for (size_t o = 0; o < got.size(); ++o) {
      const std::string& name = engine->outputs()[o].name;
      const Difference d = with_context([&] { return concat("output '", name, "'"); }, [&] { return compare(got[o], want[o], options->relative, options->absolute); });
      good &= d.beyond == 0;
      json.push_back({{"output", name}, {"type", got[o].type().text()}, {"max_difference", d.largest}, {"max_relative_difference", d.largest_relative},
                      {"elements_beyond_tolerance", d.beyond}, {"ok", d.beyond == 0}});
      if (!context.json)
        std::printf("%-24s %-24s largest difference %.3g (relative %.3g), %lld beyond rtol %g atol %g: %s\n", name.c_str(), got[o].type().text().c_str(), d.largest,
                    d.largest_relative, static_cast<long long>(d.beyond), options->relative, options->absolute, d.beyond ? "DIFFERS" : "ok");
    }
    if (context.json) std::printf("%s\n", json.dump(1).c_str());
    else std::printf("inputs: seeded random numbers (--seed %llu); against the scalar reference on the graph as imported\n", static_cast<unsigned long long>(options->seed));
    if (!good) context.exit_code = int(ErrorKind::check_failed);
  });
}

}  // namespace temper::cli
