// SPDX-License-Identifier: Apache-2.0
// The rules about time: conversions, steps without a kernel, the machine's limits, layers too small to be worth
// starting.
#include "bench/explain_rules.h"

namespace temper {

namespace {

constexpr double kWorthInput = 0.02;
// A kernel takes some microseconds to start, on a GPU and on threads that wait for each other; layers that take about
// as long gain more from a larger batch than from anything inside them.
constexpr double kTinyMs = 0.01;
// trtexec's own threshold for "may be bound by enqueue time".
constexpr double kEnqueueShare = 0.8;
constexpr double kNearMemory = 0.6, kFarFromLimits = 0.3;

class LimitRules : public RuleBase {
 public:
  using RuleBase::RuleBase;
  void run() {
    input_conversion();
    conversions();
    reference_steps();
    lower_precision();
    launch_bound();
    tiny_layers();
    memory_bound();
    far_from_limits();
    second_steps();
  }

 private:
  std::vector<size_t> converting() const {
    return where([&](size_t i) { return is_conversion(at(i).kind) && (!at(i).ms || ms(i) > 0); });
  }
  bool reads_input(size_t i) const {
    return std::any_of(at(i).inputs.begin(), at(i).inputs.end(),
                       [&](const LayerTensor& t) { return wiring.is_input(t.name); });
  }

  void input_conversion() {
    if (engine.is_plan) return;  // a plan takes what the model takes
    std::vector<size_t> first;
    for (size_t i : converting())
      if (reads_input(i)) first.push_back(i);
    if (first.empty() || share(sum(first)) < kWorthInput) return;
    const EngineLayer& layer = at(first[0]);
    Finding f;
    f.id = "input_conversion";
    f.what = concat("The engine converts its input: ", upper(layer.from), " becomes ", upper(layer.to));
    f.evidence.push_back(concat(percent(share(sum(first))), " of the time, before the first layer"));
    f.change = concat(
        "hand it over in the type and layout that the first layer wants (trtexec --inputIOFormats), for "
        "instance out of the preprocessing that writes it anyway",
        is_low(layer.to) ? "; the input then arrives quantized, in a quarter of the bytes" : "");
    f.estimate = "all of that time; preparing the input elsewhere may cost some";
    f.at_most = true;
    f.layers = names(first);
    add(std::move(f), sum(first));
  }

  void conversions() {
    std::vector<size_t> all = converting(), inputs, fixed, layout, rest, unknown;
    for (size_t i : all) {
      if (reads_input(i) && !engine.is_plan) inputs.push_back(i);
      else if (claimed.contains(i)) fixed.push_back(i);
      else (at(i).from.empty() || at(i).to.empty() ? unknown : at(i).from == at(i).to ? layout : rest).push_back(i);
    }
    const double inside = share(sum(all) - sum(inputs));
    if (all.empty() || (timed() ? inside < kWorthShare : all.size() * 4 < engine.layers.size())) return;
    Finding f;
    f.id = "conversions";
    f.what = !timed() ? concat(all.size(), " of ", engine.layers.size(), " layers are reformats or Q/DQ")
                      : concat(engine.is_plan ? "Changes of layout and precision" : "Reformats and Q/DQ layers",
                               " take ", percent(share(sum(all))), " of the time");
    auto part = [&](const std::vector<size_t>& layers, std::string_view what) {
      if (!layers.empty())
        f.evidence.push_back(
            concat(timed() ? concat(percent(share(sum(layers))), ": ") : "", layers.size(), ' ', what));
    };
    part(fixed, concat("between layers, around values that ", asked, " layers write wider"));
    part(inputs, "at the engine's input");
    part(layout, "of layout alone");
    part(rest, "between other precisions");
    part(unknown, "of which the precisions are not known");
    f.change =
        !fixed.empty() ? "keep values in 8 bits between layers, as the other findings say"
        : engine.is_plan
            ? engine.command.find("--quick") != engine.command.npos
                  ? "build without --quick: layouts are then chosen by measuring, these changes counted"
                  : "layouts were chosen by measuring, these changes counted: only another precision or batch helps"
            : "convert once: neighbours in one precision and layout need nothing between them";
    f.estimate = "all of that time; it overlaps with other findings";
    f.at_most = true;
    f.layers = names(all);
    add(std::move(f), sum(all));
  }

