// SPDX-License-Identifier: Apache-2.0
#include "report/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/quote.h"
#include "report/figures.h"
#include "report/text.h"
#include "report/theme.h"

namespace temper {
namespace {

using Json = nlohmann::json;

constexpr const char* kHostile = "</script><img src=x onerror=\"alert('1')\">|\n`*[a](b)";

BenchRun run_of(const std::string& model, int64_t batch, double ms, int count = 500) {
  BenchRun run;
  run.model = model;
  run.model_sha256 = std::string(64, 'a');
  run.source_sha256 = run.model_sha256;
  run.command = concat("temper bench ", model);
  run.workspace_bytes = 1 << 20;
  run.load_by_others = 0;
  run.device = run.backend = "cpu";
  run.precision = "fp32";
  run.batch = batch;
  run.threads = 2;
  run.plan_bytes = 1000;
  run.build_s = 1;
  run.peak_host_bytes = 123 << 20;
  run.notes["peak_device_bytes"] = "n/a (no device memory)";
  Samples samples;
  samples.first_run_ms = 14 * ms;
  samples.warmup_runs = 3;
  for (int i = 0; i < count; ++i) samples.ms.push_back(ms * (i % 2 ? 1.0 : 1.2) + 1e-4 * i);
  set_samples(run, samples);
  return run;
}

std::string result_text(const std::vector<BenchRun>& runs) {
  BenchResult result;
  result.environment.time = "2026-05-01T12:30:00Z";
  result.environment.cpu_model = "Some <b>CPU</b>";
  result.runs = runs;
  return to_json(result);
}

Json study_json() {
  const auto rate = [](double r) {
    return Json{{"rate", r}, {"right", 99}, {"ci95", {r - 0.02, std::min(1.0, r + 0.01)}}};
  };
  const Json fp32{{"precision", "fp32"},       {"plan", "m.fp32.plan"}, {"latency_ms", 2.0},
                  {"throughput_per_s", 500.0}, {"plan_bytes", 4000},    {"memory_bytes", nullptr},
                  {"drop", nullptr},           {"speed", nullptr},      {"answers", {{"top1", rate(0.98)}}}};
  const Json int8{{"precision", "int8"},
                  {"plan", "m.int8.plan"},
                  {"latency_ms", 1.0},
                  {"throughput_per_s", 1000.0},
                  {"plan_bytes", 1000},
                  {"memory_bytes", 2000},
                  {"drop", 0.03},
                  {"speed", {{"ratio", 2.0}, {"ci99", {1.9, 2.1}}, {"why", ""}, {"verdict", "FASTER"}}},
                  {"answers",
                   {{"top1", rate(0.95)},
                    {"agreement", rate(0.96)},
                    {"mcnemar", {{"p", 0.02}}},
                    {"outputs",
                     {{{"output", "a"}, {"cosine", 0.9}, {"snr_db", 20.0}},
                      {{"output", "b"}, {"cosine", 0.8}, {"snr_db", 12.0}}}}}}};
  return {{"schema", "temper.study/1"}, {"model", kHostile},         {"data", "d.npz"},
          {"metric", "top1"},           {"max_drop", 0.01},          {"batch", 2},
          {"calibration_samples", 50},  {"evaluation_samples", 100}, {"notes", {"a note"}},
          {"precisions", {fp32, int8}}};
}

Json profile_json(int steps) {
  Json json{{"schema", "temper.profile/1"},
            {"plan", "m.plan"},
            {"device", "cpu"},
            {"precision", "fp32"},
            {"threads", 2},
            {"runs", 10},
            {"run_ms", 3.0},
            {"steps_ms", 2.9},
            {"steps", Json::array()}};
  for (int i = 0; i < steps; ++i)
    json["steps"].push_back({{"node", concat(kHostile, i)},
                             {"op", "conv"},
                             {"ms", 0.1 * (i + 1)},
                             {"share", 0.1},
                             {"bytes", 1000},
                             {"operations", i ? Json(2e6) : Json(nullptr)},
                             {"of_arithmetic_peak", 0.5},
                             {"of_memory_peak", nullptr},
                             {"precision_in", "f32"},
                             {"precision_out", i % 2 ? "i8" : "f32"},
                             {"tactic", "t"}});
  return json;
}

Json suite_json() {
  const auto row = [](const char* model, int batch, double ratio) {
    return Json{{"model", model},
                {"kind", batch > 1 ? "transformer" : "recurrent"},
                {"batch", batch},
                {"precision", "fp16"},
                {"temper_ms", 2.0},
                {"compile_ms", 2.0 * ratio},
                {"difference", 1e-3},
                {"build_s", 4.5},
                {"steps", 89},
                {"host_steps", 0},
                {"ratio", {{"median", ratio}, {"min", ratio * 0.9}, {"max", ratio * 1.1}, {"per_round", {ratio}}}}};
  };
  Json json{{"schema", "temper.gpu_suite/1"},
            {"date", "2026-11-23"},
            {"revision", "abc"},
            {"device", "NVIDIA H200"},
            {"rows", Json::array({row(kHostile, 32, 2), row("gru", 1, 0.5)})}};
  json["rows"].push_back(
      {{"model", "lost"}, {"kind", "recurrent"}, {"batch", 4}, {"precision", "fp16"}, {"failure", "no room"}});
  return json;
}

Report whole_report() {
  Report report;
  add_to(report, "r.json",
         result_text({run_of(concat("models/", kHostile), 1, 1), run_of(concat("models/", kHostile), 8, 4),
                      run_of("other.onnx", 1, 2, 30)}));
  add_to(report, "s.json", study_json().dump());
  add_to(report, "p.json", profile_json(40).dump());
  return report;
}

std::string error_of(std::string_view text) {
  Report report;
  try {
    add_to(report, "x.json", text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_file);
    return error.what();
  }
  return "(no error)";
}

const Figure& figure(const std::vector<Figure>& figures, const std::string& name) {
  for (const Figure& f : figures)
    if (f.name == name) return f;
  throw std::runtime_error("no figure " + name);
}

// Every value that a picture holds, of all its layers.
std::vector<Json> values_of(const Json& spec) {
  std::vector<Json> values;
  if (spec.contains("data"))
    for (const Json& value : spec.at("data").at("values")) values.push_back(value);
  if (spec.contains("layer"))
    for (const Json& layer : spec.at("layer"))
      for (const Json& value : values_of(layer)) values.push_back(value);
  return values;
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

TEST(Report, ASuiteHasALineForEachArchitectureAndItsGeometricMean) {
  Report report;
  add_to(report, "suite.json", suite_json().dump());
  const auto figures = figures_of(report);
  const Figure& suite = figure(figures, "suite");
  EXPECT_EQ(values_of(Json::parse(suite.spec)).size(), 3u);  // two lines, and the rule at 1
  EXPECT_EQ(suite.table.rows.size(), 3u);
  EXPECT_EQ(suite.table.rows[2][6], "failed: no room");
  EXPECT_NE(suite.text.find("Geometric mean 1.000 of 2; below 1: 1. recurrent: 0.5000 of 1. transformer: 2.000 of 1."),
            std::string::npos)
      << suite.text;
  EXPECT_NE(suite.text.find("1 line failed."), std::string::npos) << suite.text;
  EXPECT_NE(report_html(report).find("1 suite"), std::string::npos);
  Json damaged = suite_json();
  damaged["rows"][0]["ratio"]["median"] = 0;
  EXPECT_NE(error_of(damaged.dump()).find("ratio.median: is no ratio"), std::string::npos) << error_of(damaged.dump());
  damaged["rows"] = Json::array();
  EXPECT_NE(error_of(damaged.dump()).find("rows: is empty"), std::string::npos);
}

TEST(Report, ASuiteOfTheCpuHasALineForEachModelBesideTheBetterPeer) {
  const auto row = [](const char* model, const char* better, double ratio) {
    return Json{{"model", model},
                {"kind", "text detector"},
                {"batch", 1},
                {"precision", "fp32"},
                {"threads", 2},
                {"without", Json::object()},
                {"temper_ms", 2.0},
                {"onnxruntime_ms", 2 * ratio},
                {"openvino_ms", 3 * ratio},
                {"better_peer", better},
                {"load_by_others", 0.25},
                {"difference", 1e-6},
                {"build_s", 4.5},
                {"steps", 89},
                {"reference_steps", 3},
                {"temper_peak_bytes", 1 << 20},
                {"onnxruntime_peak_bytes", 3 << 20},
                {"ratio", {{"median", ratio}, {"min", ratio * 0.9}, {"max", ratio * 1.1}, {"per_round", {ratio}}}}};
  };
  Json json{{"schema", "temper.cpu_suite/1"},
            {"date", "2026-11-23"},
            {"revision", "abc"},
            {"device", "a CPU"},
            {"rows", Json::array({row(kHostile, "onnxruntime", 2), row("gru", "openvino", 0.5)})}};
  json["rows"].push_back({{"model", "lost"},
                          {"kind", "recurrent"},
                          {"batch", 1},
                          {"precision", "fp32"},
                          {"threads", 2},
                          {"without", {{"openvino", "not installed"}}},
                          {"failure", "no room"}});
  Report report;
  add_to(report, "suite.json", json.dump());
  const auto figures = figures_of(report);
  const Figure& suite = figure(figures, "suite");
  EXPECT_EQ(suite.title, "Models beside the better of ONNX Runtime and OpenVINO on a CPU, times as fast");
  EXPECT_EQ(values_of(Json::parse(suite.spec)).size(), 3u);  // two lines, and the rule at 1
  ASSERT_EQ(suite.table.rows.size(), 3u);
  for (const auto& cells : suite.table.rows) EXPECT_EQ(cells.size(), suite.table.columns.size());
  EXPECT_EQ(suite.table.rows[1],
            (std::vector<std::string>{"gru", "text detector", "1", "fp32", "2", "2.000", "1.000", "1.500", "0.5000",
                                      "0.4500 to 0.5500", "0.000001000", "4.500", "89", "3", "1.00 MiB", "3.00 MiB"}));
  EXPECT_NE(suite.text.find("Geometric mean 1.000 of 2; below 1: 1."), std::string::npos) << suite.text;
  EXPECT_NE(suite.text.find("1 line failed."), std::string::npos) << suite.text;
  const std::string page = report_html(report);
  for (const char* part : {"1 suite", "beside OpenVINO", "times as fast as the better of ONNX Runtime and OpenVINO"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
}

TEST(Report, FilesAreToldApartByTheirSchemaAndOthersRefusedByName) {
  const Report report = whole_report();
  EXPECT_EQ(report.results.size(), 1u);
  EXPECT_EQ(report.studies.size(), 1u);
  EXPECT_EQ(report.profiles.size(), 1u);
  EXPECT_NE(error_of("").find("the file is empty"), std::string::npos);
  EXPECT_NE(error_of(" \n").find("the file is empty"), std::string::npos);
  EXPECT_NE(error_of("{\"schema\": \"temper.result/1\"").find("damaged"), std::string::npos);
  EXPECT_NE(error_of("[1]").find("names no schema"), std::string::npos);
  EXPECT_NE(error_of("{\"schema\": \"temper.ranges/1\"}").find("'temper.ranges/1'"), std::string::npos);
  EXPECT_NE(error_of("{\"schema\": 3}").find("names no schema"), std::string::npos);
  EXPECT_NE(error_of(result_text({})).find("holds no run"), std::string::npos);
  Json study = study_json();
  study["precisions"][1]["latency_ms"] = "fast";
  EXPECT_NE(error_of(study.dump()).find("study.precisions[1].latency_ms: a finite number"), std::string::npos);
  study = study_json();
  study["precisions"][1]["speed"]["ci99"] = {2, 1};
  EXPECT_NE(error_of(study.dump()).find("speed.ci99: [low, high]"), std::string::npos);
  study = study_json();
  study["precisions"][0]["answers"]["top1"]["rate"] = 1.5;
  EXPECT_NE(error_of(study.dump()).find("top1.rate: is no share"), std::string::npos);
  study["precisions"] = Json::array();
  EXPECT_NE(error_of(study.dump()).find("precisions: is empty"), std::string::npos);
  Json profile = profile_json(2);
  profile["steps"][1].erase("node");
  EXPECT_NE(error_of(profile.dump()).find("profile.steps[1].node: this field is missing"), std::string::npos);
}

TEST(Report, EveryTruncationOfAFileIsRefused) {
  for (const std::string& text : {study_json().dump(), profile_json(2).dump(), result_text({run_of("m", 1, 1, 6)})})
    for (size_t size = 0; size + 2 < text.size(); size += 1 + text.size() / 200)
      EXPECT_NE(error_of(text.substr(0, size)), "(no error)");
}

TEST(Report, PicturesDrawWhatTheTablesSay) {
  const auto figures = figures_of(whole_report());
  std::vector<std::string> names;
  for (const Figure& f : figures) {
    names.push_back(f.name);
    const Json spec = Json::parse(f.spec);
    EXPECT_EQ(spec.at("width"), "container") << f.name;
    EXPECT_FALSE(values_of(spec).empty()) << f.name;
    EXPECT_FALSE(f.table.rows.empty()) << f.name;
    for (const auto& row : f.table.rows) EXPECT_EQ(row.size(), f.table.columns.size()) << f.name;
    EXPECT_EQ(f.spec.find("http"), f.spec.rfind("http")) << "only the schema's name is an address";
  }
  EXPECT_EQ(names, (std::vector<std::string>{"study", "speedup", "latency", "order", "throughput", "profile"}));

  const Figure& latency = figure(figures, "latency");
  EXPECT_EQ(latency.table.rows.size(), 3u);
  double most = 0;
  size_t colds = 0, p99 = 0;
  for (const Json& value : values_of(Json::parse(latency.spec))) {
    if (value.contains("offset")) most = std::max(most, value.at("ms").get<double>());
    if (value.contains("what") && value.at("what") == "p99") ++p99;
    if (value.size() == 2 && value.contains("ms")) ++colds;
  }
  EXPECT_DOUBLE_EQ(most, 4 * 1.2 + 1e-4 * 498);  // the slowest run of all is always drawn
  EXPECT_EQ(colds, 3u);
  EXPECT_EQ(p99, 2u);  // 30 samples have none
  EXPECT_EQ(latency.table.rows[2][8], "n/a (needs ≥ 459 samples)");

  const Figure& throughput = figure(figures, "throughput");
  EXPECT_EQ(throughput.table.rows.size(), 2u);  // the other model has one batch only
  EXPECT_NE(throughput.text.find("no other batch size to compare with"), std::string::npos);

  const Json profile = Json::parse(figure(figures, "profile").spec);
  EXPECT_EQ(values_of(profile).size(), 25u);
  EXPECT_EQ(values_of(profile)[0].at("ms"), 4.0);  // the longest first
  EXPECT_EQ(figure(figures, "profile").table.rows.size(), 40u);
  EXPECT_EQ(figure(figures, "profile").table.rows[0][6], "n/a");  // operations unknown

  const Figure& study = figure(figures, "study");
  EXPECT_NE(study.title.find("top-1"), std::string::npos);
  EXPECT_EQ(study.table.rows[1][12], "OVER");
  EXPECT_EQ(study.table.rows[1][9], "12.0 dB");  // the worst output
  EXPECT_EQ(study.table.rows[0][14], "n/a");
  EXPECT_NE(study.text.find("97.00 %"), std::string::npos);
}

// The names of an encoding's fields, and whether each row of its data has them.
void check_fields(const Json& unit, const Json& rows, const std::string& name) {
  const auto has_field = [&](const Json& channel) {
    if (!channel.is_object() || !channel.contains("field")) return;
    for (const Json& row : rows) EXPECT_TRUE(row.contains(channel.at("field").get<std::string>())) << name << channel;
  };
  const Json encoding = unit.value("encoding", Json::object());
  for (const auto& [key, channel] : encoding.items())
    if (channel.is_array()) std::for_each(channel.begin(), channel.end(), has_field);
    else has_field(channel);
}

TEST(Report, EverySpecificationIsFilledAndItsFieldsAreInTheRows) {
  Report report = whole_report();
  std::vector<BenchRun> runs{run_of("open.onnx", 1, 2), run_of("open.onnx", 1, 3), run_of("summary.onnx", 1, 1)};
  for (size_t i = 0; i < 2; ++i) {
    runs[i].load = "open";
    runs[i].request_rate_per_s = 100.0 * double(i + 1);
  }
  runs[2].samples_ms.reset();  // its minimum and maximum are drawn
  runs[2].notes["samples_ms"] = "n/a";
  add_to(report, "o.json", result_text(runs));
  const Json part{{"name", "fp32"}, {"layers", 1}, {"ms", 0.6}, {"share", 0.6}};
  const Json engine{
      {"name", "e"}, {"layers_ms", 1.0}, {"precisions", {part}}, {"kinds", {part}}, {"findings", Json::array()}};
  add_to(report, "e.json", Json{{"schema", "temper.explain/1"}, {"engines", {engine}}}.dump());
  std::set<std::string> drawn;
  for (const Figure& f : figures_of(report)) {
    drawn.insert(f.name);
    EXPECT_EQ(f.spec.find(":\"$"), std::string::npos) << f.name << ": a parameter is left";
    EXPECT_EQ(f.spec.find("$if"), std::string::npos) << f.name;
    const Json spec = Json::parse(f.spec);
    const Json rows = spec.contains("data") ? spec.at("data").at("values") : Json::array();
    check_fields(spec, rows, f.name);
    for (const Json& layer : spec.value("layer", Json::array()))
      check_fields(layer, layer.contains("data") ? layer.at("data").at("values") : rows, f.name);
    const size_t layers = f.name == "latency" ? 5 : f.name == "study" ? 3 : 0;  // all that the specification has
    EXPECT_TRUE(!layers || spec.at("layer").size() == layers) << f.name;
  }
  EXPECT_EQ(drawn, (std::set<std::string>{"latency", "order", "precisions", "profile", "rate", "speedup", "study",
                                          "throughput"}));
}

TEST(Report, AParameterThatNothingNamesAndANameWithoutOneAreRefused) {
  using figures::filled_spec;
  EXPECT_EQ(filled_spec(R"({"a": "$x", "b": ["c", {"$if": "y", "d": 1}]})", {{"x", "$z"}, {"y", false}}),
            R"({"a":"$z","b":["c"]})");
  EXPECT_EQ(filled_spec(R"([{"$if": "y", "d": null}])", {{"y", true}}), R"([{"d":null}])");
  EXPECT_THROW(filled_spec(R"({"a": "$x"})", figures::Json::object()), Error);
  EXPECT_THROW(filled_spec("{}", {{"x", 1}}), Error);
}

TEST(Report, AStudyWithoutLabelsShowsAgreementThenNoise) {
  Json study = study_json();
  for (Json& row : study["precisions"]) row["answers"].erase("top1");
  Report report;
  add_to(report, "s", study.dump());
  Figure drawn = figures_of(report)[0];
  EXPECT_NE(drawn.title.find("agreement with FP32"), std::string::npos);
  EXPECT_NE(drawn.text.find("Not in the picture: fp32 (compared with itself)"), std::string::npos);
  for (Json& row : study["precisions"]) row["answers"].erase("agreement");
  report = {};
  add_to(report, "s", study.dump());
  drawn = figures_of(report)[0];
  EXPECT_NE(drawn.title.find("signal to noise"), std::string::npos);
  for (Json& row : study["precisions"]) row["answers"] = nullptr;
  report = {};
  add_to(report, "s", study.dump());
  drawn = figures_of(report)[0];
  EXPECT_EQ(drawn.spec, "");
  EXPECT_NE(drawn.text.find("no figure of accuracy"), std::string::npos);
}

TEST(Report, ExplanationsShowWhereTheTimeGoesAndWhatToChange) {
  const Json part{{"name", "fp16"}, {"layers", 3}, {"ms", 0.6}, {"share", 0.6}},
      other{{"name", "conversions"}, {"layers", 1}, {"ms", 0.4}, {"share", 0.4}};
  const Json finding{{"what", kHostile},   {"evidence", {"a", "b"}}, {"change", "quantize it"},
                     {"gain_share", 0.25}, {"gain_ms", nullptr},     {"at_most", true}};
  Json json{{"schema", "temper.explain/1"},
            {"answers", {"it is no faster"}},
            {"engines",
             {{{"name", "qat"},
               {"asked", "int8"},
               {"run_ms", nullptr},
               {"layers_ms", 1.0},
               {"answer", "No"},
               {"precisions", {part, other}},
               {"kinds", Json::array()},
               {"findings", {finding}},
               {"notes", {"a note"}}}}}};
  Report report;
  add_to(report, "e.json", json.dump());
  const auto figures = figures_of(report);
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(values_of(Json::parse(figures[0].spec)).size(), 2u);
  EXPECT_NE(figures[0].text.find("it is no faster"), std::string::npos);
  EXPECT_EQ(figures[0].table.rows[0][2], "0.6000 ms, 60.0 %");
  EXPECT_EQ(figures[1].table.rows[0][2], "a; b");
  EXPECT_EQ(figures[1].table.rows[0][4], "at most 25.0 %");
  EXPECT_EQ(figures[1].table.rows[0][5], "n/a (no time of a run)");
  EXPECT_EQ(warnings_of(report).at(0).text, "a note");
  EXPECT_NE(report_html(report).find("1 engine explained"), std::string::npos);
  json["engines"][0]["precisions"] = Json::array();  // layer information without a profile
  report = {};
  add_to(report, "e.json", json.dump());
  EXPECT_EQ(figures_of(report)[0].spec, "");
  EXPECT_NE(figures_of(report)[0].text.find("no times"), std::string::npos);
  json["engines"][0]["findings"][0]["evidence"] = "a";
  EXPECT_NE(error_of(json.dump()).find("findings[0].evidence: an array"), std::string::npos);
  json["engines"] = Json::array();
  EXPECT_NE(error_of(json.dump()).find("engines: is empty"), std::string::npos);
}

TEST(Report, LabelsSayWhatDiffersAndNeverTwoTheSame) {
  Report report;
  add_to(report, "dir/a.json", result_text({run_of("m/net.onnx", 1, 1), run_of("m/net.onnx", 8, 1)}));
  EXPECT_EQ(labels_of(report), (std::vector<std::string>{"net.onnx · batch 1", "net.onnx · batch 8"}));
  add_to(report, "dir/b.json", result_text({run_of("m/net.onnx", 1, 1), run_of("m/net.onnx", 1, 1)}));
  const auto labels = labels_of(report);
  EXPECT_EQ(labels[0], "net.onnx · batch 1 · a.json");
  EXPECT_EQ(labels[1], "net.onnx · batch 8");
  EXPECT_EQ(labels[2], "net.onnx · batch 1 · b.json · run 3");
  EXPECT_EQ(labels[3], "net.onnx · batch 1 · b.json · run 4");
}

TEST(Report, LoadsAreCurvesOfTheirOwnAndAreNotMixed) {
  std::vector<BenchRun> runs;
  for (int streams : {1, 2}) {
    runs.push_back(run_of("net.onnx", 4, streams));
    runs.back().streams = streams;
  }
  for (double rate : {50.0, 100.0, 200.0}) {
    runs.push_back(run_of("net.onnx", 4, rate / 50));
    runs.back().load = "open";
    runs.back().request_rate_per_s = rate;
  }
  Report report;
  add_to(report, "r.json", result_text(runs));
  const auto figures = figures_of(report);
  EXPECT_EQ(figure(figures, "streams").table.rows.size(), 2u);  // what requests bring is no measure of what could be
  EXPECT_EQ(figure(figures, "rate").table.rows.size(), 3u);
  EXPECT_EQ(values_of(Json::parse(figure(figures, "rate").spec)).size(), 9u);  // three rates: median, p90, p99
  EXPECT_EQ(std::count_if(figures.begin(), figures.end(), [](const Figure& f) { return f.name == "throughput"; }), 0);
  EXPECT_EQ(labels_of(report)[4], "net.onnx · 1 stream · 200 requests/s");
  EXPECT_EQ(log_of(report).columns[7].name, "load");
  EXPECT_EQ(log_of(report).rows[4][7], "open loop, 1 stream, 200 requests/s");
}

TEST(Report, WarningsSayCauseAndRemedyAndDriftIsNotFitForAVerdict) {
  BenchRun run = run_of("net.onnx", 1, 1);
  run.drift = 0.2;
  run.notes["drift"] = "the runs got 20 % slower";
  run.command = "temper bench net.onnx";
  BenchRun other = run_of("net.onnx", 2, 1);
  other.command = run.command;
  Report report;
  add_to(report, "r.json", result_text({run, other}));
  size_t unfit = 0;
  for (const Warned& warning : warnings_of(report)) {
    unfit += warning.unfit;
    EXPECT_TRUE(warning.unfit || warning.text.find("Remedy: ") != std::string::npos) << warning.text;
  }
  EXPECT_EQ(unfit, 1u);
  EXPECT_NE(report_html(report).find("drifts: not fit for a verdict"), std::string::npos);
  ASSERT_EQ(commands_of(report).size(), 1u);  // one command measured both
  EXPECT_EQ(commands_of(report)[0].what, "net.onnx · batch 1 and the 1 after it");
  EXPECT_EQ(commands_of(report)[0].text, "temper bench net.onnx");
}

TEST(Report, NothingFromAFileBecomesMarkup) {
  const std::string html = report_html(whole_report());
  EXPECT_EQ(html.substr(0, html.find("<script>")).find("<img"), std::string::npos);  // behind it stands Vega-Lite
  EXPECT_EQ(html.find("<b>CPU"), std::string::npos);
  EXPECT_NE(html.find("&lt;/script&gt;&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt;"), std::string::npos);
  // The elements that were meant, and no more: one for each picture, the theme, Vega-Lite, the page's own.
  EXPECT_EQ(count(html, "</script"), figures_of(whole_report()).size() + 3);
  EXPECT_EQ(count(html, "<script"), figures_of(whole_report()).size() + 3);
  EXPECT_EQ(count(html, "<style"), 1u);
}

TEST(Report, ThePagesPolicyAllowsItsOwnScriptsAndNothingElse) {
  const std::string html = report_html(whole_report());
  const size_t begin = html.find("content=\"default-src 'none'; script-src 'sha256-");
  ASSERT_NE(begin, std::string::npos);
  const std::string policy = html.substr(begin, html.find('>', begin) - begin);
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_EQ(policy.find("http"), std::string::npos);
  EXPECT_LT(begin, html.find("<style"));
  EXPECT_LT(begin, html.find("<script"));
  for (const char* attribute : {" src=\"", "href=\"http", "@import", "url("})
    EXPECT_EQ(count(html.substr(0, html.find("<script>")), attribute), 0u) << attribute;
}

TEST(Report, TheMarkdownTableCarriesWhatALogMust) {
  const std::string text = report_markdown(whole_report());
  const std::string head =
      text.substr(text.find("| model"), text.find('\n', text.find("| model")) - text.find("| model"));
  for (const char* column : {"model", "device", "precision", "batch", "workspace", "warm-up", "iterations", "versions",
                             "mean", "p50", "p90", "p95", "p99", "throughput", "memory"})
    EXPECT_NE(head.find(column), std::string::npos) << column;
  EXPECT_NE(text.find("n/a (needs ≥ 459 samples)"), std::string::npos);
  EXPECT_NE(text.find("123 MiB"), std::string::npos);
  // A row stays one line of as many cells, whatever a name holds.
  size_t columns = 0;
  for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = text.substr(at, end - at);
    EXPECT_TRUE(line.starts_with("    ") || line.find("<img") == std::string::npos)
        << "markup outside of code: " << line;
    if (!line.starts_with("|")) {
      columns = 0;
      continue;
    }
    const size_t bars = count(line, "|") - count(line, "\\|");
    if (columns == 0) columns = bars;
    EXPECT_EQ(bars, columns) << line;
  }
}

TEST(Report, ImportedRunsThatContradictThemselvesAreMarkedEverywhere) {
  BenchRun run = run_of("net.onnx", 1, 1, 29);
  run.samples_ms.reset();
  run.notes["samples_ms"] = "a summary";
  run.latency.p99 = run.latency.max;
  run.notes["latency_ms.p99"] = "max of 29";
  run.imported.emplace();
  run.imported->source = "trtexec 8.6.1: a.log";
  run.imported->consistent = false;
  run.imported->warnings = {"the mean lies above the maximum", "GPU compute time is unstable"};
  run.command = "trtexec --onnx=net.onnx";
  Report report;
  add_to(report, "i.json", result_text({run}));
  const std::string html = report_html(report), text = report_markdown(report);
  EXPECT_NE(html.find("1 run is not fit for a verdict"), std::string::npos);
  EXPECT_NE(html.find("contradicts itself: not fit for a verdict"), std::string::npos);
  EXPECT_NE(html.find("GPU compute time is unstable"), std::string::npos);
  EXPECT_NE(html.find("<pre>trtexec --onnx=net.onnx</pre>"), std::string::npos);
  EXPECT_NE(html.find("(max of 29)"), std::string::npos);
  EXPECT_NE(text.find("contradicts itself: not fit for a verdict"), std::string::npos);
  EXPECT_NE(text.find("(max of 29)"), std::string::npos);
  EXPECT_NE(figures_of(report)[0].text.find("minimum to maximum"), std::string::npos);
}

TEST(Report, CsvHasEveryRunAndNeedsOne) {
  const std::string csv = report_csv(whole_report());
  EXPECT_EQ(csv.substr(0, csv.find(',')), "model");
  EXPECT_NE(csv.find("latency_ms.p95"), std::string::npos);
  Report report;
  add_to(report, "s", study_json().dump());
  EXPECT_THROW(report_csv(report), Error);
}

TEST(Report, ColoursOfImagesAreFixedAndTextThatLooksLikeOneStays) {
  const std::string fixed = with_fixed_colors(R"x({"a":"var(--c1)","b":"var(--mine)","c":"var(--"})x");
  EXPECT_EQ(fixed, R"x({"a":"#0072b2","b":"var(--mine)","c":"var(--"})x");
  EXPECT_EQ(with_fixed_colors(theme_config()).find("var("), std::string::npos);
  for (const Figure& f : figures_of(whole_report()))
    EXPECT_EQ(with_fixed_colors(f.spec).find("var("), std::string::npos) << f.name;
}

TEST(Report, TextIsValidUtf8WithoutControlCharacters) {
  EXPECT_EQ(printable("a\x01\x7f\tb\xff\xc0\x80é\xed\xa0\x80"),
            "a   b\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdé\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(printable("a\u202eb\u2066c\u2028d\u200fe…"), "a\ufffdb\ufffdc\ufffdd\ufffde…");
  EXPECT_EQ(printable("\xe2\x82"), "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(shortened("/features/features.12/Conv", 12), "/fea…12/Conv");
  EXPECT_EQ(shortened("ééééé", 5), "ééééé");
  EXPECT_EQ(shortened("éééééé", 4), "é…éé");
}

}  // namespace
}  // namespace temper
