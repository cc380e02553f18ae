// SPDX-License-Identifier: Apache-2.0
// Rows of f32 times constant weights that are packed in panels of 48 columns: what products and convolutions share. A
// panel is one or several stripes of as many columns as a kernel multiplies at once, so that what it reads lies in
// whole lines: with panels of 48 in rows of k, kernels of 24 took 1.2 to 1.3 times as long on a Zen 3.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/checked.h"

namespace temper {

constexpr int64_t kPanel = 48;     // columns of a panel; the last one has a multiple of 16
constexpr int64_t kPanelRows = 8;  // chunks of rows are best multiples of it

// Columns of a stripe: three vectors of what kernels use now (cpu_isa()), which divides kPanel.
int64_t panel_stripe();

// Weights of `depth` steps of k and `columns` columns: [panel][stripe][k][column], with zeros behind the last column up
// to a multiple of 16.
struct Panels {
  int64_t depth, columns;
  int64_t stripe = panel_stripe();
  int64_t wide() const { return round_up<int64_t>(columns, 16); }
  int64_t count() const { return ceil_div(columns, kPanel); }
  int64_t floats() const { return wide() * depth; }
  // Columns of a panel, with those of zeros.
  int64_t width(int64_t panel) const { return panel * kPanel + kPanel < wide() ? kPanel : wide() - panel * kPanel; }
  // Columns of the stripe that `column` is in, with those of zeros.
  int64_t stripe_width(int64_t column) const { return std::min(stripe, wide() - column / stripe * stripe); }
  // The place of a weight in the packed bytes.
  int64_t place(int64_t k, int64_t column) const {
    return column / stripe * stripe * depth + k * stripe_width(column) + column % stripe;
  }
};

// y = bias + a * weights for `rows` rows, of the columns of panels [first, last), `slice` steps of k after the other.
// Rows of a are a_row floats apart, those of y y_row; the weights' columns begin at y and, where there is one, at bias.
struct PanelRows {
  const float* a;
  int64_t a_row;
  const float* weights;
  const float* bias;  // null: none
  float* y;
  int64_t y_row, rows, slice;
};
void multiply_panels(const Panels& panels, const PanelRows& rows, int64_t first, int64_t last);
// Steps of k that keep so many rows of `depth` in L2 while panels pass by.
int64_t panel_slice(int64_t depth, int64_t rows);

}  // namespace temper
