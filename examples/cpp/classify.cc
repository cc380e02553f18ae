// SPDX-License-Identifier: Apache-2.0
// Builds a classifier for this machine, keeps the plan, and classifies a picture given as numbers.
//
//   classify models/digits_cnn.onnx examples/cpp/seven.txt digits.plan
//
// The second call finds the plan and builds nothing.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "temper/temper.h"

namespace {

temper::Engine load_or_build(const std::string& model, const std::string& plan) {
  if (std::ifstream(plan)) return temper::Engine::load(plan);
  temper::BuildOptions options;
  options.shapes = {{"image", {1, 1, 8, 8}, {1, 1, 8, 8}, {16, 1, 8, 8}}};  // batches of 1 to 16, fastest for 1
  temper::Engine engine = temper::Engine::build(model, options);
  engine.save(plan);
  return engine;
}

// 8x8 numbers from 0 (paper) to 1 (ink).
temper::Tensor read_picture(const std::string& path) {
  temper::Tensor picture(TEMPER_F32, {1, 1, 8, 8});
  std::ifstream file(path);
  for (size_t i = 0; i < picture.count(); ++i)
    if (!(file >> picture.data<float>()[i]))
      throw temper::Error(TEMPER_BAD_FILE, "'" + path + "' does not hold 64 numbers");
  return picture;
}

int classify(const std::string& model, const std::string& picture, const std::string& plan) {
  const temper::Engine engine = load_or_build(model, plan);
  temper::Session session(engine);  // one per thread; the engine is shared
  const temper::Tensor scores = session.run({read_picture(picture)}).at(0);

  const float* score = scores.data<float>();
  const float* best = std::max_element(score, score + scores.count());
  double sum = 0;
  for (size_t i = 0; i < scores.count(); ++i) sum += std::exp(score[i] - *best);
  std::printf("class %d, probability %.3f\n", int(best - score), 1 / sum);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: classify MODEL.onnx PICTURE.txt PLAN\n");
    return TEMPER_USAGE;
  }
  try {
    return classify(argv[1], argv[2], argv[3]);
  } catch (const temper::Error& error) {
    std::fprintf(stderr, "classify: %s\n", error.what());
    return error.status();
  }
}
