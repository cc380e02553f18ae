// SPDX-License-Identifier: Apache-2.0
// What kernels see of the machine that runs them when they are compiled for the CPU: the part that both sides know.
#pragma once
#include <stdint.h>

namespace temper::emulator {

struct Three {
  unsigned x = 0, y = 0, z = 0;
};

// A kernel with its arguments, copied when it was launched.
struct Bound {
  virtual ~Bound() = default;
  virtual void run() = 0;
};

// wgmma: the sums of 128 lanes, what each of them has of a in registers, or nothing, two descriptors, whether to add.
using Descriptor = unsigned long long;
using Product = void (*)(void* const* sums, const void* const* rows, Descriptor a, Descriptor b, unsigned add,
                         const unsigned char* shared);

struct Machine {
  // Of the lane that runs now.
  Three thread, block, block_dim, grid_dim;
  unsigned char* shared = nullptr;  // its block's dynamic shared memory, at a multiple of 1024

  // __syncthreads().
  virtual void barrier() = 0;
  // `lanes` neighbours meet; the last to come runs `work` on what all of them brought, in their order.
  virtual void together(int lanes, void* mine, void (*work)(void** all)) = 0;
  virtual void meet_warps(unsigned number, unsigned threads) = 0;
  virtual void meet_cluster() = 0;
  virtual unsigned char* shared_of(unsigned rank) = 0;
  // cp.async, to be waited for with the group that it is in.
  virtual void copy(void* to, const void* from, unsigned bytes, unsigned valid) = 0;
  virtual void close_copies() = 0;
  virtual void wait_for_copies(int groups) = 0;
  // Barriers in shared memory.
  virtual void barrier_init(uint32_t at, uint32_t count) = 0;
  // `rank`: of a block of the cluster; null for the own one.
  virtual void barrier_arrive_at(uint32_t at, uint32_t expected_bytes, const unsigned* rank) = 0;
  // st.async: a word to block `rank` of the cluster, whose barrier counts it.
  virtual void send_to_block(uint32_t to, uint32_t word, uint32_t barrier, unsigned rank) = 0;
  virtual void barrier_wait_at(uint32_t at, uint32_t parity) = 0;
  // cp.async.bulk.tensor; `offsets`: of im2col, null for tiles. `blocks`: so many blocks of the cluster get it, and 0
  // the own one alone.
  virtual void load_tensor(uint32_t to, const void* map, const int* at, const uint16_t* offsets, uint32_t barrier,
                           unsigned blocks) = 0;
  virtual void store_tensor(uint32_t from, const void* map, const int* at) = 0;
  virtual void wait_for_stores() = 0;
  virtual void product(Product product, void* sums, const void* rows, Descriptor a, Descriptor b, unsigned add) = 0;
  virtual void close_products() = 0;
  virtual void wait_for_products(int groups) = 0;

 protected:
  ~Machine() = default;
};

// CUtensorMap, as this machine keeps it.
struct TensorMap {
  uint64_t magic = 0;
  const unsigned char* base = nullptr;
  int32_t element_bytes = 0, rank = 0, swizzle = 0;  // swizzle: bytes, 0 for none
  int32_t im2col = 0;
  uint32_t sizes[5] = {};
  uint16_t box[5] = {};  // of tiles; of im2col: channels, pixels
  int8_t low[3] = {}, high[3] = {};
  uint8_t steps[5] = {};
  uint8_t tf32 = 0;         // elements are f32 and rounded to TF32
  int64_t strides[5] = {};  // bytes
};
static_assert(sizeof(TensorMap) <= 128);
constexpr uint64_t kTensorMapMagic = 0x70616d726f736e65;

}  // namespace temper::emulator
