// SPDX-License-Identifier: Apache-2.0
#include "interop/trtexec_log.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/parse.h"
#include "interop/trtexec_lines.h"

namespace temper {

namespace {

constexpr size_t kMaxRuns = 10000;  // each takes about a kilobyte, a hostile banner thirty bytes
constexpr size_t kMaxNotes = 16;    // of each kind a run

// A cursor over one line.
struct Scan {
  std::string_view rest;

  bool take(std::string_view text) {
    if (!rest.starts_with(text)) return false;
    rest.remove_prefix(text.size());
    return true;
  }
  // Digits, then perhaps a fraction and an exponent, then `unit`: or nothing is taken.
  std::optional<double> number(std::string_view unit) {
    auto digits = [&](size_t from) { return std::min(rest.find_first_not_of("0123456789", from), rest.size()); };
    size_t end = digits(0);
    if (end == 0) return std::nullopt;
    if (end < rest.size() && rest[end] == '.') {
      const size_t fraction = digits(end + 1);
      if (fraction == end + 1) return std::nullopt;
      end = fraction;
    }
    if (end < rest.size() && (rest[end] == 'e' || rest[end] == 'E')) {
      const size_t sign = end + 1 < rest.size() && (rest[end + 1] == '+' || rest[end + 1] == '-') ? end + 2 : end + 1;
      const size_t exponent = digits(sign);
      if (exponent == sign) return std::nullopt;
      end = exponent;
    }
    const auto value = parse_number<double>(rest.substr(0, end));
    if (!value || !rest.substr(end).starts_with(unit)) return std::nullopt;
    rest.remove_prefix(end + unit.size());
    return value;
  }
  std::optional<int64_t> integer(std::string_view unit) {
    const size_t end = std::min(rest.find_first_not_of("0123456789"), rest.size());
    const auto value = parse_number<int64_t>(rest.substr(0, end));
    if (!value || !rest.substr(end).starts_with(unit)) return std::nullopt;
    rest.remove_prefix(end + unit.size());
    return value;
  }
};

void note(std::vector<std::string>& list, std::string text) {
  if (list.size() < kMaxNotes && std::find(list.begin(), list.end(), text) == list.end())
    list.push_back(std::move(text));
}
std::string shown(std::string_view text) { return concat("'", text.substr(0, 160), text.size() > 160 ? "…'" : "'"); }

struct StatsLine {
  std::string_view name;
  std::optional<TrtexecStats> TrtexecRun::* stats;
};
struct NumberLine {
  std::string_view name, unit;
  std::optional<double> TrtexecRun::* number;
};
constexpr std::array<StatsLine, 6> kStatsLines{{{"Latency: ", &TrtexecRun::latency},
                                                {"End-to-End Host Latency: ", &TrtexecRun::end_to_end},
                                                {"Enqueue Time: ", &TrtexecRun::enqueue},
                                                {"H2D Latency: ", &TrtexecRun::h2d},
                                                {"GPU Compute Time: ", &TrtexecRun::gpu},
                                                {"D2H Latency: ", &TrtexecRun::d2h}}};
constexpr std::array<NumberLine, 6> kNumberLines{{{"Throughput: ", " qps", &TrtexecRun::throughput_qps},
                                                  {"Total Host Walltime: ", " s", &TrtexecRun::walltime_s},
                                                  {"Total GPU Compute Time: ", " s", &TrtexecRun::gpu_total_s},
                                                  {"throughput: ", " qps", &TrtexecRun::throughput_qps},
                                                  {"walltime: ", " s", &TrtexecRun::walltime_s},
                                                  {"total compute time: ", " s", &TrtexecRun::gpu_total_s}}};

bool starts_known_line(std::string_view text) {
  return std::any_of(kStatsLines.begin(), kStatsLines.end(), [&](const auto& l) { return text.starts_with(l.name); }) ||
         std::any_of(kNumberLines.begin(), kNumberLines.end(), [&](const auto& l) { return text.starts_with(l.name); });
}

// "min = 1 ms, max = 2 ms, …", as far as it is whole.
TrtexecStats take_stats(Scan& scan) {
  TrtexecStats stats;
  for (bool first = true;; first = false) {
    const std::string_view before = scan.rest;
    if (!first && !scan.take(", ")) return stats;
    std::optional<double>* field = nullptr;
    std::optional<double> percent;
    if (scan.take("min = ")) field = &stats.min;
    else if (scan.take("max = ")) field = &stats.max;
    else if (scan.take("mean = ")) field = &stats.mean;
    else if (scan.take("median = ")) field = &stats.median;
    else if (scan.take("percentile(")) percent = scan.number("%) = ");
    const auto value = field || percent ? scan.number(" ms") : std::nullopt;
    if (!value || (field && *field)) {
      scan.rest = before;
      return stats;
    }
    if (field) *field = value;
    else stats.percentiles.push_back({*percent, *value});
  }
}

bool same(const TrtexecStats& a, const TrtexecStats& b) {
  return a.min == b.min && a.max == b.max && a.mean == b.mean && a.median == b.median && a.percentiles == b.percentiles;
}

class Reader {
 public:
  std::vector<TrtexecRun> runs;

