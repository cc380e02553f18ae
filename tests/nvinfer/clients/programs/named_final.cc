// SPDX-License-Identifier: Apache-2.0
// The same without showing the classes.
#include "cifar.h"

int main() { return run_named(samples_of_npy("test_samples.npy", 10), false); }
