// SPDX-License-Identifier: Apache-2.0
// Headers of others that most tests include; compiled once (cmake/precompile.cmake).
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>
