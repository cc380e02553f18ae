// SPDX-License-Identifier: Apache-2.0
// temper_conformance: runs ONNX's own tests, in other processes, and counts pass, wrong, refused and crashed.
// A wrong answer or a crash is a failure; so are fewer passes than the floor. A refusal is an Error{unsupported}.
#include <onnx/defs/schema.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <iostream>
#include <map>

#include "backends/backend.h"
#include "cases.h"
#include "runners.h"

namespace temper::conformance {

struct Settings {
  std::string root = TEMPER_ONNX_ROOT "/data";
  std::vector<std::string> suites{"node"};
  std::string filter;  // part of the name
  std::string mode = "reference", passes = "off";
  int64_t floor = 0;
  unsigned limit_s = 120;  // of the wall clock: a busy or stopped machine is no crash
  int jobs = 2;
  bool list_refused = false, list_passed = false, list_host = false;
};

// An array of zeros that this process and those that it forks share.
template <class T>
class Shared {
 public:
  explicit Shared(size_t count) : bytes_(count * sizeof(T)) {
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail(ErrorKind::machine, "mmap: ", std::strerror(errno));
    data_ = static_cast<T*>(memory);
  }
  Shared(const Shared&) = delete;
  ~Shared() { munmap(data_, bytes_); }
  T& operator[](size_t i) { return data_[i]; }

 private:
  size_t bytes_;
  T* data_;
};

struct Result {
  bool there;
  Outcome outcome;
  char message[2000];
};
using Counter = std::atomic<size_t>;

// The next tests, one after the other, until one goes wrong: what it left behind ends with the process. Those of plans
// fork a process that builds, which only works before this one has run a plan on several threads: one test is all.
void work(Counter& next, Counter& current, Shared<Result>& results, const std::vector<Case>& cases,
          const Runner& runner, const Settings& settings) {
  for (size_t i; (i = next++) < cases.size();) {
    current = i;
    alarm(settings.limit_s);
    const Verdict verdict = judge(cases[i], runner);
    results[i].outcome = verdict.outcome;
    results[i].message[verdict.message.copy(results[i].message, sizeof results[i].message - 1)] = 0;
    results[i].there = true;
    if (verdict.outcome == Outcome::wrong || verdict.outcome == Outcome::crashed || settings.mode == "plan") return;
  }
}

// In processes of their own, so that a crash or an endless loop costs one test only. A process takes many tests:
// opening a GPU takes longer than most of them.
std::vector<Verdict> run_all(const std::vector<Case>& cases, const Runner& runner, const Settings& settings) {
  onnx::OpSchemaRegistry::Schema("Add");  // registers all schemas, once instead of in every child
  const size_t jobs = size_t(settings.jobs);
  Shared<Result> results(cases.size() + 1);
  Shared<Counter> next(1), current(jobs);  // current: of each process that runs
  std::vector<Verdict> verdicts(cases.size());
  std::map<pid_t, size_t> running;  // which of `current` is its own
  auto start = [&](size_t job) {
    current[job] = cases.size();
    const pid_t pid = fork();
    if (pid < 0) fail(ErrorKind::machine, "fork: ", std::strerror(errno));
    if (pid == 0) {
      work(next[0], current[job], results, cases, runner, settings);
      _exit(0);
    }
    running[pid] = job;
  };
  for (size_t job = 0; job < jobs; ++job) start(job);
  while (!running.empty()) {
    int status = 0;
    const auto it = running.find(waitpid(-1, &status, 0));
    if (it == running.end()) continue;
    const size_t job = it->second, last = current[job];
    running.erase(it);
    if (last < cases.size() && !results[last].there) {
      Verdict& verdict = verdicts[last];
      verdict.outcome = Outcome::crashed;
      if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        verdict.message = concat("no answer within ", int64_t(settings.limit_s), " s");
      else if (WIFSIGNALED(status))
        verdict.message = concat("killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
      else verdict.message = concat("ended with exit status ", WEXITSTATUS(status));
    }
    if (next[0] < cases.size()) start(job);
  }
  for (size_t i = 0; i < cases.size(); ++i)
    if (results[i].there) verdicts[i] = {results[i].outcome, results[i].message};
  return verdicts;
}

// "node 'y' (Cast): float8 is not supported" -> {"Cast", "float8 is not supported"}; the innermost node counts. What is
// refused before any node (an input's dtype) is put together whatever the input's name.
std::pair<std::string, std::string> op_and_reason(const std::string& message) {
  const auto close = message.rfind("): ");
  if (close == message.npos) {
    const auto named = message.find("': ");
    return {"(input)", named == message.npos ? message : message.substr(named + 3)};
  }
  const auto open = message.rfind('(', close);
  return {message.substr(open + 1, close - open - 1), message.substr(close + 3)};
}

void list_refused(const std::vector<Case>& cases, const std::vector<Verdict>& verdicts) {
  std::map<std::string, std::map<std::string, std::vector<std::string>>> by_op;
  std::map<std::string, size_t> counts;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (verdicts[i].outcome != Outcome::refused) continue;
    const auto [op, reason] = op_and_reason(verdicts[i].message);
    by_op[op][reason].push_back(cases[i].name);
    ++counts[op];
  }
  std::vector<std::string> order;
  for (const auto& [op, count] : counts) order.push_back(op);
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) { return counts[a] > counts[b]; });
  for (const std::string& op : order) {
    std::cout << counts[op] << ' ' << op << '\n';
    for (const auto& [reason, names] : by_op[op]) {
      std::cout << "    " << names.size() << ' ' << reason << "  [" << names[0];
      for (size_t i = 1; i < std::min<size_t>(names.size(), 3); ++i) std::cout << ' ' << names[i];
      std::cout << (names.size() > 3 ? " ...]\n" : "]\n");
    }
  }
}

