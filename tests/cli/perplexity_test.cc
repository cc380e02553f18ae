// SPDX-License-Identifier: Apache-2.0
// Language models on texts of token ids: perplexity and agreement of next tokens, in evaluate, compare and build.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "program.h"

namespace temper {
namespace {

// lm.onnx: logits of the next token by the token alone. both.onnx: the same and the mean of all tokens, so that each
// position knows the others. Their logits are called so and are [batch, positions, 5].
std::string models() {
  const std::string folder = test_folder();
  run_python(folder, R"(
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper
table = np.array([[0, 2, 0, -1, 1], [1, 0, 3, 0, 0], [0, 1, 0, 2, -2], [0.5, 0, 0, 0, 2], [2, 0, 1, 0, 0]], 'float32')
def write(name, both):
    constants = [numpy_helper.from_array(table, 'table'), numpy_helper.from_array(np.eye(5, dtype='float32'), 'w')]
    nodes = [h.make_node('Gather', ['table', 'input_ids'], ['x'])]
    if both:
        constants.append(numpy_helper.from_array(np.array([1], 'int64'), 'axis'))
        nodes += [h.make_node('ReduceMean', ['x', 'axis'], ['mean'], keepdims=1), h.make_node('Add', ['x', 'mean'], ['y'])]
    nodes.append(h.make_node('MatMul', ['y' if both else 'x', 'w'], ['logits']))
    graph = h.make_graph(nodes, name, [h.make_tensor_value_info('input_ids', T.INT64, ['b', 's'])],
                         [h.make_tensor_value_info('logits', T.FLOAT, ['b', 's', 5])], constants)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid('', 18)], ir_version=8), name + '.onnx')
write('lm', False); write('both', True)
texts = [[0, 1, 2], [3, 4], [2, 2, 1, 0], [4, 3, 0, 1, 2], [1]]
open('texts.txt', 'w').write('\n'.join(' '.join(map(str, t)) for t in texts))
rows = table - np.log(np.exp(table).sum(1, keepdims=True))
open('wanted.txt', 'w').write(str(np.exp(-np.mean([rows[a, b] for t in texts for a, b in zip(t, t[1:])]))))
)");
  return folder;
}

TEST(Perplexity, IsThatOfTheNextTokensOfTheTexts) {
  const std::string folder = models();
  const double wanted = std::stod(read_file(folder + "wanted.txt"));
  for (const char* batch : {"1", "2", "5"}) {
    const Outcome done =
        temper(folder, concat("evaluate lm.onnx --data texts.txt --no-measure --json --batch ", batch));
    ASSERT_EQ(done.code, 0) << done.err;
    const auto json = nlohmann::json::parse(done.out);
    EXPECT_EQ(json.at("perplexity").at("tokens"), 10) << "what is filled in does not count";
    EXPECT_NEAR(json.at("perplexity").at("value").get<double>(), wanted, 1e-6 * wanted);
    EXPECT_FALSE(json.at("perplexity").contains("reference"));
  }
}

TEST(Perplexity, StandsBesideThatOfTheReferenceWithTheNextTokensThatAgree) {
  const std::string folder = models();
  ASSERT_EQ(temper(folder, "build lm.onnx -o fp32.plan --no-measure --shapes input_ids=1x5").code, 0);
  ASSERT_EQ(temper(folder, "calibrate lm.onnx --data texts.txt -o ranges.json --method minmax").code, 0);
  const Outcome narrow = temper(folder,
                                "evaluate lm.onnx --precision int8 --calibration ranges.json --data texts.txt "
                                "--no-measure --metric perplexity");
  EXPECT_EQ(narrow.code, int(ErrorKind::usage)) << "it was calibrated on these texts";
  write_text(folder + "others.txt", "1 2 3 4\n0 0 1 2 3\n4 4 4\n");
  const Outcome shown = temper(folder,
                               "evaluate lm.onnx --precision int8 --calibration ranges.json --data others.txt "
                               "--no-measure --metric perplexity");
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_CONTAINS(shown.out, "perplexity of the next token ");
  EXPECT_CONTAINS(shown.out, ", of the reference ");
  EXPECT_CONTAINS(shown.out, ", 9 tokens");
  EXPECT_CONTAINS(shown.out, "agreement of positions");
  EXPECT_CONTAINS(shown.out, " 12");  // positions that hold a token
  const Outcome same = temper(folder, "evaluate fp32.plan --reference lm.onnx --data others.txt --json");
  ASSERT_EQ(same.code, 0) << same.err;
  const auto json = nlohmann::json::parse(same.out);
  EXPECT_EQ(json.at("perplexity").at("rise"), 0);
  EXPECT_EQ(json.at("agreement").at("rate"), 1);
  const Outcome compared = temper(folder, "compare fp32.plan fp32.plan --data others.txt --duration 50ms --json");
  ASSERT_EQ(compared.code & ~1, 0) << compared.err;
  EXPECT_CONTAINS(compared.out, "\"perplexity\"");
}

