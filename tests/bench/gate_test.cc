// SPDX-License-Identifier: Apache-2.0
#include "bench/gate.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace temper {
namespace {

GatedResult three_runs() {
  GatedResult gated{"old.json", "new <1>.json", 0.03, {}, 1, false};
  gated.runs.push_back({"fp32, batch 1", 2, 2.02, {0.01, Interval{0.005, 0.015}, GateVerdict::pass, "", {}}, {}, ""});
  gated.runs.push_back({"fp32, batch 8", 10, 12, {0.2, Interval{0.18, 0.22}, GateVerdict::fail, "", {}}, {}, ""});
  gated.runs.push_back(
      {"int8 \"a\" & b", 1, 1.03, {0.03, {}, GateVerdict::unsure, "too few samples", {}}, 400.0, "threads: 1 and 2"});
  return gated;
}

size_t count(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(GateForms, JunitHasATestForEachRunAndOneForThoseThatAreMissing) {
  GatedResult gated = three_runs();
  std::string xml = junit_of({gated});
  EXPECT_TRUE(
      xml.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"temper gate\" tests=\"4\" "
                      "failures=\"1\" errors=\"0\" skipped=\"2\">\n"))
      << xml;
  EXPECT_EQ(count(xml, "<testcase "), 4u);
  EXPECT_EQ(count(xml, "</testcase>"), 4u);
  EXPECT_NE(xml.find("classname=\"new &lt;1&gt;.json\" name=\"int8 &quot;a&quot; &amp; b\""), xml.npos) << xml;
  EXPECT_NE(xml.find("<failure message=\"+20.0 % (+18.0 % to +22.0 %), 12.00 ms after 10.00 ms: FAIL\"/>"), xml.npos)
      << xml;
  gated.strict = true;
  xml = junit_of({gated});
  EXPECT_NE(xml.find("failures=\"3\" errors=\"0\" skipped=\"0\""), xml.npos) << xml;
}

TEST(GateForms, StrictnessDecidesWhatFails) {
  GatedResult gated = three_runs();
  EXPECT_TRUE(gated.failed());
  gated.runs.erase(gated.runs.begin() + 1);
  EXPECT_FALSE(gated.failed());
  gated.strict = true;
  EXPECT_TRUE(gated.failed());
  gated.runs.pop_back();
  EXPECT_TRUE(gated.failed());  // one is missing
  gated.missing = 0;
  EXPECT_FALSE(gated.failed());
  EXPECT_FALSE(json_of(gated).at("failed").get<bool>());
}

TEST(GateForms, AnnotationsNameWhatDidNotPassAndCannotBeBrokenByNames) {
  GatedResult gated = three_runs();
  gated.runs[1].label = "a,b:c\nd";
  const std::string github = annotations_of(gated, AnnotationStyle::github);
  EXPECT_EQ(count(github, "\n"), 3u) << github;
  EXPECT_NE(github.find("::error title=temper gate%3A a%2Cb%3Ac%0Ad::+20.0 %25 (+18.0 %25 to +22.0 %25)"), github.npos)
      << github;
  EXPECT_EQ(count(github, "::warning title="), 2u) << github;
  const std::string azure = annotations_of(gated, AnnotationStyle::azure);
  EXPECT_TRUE(azure.starts_with("##vso[task.logissue type=error]temper gate: a,b:c%0Ad: +20.0 %25")) << azure;
  gated.runs.resize(1);
  gated.missing = 0;
  EXPECT_EQ(annotations_of(gated, AnnotationStyle::github), "");
}

}  // namespace
}  // namespace temper
