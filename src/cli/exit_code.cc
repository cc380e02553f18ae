// SPDX-License-Identifier: Apache-2.0
#include "cli/exit_code.h"

#include <cstdio>
#include <cstdlib>
#include <new>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "base/quote.h"

namespace temper::cli {

namespace {
constexpr size_t kLongestLine = 8000;
}  // namespace

void print_error(const std::string& line) {
  const std::string text = cut_in_middle(with_short_words(printable(line), kLongestWord), kLongestLine);
  std::fflush(stdout);  // what was printed goes out first: a log may take both streams
  std::fprintf(stderr, "temper: %s\n", text.c_str());
}

int exit_code_of(const std::function<void()>& body) {
  try {
    body();
    return 0;
  } catch (const Error& error) {
    print_error(error.what());
    return int(error.kind());
  } catch (const std::bad_alloc&) { print_error("out of memory"); } catch (const std::system_error& error) {
    const bool threads = error.code() == std::errc::resource_unavailable_try_again;
    print_error(concat(
        "the system refused: ", std::string_view(error.what()),
        threads ? "; there may be no room for a thread more (ulimit -u, or the container's limit of processes)" : ""));
  } catch (const std::exception& error) {
    print_error(concat("a fault inside of Temper: ", std::string_view(error.what()),
                       "; please report it with the command and its files"));
  }
  return int(ErrorKind::machine);
}

void claim_exit() {
  std::atexit([] {
    std::fflush(nullptr);
    std::fprintf(stderr, "temper: a library ended the program; what it said stands above\n");
    std::_Exit(int(ErrorKind::machine));
  });
}

}  // namespace temper::cli