TEST(Perplexity, IsNotThatOfAModelThatSeesBothWays) {
  const std::string folder = models();
  const Outcome done = temper(folder, "evaluate both.onnx --reference lm.onnx --data texts.txt --no-measure --json");
  ASSERT_EQ(done.code, 0) << done.err;
  const auto json = nlohmann::json::parse(done.out);
  EXPECT_FALSE(json.contains("perplexity"));
  EXPECT_EQ(json.at("agreement").at("n"), 15);
  const Outcome asked = temper(folder, "evaluate both.onnx --data texts.txt --no-measure --metric perplexity");
  EXPECT_EQ(asked.code, int(ErrorKind::usage));
  EXPECT_CONTAINS(asked.err, "which later tokens do not change");
}

TEST(Perplexity, IsABudgetForLayers) {
  const std::string folder = models();
  const Outcome built = temper(folder,
                               "build lm.onnx -o mixed.plan --precision int8 --data texts.txt --method minmax "
                               "--max-drop 0.01% --metric perplexity --raise-to fp32 --no-measure --shapes "
                               "input_ids=1x5 --json");
  EXPECT_EQ(built.code, 0) << built.err;
  const Outcome refused = temper(folder,
                                 "build lm.onnx -o mixed.plan --force --precision int8 --data texts.txt --max-drop 1% "
                                 "--metric top1 --no-measure --shapes input_ids=1x5");
  EXPECT_EQ(refused.code, int(ErrorKind::usage));
}

TEST(Perplexity, ABudgetIsKeptForTheLengthsOfTheDataWhereTheBuildSaysNone) {
  const std::string folder = models();
  const Outcome built = temper(folder,
                               "build lm.onnx -o mixed.plan --precision int8 --data texts.txt --method minmax "
                               "--max-drop 0.01% --metric perplexity --raise-to fp32 --no-measure --json");
  ASSERT_EQ(built.code, 0) << built.err;
  EXPECT_CONTAINS(built.err, "built for shapes as the data have them: --shapes input_ids=1x5");
  const auto plan = nlohmann::json::parse(temper(folder, "inspect mixed.plan --json").out);
  EXPECT_EQ(plan.at("shapes").at("input_ids").at("max"), (std::vector<int64_t>{1, 5}));
  EXPECT_CONTAINS(plan.dump(), "--shapes input_ids=1x5");  // the command that builds it again
}

TEST(Perplexity, ABudgetTakesTheBuildsSizeOfAxesOfTheSameName) {
  const std::string folder = models();
  run_python(folder, R"(
import onnx
from onnx import TensorProto as T, helper as h
model = onnx.load('lm.onnx')
model.graph.input.append(h.make_tensor_value_info('attention_mask', T.INT64, ['b', 's']))
model.graph.node.extend([h.make_node('Cast', ['attention_mask'], ['there'], to=T.FLOAT), h.make_node('Identity', ['there'], ['mask'])])
model.graph.output.append(h.make_tensor_value_info('mask', T.FLOAT, ['b', 's']))
onnx.save(model, 'masked.onnx')
)");
  const std::string build =
      "build masked.onnx -o mixed.plan --precision int8 --data texts.txt --method minmax --max-drop 0.01% --metric "
      "cosine --raise-to fp32 --no-measure --json --shapes input_ids=1x6";
  const Outcome built = temper(folder, build);
  ASSERT_EQ(built.code, 0) << built.err;
  const auto plan = nlohmann::json::parse(temper(folder, "inspect mixed.plan --json").out);
  EXPECT_EQ(plan.at("shapes").at("attention_mask").at("max"), (std::vector<int64_t>{1, 6}));
  const Outcome open = temper(folder, "build masked.onnx -o open.plan --no-measure");
  EXPECT_EQ(open.code, int(ErrorKind::usage));
  EXPECT_CONTAINS(open.err, "add --shapes input_ids=1x128 --shapes attention_mask=1x128");
}

}  // namespace
}  // namespace temper
