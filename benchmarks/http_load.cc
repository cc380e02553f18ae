// SPDX-License-Identifier: Apache-2.0
// A client of an HTTP server on this machine that costs little beside it: one thread, many connections, one request again and again, the
// next one on a connection when the answer to the last is there. Prints how many were answered, in what time, and latencies, as JSON.
// usage: http_load PORT FILE CLIENTS SECONDS COUNT      FILE: a request as it goes over the wire; ends after SECONDS or COUNT answers
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "http_load: %s\n", what.c_str());
  std::exit(1);
}

struct Client {
  int socket = -1;
  double sent = 0;
  std::string answer;
};

void send_all(Client& client, const std::string& request) {
  client.answer.clear();
  client.sent = now();
  for (size_t at = 0; at < request.size();) {
    const ssize_t wrote = send(client.socket, request.data() + at, request.size() - at, MSG_NOSIGNAL);
    if (wrote <= 0) die(std::string("a request could not be sent: ") + std::strerror(errno));
    at += size_t(wrote);
  }
}

bool is_whole(const std::string& answer) {
  const size_t end = answer.find("\r\n\r\n");
  if (end == answer.npos) return false;
  if (answer.compare(0, 12, "HTTP/1.1 200") != 0) die(answer.substr(0, 500));
  const size_t length = answer.find("Content-Length: ");
  if (length > end) die("an answer without Content-Length");
  return answer.size() >= end + 4 + std::strtoull(answer.c_str() + length + 16, nullptr, 10);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) die("usage: http_load PORT FILE CLIENTS SECONDS COUNT");
  std::ifstream file(argv[2], std::ios::binary);
  const std::string request{std::istreambuf_iterator<char>(file), {}};
  std::vector<Client> clients(std::strtoul(argv[3], nullptr, 10));
  const double seconds = std::strtod(argv[4], nullptr);
  const size_t count = std::strtoull(argv[5], nullptr, 10);
  const int events = epoll_create1(0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(uint16_t(std::atoi(argv[1])));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (size_t i = 0; i < clients.size(); ++i) {
    clients[i].socket = socket(AF_INET, SOCK_STREAM, 0);
    const int on = 1;
    setsockopt(clients[i].socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(clients[i].socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) die("nobody listens");
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = i;
    epoll_ctl(events, EPOLL_CTL_ADD, clients[i].socket, &event);
  }
  std::vector<float> latencies;
  latencies.reserve(std::min<size_t>(count, 1 << 22));
  const double begun = now();
  size_t open = std::min(count, clients.size()), asked = open;
  for (size_t i = 0; i < open; ++i) send_all(clients[i], request);
  double last = begun;
  while (open > 0) {
    epoll_event ready[64];
    const int n = epoll_wait(events, ready, 64, 900000);
    if (n < 0 && errno == EINTR) continue;  // it was stopped for a while
    if (n <= 0) die("no answer within a quarter of an hour");
    for (int e = 0; e < n; ++e) {
      Client& client = clients[ready[e].data.u64];
      char buffer[65536];
      const ssize_t got = recv(client.socket, buffer, sizeof buffer, 0);
      if (got <= 0) die("the server closed a connection");
      client.answer.append(buffer, size_t(got));
      if (!is_whole(client.answer)) continue;
      last = now();
      latencies.push_back(float(last - client.sent));
      if (asked < count && last - begun < seconds) {
        ++asked;
        send_all(client, request);
      } else {
        --open;
      }
    }
  }
  std::sort(latencies.begin(), latencies.end());
  const auto at = [&](double share) { return 1e6 * double(latencies[size_t(share * double(latencies.size() - 1))]); };
  std::printf("{\"requests\": %zu, \"seconds\": %.6f, \"p50_us\": %.2f, \"p99_us\": %.2f}\n", latencies.size(), last - begun, at(0.5),
              at(0.99));
}
