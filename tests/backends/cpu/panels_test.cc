// SPDX-License-Identifier: Apache-2.0
// Products by panels of weights, in the stripes of every level, with whole numbers that float sums hold exactly.
#include "backends/cpu/panels.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "../levels.h"
#include "backends/cpu/block_panels.h"

namespace temper {
namespace {

class PanelProducts : public ::testing::Test {
 protected:
  void TearDown() override { set_isa(best_isa()); }
  int64_t below(int64_t n) { return int64_t(random_() % uint64_t(n)); }
  std::vector<float> numbers(int64_t count) {
    std::vector<float> list(static_cast<size_t>(count));
    for (float& x : list) x = float(below(17) - 8);
    return list;
  }
  // body() at every level, for random sizes.
  template <class Body>
  void each(Body body) {
    for (const testing::CpuOfLevel& cpu : testing::cpus_of_levels()) {
      set_isa(cpu.isa);
      for (int i = 0; i < 40; ++i) {
        m_ = 1 + below(40), n_ = 1 + below(150), k_ = 1 + below(300), slice_ = 1 + below(k_);
        SCOPED_TRACE(concat(m_, " x ", k_, " x ", n_, ", slices of ", slice_, ", stripes of ", panel_stripe()));
        body();
      }
    }
  }
  // bias + a * weights of columns [first, first + columns).
  std::vector<float> expected(const std::vector<float>& a, const std::vector<float>& weights,
                              const std::vector<float>& bias, int64_t first, int64_t columns) const {
    std::vector<float> y;
    for (int64_t r = 0; r < m_; ++r)
      for (int64_t c = first; c < first + columns; ++c) {
        float sum = bias[size_t(c)];
        for (int64_t k = 0; k < k_; ++k) sum += a[size_t(r * k_ + k)] * weights[size_t(k * n_ + c)];
        y.push_back(sum);
      }
    return y;
  }

  int64_t m_ = 0, n_ = 0, k_ = 0, slice_ = 0;

 private:
  std::mt19937_64 random_{1};
};

TEST_F(PanelProducts, AreExactForEverySliceAndWhereverThePanelsAreCut) {
  each([&] {
    const std::vector<float> a = numbers(m_ * k_), weights = numbers(k_ * n_), bias = numbers(n_);
    const Panels panels{k_, n_};
    std::vector<float> packed(size_t(panels.floats())), y(size_t(m_ * n_));
    for (int64_t k = 0; k < k_; ++k)
      for (int64_t c = 0; c < n_; ++c) packed.at(size_t(panels.place(k, c))) = weights[size_t(k * n_ + c)];
    const PanelRows rows{a.data(), k_, packed.data(), bias.data(), y.data(), n_, m_, slice_};
    const int64_t cut = below(panels.count() + 1);
    multiply_panels(panels, rows, 0, cut);
    multiply_panels(panels, rows, cut, panels.count());
    EXPECT_EQ(y, expected(a, weights, bias, 0, n_));
  });
}

TEST_F(PanelProducts, OfUnpackedBlocksAreExact) {
  each([&] {
    const bool zeros = below(2) == 1;
    const BlockPanels blocks{{k_, n_}, below(2) == 1 ? 8 : 4, 8 * (1 + below(6)), zeros};
    std::vector<std::byte> bytes(size_t(blocks.bytes()));
    std::vector<float> weights(size_t(k_ * n_)), a = numbers(m_ * k_);
    for (int64_t c = 0; c < n_; ++c)
      for (int64_t k = 0; k < k_; ++k) {
        const int64_t of_block = c + k / blocks.block;
        const BlockElement element{int(below(15)) - 7, zeros ? float(of_block % 3) : 0.f, float(1 + of_block % 4)};
        put_element(blocks, bytes.data(), k, c, element);
        weights[size_t(k * n_ + c)] = (float(element.integer) - element.zero) * element.scale;
      }
    for (int64_t panel = 0; panel < blocks.panels.count(); ++panel) {
      const int64_t first = panel * kPanel, columns = std::min(kPanel, n_ - first);
      std::vector<float> unpacked(size_t(k_ * kPanel)), y(size_t(m_ * columns));
      unpack_panel(blocks, bytes.data(), panel, unpacked.data());
      multiply_panels({k_, columns}, {a.data(), k_, unpacked.data(), nullptr, y.data(), columns, m_, slice_}, 0, 1);
      EXPECT_EQ(y, expected(a, weights, std::vector<float>(size_t(n_)), first, columns));
    }
  });
}

}  // namespace
}  // namespace temper
