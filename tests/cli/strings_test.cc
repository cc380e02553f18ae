// SPDX-License-Identifier: Apache-2.0
// Strings on the command line.
#include "graph/strings.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "data/npy.h"
#include "onnx/write.h"
#include "program.h"

namespace temper {
namespace {

TEST(StringsOnTheCommandLine, AreReadFromNpyShownAndWritten) {
  const std::string folder = test_folder();
  write_onnx(parse_graph("graph \"words\"\ninput %x: string[n]\n%mark: string[1] = constant_strings() shape=[1] "
                         "values=[\"!\"]\n%y: string[n] = string_concat(%x, %mark)\noutput \"y\" = %y\n"),
             folder + "words.onnx");
  const std::vector<std::string> words = {"a", "", "bad \u202e\n"};
  write_npy(folder + "x.npy", tensor_of_strings({3}, words));
  const Outcome shown = temper(folder, "run words.onnx --input x=x.npy --output-dir out --no-measure");
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_CONTAINS(shown.out, "y: \"a!\" \"!\" \"bad");
  EXPECT_EQ(shown.out.find("\u202e"), std::string::npos);  // it turns the direction of text
  EXPECT_EQ(strings_of(read_npy(folder + "out/y.npy")), (std::vector<std::string>{"a!", "!", "bad \u202e\n!"}));
  const Outcome json = temper(folder, "run words.onnx --input x=x.npy --no-measure --json -");
  ASSERT_EQ(json.code, 0) << json.err;
  EXPECT_EQ(nlohmann::json::parse(json.out)["outputs"][0]["values"],
            (std::vector<std::string>{"a!", "!", "bad \u202e\n!"}));
  const Outcome verified = temper(folder, "verify words.onnx --shapes x=4 --no-measure");
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
}

TEST(StringsOnTheCommandLine, ATableOfNumbersHasNone) {
  const std::string folder = test_folder();
  write_onnx(parse_graph("graph \"same\"\ninput %x: string[n,2]\noutput \"y\" = %x\n"), folder + "same.onnx");
  std::ofstream(folder + "x.csv") << "1,2\n";
  const Outcome outcome = temper(folder, "run same.onnx --input x=x.csv --no-measure");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_CONTAINS(outcome.err, "takes strings");
}

}  // namespace
}  // namespace temper
