// SPDX-License-Identifier: Apache-2.0
// Headers of others that most verbs include; compiled once (cmake/precompile.cmake).
#pragma once
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>
