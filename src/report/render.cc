// SPDX-License-Identifier: Apache-2.0
#include "report/render.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/child_process.h"
#include "base/error.h"
#include "report/theme.h"

namespace temper {
namespace {

constexpr int kWidth = 760;       // pixels of an SVG
constexpr int kMaxSeconds = 120;  // for all pictures; one takes about a tenth of a second

// Reads {"format", "specs"} and answers each image as its length in one line, then its bytes. Exit code 9: no
// vl-convert.
constexpr const char* kScript = R"(
import json, sys
try:
    import vl_convert
except ImportError as error:
    sys.stderr.write(str(error))
    sys.exit(9)
job = json.loads(sys.stdin.buffer.read())
for spec in job['specs']:
    if job['format'] == 'svg':
        image = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]).encode()
    else:
        image = vl_convert.vegalite_to_png(spec, scale=2, allowed_base_urls=[])
    sys.stdout.buffer.write(b'%d\n' % len(image) + image)
)";

constexpr const char* kInstall =
    "PNG and SVG need a Python with vl-convert-python (pip install vl-convert-python==1.9.0.post1), which ./dev setup "
    "installs; name it with --python PYTHON";

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  int get() const { return fd_; }
  void reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

struct Finished {
  std::string out, err;
  int status = 0;
};

// Two connected ends; close-on-exec, so the child keeps only what is put in place of its standard streams.
std::array<int, 2> connected() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    fail(ErrorKind::machine, "no socket for the drawing process: ", std::string_view(std::strerror(errno)));
  return ends;
}

Finished run_child(const std::string& program, const std::string& input) {
  const auto in = connected(), out = connected(), err = connected();
  Descriptor to(in[0]), child_in(in[1]), from(out[0]), child_out(out[1]), errors(err[0]), child_err(err[1]);
  const pid_t pid = fork();
  if (pid < 0) fail(ErrorKind::machine, "cannot start a process: ", std::string_view(std::strerror(errno)));
  if (pid == 0) {  // only calls that are safe after fork
    if (dup2(child_in.get(), 0) < 0 || dup2(child_out.get(), 1) < 0 || dup2(child_err.get(), 2) < 0) _exit(127);
    // -I: neither the folder that the user stands in nor the environment may supply a vl_convert of their own.
    const char* const arguments[] = {program.c_str(), "-I", "-c", kScript, nullptr};
    execvp(program.c_str(), const_cast<char* const*>(arguments));
    _exit(errno == ENOENT || errno == EACCES ? 126 : 127);
  }
  child_in.reset(), child_out.reset(), child_err.reset();
  Finished finished;
  size_t sent = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(kMaxSeconds);
  bool timed_out = false, open_out = true, open_err = true;
  const auto receive = [](int fd, std::string& text) {
    char buffer[65536];
    const ssize_t count = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (count > 0) text.append(buffer, size_t(count));
    return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
  };
  while (open_out || open_err) {
    pollfd waits[] = {{open_out ? from.get() : -1, POLLIN, 0},
                      {open_err ? errors.get() : -1, POLLIN, 0},
                      {sent < input.size() ? to.get() : -1, POLLOUT, 0}};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    if (left <= 0) {
      kill(pid, SIGKILL);
      timed_out = true;
      break;
    }
    if (poll(waits, 3, int(left)) < 0 && errno != EINTR) break;
    if (waits[2].revents) {
      const ssize_t count = send(to.get(), input.data() + sent, input.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count > 0) sent += size_t(count);
      else if (count < 0 && errno != EAGAIN && errno != EINTR)
        sent = input.size();  // it is gone; its exit code says why
    }
    if (sent == input.size()) to.reset();
    if (waits[0].revents) open_out = receive(from.get(), finished.out);
    if (waits[1].revents) open_err = receive(errors.get(), finished.err);
  }
  finished.status = wait_for_end(pid);
  if (timed_out) fail(ErrorKind::machine, "drawing the pictures took more than ", kMaxSeconds, " s and was ended");
  return finished;
}

}  // namespace

std::vector<std::string> render(const std::vector<Figure>& figures, ImageFormat format, const std::string& python) {
  using Json = nlohmann::ordered_json;
  Json job{{"format", format == ImageFormat::svg ? "svg" : "png"}, {"specs", Json::array()}};
  for (const Figure& figure : figures) {
    Json spec = Json::parse(with_fixed_colors(figure.spec));
    spec["width"] = kWidth;
    spec["background"] = "white";
    spec["padding"] = 12;
    spec["title"] = {
        {"text", figure.title}, {"anchor", "start"}, {"fontSize", 15}, {"fontWeight", 600}, {"offset", 12}};
    spec["config"] = Json::parse(with_fixed_colors(theme_config()));
    spec["config"]["font"] = "sans-serif";
    job["specs"].push_back(std::move(spec));
  }
  const Finished finished = run_child(python, job.dump(-1, ' ', false, Json::error_handler_t::replace));
  const int code = WIFEXITED(finished.status) ? WEXITSTATUS(finished.status) : -1;
  if (code == 126 || code == 127) fail(ErrorKind::unsupported, "'", python, "' cannot be started: ", kInstall);
  if (code == 9) fail(ErrorKind::unsupported, "'", python, "' has no vl-convert: ", kInstall);
  // The last line of a Python error is the error; the others say where.
  std::string why = finished.err.substr(0, finished.err.find_last_not_of(" \n") + 1);
  why = why.substr(why.find_last_of('\n') + 1).substr(0, 400);
  if (code != 0) fail(ErrorKind::machine, "drawing the pictures failed", why.empty() ? "" : ": ", why);
  std::vector<std::string> images;
  size_t at = 0;
  for (size_t i = 0; i < figures.size(); ++i) {
    const size_t line = finished.out.find('\n', at);
    size_t bytes = 0;
    if (line != std::string::npos && line - at < 12)
      for (; at < line && finished.out[at] >= '0' && finished.out[at] <= '9'; ++at)
        bytes = 10 * bytes + size_t(finished.out[at] - '0');
    if (at != line || bytes == 0 || bytes > finished.out.size() - line - 1)
      fail(ErrorKind::machine, "the drawing process answered something else than ", figures.size(), " images");
    images.push_back(finished.out.substr(line + 1, bytes));
    at = line + 1 + bytes;
  }
  return images;
}

}  // namespace temper
