// SPDX-License-Identifier: Apache-2.0
#include "cli/exit_code.h"

#include <gtest/gtest.h>

#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

#include "base/error.h"
#include "cli/clean_output.h"

namespace temper::cli {
namespace {

// The exit code, and what is said: one line.
std::string said(int code, const std::function<void()>& body) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(exit_code_of(body), code);
  std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(text.starts_with("temper: ") && text.find('\n') == text.size() - 1) << text;
  return text;
}

TEST(ExitCode, WhateverIsThrownEndsWithADocumentedCodeAndOneLine) {
  EXPECT_EQ(exit_code_of([] {}), 0);
  for (ErrorKind kind :
       {ErrorKind::check_failed, ErrorKind::usage, ErrorKind::bad_file, ErrorKind::unsupported, ErrorKind::machine})
    EXPECT_EQ(said(int(kind), [&] { fail(kind, "why\nnot"); }), "temper: why not\n");
  EXPECT_EQ(said(5, [] { throw std::bad_alloc(); }), "temper: out of memory\n");
  EXPECT_NE(said(5, [] { throw std::length_error("vector::_M_range_insert"); }).find("vector::_M_range_insert"),
            std::string::npos);
  EXPECT_NE(said(5, [] { throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)); })
                .find("no room for a thread"),
            std::string::npos);
  EXPECT_NE(said(5, [] { EXPECT_TRUE(nlohmann::json::parse("-1e400").is_null()); }).find("out_of_range"),
            std::string::npos);
  EXPECT_NE(said(5, [] { (void)nlohmann::json("\xff").dump(); }).find("type_error"), std::string::npos);
  EXPECT_NE(said(5, [] { (void)nlohmann::json(1).at("key"); }).find("type_error"), std::string::npos);
}

TEST(ExitCode, AnErrorLineIsShortAndCommandsNoTerminal) {
  const std::string line =
      said(3, [] { fail(ErrorKind::bad_file, "'", std::string(10'000'000, 'x'), "\x1b[2J\xc2\x9b' is no name"); });
  EXPECT_LT(line.size(), 1000u);
  EXPECT_NE(line.find(" bytes)…"), std::string::npos) << line;
  EXPECT_NE(line.find("is no name"), std::string::npos) << line;
  std::string words;
  for (int i = 0; i < 100'000; ++i) words += "word ";
  EXPECT_LT(said(3, [&] { fail(ErrorKind::bad_file, words); }).size(), 9000u);
}

TEST(CleanOutput, CharactersThatComeInPiecesAreCleanedAsOne) {
  const std::string text = "模\xc2\x9b🙂\xe2\x80\xae\xffz\xf0\x9f";
  TextCleaner whole;
  std::string expected = whole.pass(text.data(), text.size());
  expected += whole.rest();
  EXPECT_EQ(expected, "模 🙂\xef\xbf\xbd\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd");
  for (size_t step = 1; step < 7; ++step) {
    TextCleaner cleaner;
    std::string out;
    for (size_t at = 0; at < text.size(); at += step)
      out += cleaner.pass(text.data() + at, std::min(step, text.size() - at));
    EXPECT_EQ(out + cleaner.rest(), expected) << step;
  }
}

}  // namespace
}  // namespace temper::cli
