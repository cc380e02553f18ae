// SPDX-License-Identifier: Apache-2.0
// Quotes text for people that comes out of files, which may hold anything.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace temper {

// As a shell takes it for one word: in quotes where it must be.
std::string shell_quoted(const std::string& text);

// Length of the UTF-8 sequence at `at`, 0 where there is none. Overlong forms, surrogates and what lies above U+10FFFF
// are none.
size_t utf8_length(std::string_view text, size_t at);

// The character whose sequence begins at `at`, where there is one; and the sequence of a character.
uint32_t utf8_character(std::string_view text, size_t at);
void append_utf8(std::string& out, uint32_t character);

// Text with U+FFFD for each byte that belongs to no UTF-8 sequence, as JSON keeps it.
std::string as_utf8(std::string_view text);

// Makes text that a terminal and a reader take as it is meant: bytes that are not UTF-8 and characters that change the
// direction of text or end a line become U+FFFD, control characters (line breaks too, DEL, and U+0080 to U+009F)
// spaces. Names come out of files: with such characters they could rewrite what stands around them.
std::string printable(std::string_view text);

// The same for a text of several lines: its line breaks stay.
std::string printable_lines(std::string_view text);

// Text of more than `most` bytes without its middle, of which the count stays. UTF-8 stays UTF-8.
std::string cut_in_middle(std::string_view text, size_t most);

// Words of more than `most` bytes without their middle, of which the count stays: "/model/…(61359 bytes)…/MatMul".
// UTF-8 stays UTF-8.
std::string with_short_words(const std::string& text, size_t most);

}  // namespace temper
