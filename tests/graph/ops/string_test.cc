// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "graph/graph.h"
#include "graph/ops/bit_cast.h"
#include "graph/ops/constant_strings.h"
#include "graph/ops/gather.h"
#include "graph/ops/softmax.h"
#include "graph/ops/string_cast.h"
#include "graph/ops/string_concat.h"
#include "graph/ops/string_lookup.h"
#include "graph/ops/string_match.h"
#include "graph/ops/string_normalize.h"
#include "graph/ops/string_split.h"
#include "graph/ops/string_tokenize.h"
#include "graph/strings.h"

namespace temper {
namespace {

using Strings = std::vector<std::string>;

Tensor strings(Dims dims, const Strings& values) { return tensor_of_strings(std::move(dims), values); }

std::vector<Tensor> run(const Op& op, const std::vector<Tensor>& inputs) { return run_node(op, inputs, "node"); }

TEST(StringOps, TextOfFieldsReadsBackWhateverTheBytesAre) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += char(c);
  for (const Op& op :
       {Op(ops::ConstantStrings{{2, 2}, {"", all, "a,b", "[\"x\"]"}}), Op(ops::ConstantStrings{}),
        Op(ops::StringSplit{"\", ", 3}), Op(ops::StringLookup{{"", all}}), Op(ops::StringCast{DType::f64}),
        Op(ops::StringMatch{"\\w+[\"@,]"}), Op(ops::StringNormalize{ops::LetterCase::upper, true, {"the", all}})})
    EXPECT_TRUE(parse_op(name_of(op), fields_text(op)) == op) << fields_text(op);
}

TEST(StringOps, AGraphOfStringsReadsBack) {
  Graph graph;
  const ValueId x = graph.add_input("x", TensorType::parse("string[n]"));
  const ValueId names = graph.add(ops::ConstantStrings{{2}, {"a \"quoted\" @ word", "\n"}}, {}, "names")[0];
  const ValueId both = graph.add(ops::StringConcat{}, {x, names}, "both")[0];
  const auto parts = graph.add(ops::StringSplit{}, {both}, "parts");
  graph.add_output("y", parts[0]);
  const std::string text = print(graph);
  EXPECT_EQ(print(parse_graph(text)), text);
}

TEST(StringOps, DamagedFieldsAreABadFile) {
  for (const char* field : {"values=[\"a]", "values=[a]", "values=[\"\\\\x4\"]", "values=[\"\\\\x\"]", "values=\"a\"",
                            "values=[\"\\\\xzz\"]"}) {
    try {
      parse_op("constant_strings", field);
      ADD_FAILURE() << field << " was read";
    } catch (const Error& error) { EXPECT_EQ(error.kind(), ErrorKind::bad_file); }
  }
}

TEST(StringOps, ConcatBroadcasts) {
  const auto y = run(ops::StringConcat{}, {strings({2, 1}, {"a", ""}), strings({3}, {"x", "", "ü"})})[0];
  EXPECT_EQ(y.dims(), (Dims{2, 3}));
  EXPECT_EQ(strings_of(y), (Strings{"ax", "a", "aü", "x", "", "ü"}));
}

TEST(StringOps, SplitsAtADelimiterOrAtBlanksAsPythonDoes) {
  const auto split = [](const std::string& text, const std::string& delimiter, int64_t most = -1) {
    const auto y = run(ops::StringSplit{delimiter, most}, {strings({1}, {text})});
    EXPECT_EQ(y[1].to_ints()[0], y[0].dims()[1]);
    return strings_of(y[0]);
  };
  EXPECT_EQ(split("a--b-", "-"), (Strings{"a", "", "b", ""}));
  EXPECT_EQ(split("", "-"), (Strings{""}));
  EXPECT_EQ(split("a-b-c", "-", 1), (Strings{"a", "b-c"}));
  EXPECT_EQ(split("a-b", "-", 0), (Strings{"a-b"}));
  EXPECT_EQ(split("  a \t b  c ", ""), (Strings{"a", "b", "c"}));
  EXPECT_EQ(split("  a  b  c ", "", 1), (Strings{"a", "b  c "}));
  EXPECT_EQ(split(" a ", "", 1), (Strings{"a"}));
  EXPECT_EQ(split("  ", ""), Strings{});
}

TEST(StringOps, ShortRowsOfASplitEndInEmptyStrings) {
  const auto y = run(ops::StringSplit{".", -1}, {strings({2, 1}, {"a.b.c", "d"})});
  EXPECT_EQ(y[0].dims(), (Dims{2, 1, 3}));
  EXPECT_EQ(strings_of(y[0]), (Strings{"a", "b", "c", "d", "", ""}));
  EXPECT_EQ(y[1].dims(), (Dims{2, 1}));
  EXPECT_EQ(y[1].to_ints(), (std::vector<int64_t>{3, 1}));
}

TEST(StringOps, TokenizesBySeparatorsWordsOrLetters) {
  const auto words = [](const ops::StringTokenize& op) {
    const Tensor rows = run(op, {strings({2}, {"ab  cde,f", "höß"})})[0];
    return std::pair(rows.dims(), strings_of(rows));
  };
  using Rows = std::pair<Dims, Strings>;
  EXPECT_EQ(words({{" ", ","}, "", 1, false, "#"}), (Rows{{2, 3}, {"ab", "cde", "f", "höß", "#", "#"}}));
  EXPECT_EQ(words({{" ", ","}, "", 3, false, "#"}), (Rows{{2, 1}, {"cde", "höß"}}));
  EXPECT_EQ(words({{}, "c|cd*", 1, true, ""}), (Rows{{2, 3}, {"\x02", "cd", "\x03", "\x02", "\x03", ""}}));
  EXPECT_EQ(words({{}, "", 1, false, ""}).second[10], "ö");
  EXPECT_EQ(words({{}, "q*", 1, true, "#"}), (Rows{{2, 0}, {}})) << "empty words are none";
}

TEST(StringOps, NormalizeChangesLettersOfAnyAlphabetAndLeavesOutStopwords) {
  const auto normalized = [](ops::StringNormalize op, const Strings& values) {
    return strings_of(run(op, {strings({int64_t(values.size())}, values)})[0]);
  };
  using enum ops::LetterCase;
  EXPECT_EQ(normalized({upper, true, {}}, {"aé", "ωж", "1ß\xff"}), (Strings{"AÉ", "ΩЖ", "1ß\xff"}));
  EXPECT_EQ(normalized({lower, true, {}}, {"AÉ"}), (Strings{"aé"}));
  EXPECT_EQ(normalized({as_is, true, {"the"}}, {"The", "the", "end"}), (Strings{"The", "end"}));
  EXPECT_EQ(normalized({upper, false, {"THE"}}, {"The", "the", "end"}), (Strings{"END"}));
  EXPECT_EQ(normalized({as_is, true, {"a"}}, {"a", "a"}), (Strings{""}));
  const auto y = run(ops::StringNormalize{as_is, true, {"a"}}, {strings({1, 2}, {"a", "b"})})[0];
  EXPECT_EQ(y.dims(), (Dims{1, 1}));
}

TEST(StringOps, MatchTakesTheWholeStringAsRe2Does) {
  const auto matches = [](const std::string& pattern, const Strings& values) {
    return run(ops::StringMatch{pattern}, {strings({int64_t(values.size())}, values)})[0].to_ints();
  };
  using Flags = std::vector<int64_t>;
  EXPECT_EQ(matches("a+", {"a", "aaa", "ab", "ba", ""}), (Flags{1, 1, 0, 0, 0}));
  EXPECT_EQ(matches("a|ab", {"ab", "abc"}), (Flags{1, 0}));  // the longer one, where the first alone is not all
  EXPECT_EQ(matches("", {"", "a"}), (Flags{1, 0}));
  EXPECT_EQ(matches("(?i)é.", {"Éж", "é", "É\xff"}), (Flags{1, 0, 0}));  // a byte that is no UTF-8 is no character
  EXPECT_EQ(matches(".*", {"one line", "two\nlines"}), (Flags{1, 0}));
  EXPECT_EQ(matches("(?s).*", {"two\nlines"}), (Flags{1}));
  EXPECT_EQ(matches("a\\x00b", {std::string("a\0b", 3), "a", "ab"}), (Flags{1, 0, 0}));
  const auto y = run(ops::StringMatch{"x"}, {strings({2, 0, 3}, {})})[0];
  EXPECT_EQ(y.type(), TensorType::parse("bool[2,0,3]"));
  EXPECT_EQ(run(ops::StringMatch{"x"}, {strings({}, {"x"})})[0].to_ints(), (Flags{1}));
}

// More states than there is memory for: the answers are those of a match without them.
TEST(StringOps, AMatchOfManyStatesEnds) {
  const std::string pattern = "(?:a|b)*a(?:a|b){18}";
  std::string text;
  uint32_t random = 7;
  for (int i = 0; i < 200'000; ++i) text += char('a' + ((random = random * 1'664'525u + 1'013'904'223u) >> 31));
  std::string yes = text, no = text;
  yes[text.size() - 19] = 'a';
  no[text.size() - 19] = 'b';
  EXPECT_EQ(run(ops::StringMatch{pattern}, {strings({2}, {yes, no})})[0].to_ints(), (std::vector<int64_t>{1, 0}));
}