  void reference_steps() {
    const auto slow = where([&](size_t i) { return at(i).reference; });
    if (slow.empty()) return;
    Finding f;
    f.id = "reference_steps";
    f.what = concat(count_of(int64_t(slow.size()), "step"), slow.size() == 1 ? " runs" : " run",
                    " on the scalar reference: there is no kernel for ", slow.size() == 1 ? "it" : "them");
    f.evidence.push_back(concat(short_ms(sum(slow)), ", ", percent(share(sum(slow))), " of the time"));
    f.change = "temper inspect --why NODE says why the kernels refused; another shape, attribute or precision may do";
    f.estimate = "all of that time";
    f.at_most = true;
    f.layers = names(slow);
    add(std::move(f), sum(slow));
  }

  void lower_precision() {
    if (!is_float(wiring.asked)) return;
    const auto products =
        where([&](size_t i) { return is_product(at(i).kind) && !at(i).reference && wiring.is_narrow(at(i).from); });
    if (!engine.peaks) return nothing_below_fp32(products);
    const double now = bits_of(wiring.asked) == 16 ? engine.peaks->bf16_per_s : engine.peaks->f32_per_s;
    if (share(sum(products)) < kFarFromLimits || now <= 0) return;
    struct Lower {
      std::string_view name;
      double rate;
      std::string_view how;
    };
    const Lower all[] = {
        {"int8", engine.peaks->i8_per_s, "temper build --precision int8 --data D --max-drop 1%: accuracy decides"},
        {"bf16", engine.peaks->bf16_per_s, "temper build --precision bf16"}};
    for (const Lower& lower : all) {
      if (lower.rate <= now * 1.2 || bits_of(lower.name) >= bits_of(wiring.asked)) continue;
      Finding f;
      f.id = concat("could_be_", lower.name);
      f.what = concat(upper(lower.name), " is faster than ", asked, " on this machine");
      f.evidence.push_back(concat("convolutions and products take ", percent(share(sum(products))), " of the time in ",
                                  asked, ", at a peak of ", format_number(now / 1e9), " Gop/s; in ", upper(lower.name),
                                  " it is ", format_number(lower.rate / 1e9)));
      f.change = std::string(lower.how);
      f.estimate = "what their arithmetic takes at its peak, at the ratio of the two measured peaks";
      f.layers = names(products);
      double arithmetic = 0;
      for (size_t i : products) arithmetic += ms(i) * std::min(1.0, at(i).of_arithmetic);
      add(std::move(f), arithmetic * (1 - now / lower.rate));
    }
  }

  void nothing_below_fp32(const std::vector<size_t>& products) {
    if (bits_of(wiring.asked) != 32 || products.empty() || (timed() && share(sum(products)) < kFarFromLimits)) return;
    Finding f;
    f.id = "could_be_fp16";
    f.what = "Nothing in it computes below FP32";
    if (timed())
      f.evidence.push_back(concat("convolutions and products take ", percent(share(sum(products))), " of the time"));
    f.change = "build with --fp16 (from 11.0 on: a model cast to FP16), or with Q/DQ in the model for INT8";
    f.layers = names(products);
    add(std::move(f), std::nullopt);
  }

  void launch_bound() {
    if (!engine.enqueue_ms || !engine.run_ms || *engine.enqueue_ms < kEnqueueShare * *engine.run_ms) return;
    Finding f;
    f.id = "launch_bound";
    f.what = "The host takes about as long to launch a run as the GPU to compute it";
    f.evidence.push_back(
        concat("enqueue ", short_ms(*engine.enqueue_ms), ", compute ", short_ms(*engine.run_ms), " (medians)"));
    f.change = "use a CUDA graph (--useCudaGraph; the default from 11.0 on) or a larger batch";
    add(std::move(f), std::nullopt);
  }

  void tiny_layers() {
    const auto running = where([&](size_t i) { return ms(i) > 0; });
    const auto tiny = where([&](size_t i) { return ms(i) > 0 && ms(i) < kTinyMs; });
    if (tiny.size() < 4 || tiny.size() * 2 < running.size() || share(sum(tiny)) < 0.3) return;
    Finding f;
    f.id = "batch_too_small";
    f.what = concat(tiny.size(), " of ", running.size(), " layers take less than 0.01 ms each");
    f.evidence.push_back(concat("together ", percent(share(sum(tiny))),
                                " of the time: starting them costs about as much as their work"));
    f.change = "a larger batch; or several requests at a time";
    f.layers = names(tiny);
    add(std::move(f), std::nullopt);
  }

