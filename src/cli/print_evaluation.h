// SPDX-License-Identifier: Apache-2.0
// Prints an evaluation as tables.
#pragma once
#include "data/agreement.h"

namespace temper::cli {

void print_evaluation(const Evaluation& evaluation);

}  // namespace temper::cli