TEST(StringOps, PatternsThatRe2RefusesOrThatAreTooLargeAreSaidSo) {
  const auto refusal = [](const std::string& pattern) {
    try {
      run(ops::StringMatch{pattern}, {strings({1}, {"a"})});
      ADD_FAILURE() << "'" << pattern << "' was taken";
      return std::pair(ErrorKind::usage, std::string());
    } catch (const Error& error) { return std::pair(error.kind(), std::string(error.what())); }
  };
  using Refusal = std::pair<ErrorKind, std::string>;
  ::testing::internal::CaptureStderr();
  const Refusal open = refusal("a(b"), bytes = refusal("\xff"), lines = refusal("a\x1b[31m\n)"),
                back = refusal("(a)\\1"), counted = refusal("a{1001}");
  const Refusal large = refusal("\\pL{1000}\\pL{1000}\\pL{1000}"), long_one = refusal(std::string(5000, 'a'));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  for (const Refusal& bad : {open, bytes, lines, back, counted}) EXPECT_EQ(bad.first, ErrorKind::bad_file);
  EXPECT_NE(open.second.find("the pattern 'a(b' is no regular expression of RE2: missing )"), std::string::npos)
      << open.second;
  EXPECT_EQ(lines.second.find_first_of("\x1b\n"), std::string::npos) << lines.second;
  for (const Refusal& big : {large, long_one}) EXPECT_EQ(big.first, ErrorKind::unsupported) << big.second;
}

