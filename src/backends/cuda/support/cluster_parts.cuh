// SPDX-License-Identifier: Apache-2.0
// How many blocks share what one problem's SPLITS blocks compute: those of a cluster, along y, where the GPU has them.
// Generated before this text: SPLITS.
#pragma once

#if SPLITS > 1 && __CUDA_ARCH__ >= 900
#define CLUSTER __cluster_dims__(1, SPLITS, 1)
constexpr int PARTS = SPLITS;
#else
#define CLUSTER
constexpr int PARTS = 1;  // without clusters, the first block does it all
#endif
