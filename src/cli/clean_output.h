// SPDX-License-Identifier: Apache-2.0
// Cleans what verbs print: names in it come out of files, and none of them may command a terminal. Nothing of them may
// command a terminal.
#pragma once
#include <string>

namespace temper::cli {

// Passes text on in pieces, as `printable_lines` (base/quote.h) has it; a character that two pieces share is put
// together.
class TextCleaner {
 public:
  std::string pass(const char* text, size_t size);
  std::string rest();  // what waits for its other half, at the end

 private:
  std::string waiting_;
};

// From now on all that is printed to `stdout` is cleaned on its way. Call once, before anything is printed.
void clean_standard_output();
// A text to another file, cleaned. False where it could not be written, with errno as the system set it.
bool write_cleaned(int file, const std::string& text);
// False where something could not be written, with errno as the system set it. Nothing may be printed after it.
bool finish_standard_output();

}  // namespace temper::cli