  void line(const LogLine& line) {
    if (line.severity != 0) continued_ = nullptr;
    if (line.severity == '&') return banner(line.text);
    if (line.text.empty()) return;
    if (line.text == "=== Performance summary ===") {
      if (run_ && run_->has_summary()) run_ = nullptr;
      section_ = nullptr;
      return;
    }
    if (summary(line.text) || old_summary(line.text) || !run_) {
      if (!run_ && line.severity != 0) stray(line);
      else if (!run_) continue_error(line);
      return;
    }
    if (line.severity != 0) other(line);
    else continue_error(line);
  }

  void finish() {
    // Lines that no banner and no number marks as a run of trtexec are the talk of other programs.
    std::erase_if(
        runs, [](const TrtexecRun& r) { return r.status == TrtexecStatus::unknown && !r.has_summary() && !r.queries; });
  }

 private:
  TrtexecRun* run_ = nullptr;                       // the one that lines belong to; none between runs
  std::optional<TrtexecStats>* section_ = nullptr;  // of 7.x
  bool host_section_ = false;
  std::vector<std::string> stray_errors_;  // outside of a run
  std::vector<std::string>* continued_ =
      nullptr;  // the list whose last error the next lines without a stamp go on with

  TrtexecRun& begin() {
    if (runs.size() >= kMaxRuns) fail(ErrorKind::bad_file, "the log holds more than ", kMaxRuns, " runs; split it");
    run_ = &runs.emplace_back();
    section_ = nullptr;
    continued_ = nullptr;  // it may have pointed into a run that moved
    return *run_;
  }
  TrtexecRun& current() { return run_ ? *run_ : begin(); }