TEST(StringOps, NumbersBecomeTheShortestTextThatReadsBackAsNumPyWritesIt) {
  const auto text = [](const Tensor& x) { return strings_of(run(ops::StringCast{}, {x})[0]); };
  EXPECT_EQ(text(Tensor::of<float>({8}, {0.0f, -0.0f, 3.0f, 0.1f, 1e-5f, 1e16f, 123456.789f, 1e15f})),
            (Strings{"0.0", "-0.0", "3.0", "0.1", "1e-05", "1e+16", "123456.79", "1000000000000000.0"}));
  EXPECT_EQ(text(Tensor::of<double>({4}, {0.1, 1.0 / 3, 1e300, -12.5})),
            (Strings{"0.1", "0.3333333333333333", "1e+300", "-12.5"}));
  EXPECT_EQ(text(Tensor::of<float>({3}, {INFINITY, -INFINITY, NAN})), (Strings{"inf", "-inf", "nan"}));
  EXPECT_EQ(text(Tensor::of<int64_t>({2}, {INT64_MIN, 7})), (Strings{"-9223372036854775808", "7"}));
  EXPECT_EQ(text(Tensor::of<uint64_t>({1}, {UINT64_MAX})), (Strings{"18446744073709551615"}));
  Tensor flags(DType::boolean, {2});
  flags.data<bool>()[0] = true;
  EXPECT_EQ(text(flags), (Strings{"True", "False"}));
}

TEST(StringOps, StringsBecomeTheNumbersThatTheySpell) {
  const auto numbers = [](DType dtype, const Strings& values) {
    return run(ops::StringCast{dtype}, {strings({int64_t(values.size())}, values)})[0].to_doubles();
  };
  EXPECT_EQ(numbers(DType::f64, {"3.14", "1e-5", " +1E8 ", "-0.5", "1e400", "-1e400", "1e-400"}),
            (std::vector<double>{3.14, 1e-5, 1e8, -0.5, INFINITY, -INFINITY, 0}));
  EXPECT_EQ(numbers(DType::f32, {"INF", "-inf", "+Inf", "1e39"}),
            (std::vector<double>{INFINITY, -INFINITY, INFINITY, INFINITY}));
  EXPECT_TRUE(std::isnan(numbers(DType::f32, {"NaN"})[0]));
  EXPECT_EQ(numbers(DType::i32, {"-7", "+12"}), (std::vector<double>{-7, 12}));
  for (const char* bad : {"", "x", "1.5.2", "1 2", "+-1", "300"}) {
    try {
      numbers(DType::i8, {bad});
      ADD_FAILURE() << "'" << bad << "' was read as a number of 8 bits";
    } catch (const Error& error) { EXPECT_EQ(error.kind(), ErrorKind::usage); }
  }
}

TEST(StringOps, LookupGivesTheLastPlaceOfAKey) {
  const Tensor places = run(ops::StringLookup{{"a", "b", "a"}}, {strings({4}, {"a", "b", "", "c"})})[0];
  EXPECT_EQ(places.to_ints(), (std::vector<int64_t>{2, 1, -1, -1}));
}

TEST(StringOps, OtherOpsMoveStringsAndDoNotComputeWithThem) {
  Graph graph;
  const ValueId x = graph.add_input("x", TensorType::parse("string[3]"));
  const ValueId i = graph.add_constant("i", Tensor::of<int64_t>({2}, {2, 0}));
  graph.add_output("y", graph.add_single(ops::Gather{}, {x, i}, "y"));
  const auto y = run_reference(graph, {strings({3}, {"a", "b", "c"})})[0];
  EXPECT_EQ(strings_of(y), (Strings{"c", "a"}));
  EXPECT_THROW(graph.add_single(ops::Softmax{}, {x}, "z"), Error);
  EXPECT_THROW(graph.add_constant("c", strings({1}, {"a"})), Error);
}

TEST(StringOps, ACodeThatIsNoStringIsAnErrorAndNotRead) {
  const Tensor wild = Tensor::of<uint64_t>({1}, {uint64_t(1) << 60});
  const Tensor as_string = run(ops::BitCast{DType::string}, {wild})[0];
  EXPECT_THROW(run(ops::StringConcat{}, {as_string, as_string}), Error);
}

}  // namespace
}  // namespace temper
