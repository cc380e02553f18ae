// SPDX-License-Identifier: Apache-2.0
// Pointwise programs as CUDA C, on the scalars of support/scalar.cuh.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "graph/program.h"

namespace temper::cuda {

std::string_view memory_type(DType dtype);  // "bf16": as it lies in memory
std::string_view held_type(DType dtype);    // "float": as it is computed with
std::string_view word_type(int64_t bytes);  // "u16": 1, 2, 4 or 8 bytes that are only moved

// Scales and zero points of int8 are others in each layer of a net. They go with a launch, as the last member of the
// kernel's struct Parameters, and not into its text: one machine code then serves all layers. Other numbers stay in the
// text, where the compiler makes use of what they are.
class ProgramNumbers {
 public:
  bool has_room() const { return values_.size() + 2 <= kMost; }
  // Its place in the array.
  size_t add(float value) {
    values_.push_back(value);
    return values_.size() - 1;
  }
  // In the order of the array, for ParameterWriter::put_numbers.
  const std::vector<float>& values() const { return values_; }
  // The text of the macro NUMBERS, which declares that member: "float numbers[2];", or nothing where there are none.
  std::string text() const;

 private:
  static constexpr size_t kMost = 64;  // 256 bytes of the 4 KB that a launch may pass
  std::vector<float> values_;
};

// The text of a function, and that of a call of it up to its arguments: "name(", or "name(p.numbers, " for one that
// reads numbers of the kernel's Parameters, which are called p wherever it is called.
struct ProgramCode {
  std::string text, call;
};

// The text of `DEVICE <held result> name(<held> v0, <held> v1, ...)`, one parameter for each input of the program. The
// result is held too: store_as<> rounds it where it must be stored. `inputs`: dtypes; they fit (Program::infer).
std::string program_code(const Program& program, std::span<const DType> inputs, std::string_view name);
// The same with numbers outside of the text, which are added to `numbers`.
ProgramCode program_code(const Program& program, std::span<const DType> inputs, std::string_view name,
                         ProgramNumbers& numbers);
// As program_code, for what is stored at once: the result is Finished<>, which store_results takes, and not yet rounded
// to 16 bits where it has as many.
std::string finished_code(const Program& program, std::span<const DType> inputs, std::string_view name);
ProgramCode finished_code(const Program& program, std::span<const DType> inputs, std::string_view name,
                          ProgramNumbers& numbers);

// Whether input `input` is of bytes and the program does nothing with them but to cast them to f32: then it may get
// f32.
bool wants_bytes_as_floats(const Program& program, int input, DType dtype);
// Such an input as an argument of EPILOGUE, element v of `loaded`; and what ColumnExtras has for all of them, once.
std::string byte_argument(std::string_view type, std::string_view loaded);
void want_byte_pattern(std::string& column_fields, std::string& column_loads);

}  // namespace temper::cuda
