// SPDX-License-Identifier: Apache-2.0
// Samples of a CSV file, by named tensors.
#include "cifar.h"

int main() { return run_named(samples_of_csv("test_samples.csv"), true); }
