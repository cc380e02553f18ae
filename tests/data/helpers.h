// SPDX-License-Identifier: Apache-2.0
// A folder of its own for each test, and NumPy/PIL as the other side of the comparison.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/file.h"

namespace temper {

// An empty folder that belongs to the running test of this build, as another checkout may be running the same test; the
// path ends with '/'.
std::string test_folder();
// The same without the '/' at its end.
std::string test_folder_without_slash();

void write_text(const std::string& path, std::string_view text);

// Runs a script with `folder` as the current directory; numpy is np, PIL's Image is imported.
void run_python(const std::string& folder, const std::string& script);

// The message of the Error that `body` throws; the test fails where it throws none, or one of another kind.
template <class F>
std::string error_of(ErrorKind kind, F&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(int(error.kind()), int(kind)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// Calls `read` on every truncation of `good` and on copies with one byte changed (every `step`-th byte, each in three
// ways). It may succeed or throw an Error; anything else fails. Returns how many of the damaged files were accepted.
template <class Read>
int damage(const std::string& path, const std::string& good, size_t step, Read&& read) {
  int accepted = 0;
  auto attempt = [&](const std::string& bytes) {
    write_text(path, bytes);
    try {
      read(path);
      ++accepted;
    } catch (const Error& error) { EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what(); }
  };
  for (size_t cut = 0; cut < good.size(); cut += step) attempt(good.substr(0, cut));
  for (size_t i = 0; i < good.size(); i += step)
    for (int flip : {0x01, 0x80, 0xff}) {
      std::string bytes = good;
      bytes[i] = char(bytes[i] ^ flip);
      attempt(bytes);
    }
  return accepted;
}

}  // namespace temper
