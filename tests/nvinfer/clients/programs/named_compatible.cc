// SPDX-License-Identifier: Apache-2.0
// Samples of an .npy file, by named tensors.
#include "cifar.h"

int main() { return run_named(samples_of_npy("test_samples.npy", 10), true); }
