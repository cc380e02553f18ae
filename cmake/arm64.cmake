# SPDX-License-Identifier: Apache-2.0
# Cross-compiles for aarch64 with Debian's compiler, against the folder of Debian's libraries for it that ./dev makes
# (TEMPER_SYSROOT); what runs on the way is emulated. The emulated CPU has the dot product and no SVE, as those have that
# Temper's kernels are for.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_SYSROOT ${TEMPER_SYSROOT})
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TEMPER_SYSROOT)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu neoverse-n1 -L ${TEMPER_SYSROOT})
