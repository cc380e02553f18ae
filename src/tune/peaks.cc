// SPDX-License-Identifier: Apache-2.0
// Arithmetic: independent multiply-adds on registers alone, as many as hide their latency.
// Memory: a sum over more than any cache holds.
#include "tune/peaks.h"

#include <algorithm>
#include <ctime>
#include <vector>

#include "backends/cpu/bf16_blocks.h"
#include "backends/cpu/tiles.h"
#include "base/aligned.h"
#include "base/threads.h"
#include "measure/timer.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace temper {

namespace {

constexpr int kChains = 12;  // latency 4, two a cycle: eight are enough, and registers last for twelve
constexpr int64_t kRounds = 1 << 18;

// Each returns something that depends on all it computed, so that nothing is left out; operations_per_s() counts how
// much that was.
float multiply_add_base(int64_t rounds) {
  float sums[kChains * 4] = {};
  for (int64_t r = 0; r < rounds; ++r)
    for (float& sum : sums) sum = sum * 0.5f + 1.0f;
  float all = 0;
  for (float sum : sums) all += sum;
  return all;
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) float multiply_add_avx2(int64_t rounds) {
  __m256 sums[kChains];
  const __m256 half = _mm256_set1_ps(0.5f), one = _mm256_set1_ps(1);
  for (auto& sum : sums) sum = one;
  for (int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sums[c] = _mm256_fmadd_ps(sums[c], half, one);
  for (int c = 1; c < kChains; ++c) sums[0] = _mm256_add_ps(sums[0], sums[c]);
  return _mm256_cvtss_f32(sums[0]);
}

__attribute__((target("avx512f"))) float multiply_add_avx512(int64_t rounds) {
  __m512 sums[kChains];
  const __m512 half = _mm512_set1_ps(0.5f), one = _mm512_set1_ps(1);
  for (auto& sum : sums) sum = one;
  for (int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sums[c] = _mm512_fmadd_ps(sums[c], half, one);
  for (int c = 1; c < kChains; ++c) sums[0] = _mm512_add_ps(sums[0], sums[c]);
  return _mm512_cvtss_f32(sums[0]);
}

__attribute__((target("avx512f,avx512bf16"))) float multiply_add_bf16(int64_t rounds) {
  __m512 sums[kChains];
  const __m512bh numbers = (__m512bh)_mm512_set1_epi32(0x3f803f80);  // 1, 1
  for (auto& sum : sums) sum = _mm512_setzero_ps();
  for (int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sums[c] = _mm512_dpbf16_ps(sums[c], numbers, numbers);
  for (int c = 1; c < kChains; ++c) sums[0] = _mm512_add_ps(sums[0], sums[c]);
  return _mm512_cvtss_f32(sums[0]);
}

__attribute__((target("avx512f,avx512vnni"))) float multiply_add_i8(int64_t rounds) {
  __m512i sums[kChains];
  const __m512i numbers = _mm512_set1_epi32(0x01010101);
  for (auto& sum : sums) sum = _mm512_setzero_si512();
  for (int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sums[c] = _mm512_dpbusd_epi32(sums[c], numbers, numbers);
  for (int c = 1; c < kChains; ++c) sums[0] = _mm512_add_epi32(sums[0], sums[c]);
  alignas(64) int32_t lanes[16];
  _mm512_store_si512(lanes, sums[0]);
  return float(lanes[0]);
}

__attribute__((target("avx2,avxvnni"))) float multiply_add_i8_avx(int64_t rounds) {
  __m256i sums[kChains];
  const __m256i numbers = _mm256_set1_epi32(0x01010101);
  for (auto& sum : sums) sum = _mm256_setzero_si256();
  for (int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sums[c] = _mm256_dpbusd_avx_epi32(sums[c], numbers, numbers);
  for (int c = 1; c < kChains; ++c) sums[0] = _mm256_add_epi32(sums[0], sums[c]);
  return float(_mm256_extract_epi32(sums[0], 0));
}

constexpr int kTileChains = 4, kTileSteps = kChains / kTileChains;

// Four sums of 16x16 numbers; a step adds products of 16 rows and 16 columns, 64 bytes deep.
#define TEMPER_TILE_LOOP(NAME, TARGET, STEP)                               \
  __attribute__((target("amx-tile," TARGET))) float NAME(int64_t rounds) { \
    const TileShapes shapes;                                               \
    _tile_loadconfig(&shapes);                                             \
    alignas(64) float numbers[16][16] = {};                                \
    _tile_zero(0);                                                         \
    _tile_zero(1);                                                         \
    _tile_zero(2);                                                         \
    _tile_zero(3);                                                         \
    _tile_loadd(4, numbers, 64);                                           \
    _tile_loadd(5, numbers, 64);                                           \
    for (int64_t r = 0; r < rounds; ++r)                                   \
      for (int s = 0; s < kTileSteps; ++s) {                               \
        STEP(0, 4, 5);                                                     \
        STEP(1, 4, 5);                                                     \
        STEP(2, 4, 5);                                                     \
        STEP(3, 4, 5);                                                     \
      }                                                                    \
    _tile_stored(0, numbers, 64);                                          \
    _tile_release();                                                       \
    return numbers[0][0];                                                  \
  }
TEMPER_TILE_LOOP(multiply_add_bf16_tiles, "amx-bf16", _tile_dpbf16ps)
TEMPER_TILE_LOOP(multiply_add_i8_tiles, "amx-int8", _tile_dpbusd)
#undef TEMPER_TILE_LOOP
#elif defined(__aarch64__)
__attribute__((target("arch=armv8.2-a+dotprod"))) float multiply_add_i8(int64_t rounds) {
  int32x4_t sums[kChains];
  const int8x16_t numbers = vdupq_n_s8(1);
  for (auto& sum : sums) sum = vdupq_n_s32(0);
  for (int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sums[c] = vdotq_s32(sums[c], numbers, numbers);
  for (int c = 1; c < kChains; ++c) sums[0] = vaddq_s32(sums[0], sums[c]);
  return float(vaddvq_s32(sums[0]));
}
#endif

double operations_per_s(const PeakLoop& loop, int threads) {
  std::vector<float> results(size_t(threads), 0);
  const auto body = [&] { run_members(threads, [&](int member) { results[size_t(member)] += loop.run(kRounds); }); };
  const double ms = quick_time_ms(body, {.max_ms = 200, .max_runs = 60});
  // What was computed is looked at: without that, it would not be.
  volatile float sink = 0;
  for (float result : results) sink = sink + result;
  return 2.0 * loop.products * kChains * double(kRounds) * threads / (ms / 1e3);
}

double read_bytes_per_s(int threads) {
  constexpr int64_t kWords = int64_t(256) << 17;  // 256 MiB
  using Words = std::vector<uint64_t, CacheLineAllocator<uint64_t>>;
  Words words(size_t(kWords), 1);
  std::vector<uint64_t> results(size_t(threads), 0);
  const double ms = quick_time_ms(
      [&] {
        parallel_for_threads(threads, kWords, 512, [&](int thread, int64_t begin, int64_t end) {
          // Four sums, so that adding is not what takes the time.
          uint64_t sums[4] = {};
          for (int64_t i = begin; i + 3 < end; i += 4)
            for (int k = 0; k < 4; ++k) sums[k] += words[size_t(i + k)];
          results[size_t(thread)] += sums[0] + sums[1] + sums[2] + sums[3];
        });
      },
      {.max_ms = 400, .max_runs = 20});
  volatile uint64_t sink = 0;
  for (uint64_t result : results) sink = sink + result;
  return double(kWords) * 8 / (ms / 1e3);
}

}  // namespace

std::vector<PeakLoop> peak_loops(const Device& device) {
  std::vector<PeakLoop> loops;
#if defined(__x86_64__)
  if (device.avx512) loops.push_back({&Peaks::f32_per_s, "avx512", 16, multiply_add_avx512});
  else if (device.avx2) loops.push_back({&Peaks::f32_per_s, "avx2", 8, multiply_add_avx2});
  if (may_use_tiles(device)) {
    loops.push_back({&Peaks::bf16_per_s, "amx", 16 * 16 * 32, multiply_add_bf16_tiles});
    loops.push_back({&Peaks::i8_per_s, "amx", 16 * 16 * 64, multiply_add_i8_tiles});
  } else {
    if (device.avx512_bf16) loops.push_back({&Peaks::bf16_per_s, "avx512_bf16", 32, multiply_add_bf16});
    if (device.avx512_vnni) loops.push_back({&Peaks::i8_per_s, "avx512_vnni", 64, multiply_add_i8});
    else if (device.dot_product) loops.push_back({&Peaks::i8_per_s, "avx_vnni", 32, multiply_add_i8_avx});
  }
#elif defined(__aarch64__)
  if (device.dot_product) loops.push_back({&Peaks::i8_per_s, "dotprod", 16, multiply_add_i8});
#endif
  if (loops.empty() || loops[0].rate != &Peaks::f32_per_s)
    loops.push_back({&Peaks::f32_per_s, "base", 4, multiply_add_base});
  return loops;
}

Peaks measure_peaks(const Device& device, int threads) {
  Peaks peaks;
  if (device.gpu) return measure_gpu_peaks(device);
  if (device.backend != "cpu") return peaks;
  peaks.bytes_per_s = read_bytes_per_s(threads);
  for (const PeakLoop& loop : peak_loops(device)) peaks.*loop.rate = operations_per_s(loop, threads);
  return peaks;
}

namespace {

struct PeakEntry {
  const char* name;
  double Peaks::* rate;
};
constexpr PeakEntry kPeaks[] = {{"memory", &Peaks::bytes_per_s},
                                {"f32", &Peaks::f32_per_s},
                                {"bf16", &Peaks::bf16_per_s},
                                {"i8", &Peaks::i8_per_s},
                                {"f16", &Peaks::f16_per_s}};
// The cache keeps times: of a thousand million operations, or bytes.
constexpr double kUnit = 1e9;

std::string key_of(const Device& device, int threads, const char* what) {
  return concat(device.fingerprint, " | peak ", what, " threads=", threads);
}

}  // namespace

Peaks peaks_again(const Peaks& before, const Device& device, int threads, TimingCache& cache, const PeakMeter& meter) {
  const LoadWatch watch(*meter.load);
  Peaks peaks = meter.measure(device, threads);
  TimedEntry entry{0, device.gpu ? std::optional(0.0) : watch.load_after_waiting(), int64_t(std::time(nullptr))};
  for (const PeakEntry& peak : kPeaks) {
    double& rate = peaks.*peak.rate;
    rate = std::max(rate, before.*peak.rate);
    if (rate <= 0) continue;
    entry.ms = kUnit / rate * 1e3;
    cache.peaks.add(key_of(device, threads, peak.name), entry);
  }
  return peaks;
}

Peaks known_peaks(const Device& device, int threads, TimingCache& cache, const PeakMeter& meter) {
  Peaks known;
  bool suspect = false;
  for (const PeakEntry& peak : kPeaks)
    if (const TimedEntry* entry = cache.peaks.find(key_of(device, threads, peak.name)); entry && entry->ms > 0) {
      known.*peak.rate = kUnit / (entry->ms / 1e3);
      suspect |= entry->suspect() && !device.gpu;  // a GPU's times are its own
    }
  if (known.bytes_per_s <= 0 || known.f32_per_s <= 0) return peaks_again({}, device, threads, cache, meter);
  if (suspect)
    if (const auto load = LoadWatch(*meter.load).load_after_waiting(); load && *load < kLoadThatCounts)
      return peaks_again(known, device, threads, cache, meter);
  return known;
}

}  // namespace temper
