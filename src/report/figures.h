// SPDX-License-Identifier: Apache-2.0
// The figures of the report, one function for each kind, and what they share. Included by .cc files only.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/concat.h"
#include "report/report.h"

namespace temper::figures {

using Json = nlohmann::ordered_json;

// Colours are names here ("ink", "c1" .. "c8") that a theme replaces: custom properties of the page, fixed ones in
// images.
std::string color(size_t index);  // "var(--c1)": the index counts from 0 and wraps around
constexpr const char* kInk = "var(--ink)";
constexpr const char* kMuted = "var(--muted)";

struct LabelledRun {
  const ReportedResult* from;
  const BenchRun* run;
  std::string label;
};

std::string spec_of(Json picture);  // with the schema, the width and the way to fit that all have
Json axis(const std::string& title);
std::string rate_format(double most);  // of an axis of items per second: "46k", "1,200", "0.5"

void add_latency(std::vector<Figure>& figures, const std::vector<LabelledRun>& runs);
void add_load(std::vector<Figure>& figures, const std::vector<LabelledRun>& runs);
void add_study(std::vector<Figure>& figures, const ReportedStudy& study, const std::string& suffix);
void add_explanation(std::vector<Figure>& figures, const ReportedExplanation& explanation, const std::string& suffix);
void add_profile(std::vector<Figure>& figures, const ReportedProfile& profile, const std::string& suffix);

}  // namespace temper::figures
