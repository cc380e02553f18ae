// SPDX-License-Identifier: Apache-2.0
// Memory of the host that a program takes for a GPU's, on a machine without one. It has addresses of its own, and every
// address is looked up before anything is read or written there: a stray number, or memory that was freed, is an error
// and not a crash.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace temper::nvinfer {

// Behind every allocation lie so many bytes, which are looked at when it is freed: programs write beyond their buffers,
// and a GPU lets them.
constexpr size_t kHostPad = size_t(1) << 16;

// `pinned`: of the kind that the program knows as the host's. Null: there is no room.
void* allocate_host(size_t size, bool pinned);
// How many bytes were written behind its end; nothing where `memory` is no such allocation, and then it is left alone.
std::optional<size_t> free_host(void* memory, bool pinned);
// Whether all these bytes lie in an allocation that is not pinned, or in it and the bytes behind it.
bool is_host_device(const void* memory, size_t size);
// Throws Error{usage} that names `what` where they do not.
void check_host_device(const void* memory, size_t size, const std::string& what);

// Where the program says that an end of a copy lies. A device's memory may stand where the host's is expected, too.
enum class CopyEnd { host, device, either };
// They do what cudaMemcpy and cudaMemset do, and throw Error{usage} where a byte is in no allocation of the device, or
// nowhere in the memory of this process.
void copy_host(void* to, CopyEnd to_end, const void* from, CopyEnd from_end, size_t size);
void set_host(void* memory, int value, size_t size);

}  // namespace temper::nvinfer
