// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "../run_node.h"
#include "graph/strings.h"

namespace temper {
namespace {

using Strings = std::vector<std::string>;

Tensor strings(const Strings& values) { return tensor_of_strings({int64_t(values.size())}, values); }

void set_strings(onnx::NodeProto& node, const std::string& name, const Strings& values) {
  auto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::STRINGS);
  for (const std::string& value : values) attribute->add_strings(value);
}

NodeCase ml(const std::string& op, std::vector<Tensor> inputs, std::function<void(onnx::NodeProto&)> attributes) {
  return {op, 4, std::move(inputs), [attributes = std::move(attributes)](onnx::NodeProto& node) {
            node.set_domain("ai.onnx.ml");
            attributes(node);
          }};
}

TEST(StringImports, EqualAndWhereTakeStrings) {
  const Tensor a = strings({"a", "b", ""}), b = strings({"a", "c", ""});
  const Tensor same = run_node({"Equal", 19, {a, b}})[0];
  EXPECT_EQ(same.to_ints(), (std::vector<int64_t>{1, 0, 1}));
  EXPECT_EQ(strings_of(run_node({"Where", 16, {same, strings({"x"}), b}})[0]), (Strings{"x", "c", "x"}));
}

TEST(StringImports, SortedUniqueIsInTheOrderOfLetters) {
  const Tensor x = strings({"b", "ä", "", "a", "b", "aa"});
  const auto found = run_node({"Unique", 11, {x}, {}, 4});
  EXPECT_EQ(strings_of(found[0]), (Strings{"", "a", "aa", "b", "ä"}));
  EXPECT_EQ(found[1].to_ints(), (std::vector<int64_t>{2, 3, 5, 0, 1}));
  EXPECT_EQ(found[2].to_ints(), (std::vector<int64_t>{3, 4, 0, 1, 3, 2}));
  EXPECT_EQ(found[3].to_ints(), (std::vector<int64_t>{1, 1, 1, 2, 1}));
  const Tensor rows = tensor_of_strings({3, 2}, Strings{"b", "a", "a", "z", "b", "a"});
  const auto by_row =
      run_node({"Unique", 11, {rows}, [](onnx::NodeProto& node) { set_attribute(node, "axis", int64_t(0)); }, 4});
  EXPECT_EQ(strings_of(by_row[0]), (Strings{"a", "z", "b", "a"}));
}

TEST(StringImports, StringsArePaddedScatteredAndPickedByOneHotAndUnique) {
  const Tensor x = strings({"b", "a", "b"}), at = Tensor::of<int64_t>({1}, {2});
  const Tensor pads = Tensor::of<int64_t>({2}, {1, 1}), fill = tensor_of_strings({}, Strings{"-"});
  EXPECT_EQ(strings_of(run_node({"Pad", 21, {x, pads, fill}})[0]), (Strings{"-", "b", "a", "b", "-"}));
  EXPECT_EQ(strings_of(run_node({"Pad", 21, {x, pads}})[0]), (Strings{"", "b", "a", "b", ""}));
  EXPECT_EQ(strings_of(run_node({"ScatterElements", 18, {x, at, strings({"c"})}})[0]), (Strings{"b", "a", "c"}));
  EXPECT_EQ(strings_of(run_node({"ScatterND", 18, {x, Tensor::of<int64_t>({1, 1}, {0}), strings({"c"})}})[0]),
            (Strings{"c", "a", "b"}));
  EXPECT_EQ(strings_of(run_node({"OneHot", 11, {at, Tensor::of<int64_t>({}, {3}), strings({"off", "on"})}})[0]),
            (Strings{"off", "off", "on"}));
  NodeCase unique{"Unique", 11, {x}, [](onnx::NodeProto& node) { set_attribute(node, "sorted", int64_t(0)); }, 4};
  const auto found = run_node(unique);
  EXPECT_EQ(strings_of(found[0]), (Strings{"b", "a"}));
  EXPECT_EQ(found[2].to_ints(), (std::vector<int64_t>{0, 1, 0}));
  NodeCase largest{"ScatterND", 18, {x, Tensor::of<int64_t>({1, 1}, {0}), strings({"c"})}};
  largest.attributes = [](onnx::NodeProto& node) { set_attribute(node, "reduction", "max"); };
  EXPECT_EQ(import_error(largest), ErrorKind::unsupported);
}

TEST(StringImports, CastGoesOverF32ToTypesThatAreStoredOnly) {
  const auto cast = [](const Tensor& x, int32_t to) {
    return run_node({"Cast", 23, {x}, [=](onnx::NodeProto& node) { set_attribute(node, "to", int64_t(to)); }})[0];
  };
  EXPECT_EQ(cast(strings({"1.5", "1000"}), onnx::TensorProto::FLOAT8E4M3FN).to_doubles(),
            (std::vector<double>{1.5, 448}));
  EXPECT_EQ(strings_of(cast(cast(strings({"7"}), onnx::TensorProto::INT4), onnx::TensorProto::STRING)), (Strings{"7"}));
}

TEST(StringImports, LabelEncodersMapStringsBothWaysWithTheirDefaults) {
  const auto to_numbers = ml("LabelEncoder", {strings({"b", "z", "a"})}, [](onnx::NodeProto& node) {
    set_strings(node, "keys_strings", {"a", "b"});
    set_attribute(node, "values_int64s", std::vector<int64_t>{1, 2});
  });
  EXPECT_EQ(run_node(to_numbers)[0].to_ints(), (std::vector<int64_t>{2, -1, 1}));
  const auto to_strings = ml("LabelEncoder", {Tensor::of<int64_t>({3}, {2, 9, 1})}, [](onnx::NodeProto& node) {
    set_attribute(node, "keys_int64s", std::vector<int64_t>{1, 2});
    set_strings(node, "values_strings", {"a", "b"});
  });
  EXPECT_EQ(strings_of(run_node(to_strings)[0]), (Strings{"b", "_Unused", "a"}));
}

TEST(StringImports, CategoryMappersMapStringsBothWays) {
  const auto mapped = [](const Tensor& x) {
    return run_node(ml("CategoryMapper", {x}, [](onnx::NodeProto& node) {
      set_strings(node, "cats_strings", {"a", "b"});
      set_attribute(node, "cats_int64s", std::vector<int64_t>{5, 6});
      set_attribute(node, "default_string", "none");
      set_attribute(node, "default_int64", int64_t(-3));
    }))[0];
  };
  EXPECT_EQ(mapped(strings({"b", "?"})).to_ints(), (std::vector<int64_t>{6, -3}));
  EXPECT_EQ(strings_of(mapped(Tensor::of<int64_t>({2}, {5, 0}))), (Strings{"a", "none"}));
}

TEST(StringImports, OneHotOfStringsIsZerosOrAnErrorForOneThatIsNoCategory) {
  const auto hot = [](const Strings& x, int64_t zeros) {
    return run_node(ml("OneHotEncoder", {strings(x)}, [=](onnx::NodeProto& node) {
      set_strings(node, "cats_strings", {"a", "b"});
      set_attribute(node, "zeros", zeros);
    }))[0];
  };
  EXPECT_EQ(hot({"b", "?"}, 1).to_doubles(), (std::vector<double>{0, 1, 0, 0}));
  EXPECT_EQ(hot({"b"}, 0).to_doubles(), (std::vector<double>{0, 1}));
  EXPECT_THROW(hot({"?"}, 0), Error);
}

TEST(StringImports, NormalizerRefusesLanguagesWithLettersOfTheirOwn) {
  const auto normalizer = [](const char* locale) {
    return NodeCase{"StringNormalizer", 10, {strings({"Ab"})}, [=](onnx::NodeProto& node) {
                      set_attribute(node, "case_change_action", "LOWER");
                      set_attribute(node, "locale", locale);
                    }};
  };
  EXPECT_EQ(strings_of(run_node(normalizer("en_US"))[0]), (Strings{"ab"}));
  EXPECT_EQ(import_error(normalizer("tr_TR")), ErrorKind::unsupported);
}

TEST(StringImports, RegexFullMatchNeedsAPatternThatRe2Takes) {
  const auto match = [](const char* pattern) {
    return NodeCase{
        "RegexFullMatch", 20, {strings({"www.google.com", "account@gmail.com"})}, [=](onnx::NodeProto& node) {
          set_attribute(node, "pattern", pattern);
        }};
  };
  EXPECT_EQ(run_node(match(R"(\w+@\w+\.com)"))[0].to_ints(), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(import_error(match("(")), ErrorKind::bad_file);
  EXPECT_EQ(import_error(match("(?=a)a")), ErrorKind::bad_file);
  EXPECT_EQ(import_error(match(R"(\pL{1000}\pL{1000}\pL{1000})")), ErrorKind::unsupported);
  EXPECT_EQ(import_error(match(R"((?:\pL{300})?)")), std::nullopt);
  EXPECT_EQ(import_error(match(std::string(4000, 'a').c_str())), std::nullopt);
  EXPECT_EQ(import_error({"RegexFullMatch", 20, {strings({"a"})}}), ErrorKind::bad_file);
  NodeCase numbers = match("a");
  numbers.inputs = {Tensor::of<float>({1}, {1})};
  EXPECT_EQ(import_error(numbers), ErrorKind::bad_file);
}

TEST(StringImports, ArithmeticOnStringsIsRefusedByName) {
  EXPECT_EQ(import_error({"Add", 22, {strings({"a"}), strings({"b"})}}), ErrorKind::unsupported);
  EXPECT_EQ(import_error({"Relu", 22, {strings({"a"})}}), ErrorKind::unsupported);
  EXPECT_EQ(import_error({"DequantizeLinear", 22, {strings({"a"}), Tensor::of<float>({}, {1})}}),
            ErrorKind::unsupported);
}

}  // namespace
}  // namespace temper
