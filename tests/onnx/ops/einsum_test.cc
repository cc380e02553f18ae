// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "../run_node.h"

namespace temper {
namespace {

Tensor counting(const Dims& dims, double first = 1) {
  Tensor tensor(DType::f64, dims);
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.data<double>()[i] = first + double(i % 7) - double(i % 3);
  return tensor;
}

NodeCase einsum(const char* equation, std::vector<Tensor> inputs) {
  NodeCase test{"Einsum", 12, std::move(inputs)};
  test.attributes = [equation](onnx::NodeProto& node) { set_attribute(node, "equation", equation); };
  return test;
}

// Sums over every assignment of the letters, one loop for all: the definition. No "..." here.
std::vector<double> by_definition(const std::vector<std::string>& terms, const std::string& output,
                                  const std::vector<Tensor>& inputs) {
  std::string letters = output;
  std::map<char, int64_t> size;
  for (size_t i = 0; i < terms.size(); ++i)
    for (size_t k = 0; k < terms[i].size(); ++k) {
      size[terms[i][k]] = inputs[i].dims()[k];
      if (letters.find(terms[i][k]) == letters.npos) letters += terms[i][k];
    }
  Dims dims, out_dims;
  for (char letter : letters) dims.push_back(size[letter]);
  for (char letter : output) out_dims.push_back(size[letter]);
  std::vector<double> result(size_t(element_count(out_dims)), 0);
  for_each_index(dims, [&](const Dims& index, int64_t) {
    auto offset = [&](const std::string& term) {
      int64_t at = 0;
      for (char letter : term) at = at * size[letter] + index[letters.find(letter)];
      return size_t(at);
    };
    double product = 1;
    for (size_t i = 0; i < terms.size(); ++i) product *= inputs[i].data<double>()[offset(terms[i])];
    result[offset(output)] += product;
  });
  return result;
}

struct Explicit {
  const char* equation;
  std::vector<std::string> terms;
  std::string output;
  std::vector<Dims> dims;
};

TEST(ImportEinsum, EqualsTheDefinition) {
  const std::vector<Explicit> cases = {
      {"bhid,bhjd->bhij", {"bhid", "bhjd"}, "bhij", {{2, 3, 4, 5}, {2, 3, 6, 5}}},
      {"ij,jk,kl->il", {"ij", "jk", "kl"}, "il", {{2, 3}, {3, 4}, {4, 5}}},
      {"i,j->ij", {"i", "j"}, "ij", {{3}, {4}}},
      {"ij,ij->ij", {"ij", "ij"}, "ij", {{3, 4}, {3, 4}}},
      {"ij,kj->ki", {"ij", "kj"}, "ki", {{3, 4}, {5, 4}}},
      {"ii->i", {"ii"}, "i", {{4, 4}}},
      {"iii->", {"iii"}, "", {{3, 3, 3}}},
      {"ij,k->j", {"ij", "k"}, "j", {{2, 3}, {4}}},
      {"abc,cd,ad->bd", {"abc", "cd", "ad"}, "bd", {{2, 3, 4}, {4, 5}, {2, 5}}},
      {"ij->", {"ij"}, "", {{3, 4}}},
      {"ij,jk", {"ij", "jk"}, "ik", {{2, 3}, {3, 4}}},
      {"ba", {"ba"}, "ab", {{2, 3}}},
  };
  for (const Explicit& test : cases) {
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < test.dims.size(); ++i) inputs.push_back(counting(test.dims[i], double(i)));
    EXPECT_EQ(run_node(einsum(test.equation, inputs))[0].to_doubles(), by_definition(test.terms, test.output, inputs))
        << test.equation;
  }
}

TEST(ImportEinsum, DotsBroadcast) {
  const Tensor a = counting({1, 2, 3}), b = counting({4, 3, 2});
  const Tensor result = run_node(einsum("...ij,...jk->...ik", {a, b}))[0];
  EXPECT_EQ(result.dims(), (Dims{4, 2, 2}));
  const Tensor stacked = run_node(einsum("ij,bjk->bik", {a.reshaped({2, 3}), b}))[0];
  EXPECT_EQ(result.to_doubles(), stacked.to_doubles());
  // An axis of "..." that is 1 in two operands and wide in the third.
  const Tensor c = counting({5, 2, 1});
  EXPECT_EQ(run_node(einsum("...ij,jk,...kl->...il",
                            {a, b.reshaped({4, 3, 2}).reshaped({12, 2}).reshaped({3, 8}), counting({5, 8, 1})}))[0]
                .dims(),
            (Dims{5, 2, 1}));
}

TEST(ImportEinsum, GarbageIsABadFile) {
  const Tensor x = counting({2, 3});
  for (const char* equation :
       {"i->i", "ij,jk->ik", "ij->iij", "ij->ik", "i1->i", "....->", "->->", "", "...ij->ij", "ii->i"})
    EXPECT_EQ(import_error(einsum(equation, {equation == std::string("...ij->ij") ? counting({2, 2, 3}) : x})),
              ErrorKind::bad_file)
        << equation;
}

TEST(ImportEinsum, ProductsOfBytesWrapAround) {
  NodeCase test = einsum("ij,jk->ik", {Tensor::of<uint8_t>({1, 2}, {200, 100}), Tensor::of<uint8_t>({2, 1}, {3, 250})});
  const Tensor y = run_node(test)[0];
  EXPECT_EQ(y.dtype(), DType::u8);
  EXPECT_EQ(y.to_doubles(), (std::vector<double>{(200 * 3 + 100 * 250) % 256}));
}

}  // namespace
}  // namespace temper