  void banner(std::string_view text) {
    Scan scan{text};
    scan.take("&&&& ");
    TrtexecStatus status;
    if (scan.take("RUNNING ")) status = TrtexecStatus::running;
    else if (scan.take("PASSED ")) status = TrtexecStatus::passed;
    else if (scan.take("FAILED ")) status = TrtexecStatus::failed;
    else if (scan.take("WAIVED ")) status = TrtexecStatus::waived;
    else return;
    std::optional<std::string> version, command, temper;
    if (scan.take("Temper.trtexec")) {
      temper = "";
      if (scan.take(" [Temper v"))
        if (const size_t end = scan.rest.find(']'); end < 32) temper = std::string(scan.rest.substr(0, end));
    } else if (!scan.take("TensorRT.trtexec")) return;  // another sample's banner
    if (scan.take(" [TensorRT v")) {
      const size_t end = scan.rest.find(']');
      if (end != scan.rest.npos) version = trtexec_version(scan.rest.substr(0, end));
    }
    if (const size_t hash = scan.rest.find("# "); hash != scan.rest.npos)
      command = std::string(scan.rest.substr(hash + 2));
    // A closing banner belongs to the run that is open; one that was closed already lost its beginning.
    if (status == TrtexecStatus::running || !run_) begin();
    TrtexecRun& run = *run_;
    // The end of a failed run alone: its errors stand before what began the run here.
    if (status == TrtexecStatus::failed && run.errors.empty()) run.errors = std::move(stray_errors_);
    stray_errors_.clear();
    if (run.status == TrtexecStatus::running && command && run.command && *command != *run.command)
      note(run.contradictions, concat("it begins as ", shown(*run.command), " and ends as ", shown(*command),
                                      ": lines of several runs are mixed"));
    if (run.status == TrtexecStatus::running && temper.has_value() != run.temper.has_value())
      note(run.contradictions, "one of its banners is TensorRT's and the other Temper's");
    run.status = status;
    if (temper) run.temper = temper;
    if (version && !run.version) run.version = version;
    else if (version && *version != *run.version)
      note(run.contradictions, concat("it begins as version ", *run.version, " and ends as ", *version));
    if (command && !run.command) run.command = command;
    if (status != TrtexecStatus::running) run_ = nullptr;
    section_ = nullptr;
  }

  // Lines of the summary from 8.0 on, and the single numbers of 7.x; several of them where no line break parts them.
  bool summary(std::string_view text) {
    if (!starts_known_line(text)) return false;
    Scan scan{text};
    while (!scan.rest.empty()) {
      const std::string_view at = scan.rest;
      bool read = false;
      for (const NumberLine& known : kNumberLines) {
        if (!scan.take(known.name)) continue;
        read = true;
        const auto value = scan.number(known.unit);
        if (value) set_number(known, *value);
        else
          note(current().problems, concat(shown(at), " is not readable: a number with '.' and the unit '",
                                          known.unit.substr(1), "' are expected"));
        if (!value) return true;
        break;
      }
      for (const StatsLine& known : kStatsLines) {
        if (read || !scan.take(known.name)) continue;
        read = true;
        const TrtexecStats stats = take_stats(scan);
        set_stats(known, stats);
        break;
      }
      if (!read || (!scan.rest.empty() && !starts_known_line(scan.rest))) {
        note(current().problems, concat("from ", shown(scan.rest), " on the line ", shown(text), " is not readable"));
        return true;
      }
    }
    return true;
  }

  void set_number(const NumberLine& known, double value) {
    // A log without banners and titles (grep) begins its next run with the next throughput.
    if (known.number == &TrtexecRun::throughput_qps && run_ && run_->throughput_qps && !section_ &&
        (run_->latency || *run_->throughput_qps != value))
      begin();
    auto& field = current().*known.number;
    if (field && *field != value)
      note(run_->contradictions,
           concat("it has '", known.name.substr(0, known.name.size() - 2), "' twice: ", *field, " and ", value));
    else field = value;
  }
  void set_stats(const StatsLine& known, const TrtexecStats& stats) {
    auto& field = current().*known.stats;
    if (!field) field = stats;
    else if (!same(*field, stats))
      note(run_->contradictions,
           concat("it has '", known.name.substr(0, known.name.size() - 2), "' twice, with different numbers"));
  }

