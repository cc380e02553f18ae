// SPDX-License-Identifier: Apache-2.0
// Classifies a folder of pictures with a plan, on several threads, and writes a table.
//
//   pictures resnet50.plan photos answers.csv --threads 4 --class-names imagenet.txt
//
// One engine is shared; each thread has a session of its own. The plan is best built with --threads 1: what runs side
// by side here are the pictures. Plans of one input and one output of [batch, classes].
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "temper/temper.h"

namespace fs = std::filesystem;

namespace {

struct Answer {
  int64_t best = 0;
  double probability = 0, ms = 0;
};

std::vector<std::string> pictures_in(const std::string& folder) {
  std::vector<std::string> list;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    std::string extension = entry.path().extension().string();
    for (char& c : extension) c = char(std::tolower(static_cast<unsigned char>(c)));
    for (const char* known : {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".pgm", ".ppm", ".pnm"})
      if (extension == known) list.push_back(entry.path().string());
  }
  std::sort(list.begin(), list.end());
  if (list.empty())
    throw temper::Error(
        TEMPER_BAD_FILE,
        "'" + folder + "' holds no pictures (.jpg, .jpeg, .png, .webp, .bmp, .tif, .tiff, .pgm, .ppm, .pnm)");
  return list;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw temper::Error(TEMPER_BAD_FILE, "cannot open '" + path + "'");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

Answer classify(const temper::Engine& engine, temper::Session& session, const std::string& path) {
  const temper::Tensor picture = temper::read_pictures(engine, {path});
  const auto start = std::chrono::steady_clock::now();
  const temper::Tensor scores = session.run({picture}).at(0);
  Answer answer;
  answer.ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  const float* score = scores.data<float>();
  const float* best = std::max_element(score, score + scores.count());
  double sum = 0;
  for (size_t i = 0; i < scores.count(); ++i) sum += std::exp(double(score[i]) - *best);
  answer.best = best - score;
  answer.probability = 1 / sum;
  return answer;
}

// Each thread takes the next picture; the first failure ends them all and is thrown here.
std::vector<Answer> classify_all(const temper::Engine& engine, const std::vector<std::string>& paths, size_t threads) {
  std::vector<Answer> answers(paths.size());
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  auto work = [&] {
    try {
      temper::Session session(engine);
      for (size_t i; (i = next++) < paths.size();) answers[i] = classify(engine, session, paths[i]);
    } catch (...) {
      next = paths.size();
      const std::lock_guard<std::mutex> lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> pool;
  for (size_t t = 1; t < std::min(threads, paths.size()); ++t) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
  if (failure) std::rethrow_exception(failure);
  return answers;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

void write_csv(const std::string& path, const std::vector<std::string>& pictures, const std::vector<Answer>& answers,
               const std::vector<std::string>& names) {
  const std::string unfinished = path + ".new";  // nobody sees half a table
  {
    std::ofstream file(unfinished);
    file << "picture,class,name,probability,ms\n";
    for (size_t i = 0; i < pictures.size(); ++i) {
      const Answer& answer = answers[i];
      const std::string name = size_t(answer.best) < names.size() ? names[size_t(answer.best)] : "";
      char numbers[64];
      std::snprintf(numbers, sizeof numbers, "%.6f,%.3f", answer.probability, answer.ms);
      file << csv_field(fs::path(pictures[i]).filename().string()) << ',' << answer.best << ',' << csv_field(name)
           << ',' << numbers << '\n';
    }
    if (!file.flush()) throw temper::Error(TEMPER_MACHINE, "cannot write '" + unfinished + "'");
  }
  fs::rename(unfinished, path);
}

struct Arguments {
  std::vector<std::string> plain;
  std::string class_names;
  size_t threads = std::max(1u, std::thread::hardware_concurrency());
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool is_option = word == "--threads" || word == "--class-names";
    if (is_option && ++i == argc) throw temper::Error(TEMPER_USAGE, word + " needs a value");
    if (word == "--class-names") arguments.class_names = argv[i];
    else if (word == "--threads") {
      const long threads = std::strtol(argv[i], nullptr, 10);
      if (threads < 1 || threads > 1024) throw temper::Error(TEMPER_USAGE, "--threads: 1 to 1024");
      arguments.threads = size_t(threads);
    } else arguments.plain.push_back(word);
  }
  if (arguments.plain.size() != 3)
    throw temper::Error(TEMPER_USAGE, "usage: pictures PLAN FOLDER ANSWERS.csv [--threads N] [--class-names FILE]");
  return arguments;
}

void run(const Arguments& arguments) {
  const temper::Engine engine = temper::Engine::load(arguments.plain[0]);
  if (engine.inputs().size() != 1 || engine.outputs().size() != 1 || engine.outputs()[0].dtype != TEMPER_F32)
    throw temper::Error(TEMPER_USAGE, "the plan must have one input, and one output of f32");
  const std::vector<std::string> names =
      arguments.class_names.empty() ? std::vector<std::string>() : lines_of(arguments.class_names);
  const std::vector<std::string> paths = pictures_in(arguments.plain[1]);
  const std::vector<Answer> answers = classify_all(engine, paths, arguments.threads);
  write_csv(arguments.plain[2], paths, answers, names);
  std::printf("%zu pictures, %zu threads: %s\n", paths.size(), std::min(arguments.threads, paths.size()),
              arguments.plain[2].c_str());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse(argc, argv));
    return 0;
  } catch (const temper::Error& error) {
    std::fprintf(stderr, "pictures: %s\n", error.what());
    return error.status();
  } catch (const fs::filesystem_error& error) {
    std::fprintf(stderr, "pictures: %s\n", error.what());
    return TEMPER_BAD_FILE;
  }
}
