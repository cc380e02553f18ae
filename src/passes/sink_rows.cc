// SPDX-License-Identifier: Apache-2.0
// sink_rows: where a transpose before a product moves rows alone, the product computes on the rows as they lie, and
// their order is changed behind it, where less is read across so. Layers that compute on [positions, batch, channels]
// between others that do not (torch.nn.MultiheadAttention) so keep the batch in front.
#include "passes/pass.h"
#include "passes/support/transposes.h"

namespace temper {

bool sink_rows(Graph& graph, const PassOptions& options) { return sink_where_fewer(graph, Sinks::rows, options.time); }

}  // namespace temper