  // On a plan the measured peaks decide. For a layer file nothing is known of the device; but what computes fewer than
  // 8 operations a byte is bound by memory on every GPU since 2017 even in FP32 without tensor cores (T4: 8.1 Tflop/s
  // at 320 GB/s, 25 a byte; A100: 10; H100: 20), and layers that are no products do hardly any.
  void memory_bound() {
    const auto bound = where([&](size_t i) {
      const EngineLayer& layer = at(i);
      if (is_conversion(layer.kind) || ms(i) <= 0) return false;
      if (engine.peaks) return layer.of_memory >= kNearMemory && layer.of_memory > layer.of_arithmetic;
      if (!layer.bytes || *layer.bytes == 0) return false;
      if (layer.kind == LayerKind::pooling || layer.kind == LayerKind::pointwise || layer.kind == LayerKind::movement)
        return true;
      return layer.operations && double(*layer.operations) / double(*layer.bytes) < 8;
    });
    if (bound.empty() || share(sum(bound)) < 2 * kWorthShare) return;
    double bytes = 0;
    for (size_t i : bound) bytes += double(at(i).bytes.value_or(0));
    Finding f;
    f.id = "memory_bound";
    f.what = concat(percent(share(sum(bound))),
                    " of the time is in layers bound by memory: faster arithmetic does not help them");
    f.evidence.push_back(
        concat(count_of(int64_t(bound.size()), "layer"), bound.size() == 1 ? " moves " : " move ", format_bytes(bytes),
               ", ", format_number(bytes / sum(bound) / 1e6), " GB/s",
               engine.peaks ? concat("; this machine reads ", format_number(engine.peaks->bytes_per_s / 1e9)) : ""));
    f.change = engine.is_plan
                   ? "fewer bytes: a lower precision, or slices of the batch that stay in the cache (build tries them)"
                   : "fewer bytes: a lower precision, or a model in which they merge with their neighbours";
    f.layers = names(bound);
    add(std::move(f), std::nullopt);
  }

  void far_from_limits() {
    if (!engine.peaks || engine.disturbed) return;
    const auto slow = where([&](size_t i) {
      const double best = std::max(at(i).of_arithmetic, at(i).of_memory);
      return !at(i).reference && !is_conversion(at(i).kind) && ms(i) >= kTinyMs && best > 0 && best < kFarFromLimits;
    });
    if (slow.empty() || share(sum(slow)) < kWorthShare) return;
    double saved = 0;
    for (size_t i : slow) saved += ms(i) * (1 - std::max(at(i).of_arithmetic, at(i).of_memory));
    Finding f;
    f.id = "far_from_limits";
    f.what = concat(percent(share(sum(slow))), " of the time is in steps below 30 % of either limit of this machine");
    f.change = engine.command.find("--quick") != engine.command.npos
                   ? "build without --quick, which measures the candidates"
                   : "temper profile PLAN --by-time shows what lost against them, and by how much";
    f.estimate = "were they at the limit";
    f.at_most = true;
    f.layers = names(slow);
    add(std::move(f), saved);
  }

  void second_steps() {
    const auto steps = where([&](size_t i) { return at(i).second_step; });
    if (steps.empty() || share(sum(steps)) < kWorthShare) return;
    double extra = 0;
    if (estimates.bytes_per_ms > 0)
      for (size_t i : steps)
        for (const LayerTensor& t : at(i).outputs)
          extra += std::min(ms(i), 2 * double(t.bytes.value_or(0)) / estimates.bytes_per_ms);
    Finding f;
    f.id = "second_steps";
    f.what = concat(count_of(int64_t(steps.size()), "product"),
                    " read and write their result a second time for what follows them");
    f.evidence.push_back(concat("the additions and activations that the kernel does not take over; the layers take ",
                                percent(share(sum(steps))), " of the time"));
    f.change = "measuring preferred them to kernels that do it all; temper inspect --why NODE has the times";
    f.estimate = concat("the result read and written once at ", estimates.rate_text());
    f.at_most = true;
    f.layers = names(steps);
    add(std::move(f), extra > 0 ? std::optional(extra) : std::nullopt);
  }
};

}  // namespace

void find_limits(const Wiring& wiring, Explanation& facts, std::vector<Finding>& findings) {
  LimitRules rules(wiring, facts);
  rules.run();
  for (Finding& f : rules.findings) findings.push_back(std::move(f));
}

}  // namespace temper
