// SPDX-License-Identifier: Apache-2.0
// Pointwise programs as CUDA C, on the scalars of support/scalar.cuh.
#pragma once
#include <span>
#include <string>

#include "graph/program.h"

namespace temper::cuda {

std::string_view memory_type(DType dtype);  // "bf16": as it lies in memory
std::string_view held_type(DType dtype);    // "float": as it is computed with
std::string_view word_type(int64_t bytes);  // "u16": 1, 2, 4 or 8 bytes that are only moved

// The text of `DEVICE <held result> name(<held> v0, <held> v1, ...)`, one parameter for each input of the program. The
// result is held too: store_as<> rounds it where it must be stored. `inputs`: dtypes; they fit (Program::infer).
std::string program_code(const Program& program, std::span<const DType> inputs, std::string_view name);
// As program_code, for what is stored at once: the result is Finished<>, which store_results takes, and not yet rounded
// to 16 bits where it has as many.
std::string finished_code(const Program& program, std::span<const DType> inputs, std::string_view name);
// finished_code of the name `epilogue`.
std::string epilogue_code(const Program& program, std::span<const DType> inputs);

// Whether input `input` is of bytes and the program does nothing with them but to cast them to f32: then it may get
// f32.
bool wants_bytes_as_floats(const Program& program, int input, DType dtype);
// Such an input as an argument of EPILOGUE, element v of `loaded`; and what ColumnExtras has for all of them, once.
std::string byte_argument(std::string_view type, std::string_view loaded);
void want_byte_pattern(std::string& column_fields, std::string& column_loads);

}  // namespace temper::cuda
