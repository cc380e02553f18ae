// SPDX-License-Identifier: Apache-2.0
// turn_products: transposes sink through products with a constant matrix that read their rows transposed, too, where
// less is read across so. With x^T as the rows, the product x^T W is (W^T x)^T: it reads x as it lies, its columns are
// those of x, and what stood behind the product, bias, activation and residual sum, has its axes swapped likewise. So
// an MLP over tokens runs without transposes.
#include "passes/pass.h"
#include "passes/support/transposes.h"

namespace temper {

bool turn_products(Graph& graph, const PassOptions& options) {
  return sink_where_fewer(graph, Sinks::products, options.time);
}

}  // namespace temper
