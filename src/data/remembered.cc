// SPDX-License-Identifier: Apache-2.0
// Decides how an input's pictures are prepared: as asked, else as its plan or model remembers. It needs no more of this
// folder than pictures do, so that libtemper_runtime can have it.
#include <algorithm>

#include "base/log.h"
#include "data/dataset.h"

namespace temper {

Preprocess complete_remembered(const PreprocessOptions& asked, const InputSpec& spec) {
  if (spec.preprocess.empty()) return complete_preprocess(asked, spec.type, spec.name);
  PreprocessOptions base = with_context([&] { return concat("what ", spec.remembered_by, " remembers of pictures"); },
                                        [&] { return parse_preprocess(spec.preprocess); });
  PreprocessOptions open = base;  // to learn the size: that of the model, of what is asked, or the remembered one
  if (asked.crop_height > 0) open.crop_height = asked.crop_height, open.crop_width = asked.crop_width;
  const size_t rank = spec.type.shape.size();
  const bool nhwc = over(base, asked).layout == PixelLayout::nhwc;
  if (rank == 4) {
    const Dim &height = spec.type.shape[nhwc ? 1 : 2], &width = spec.type.shape[nhwc ? 2 : 3];
    if (height.is_constant()) open.crop_height = height.value();
    if (width.is_constant()) open.crop_width = width.value();
  }
  const int64_t before = std::min(base.crop_height, base.crop_width), now = std::min(open.crop_height, open.crop_width);
  if (base.resize > 0 && before > 0 && now > 0 && before != now)
    base.resize = (base.resize * now + before / 2) / before;
  base.crop_height = open.crop_height;
  base.crop_width = open.crop_width;
  const Preprocess remembered = complete_preprocess(base, spec.type, spec.name);
  const Preprocess said = complete_preprocess(over(base, asked), spec.type, spec.name);
  if (const std::string here = said.text(), there = remembered.text(); here != there)
    log(LogLevel::warning, "input '", spec.name, "': pictures are prepared otherwise than ", spec.remembered_by,
        " remembers: here ", here, "; there ", there);
  return said;
}

}  // namespace temper
