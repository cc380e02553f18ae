// SPDX-License-Identifier: Apache-2.0
// Reads the files of a report, told apart by their schema. Results are read as strictly as everywhere; of studies and
// profiles only what the report shows is looked at, so that they may grow.
#include <cmath>

#include "base/file.h"
#include "base/strict_json.h"
#include "report/report.h"

namespace temper {
namespace {

using Json = nlohmann::json;

// A member that must be there. `where` names the object.
const Json& member(const Json& object, const char* key, const std::string& where) {
  if (!object.is_object())
    fail(ErrorKind::bad_file, where, ": an object expected, found ", std::string_view(object.type_name()));
  const auto found = object.find(key);
  if (found == object.end()) fail(ErrorKind::bad_file, where, ".", key, ": this field is missing");
  return *found;
}

std::string text_of(const Json& object, const char* key, const std::string& where) {
  const Json& value = member(object, key, where);
  if (!value.is_string()) fail(ErrorKind::bad_file, where, ".", key, ": a string expected");
  return value.get<std::string>();
}

double number_of(const Json& object, const char* key, const std::string& where) {
  const Json& value = member(object, key, where);
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    fail(ErrorKind::bad_file, where, ".", key, ": a finite number expected");
  return value.get<double>();
}

double positive_of(const Json& object, const char* key, const std::string& where) {
  const double value = number_of(object, key, where);
  if (value < 0) fail(ErrorKind::bad_file, where, ".", key, ": is negative");
  return value;
}

int64_t count_of(const Json& object, const char* key, const std::string& where) {
  const double value = positive_of(object, key, where);
  if (value > 9e15 || value != std::floor(value))
    fail(ErrorKind::bad_file, where, ".", key, ": a whole number expected");
  return int64_t(value);
}

// Absent or null: nothing.
bool has(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) && !object.at(key).is_null();
}

std::optional<double> number_if(const Json& object, const char* key, const std::string& where) {
  return has(object, key) ? std::optional(number_of(object, key, where)) : std::nullopt;
}

Interval interval_of(const Json& object, const char* key, const std::string& where) {
  const Json& value = member(object, key, where);
  if (!value.is_array() || value.size() != 2 || !value[0].is_number() || !value[1].is_number() ||
      !(value[0].get<double>() <= value[1].get<double>()))
    fail(ErrorKind::bad_file, where, ".", key, ": [low, high] expected");
  return {value[0].get<double>(), value[1].get<double>()};
}

std::optional<StudyRow::Share> share_if(const Json& object, const char* key, const std::string& where) {
  if (!has(object, key)) return std::nullopt;
  const std::string here = concat(where, ".", key);
  StudyRow::Share share{number_of(object.at(key), "rate", here), interval_of(object.at(key), "ci95", here)};
  if (share.rate < 0 || share.rate > 1) fail(ErrorKind::bad_file, here, ".rate: is no share");
  return share;
}

StudyRow study_row(const Json& json, const std::string& where) {
  StudyRow row;
  row.precision = text_of(json, "precision", where);
  row.plan = text_of(json, "plan", where);
  row.latency_ms = positive_of(json, "latency_ms", where);
  row.throughput_per_s = positive_of(json, "throughput_per_s", where);
  row.drop = number_if(json, "drop", where);
  row.placeholder = has(json, "placeholder") && json.at("placeholder") == true;
  if (has(json, "plan_bytes")) row.plan_bytes = count_of(json, "plan_bytes", where);
  if (has(json, "memory_bytes")) row.memory_bytes = count_of(json, "memory_bytes", where);
  if (has(json, "answers")) {
    const Json& answers = json.at("answers");
    const std::string here = where + ".answers";
    row.top1 = share_if(answers, "top1", here);
    if (!row.top1) row.top1 = share_if(answers, "reference_top1", here);  // of the row that is the reference
    row.agreement = share_if(answers, "agreement", here);
    if (has(answers, "mcnemar")) row.mcnemar_p = number_if(answers.at("mcnemar"), "p", here + ".mcnemar");
    if (has(answers, "outputs")) {
      if (!answers.at("outputs").is_array()) fail(ErrorKind::bad_file, here, ".outputs: an array expected");
      for (const Json& output : answers.at("outputs")) {
        const auto snr = number_if(output, "snr_db", here + ".outputs"),
                   cosine = number_if(output, "cosine", here + ".outputs");
        if (snr && (!row.snr_db || *snr < *row.snr_db)) row.snr_db = snr;
        if (cosine && (!row.cosine || *cosine < *row.cosine)) row.cosine = cosine;
      }
    }
  }
  if (has(json, "speed")) {
    const Json& speed = json.at("speed");
    row.ratio = positive_of(speed, "ratio", where + ".speed");
    const Json& ends = member(speed, "ci99", where + ".speed");
    if (!ends.is_array() || ends.size() != 2 || !(ends[0].is_null() || ends[1].is_null()))
      row.ratio_ci99 = interval_of(speed, "ci99", where + ".speed");
    row.verdict = text_of(speed, "verdict", where + ".speed");
    if (has(speed, "why")) row.why = text_of(speed, "why", where + ".speed");
  }
  return row;
}

ReportedStudy study_of(const Json& json, const std::string& file) {
  ReportedStudy study;
  study.file = file;
  study.model = text_of(json, "model", "study");
  study.data = text_of(json, "data", "study");
  study.metric = text_of(json, "metric", "study");
  if (has(json, "command")) study.command = text_of(json, "command", "study");
  study.max_drop = number_if(json, "max_drop", "study");
  study.batch = count_of(json, "batch", "study");
  study.calibration_samples = count_of(json, "calibration_samples", "study");
  study.evaluation_samples = count_of(json, "evaluation_samples", "study");
  if (has(json, "notes"))
    for (const Json& note : strict::list(json.at("notes"))) study.notes.push_back(strict::text(note));
  const auto& rows = strict::list(member(json, "precisions", "study"));
  if (rows.empty()) fail(ErrorKind::bad_file, "study.precisions: is empty");
  for (size_t i = 0; i < rows.size(); ++i)
    study.rows.push_back(study_row(rows[i], concat("study.precisions[", i, "]")));
  return study;
}

ProfileRow profile_row(const Json& json, const std::string& where) {
  ProfileRow row;
  row.node = text_of(json, "node", where);
  row.op = text_of(json, "op", where);
  row.precision_in = text_of(json, "precision_in", where);
  row.precision_out = text_of(json, "precision_out", where);
  row.tactic = text_of(json, "tactic", where);
  row.ms = positive_of(json, "ms", where);
  row.share = positive_of(json, "share", where);
  row.bytes = count_of(json, "bytes", where);
  row.operations = number_if(json, "operations", where);
  row.of_arithmetic_peak = number_if(json, "of_arithmetic_peak", where);
  row.of_memory_peak = number_if(json, "of_memory_peak", where);
  return row;
}

ReportedProfile profile_of(const Json& json, const std::string& file) {
  ReportedProfile profile;
  profile.file = file;
  profile.plan = text_of(json, "plan", "profile");
  profile.device = text_of(json, "device", "profile");
  profile.precision = text_of(json, "precision", "profile");
  profile.threads = count_of(json, "threads", "profile");
  profile.runs = count_of(json, "runs", "profile");
  profile.run_ms = positive_of(json, "run_ms", "profile");
  profile.steps_ms = positive_of(json, "steps_ms", "profile");
  const auto& steps = strict::list(member(json, "steps", "profile"));
  for (size_t i = 0; i < steps.size(); ++i)
    profile.rows.push_back(profile_row(steps[i], concat("profile.steps[", i, "]")));
  return profile;
}

std::vector<std::string> texts_of(const Json& object, const char* key, const std::string& where) {
  std::vector<std::string> texts;
  const Json& list = member(object, key, where);
  if (!list.is_array()) fail(ErrorKind::bad_file, where, ".", key, ": an array expected");
  for (const Json& text : list) {
    if (!text.is_string()) fail(ErrorKind::bad_file, where, ".", key, ": strings expected");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

std::vector<ExplainedEngine::Part> parts_of(const Json& object, const char* key, const std::string& where) {
  std::vector<ExplainedEngine::Part> parts;
  const std::string here = concat(where, ".", key);
  for (const Json& part : strict::list(member(object, key, where)))
    parts.push_back({text_of(part, "name", here), count_of(part, "layers", here), positive_of(part, "ms", here),
                     positive_of(part, "share", here)});
  return parts;
}

ExplainedEngine engine_of(const Json& json, const std::string& where) {
  ExplainedEngine engine;
  engine.name = text_of(json, "name", where);
  if (has(json, "asked")) engine.asked = text_of(json, "asked", where);
  if (has(json, "answer")) engine.answer = text_of(json, "answer", where);
  engine.run_ms = number_if(json, "run_ms", where);
  engine.layers_ms = positive_of(json, "layers_ms", where);
  engine.precisions = parts_of(json, "precisions", where);
  engine.kinds = parts_of(json, "kinds", where);
  for (const Json& found : strict::list(member(json, "findings", where))) {
    const std::string here = where + ".findings";
    ExplainedEngine::Finding finding{text_of(found, "what", here), "", text_of(found, "change", here),
                                     number_if(found, "gain_share", here), number_if(found, "gain_ms", here)};
    for (const std::string& text : texts_of(found, "evidence", here))
      finding.evidence += concat(finding.evidence.empty() ? "" : "; ", text);
    finding.at_most = has(found, "at_most") && found.at("at_most") == true;
    engine.findings.push_back(std::move(finding));
  }
  if (has(json, "notes")) engine.notes = texts_of(json, "notes", where);
  return engine;
}

ReportedExplanation explanation_of(const Json& json, const std::string& file) {
  ReportedExplanation explanation{file, {}, {}};
  const auto& engines = strict::list(member(json, "engines", "explain"));
  if (engines.empty()) fail(ErrorKind::bad_file, "explain.engines: is empty");
  for (size_t i = 0; i < engines.size(); ++i)
    explanation.engines.push_back(engine_of(engines[i], concat("explain.engines[", i, "]")));
  if (has(json, "answers")) explanation.answers = texts_of(json, "answers", "explain");
  return explanation;
}

}  // namespace

void add_to(Report& report, const std::string& file, std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) fail(ErrorKind::bad_file, "the file is empty");
  const Json json = strict::parse(text, "the file");
  const std::string known =
      "temper.result/1 (temper bench --json, temper import), temper.study/1 (temper study), temper.profile/1 (temper "
      "profile --json) or temper.explain/1 (temper explain -o)";
  if (!json.is_object() || !json.contains("schema") || !json.at("schema").is_string())
    fail(ErrorKind::bad_file, "it names no schema; a report is made of files of ", known);
  const std::string& schema = json.at("schema").get_ref<const std::string&>();
  if (schema == kResultSchema) {
    ReportedResult result{file, result_from_json(text)};
    if (result.result.runs.empty()) fail(ErrorKind::bad_file, "it holds no run");
    report.results.push_back(std::move(result));
  } else if (schema == "temper.study/1") {
    report.studies.push_back(study_of(json, file));
  } else if (schema == "temper.profile/1") {
    report.profiles.push_back(profile_of(json, file));
  } else if (schema == "temper.explain/1") {
    report.explanations.push_back(explanation_of(json, file));
  } else {
    fail(ErrorKind::bad_file, "its schema is '", std::string_view(schema).substr(0, 80),
         "'; a report is made of files of ", known);
  }
}

Report read_report(const std::vector<std::string>& paths) {
  Report report;
  for (const std::string& path : paths) {
    const std::string text = read_file(path);
    with_context([&] { return path; }, [&] { add_to(report, path, text); });
  }
  return report;
}

}  // namespace temper
