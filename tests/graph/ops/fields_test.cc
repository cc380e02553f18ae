// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "graph/graph.h"
#include "graph/ops/arg_reduce.h"
#include "graph/ops/cumulative.h"
#include "graph/ops/dequantize.h"
#include "graph/ops/lrn.h"
#include "graph/ops/normalize.h"
#include "graph/ops/quantize.h"
#include "graph/ops/reduce.h"

namespace temper {
namespace {

TEST(OpFields, TextOfReductionsNormalisationsAndQuantizationReadsBack) {
  for (const Op& op :
       {Op(ops::ArgReduce{ops::ArgKind::min, 2, false, true}),
        Op(ops::Cumulative{ops::CumulativeKind::prod, 1, true, true}), Op(ops::Dequantize{DType::f16, 3}),
        Op(ops::Lrn{5, 0.25, 0.5, 2}), Op(ops::Normalize{{1, 2}, 1e-3, false, 4}), Op(ops::Quantize{DType::u16, 1}),
        Op(ops::Reduce{ops::ReduceKind::l2, {}, false, true})})
    EXPECT_TRUE(parse_op(name_of(op), fields_text(op)) == op) << name_of(op) << ' ' << fields_text(op);
}

TEST(OpFields, AxesOutOfRangeAreABadFile) {
  Graph graph;
  const ValueId x = graph.add_input("x", TensorType::parse("f32[2,3]"));
  for (const Op& op : {Op(ops::ArgReduce{ops::ArgKind::max, 2}), Op(ops::Cumulative{ops::CumulativeKind::sum, -1}),
                       Op(ops::Normalize{{0, 2}}), Op(ops::Normalize{{1, 0}}), Op(ops::Normalize{{1}, 1e-5, true, 2}),
                       Op(ops::Normalize{{0}, 1e-5, true, 2}), Op(ops::Lrn{0})}) {
    try {
      graph.add(op, {x}, "bad");
      ADD_FAILURE() << name_of(op) << ' ' << fields_text(op) << " was accepted";
    } catch (const Error& error) { EXPECT_EQ(error.kind(), ErrorKind::bad_file); }
  }
}

}  // namespace
}  // namespace temper