// Of the tests that pass: how often which ops ran on the host.
void list_host(const std::vector<Verdict>& verdicts) {
  std::map<std::string, int64_t> counts;
  int64_t tests = 0;
  for (const Verdict& verdict : verdicts) {
    if (verdict.outcome != Outcome::pass || verdict.message.empty()) continue;
    ++tests;
    for (size_t at = 0; at < verdict.message.size();) {
      const size_t end = std::min(verdict.message.find(", ", at), verdict.message.size());
      ++counts[verdict.message.substr(at, end - at)];
      at = end + 2;
    }
  }
  std::cout << tests << " of the passes had steps on the host\n";
  for (const auto& [op, count] : counts) std::cout << "    " << count << ' ' << op << '\n';
}

// In a process of its own: a GPU that this one had opened would be lost to those that it forks for the tests.
bool has_device(const std::string& device) {
  const pid_t pid = fork();
  if (pid == 0) try {
      open_device(device);
      _exit(0);
    } catch (const Error& error) {
      std::cout << "no GPU: " << error.what() << std::endl;
      _exit(1);
    }
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) fail(ErrorKind::machine, "fork: ", std::strerror(errno));
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// True when nothing was wrong and the floor is met.
bool run_suite(const std::string& suite, const Settings& settings) {
  std::vector<Case> cases = list_cases(settings.root, suite);
  std::erase_if(cases, [&](const Case& test) { return test.name.find(settings.filter) == std::string::npos; });
  const std::vector<Verdict> verdicts = run_all(cases, make_runner(settings.mode, settings.passes == "on"), settings);
  std::array<int64_t, 4> counts{};
  for (size_t i = 0; i < cases.size(); ++i) {
    const Verdict& verdict = verdicts[i];
    ++counts[size_t(verdict.outcome)];
    if (verdict.outcome == Outcome::wrong || verdict.outcome == Outcome::crashed ||
        (settings.list_passed && verdict.outcome == Outcome::pass))
      std::cout << outcome_names[size_t(verdict.outcome)] << ' ' << cases[i].name << ": " << verdict.message << '\n';
  }
  if (settings.list_refused) list_refused(cases, verdicts);
  if (settings.list_host) list_host(verdicts);
  std::cout << suite << ':';
  for (size_t i = 0; i < counts.size(); ++i) std::cout << (i ? ", " : " ") << counts[i] << ' ' << outcome_names[i];
  std::cout << std::endl;
  if (counts[0] < settings.floor) std::cout << suite << ": the floor is " << settings.floor << " passes\n";
  return counts[1] == 0 && counts[3] == 0 && counts[0] >= settings.floor;
}

int run(int argc, char** argv) {
  Settings settings;
  CLI::App app("Runs ONNX's own tests and counts pass, wrong, refused and crashed.");
  app.add_option("--suite", settings.suites, "node, simple, pytorch-operator, pytorch-converted, light")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--filter", settings.filter, "only tests whose name contains this");
  app.add_option("--mode", settings.mode,
                 "reference, cpu, cuda:N, plan (an engine that another process built and saved), fed (constants are "
                 "inputs), fed-data (those of floats are) or write (written as ONNX, imported again)")
      ->capture_default_str();
  app.add_option("--passes", settings.passes, "optimise the graph first")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  app.add_option("--floor", settings.floor, "fail when a suite has fewer passes");
  app.add_option("--limit", settings.limit_s, "seconds for one test")->capture_default_str();
  app.add_option("--jobs", settings.jobs, "tests at a time")->capture_default_str();
  app.add_option("--data", settings.root, "the folder that holds the suites")->capture_default_str();
  app.add_flag("--list-refused", settings.list_refused, "list the refusals, grouped by op and reason");
  app.add_flag("--list-host", settings.list_host, "list the ops that ran on the host");
  app.add_flag("--list-passed", settings.list_passed, "list the passes");
  CLI11_PARSE(app, argc, argv);
  try {
    if (settings.mode.starts_with("cuda") && !has_device(settings.mode)) return 77;  // skipped
    bool good = true;
    for (const std::string& suite : settings.suites) good &= run_suite(suite, settings);
    return good ? 0 : 1;
  } catch (const Error& error) {
    std::cerr << "temper_conformance: " << error.what() << '\n';
    return int(error.kind());
  }
}

}  // namespace temper::conformance

int main(int argc, char** argv) { return temper::conformance::run(argc, argv); }