  // 7.x: a title, then one line a number.
  bool old_summary(std::string_view text) {
    if (text == "Host Latency" || text == "Enqueue Time" || text == "GPU Compute") {
      host_section_ = text == "Host Latency";
      if (host_section_ && run_ && run_->latency) run_ = nullptr;
      TrtexecRun& run = current();
      run.multi_line = true;
      section_ = host_section_ ? &run.latency : text == "Enqueue Time" ? &run.enqueue : &run.gpu;
      if (*section_) note(run.contradictions, concat("it has '", text, "' twice"));
      else section_->emplace();
      if (host_section_ && !run.end_to_end) run.end_to_end.emplace();
      return true;
    }
    if (!section_ || !run_) return false;
    Scan scan{text};
    const bool percentile = scan.take("percentile: ");
    std::optional<double> TrtexecStats::* field = nullptr;
    if (scan.take("min: ")) field = &TrtexecStats::min;
    else if (scan.take("max: ")) field = &TrtexecStats::max;
    else if (scan.take("mean: ")) field = &TrtexecStats::mean;
    else if (scan.take("median: ")) field = &TrtexecStats::median;
    if (!field && !percentile) return false;
    bool whole = take_old(scan, **section_, field);
    if (whole && !scan.rest.empty())
      whole = host_section_ && scan.take(" (end to end ") && take_old(scan, *run_->end_to_end, field) &&
              scan.take(")") && scan.rest.empty();
    if (!whole) note(run_->problems, concat(shown(text), " is not readable from ", shown(scan.rest), " on"));
    return true;
  }
  // "1.5 ms" or, of a percentile, "1.5 ms at 99%"
  bool take_old(Scan& scan, TrtexecStats& stats, std::optional<double> TrtexecStats::* field) {
    const Scan before = scan;
    const auto value = scan.number(field ? " ms" : " ms at ");
    const auto percent = value && !field ? scan.number("%") : std::nullopt;
    if (!value || (!field && !percent) || (field && stats.*field)) {
      scan = before;
      return false;
    }
    if (field) stats.*field = value;
    else stats.percentiles.push_back({*percent, *value});
    return true;
  }

  // Outside of a run only what trtexec says before a summary can begin one.
  void stray(const LogLine& line) {
    if (line.severity == 'E' || line.severity == 'F') error(stray_errors_, line.text);
    if (line.text.starts_with("=== Model Options") || line.text.starts_with("Timing trace has ") ||
        line.text.starts_with("Warmup completed ")) {
      begin();
      other(line);
    }
  }

  void error(std::vector<std::string>& list, std::string_view text) {
    const size_t before = list.size();
    note(list, std::string(text.substr(0, 500)));
    continued_ = list.size() > before ? &list : nullptr;
  }
  void continue_error(const LogLine& line) {
    if (continued_ && continued_->back().size() < 500) continued_->back() += concat(" ", line.text.substr(0, 300));
  }

  void other(const LogLine& line) {
    TrtexecRun& run = *run_;
    const std::string_view text = line.text;
    if (text.starts_with("=== ")) section_ = nullptr;
    if (line.severity == 'E' || line.severity == 'F') return error(run.errors, text);
    if (line.severity == 'W') {
      if (text.starts_with("* ")) note(run.warnings, std::string(text.substr(2, 500)));
      return;
    }
    Scan scan{text};
    auto number = [&](std::string_view name, std::string_view unit, std::optional<double>& field) {
      if (!scan.take(name)) return false;
      if (!field) field = scan.number(unit);
      if (!field) note(run.problems, concat(shown(text), " is not readable"));
      return true;
    };
    auto count = [&](std::string_view name, std::string_view unit, std::optional<int64_t>& field) {
      if (!scan.take(name)) return false;
      const auto value = scan.integer(unit);
      if (!value) note(run.problems, concat(shown(text), " is not readable"));
      else if (field && *field != *value)
        note(run.contradictions, concat("it has two counts of queries: ", *field, " and ", *value));
      else field = value;
      return true;
    };
    // The generation is part of what was built, and comes first.
    if (text.starts_with("Engine built in ")) run.build_s.reset();
    if (text.starts_with("[TRT] Engine generation completed in ")) scan.take("[TRT] ");
    if (count("Warmup completed ", " queries", run.warmup_queries) ||
        count("Timing trace has ", " queries", run.queries) || number("Engine built in ", " sec.", run.build_s) ||
        number("Engine generation completed in ", " seconds.", run.build_s) ||
        number("Created engine with size: ", " MiB", run.engine_mib) ||
        number("Engine deserialized in ", " sec.", run.deserialize_s))
      return;
    if (scan.take("[TRT] ")) {
      if (scan.take("[MemUsageStats] Peak memory usage of TRT CPU/GPU memory allocators: CPU ") &&
          scan.integer(" MiB, GPU "))
        if (const auto mib = scan.integer(" MiB")) run.build_peak_gpu_mib = double(*mib);
      return;
    }
    if (scan.take("TensorRT version: ")) {
      if (!run.version && !scan.rest.empty() && scan.rest.find_first_not_of("0123456789.") == scan.rest.npos)
        run.version = std::string(scan.rest.substr(0, 32));
      return;
    }
    if (shape(scan)) return;
    for (const std::string_view name : {"Model", "Precision", "Batch", "Data transfers", "Spin-wait", "CUDA Graph",
                                        "Streams", "Inference Streams", "Device", "Selected Device", "Load engine"}) {
      Scan option{text};
      if (option.take(name) && option.take(": ") && !option.rest.empty())
        run.options.emplace(name == "Inference Streams" ? "Streams" : name, option.rest.substr(0, 4096));
    }
  }

