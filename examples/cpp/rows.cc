// SPDX-License-Identifier: Apache-2.0
// Classifies the rows of a table: as many numbers a row as the input has elements, separated by commas.
//
//   rows cifar-fp32.plan pictures.csv answers.csv 32
//
// Runs in batches of the given size (1 without); the last one is filled up with zeros. Plans of one f32 input and one
// output of [batch, classes].
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "temper/temper.h"

namespace {

class Rows {
 public:
  Rows(const std::string& path, size_t numbers) : file_(path), path_(path), numbers_(numbers) {
    if (!file_) throw temper::Error(TEMPER_BAD_FILE, "cannot open '" + path + "'");
  }
  // False at the end of the table.
  bool next(float* to) {
    std::string line;
    if (!std::getline(file_, line)) return false;
    ++row_;
    const char* at = line.c_str();
    for (size_t i = 0; i < numbers_; ++i) {
      char* end = nullptr;
      to[i] = std::strtof(at, &end);
      if (end == at) complain();
      at = *end == ',' && i + 1 < numbers_ ? end + 1 : end;
    }
    while (*at == ' ' || *at == '\r') ++at;
    if (*at) complain();
    return true;
  }

 private:
  void complain() const {
    throw temper::Error(TEMPER_BAD_FILE, "'" + path_ + "', row " + std::to_string(row_) + ", does not hold " +
                                             std::to_string(numbers_) + " numbers");
  }
  std::ifstream file_;
  std::string path_;
  size_t numbers_, row_ = 0;
};

void run(const std::string& plan, const std::string& table, const std::string& answers, int64_t batch) {
  const temper::Engine engine = temper::Engine::load(plan);
  temper::Session session(engine);
  std::vector<int64_t> dims = engine.inputs().at(0).dims;
  dims[0] = batch;
  temper::Tensor input(TEMPER_F32, dims);
  const size_t numbers = input.count() / size_t(batch);
  Rows rows(table, numbers);
  const std::string unfinished = answers + ".new";  // nobody sees half a table
  std::ofstream out(unfinished);
  out << "row,class,probability\n";
  size_t row = 0;
  for (bool more = true; more;) {
    size_t filled = 0;
    while (filled < size_t(batch) && (more = rows.next(input.data<float>() + filled * numbers))) ++filled;
    if (filled == 0) break;
    std::fill(input.data<float>() + filled * numbers, input.data<float>() + input.count(), 0.0f);
    const temper::Tensor scores = session.run({input}).at(0);
    const size_t classes = scores.count() / size_t(batch);
    for (size_t i = 0; i < filled; ++i, ++row) {
      const float* score = scores.data<float>() + i * classes;
      const float* best = std::max_element(score, score + classes);
      double sum = 0;
      for (size_t c = 0; c < classes; ++c) sum += std::exp(double(score[c]) - *best);
      out << row << ',' << best - score << ',' << 1 / sum << '\n';
    }
  }
  if (!out.flush() || std::rename(unfinished.c_str(), answers.c_str()) != 0)
    throw temper::Error(TEMPER_MACHINE, "cannot write '" + answers + "'");
  std::printf("%zu rows: %s\n", row, answers.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const long batch = argc == 5 ? std::strtol(argv[4], nullptr, 10) : 1;
  if ((argc != 4 && argc != 5) || batch < 1) {
    std::fprintf(stderr, "usage: rows PLAN TABLE.csv ANSWERS.csv [BATCH]\n");
    return TEMPER_USAGE;
  }
  try {
    run(argv[1], argv[2], argv[3], batch);
    return 0;
  } catch (const temper::Error& error) {
    std::fprintf(stderr, "rows: %s\n", error.what());
    return error.status();
  }
}
