// SPDX-License-Identifier: Apache-2.0
// The figures of the report, one function for each kind, and what they share. Included by .cc files only.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/concat.h"
#include "report/report.h"

namespace temper {

// The Vega-Lite specifications of src/report/specs.
std::string_view latency_spec();
std::string_view order_spec();
std::string_view precisions_spec();
std::string_view profile_spec();
std::string_view rate_spec();
std::string_view speedup_spec();
std::string_view study_spec();
std::string_view suite_spec();
std::string_view throughput_spec();

}  // namespace temper

namespace temper::figures {

using Json = nlohmann::ordered_json;

// Colours are names here ("ink", "c1" .. "c8") that a theme replaces: custom properties of the page, fixed ones in
// images.
std::string color(size_t index);  // "var(--c1)": the index counts from 0 and wraps around
constexpr const char* kInk = "var(--ink)";

struct LabelledRun {
  const ReportedResult* from;
  const BenchRun* run;
  std::string label;
};

// A specification in which a text "$name" stands for a parameter, rows of data for instance; an item of a list that
// holds "$if": "name" is there only where that parameter is true. Each parameter must be named, and each name be given.
std::string filled_spec(std::string_view spec, const Json& parameters);
Json legend_of(size_t series);         // null where there is one alone
std::string rate_format(double most);  // of an axis of items per second: "46k", "1,200", "0.5"

void add_latency(std::vector<Figure>& figures, const std::vector<LabelledRun>& runs);
void add_load(std::vector<Figure>& figures, const std::vector<LabelledRun>& runs);
void add_study(std::vector<Figure>& figures, const ReportedStudy& study, const std::string& suffix);
void add_explanation(std::vector<Figure>& figures, const ReportedExplanation& explanation, const std::string& suffix);
void add_profile(std::vector<Figure>& figures, const ReportedProfile& profile, const std::string& suffix);
void add_suite(std::vector<Figure>& figures, const ReportedSuite& suite, const std::string& suffix);

}  // namespace temper::figures
