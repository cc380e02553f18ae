// SPDX-License-Identifier: Apache-2.0
// Writes figures as image files, drawn by vl-convert in a Python of its own.
#pragma once
#include <string>
#include <vector>

#include "report/report.h"

namespace temper {

enum class ImageFormat { svg, png };

// The bytes of one image for each figure (all must have a spec), on white, 760 pixels wide (PNG: twice that). `python`
// is run as a child process without a shell, in isolated mode, and may fetch nothing. Throws Error{unsupported} saying
// what to install where it cannot be started or lacks vl-convert, Error{machine} where drawing fails.
std::vector<std::string> render(const std::vector<Figure>& figures, ImageFormat format, const std::string& python);

}  // namespace temper