  // "Input inference shape: x=1x3x224x224" (also with a blank before the colon), "Created input binding for x with
  // dimensions 1x3x224x224", "Input binding for x with dimensions 1x3x224x224 is created."
  bool shape(Scan& scan) {
    std::string_view name, dims;
    if (scan.take("Input inference shape")) {
      scan.take(" ");
      const size_t equals = scan.rest.rfind('=');
      if (!scan.take(": ") || equals == scan.rest.npos || equals < 2) return true;
      name = scan.rest.substr(0, equals - 2), dims = scan.rest.substr(equals - 1);
    } else if (scan.take("Created input binding for ") || scan.take("Input binding for ")) {
      constexpr std::string_view between = " with dimensions ";
      const size_t at = scan.rest.rfind(between);
      if (at == scan.rest.npos) return true;
      name = scan.rest.substr(0, at), dims = scan.rest.substr(at + between.size());
      if (const size_t end = dims.find(" is created."); end != dims.npos) dims = dims.substr(0, end);
    } else {
      return false;
    }
    std::vector<int64_t> shape;
    for (Scan d{dims};;) {
      const auto dim = d.integer("");
      if (!dim || *dim < 1 || shape.size() >= 16) return true;
      shape.push_back(*dim);
      if (d.rest.empty()) break;
      if (!d.take("x")) return true;
    }
    if (!name.empty() && run_->shapes.size() < 1000) run_->shapes.emplace(name, shape);
    return true;
  }
};

}  // namespace

std::optional<std::string> trtexec_version(std::string_view number) {
  if (number.find('.') != number.npos) {  // "11.1.0.106": the build is no part of the version
    size_t parts = 0, end = 0;
    for (; parts < 3 && end < number.size(); ++parts) {
      const size_t digits = std::min(number.find_first_not_of("0123456789", end + (parts > 0)), number.size());
      if (digits == end + (parts > 0) || digits - end > 6 || (parts > 0 && number[end] != '.')) return std::nullopt;
      end = digits;
    }
    return parts == 3 && (end == number.size() || number[end] == '.')
               ? std::optional(std::string(number.substr(0, end)))
               : std::nullopt;
  }
  const int n = parse_number<int>(number).value_or(0);
  if (n < 1000 || n >= 1000000) return std::nullopt;
  // Below version 10 a thousand a major and a hundred a minor; from 10 on ten thousand and a hundred.
  return n < 10000 ? concat(n / 1000, ".", n / 100 % 10, ".", n % 100)
                   : concat(n / 10000, ".", n / 100 % 100, ".", n % 100);
}

std::vector<TrtexecRun> read_trtexec_log(std::string_view bytes) {
  const std::string plain = plain_log_text(bytes);
  Reader reader;
  for_each_log_line(plain, [&](const LogLine& line) { reader.line(line); });
  reader.finish();
  return std::move(reader.runs);
}

}  // namespace temper
