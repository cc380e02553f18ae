// SPDX-License-Identifier: Apache-2.0
// The batches of some samples on the devices of a pool.
#pragma once
#include "data/batches.h"
#include "runtime/pool.h"

namespace temper {

// The samples batch by batch, as for_each_batch cuts them: each is read and given to `work` by the thread of a device,
// and what that returns is called by this one, in the order given (see Pool::run). `what` is shown as progress.
using BatchWork = std::function<Pool::Finish(size_t device, Batch batch)>;
void for_each_batch(Pool& pool, const Dataset& data, std::span<const int64_t> samples, const BatchSizes& sizes,
                    const std::string& what, const Progress& progress, const BatchWork& work);

}  // namespace temper
