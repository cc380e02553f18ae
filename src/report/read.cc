// SPDX-License-Identifier: Apache-2.0
// Reads the files of a report, told apart by their schema. Results are read as strictly as everywhere; of studies and
// profiles only what the report shows is looked at, so that they may grow.
#include <cmath>

#include "base/file.h"
#include "base/file_kind.h"
#include "bench/results_fields.h"
#include "report/report.h"

namespace temper {
namespace {

struct NotNegative {
  void read(const JsonInput& in, double& value) const {
    if (!in.json().is_number()) in.expected("a finite number");
    value = in.number();
    if (value < 0) in.refuse("is negative");
  }
};

// As any number that is whole.
struct Count {
  void read(const JsonInput& in, int64_t& value) const {
    double number = 0;
    NotNegative().read(in, number);
    if (number > 9e15 || number != std::floor(number)) in.refuse("a whole number expected");
    value = int64_t(number);
  }
  void read(const JsonInput& in, std::optional<int64_t>& value) const { read(in, value.emplace()); }
};

struct InOrder {
  void read(const JsonInput& in, Interval& value) const {
    read_json(in, value);
    if (!(value.low <= value.high)) in.refuse("[low, high] expected");
  }
};

}  // namespace

static void json_fields(JsonReader& v, StudyRow::Share& share) {
  v.field("rate", share.rate);
  v.field("ci95", share.interval, InOrder());
  if (share.rate < 0 || share.rate > 1) v.refuse("rate", "is no share");
}

namespace {

void read_answers(const JsonInput& in, StudyRow& row) {
  JsonReader answers(in);
  answers.may_lack("top1", row.top1);
  if (!row.top1) answers.may_lack("reference_top1", row.top1);  // of the row that is the reference
  answers.may_lack("agreement", row.agreement);
  if (answers.has("mcnemar")) {
    const JsonInput test = answers["mcnemar"];
    JsonReader(test).may_lack("p", row.mcnemar_p);
  }
  if (!answers.has("outputs")) return;
  const JsonInput outputs = answers["outputs"];
  for (size_t i = 0; i < outputs.list().size(); ++i) {
    const JsonInput output(outputs.list()[i], outputs, i);
    JsonReader reader(output);
    std::optional<double> snr, cosine;
    reader.may_lack("snr_db", snr);
    reader.may_lack("cosine", cosine);
    if (snr && (!row.snr_db || *snr < *row.snr_db)) row.snr_db = snr;
    if (cosine && (!row.cosine || *cosine < *row.cosine)) row.cosine = cosine;
  }
}

void read_speed(const JsonInput& in, StudyRow& row) {
  JsonReader speed(in);
  speed.field("ratio", row.ratio.emplace(), NotNegative());
  const JsonInput ends = speed["ci99"];
  const auto& json = ends.json();
  if (!json.is_array() || json.size() != 2 || !(json[0].is_null() || json[1].is_null()))
    InOrder().read(ends, row.ratio_ci99.emplace());
  speed.field("verdict", row.verdict);
  speed.may_lack("why", row.why);
}

}  // namespace

static void json_fields(JsonReader& v, StudyRow& row) {
  v.field("precision", row.precision);
  v.field("plan", row.plan);
  v.field("latency_ms", row.latency_ms, NotNegative());
  v.field("throughput_per_s", row.throughput_per_s, NotNegative());
  v.may_lack("drop", row.drop);
  v.may_lack("placeholder", row.placeholder);
  v.may_lack("plan_bytes", row.plan_bytes, Count());
  v.may_lack("memory_bytes", row.memory_bytes, Count());
  if (v.has("answers")) read_answers(v["answers"], row);
  if (v.has("speed")) read_speed(v["speed"], row);
}

static void json_fields(JsonReader& v, ReportedStudy& study) {
  v.field("model", study.model);
  v.field("data", study.data);
  v.field("metric", study.metric);
  v.may_lack("command", study.command);
  v.may_lack("max_drop", study.max_drop);
  v.field("batch", study.batch, Count());
  v.field("calibration_samples", study.calibration_samples, Count());
  v.field("evaluation_samples", study.evaluation_samples, Count());
  v.may_lack("notes", study.notes);
  v.field("precisions", study.rows);
  if (study.rows.empty()) v.refuse("precisions", "is empty");
}

static void json_fields(JsonReader& v, ProfileRow& row) {
  v.field("node", row.node);
  v.field("op", row.op);
  v.field("precision_in", row.precision_in);
  v.field("precision_out", row.precision_out);
  v.field("tactic", row.tactic);
  v.field("ms", row.ms, NotNegative());
  v.field("share", row.share, NotNegative());
  v.field("bytes", row.bytes, Count());
  v.may_lack("operations", row.operations);
  v.may_lack("of_arithmetic_peak", row.of_arithmetic_peak);
  v.may_lack("of_memory_peak", row.of_memory_peak);
}

static void json_fields(JsonReader& v, ReportedProfile& profile) {
  v.field("plan", profile.plan);
  v.field("device", profile.device);
  v.field("precision", profile.precision);
  v.field("threads", profile.threads, Count());
  v.field("runs", profile.runs, Count());
  v.field("run_ms", profile.run_ms, NotNegative());
  v.field("steps_ms", profile.steps_ms, NotNegative());
  v.field("steps", profile.rows);
}

static void json_fields(JsonReader& v, ExplainedEngine::Part& part) {
  v.field("name", part.name);
  v.field("layers", part.layers, Count());
  v.field("ms", part.ms, NotNegative());
  v.field("share", part.share, NotNegative());
}

static void json_fields(JsonReader& v, ExplainedEngine::Finding& finding) {
  v.field("what", finding.what);
  v.field("change", finding.change);
  v.may_lack("gain_share", finding.gain_share);
  v.may_lack("gain_ms", finding.gain_ms);
  std::vector<std::string> evidence;
  v.field("evidence", evidence);
  for (const std::string& text : evidence) finding.evidence += concat(finding.evidence.empty() ? "" : "; ", text);
  v.may_lack("at_most", finding.at_most);
}

static void json_fields(JsonReader& v, ExplainedEngine& engine) {
  v.field("name", engine.name);
  v.may_lack("asked", engine.asked);
  v.may_lack("answer", engine.answer);
  v.may_lack("run_ms", engine.run_ms);
  v.field("layers_ms", engine.layers_ms, NotNegative());
  v.field("precisions", engine.precisions);
  v.field("kinds", engine.kinds);
  v.field("findings", engine.findings);
  v.may_lack("notes", engine.notes);
}

static void json_fields(JsonReader& v, ReportedExplanation& explanation) {
  v.field("engines", explanation.engines);
  if (explanation.engines.empty()) v.refuse("engines", "is empty");
  v.may_lack("answers", explanation.answers);
}

static void json_fields(JsonReader& v, SuiteRow::Ratio& ratio) {
  v.field("median", ratio.median, NotNegative());
  v.field("min", ratio.min, NotNegative());
  v.field("max", ratio.max, NotNegative());
  if (!(ratio.median > 0)) v.refuse("median", "is no ratio");
}

static void json_fields(JsonReader& v, SuiteRow& row) {
  v.field("model", row.model);
  v.field("kind", row.kind);
  v.field("precision", row.precision);
  v.field("batch", row.batch, Count());
  v.may_lack("failure", row.failure);
  v.may_lack("temper_ms", row.temper_ms);
  v.may_lack("compile_ms", row.compile_ms);
  v.may_lack("onnxruntime_ms", row.onnxruntime_ms);
  v.may_lack("openvino_ms", row.openvino_ms);
  v.may_lack("better_peer", row.better_peer);
  v.may_lack("difference", row.difference);
  v.may_lack("build_s", row.build_s);
  v.may_lack("ratio", row.ratio);
  v.may_lack("steps", row.steps, Count());
  v.may_lack("threads", row.threads, Count());
  v.may_lack("host_steps", row.host_steps, Count());
  v.may_lack("reference_steps", row.reference_steps, Count());
  v.may_lack("temper_peak_bytes", row.temper_peak_bytes, Count());
  v.may_lack("onnxruntime_peak_bytes", row.onnxruntime_peak_bytes, Count());
}

static void json_fields(JsonReader& v, ReportedSuite& suite) {
  v.field("device", suite.device);
  v.field("date", suite.date);
  v.field("revision", suite.revision);
  v.field("rows", suite.rows);
  if (suite.rows.empty()) v.refuse("rows", "is empty");
}

namespace {

template <class T>
void add(std::vector<T>& list, const std::string& file, const strict::Json& json, std::string_view name) {
  T item;
  item.file = file;
  read_json(JsonInput(json, name, ""), item);
  list.push_back(std::move(item));
}

}  // namespace

void add_to(Report& report, const std::string& file, std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) fail(ErrorKind::bad_file, "the file is empty");
  const strict::Json json = strict::parse(text, "the file");
  const std::string known =
      "temper.result/1 (temper bench --json, temper import), temper.study/1 (temper study), temper.profile/1 (temper "
      "profile --json), temper.explain/1 (temper explain -o), temper.gpu_suite/1 (./dev bench gpu --suite) or "
      "temper.cpu_suite/1 (./dev bench peers --suite models)";
  if (!json.is_object() || !json.contains("schema") || !json.at("schema").is_string())
    fail(ErrorKind::bad_file, "it names no schema; a report is made of files of ", known);
  const std::string& schema = json.at("schema").get_ref<const std::string&>();
  if (schema == kResultSchema) {
    ReportedResult result{file, result_from_json(text)};
    if (result.result.runs.empty()) fail(ErrorKind::bad_file, "it holds no run");
    report.results.push_back(std::move(result));
  } else if (schema == "temper.study/1") {
    add(report.studies, file, json, "study");
  } else if (schema == "temper.profile/1") {
    add(report.profiles, file, json, "profile");
  } else if (schema == "temper.explain/1") {
    add(report.explanations, file, json, "explain");
  } else if (schema == "temper.gpu_suite/1" || schema == "temper.cpu_suite/1") {
    add(report.suites, file, json, "suite");
    report.suites.back().of_cpu = schema == "temper.cpu_suite/1";
  } else {
    fail(ErrorKind::bad_file, "its schema is '", std::string_view(schema).substr(0, 80),
         "'; a report is made of files of ", known);
  }
}

Report read_report(const std::vector<std::string>& paths) {
  Report report;
  for (const std::string& path : paths) {
    switch (const FileKind kind = kind_of_file(path); kind) {
      case FileKind::other:
      case FileKind::nothing:
      case FileKind::result:
      case FileKind::profile:
      case FileKind::explanation:
      case FileKind::study: break;
      default:
        fail(ErrorKind::bad_file, path, ": it is ", words_of(kind),
             "; a report is made of results, studies, profiles and explanations");
    }
    const std::string text = read_file(path);
    with_context([&] { return path; }, [&] { add_to(report, path, text); });
  }
  return report;
}

}  // namespace temper
