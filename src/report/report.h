// SPDX-License-Identifier: Apache-2.0
// Reports of measurements: figures with a table beside each, one page, a table for a log. The input is files of this
// program, told apart by their schema; nothing is measured or judged here.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/results.h"
#include "bench/table.h"

namespace temper {

struct ReportedResult {
  std::string file;
  BenchResult result;
};

// A row of "temper.study/1": one precision of one model. Absent: not measured, or without a meaning (the drop of FP32
// itself).
struct StudyRow {
  struct Share {  // of samples; with its 95 % interval
    double rate = 0;
    Interval interval;
  };
  std::string precision, plan;
  double latency_ms = 0;        // median
  double throughput_per_s = 0;  // items
  std::optional<double> drop;   // by the study's metric, a share
  std::optional<Share> top1, agreement;
  std::optional<double> snr_db, cosine;  // the worst of the outputs
  std::optional<double> ratio;           // times as fast as FP32, timed in turns with it
  std::optional<Interval> ratio_ci99;    // absent where there were too few turns
  std::string verdict, why;              // of that, and why it is unsure; empty for FP32 itself
  std::optional<double> mcnemar_p;
  std::optional<int64_t> plan_bytes, memory_bytes;
  bool placeholder = false;  // calibrated on noise
};
struct ReportedStudy {
  std::string file, model, data, metric, command;
  std::optional<double> max_drop;
  int64_t batch = 1, calibration_samples = 0, evaluation_samples = 0;
  std::vector<StudyRow> rows;
  std::vector<std::string> notes;
};

// A row of "temper.profile/1": where one plan's time goes.
struct ProfileRow {
  std::string node, op, precision_in, precision_out, tactic;
  double ms = 0, share = 0;
  int64_t bytes = 0;
  std::optional<double> operations, of_arithmetic_peak, of_memory_peak;  // fractions of the machine's measured limits
};
struct ReportedProfile {
  std::string file, plan, device, precision;
  int64_t threads = 0, runs = 0;
  double run_ms = 0, steps_ms = 0;
  std::vector<ProfileRow> rows;  // in the order in which they run
};

// A part of "temper.explain/1": one engine, and what was found of it.
struct ExplainedEngine {
  struct Part {
    std::string name;
    int64_t layers = 0;
    double ms = 0, share = 0;  // of the time of all layers
  };
  struct Finding {
    std::string what, evidence, change;
    std::optional<double> gain_share, gain_ms;
    bool at_most = false;
  };
  std::string name, asked, answer;
  std::optional<double> run_ms;
  double layers_ms = 0;
  std::vector<Part> precisions, kinds;
  std::vector<Finding> findings;  // the most valuable first
  std::vector<std::string> notes;
};
struct ReportedExplanation {
  std::string file;
  std::vector<ExplainedEngine> engines;
  std::vector<std::string> answers;
};

// A file "temper.gpu_suite/1" (./dev bench gpu --suite architectures): architectures beside torch.compile; and of
// "temper.cpu_suite/1" (./dev bench peers --suite models): models beside ONNX Runtime and OpenVINO. Absent: not
// measured.
struct SuiteRow {
  struct Ratio {  // of rounds: the better peer's time by Temper's
    double median = 0, min = 0, max = 0;
  };
  std::string model, kind, precision, failure;
  int64_t batch = 1;
  std::optional<double> temper_ms, compile_ms, onnxruntime_ms, openvino_ms, difference, build_s;
  std::string better_peer;  // "onnxruntime" or "openvino"
  std::optional<Ratio> ratio;
  std::optional<int64_t> threads, steps, host_steps, reference_steps, temper_peak_bytes, onnxruntime_peak_bytes;
};
struct ReportedSuite {
  std::string file, device, date, revision;
  bool of_cpu = false;  // by its schema
  std::vector<SuiteRow> rows;
};

struct Report {
  std::string verdict;  // of whoever measured, in the place of what the files say (versus)
  std::vector<ReportedResult> results;
  std::vector<ReportedStudy> studies;
  std::vector<ReportedProfile> profiles;
  std::vector<ReportedExplanation> explanations;
  std::vector<ReportedSuite> suites;
};

// Adds a file's text by the schema that it names; `file` is what the report calls it. Throws Error{bad_file} where the
// text is empty, damaged, of an unknown schema, or says something that cannot be.
void add_to(Report& report, const std::string& file, std::string_view text);
Report read_report(const std::vector<std::string>& paths);  // add_to for each; errors begin with the path

// One picture. `spec` is Vega-Lite without colours of text and axes (the page's, or the image's, theme has those) and
// with "width": "container"; `table` has the numbers that it draws.
struct Figure {
  std::string name;   // of files: "latency", "profile-2"
  std::string title;  // what is shown, with its unit
  std::string text;   // how to read it, what was left out
  std::string spec;   // empty: there is nothing to draw, and `text` says why
  Table table;
};
// In the order of the page. Of what was not measured there is no figure.
std::vector<Figure> figures_of(const Report& report);

// Says what it shows, in a sentence or two; empty where there is nothing to say.
std::string verdict_of(const Report& report);

// A short name for each run: what tells it apart from the others. In the order of results and runs.
std::vector<std::string> labels_of(const Report& report);
// The table that a benchmark log must carry: one row a run, "n/a (reason)" where a figure is absent.
Table log_of(const Report& report);
Table environment_of(const Report& report);  // one column a result
struct Warned {
  std::string what, text;  // of which run or file; in words
  bool unfit = false;      // no verdict may rest on the run
};
std::vector<Warned> warnings_of(const Report& report);
std::vector<Warned> notes_of(const Report& report);  // on single figures of a run: why absent, how sampling ended
std::vector<Warned> commands_of(const Report& report);

// One page that needs no network and no other file: it forbids itself to load anything. Throws Error{unsupported} where
// this program was built without Vega-Lite's JavaScript.
std::string report_html(const Report& report);
std::string report_markdown(const Report& report);
std::string report_csv(const Report& report);  // every scalar field of every run

}  // namespace temper
