// SPDX-License-Identifier: Apache-2.0
// Every flag of trtexec from 8.6.1 to 11.1: in which releases it is accepted, and what it means. THE list is in
// trtexec_flags.cc.
#pragma once
#include <array>
#include <span>
#include <string_view>

namespace temper {

inline constexpr std::array<std::string_view, 9> kTrtexecReleases{"8.6.1",   "10.0.1", "10.3.0", "10.7.0", "10.9.0",
                                                                  "10.13.3", "10.16",  "11.0",   "11.1"};

struct TrtexecFlag {
  std::string_view name;
  std::string_view releases;  // one character for each of kTrtexecReleases: 'x' accepted, '.' not
  std::string_view meaning;

  bool in(size_t release) const { return releases[release] == 'x'; }
};

std::span<const TrtexecFlag> trtexec_flags();
const TrtexecFlag* find_trtexec_flag(std::string_view name);  // nullptr: not known

}  // namespace temper
