// SPDX-License-Identifier: Apache-2.0
// Says from when to when somebody speaks in a WAV file: a voice detector hears one chunk after the other, and its state
// stays in the session.
//
//   detect detector.plan recording.wav [CONTEXT]
//
// The plan is one of a model with silero's inputs (input, state, sr) and outputs (output, stateN), for one chunk of 32
// ms with CONTEXT samples of the chunk before in front of it: 0 for examples/streaming/model.py, for silero's from
// version 5 on 64 at 16 kHz. The file has 16-bit samples in one channel, at 8 or 16 kHz.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "temper/temper.h"

namespace {

struct Recording {
  std::vector<float> samples;
  int64_t rate = 0;
};

// Little-endian, of the chunks that every WAV file has.
Recording read_wav(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const auto number = [&](size_t at, size_t size) {
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i) value |= uint32_t(uint8_t(bytes.at(at + i))) << (8 * i);
    return value;
  };
  if (bytes.compare(0, 4, "RIFF") != 0 || bytes.size() < 44)
    throw temper::Error(TEMPER_BAD_FILE, "'" + path + "' is no WAV file");
  Recording recording;
  for (size_t at = 12; at + 8 <= bytes.size(); at += 8 + number(at + 4, 4) + number(at + 4, 4) % 2) {
    const size_t size = std::min<size_t>(number(at + 4, 4), bytes.size() - at - 8);
    if (bytes.compare(at, 4, "fmt ") == 0 && size >= 16) {
      if (number(at + 10, 2) != 1 || number(at + 22, 2) != 16)
        throw temper::Error(TEMPER_UNSUPPORTED, "'" + path + "' does not hold 16-bit samples in one channel");
      recording.rate = number(at + 12, 4);
    } else if (bytes.compare(at, 4, "data") == 0) {
      for (size_t i = 0; i + 1 < size; i += 2)
        recording.samples.push_back(float(int16_t(number(at + 8 + i, 2))) / 32768.0f);
    }
  }
  if (recording.rate != 8000 && recording.rate != 16000)
    throw temper::Error(TEMPER_UNSUPPORTED, "'" + path + "' is not at 8 or 16 kHz");
  return recording;
}

size_t index_of(const std::vector<temper::Port>& ports, const std::string& name) {
  for (size_t i = 0; i < ports.size(); ++i)
    if (ports[i].name == name) return i;
  throw temper::Error(TEMPER_USAGE, "the model has no '" + name + "'");
}

void detect(const std::string& plan, const std::string& wav, size_t context) {
  const temper::Engine engine = temper::Engine::load(plan);
  const std::vector<temper::Port> inputs = engine.inputs();
  const size_t input = index_of(inputs, "input"), rate = index_of(inputs, "sr"),
               output = index_of(engine.outputs(), "output");
  const Recording recording = read_wav(wav);
  const size_t chunk = size_t(recording.rate) * 32 / 1000;
  constexpr double kSeconds = 0.032;

  temper::Session session(engine);
  session.keep_state({{"state", "stateN"}});
  std::vector<temper::Tensor> given(inputs.size());  // that of the state stays empty: it takes what is kept
  given[input] = temper::Tensor(TEMPER_F32, {1, int64_t(context + chunk)});
  given[rate] = temper::Tensor(TEMPER_I64, {});
  *given[rate].data<int64_t>() = recording.rate;
  float* const window = given[input].data<float>();
  double begun = -1;
  for (size_t at = 0; at < recording.samples.size(); at += chunk) {
    std::copy(window + chunk, window + chunk + context, window);  // the end of the chunk before
    for (size_t i = 0; i < chunk; ++i)
      window[context + i] = at + i < recording.samples.size() ? recording.samples[at + i] : 0.0f;
    const float probability = session.run(given)[output].data<float>()[0];
    const double seconds = double(at / chunk) * kSeconds;
    if (begun < 0 && probability >= 0.5f) begun = seconds;
    if (begun < 0 || probability >= 0.35f) continue;
    std::printf("%.2f s to %.2f s\n", begun, seconds);
    begun = -1;
  }
  const size_t chunks = (recording.samples.size() + chunk - 1) / chunk;
  if (begun >= 0) std::printf("%.2f s to %.2f s\n", begun, double(chunks) * kSeconds);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::fprintf(stderr, "usage: detect PLAN RECORDING.wav [CONTEXT]\n");
    return TEMPER_USAGE;
  }
  try {
    detect(argv[1], argv[2], argc > 3 ? std::stoul(argv[3]) : 0);
    return TEMPER_OK;
  } catch (const temper::Error& error) {
    std::fprintf(stderr, "detect: %s\n", error.what());
    return error.status();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "detect: %s\n", error.what());
    return TEMPER_USAGE;
  }
}
