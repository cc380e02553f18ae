// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/bundle.h"

#include <elf.h>

#include <functional>

#include "backends/cuda/support/elf.h"
#include "bench/cases.h"
#include "cuda_test_helpers.h"
#include "gpu_properties.h"

namespace temper {
namespace {

cuda::Recipe::Work work_of(const char* text) {
  const KernelCase line = parse_cases(text).at(0);
  const std::vector<Tensor> inputs = make_case_inputs(line, 1);
  const Problem problem = make_case_problem(line, inputs, 1);
  for (const cuda::Recipe* recipe : cuda::recipes())
    if (recipe->supports(problem).yes())
      return recipe->work(problem, recipe->configs(problem, testing::kH100).at(0), testing::kH100);
  fail(ErrorKind::usage, "no recipe for ", text);
}

TEST(CudaBundle, HoldsWhatItWasMadeOfAndEqualTextsOnce) {
  TEMPER_NEEDS_NVRTC(compiler);
  const auto concatenation = work_of("concat(f32[2,4], f32[2,4], f32[2,4]) axis=0");
  ASSERT_EQ(concatenation.jobs.size(), 3u);
  const AlignedBytes bytes = cuda::make_bundle(concatenation.jobs, *compiler, "sm_80");
  const cuda::Bundle bundle(bytes, concatenation.jobs, "sm_80");
  EXPECT_EQ(bundle.cubin(0).data(), bundle.cubin(2).data());
}

TEST(CudaBundle, RefusesDamagedBytesOtherTextsAndOtherGpus) {
  TEMPER_NEEDS_NVRTC(compiler);
  const auto work = work_of("softmax(f32[3,1000]) axis=1"), other = work_of("softmax(f32[3,1000]) axis=1 log=true");
  const AlignedBytes bytes = cuda::make_bundle(work.jobs, *compiler, "sm_80");
  const auto kind_of = [](std::span<const std::byte> damaged, const cuda::Recipe::Work& for_work,
                          const char* architecture) {
    try {
      const cuda::Bundle bundle(damaged, for_work.jobs, architecture);
    } catch (const Error& error) { return std::optional(error.kind()); }
    return std::optional<ErrorKind>();
  };
  EXPECT_EQ(kind_of(bytes, work, "sm_80"), std::nullopt);
  EXPECT_EQ(kind_of(bytes, other, "sm_80"), ErrorKind::bad_file);
  EXPECT_EQ(kind_of(bytes, work, "sm_90a"), ErrorKind::unsupported);
  for (size_t length : {size_t(0), size_t(20), size_t(60), size_t(100), size_t(256), bytes.size() / 2})
    EXPECT_EQ(kind_of(std::span(bytes).first(length), work, "sm_80"), ErrorKind::bad_file) << length;
  // No bit of the head and the entries may lead outside.
  for (size_t bit = 0; bit < 72 * 8; ++bit) {
    AlignedBytes damaged = bytes;
    damaged[bit / 8] ^= std::byte(1u << (bit % 8));
    try {
      const cuda::Bundle bundle(damaged, work.jobs, "sm_80");
      const auto inside = [&](std::span<const std::byte> part) {
        return part.data() >= damaged.data() && part.data() + part.size() <= damaged.data() + damaged.size();
      };
      EXPECT_TRUE(inside(bundle.cubin(0))) << bit;
    } catch (const Error&) {}
  }
}

class ElfPlaces {
 public:
  explicit ElfPlaces(std::span<std::byte> file) : file_(file) { std::memcpy(&header, file.data(), sizeof header); }
  Elf64_Ehdr header;
  void put() { std::memcpy(file_.data(), &header, sizeof header); }
  Elf64_Shdr section(size_t i) const {
    Elf64_Shdr section;
    std::memcpy(&section, file_.data() + header.e_shoff + i * sizeof section, sizeof section);
    return section;
  }
  void put(size_t i, const Elf64_Shdr& section) {
    std::memcpy(file_.data() + header.e_shoff + i * sizeof section, &section, sizeof section);
  }

 private:
  std::span<std::byte> file_;
};

TEST(CudaBundle, CubinsWhoseHeadersPointOutsideAreFound) {
  TEMPER_NEEDS_NVRTC(compiler);
  const auto work = work_of("softmax(f32[3,1000]) axis=1");
  for (const char* architecture : {"sm_80", "sm_90"}) {
    const cuda::Cubin cubin = compiler->compile(work.jobs.at(0).source, architecture);
    const std::span<const std::byte> whole(cubin.bytes);
    EXPECT_EQ(cuda::outside_of_elf(whole), "") << architecture;
    const auto changed = [&](const std::function<void(ElfPlaces&)>& change) {
      std::vector<std::byte> file(whole.begin(), whole.end());
      ElfPlaces places(file);
      change(places);
      return cuda::outside_of_elf(file);
    };
    const auto header = [&](const std::function<void(Elf64_Ehdr&)>& change) {
      return changed([&](ElfPlaces& places) { change(places.header), places.put(); });
    };
    EXPECT_NE(header([](Elf64_Ehdr& h) { h.e_shoff = uint64_t(1) << 40; }), "");
    EXPECT_NE(header([](Elf64_Ehdr& h) { h.e_shoff = ~uint64_t(0) - 63; }), "");
    EXPECT_NE(
        header([](Elf64_Ehdr& h) { h.e_phoff = uint64_t(1) << 40, h.e_phnum = 1, h.e_phentsize = sizeof(Elf64_Phdr); }),
        "");
    EXPECT_NE(header([](Elf64_Ehdr& h) { h.e_shnum = 0xfeff; }), "");
    EXPECT_NE(header([](Elf64_Ehdr& h) { h.e_shentsize = 0xffff; }), "");
    EXPECT_NE(header([](Elf64_Ehdr& h) { h.e_shstrndx = 0xffff; }), "");
    EXPECT_NE(header([](Elf64_Ehdr& h) { h.e_ident[EI_CLASS] = ELFCLASS32; }), "");
    const ElfPlaces places(std::span(const_cast<std::byte*>(whole.data()), whole.size()));
    for (size_t i = 0; i < places.header.e_shnum; ++i) {
      const Elf64_Shdr section = places.section(i);
      if (section.sh_type == SHT_NULL || section.sh_type == SHT_NOBITS) continue;
      const auto with = [&](const std::function<void(Elf64_Shdr&)>& change) {
        return changed([&](ElfPlaces& p) {
          Elf64_Shdr s = section;
          change(s);
          p.put(i, s);
        });
      };
      EXPECT_NE(with([&](Elf64_Shdr& s) { s.sh_offset = whole.size() + 1; }), "") << i;
      EXPECT_NE(with([&](Elf64_Shdr& s) {
                  s.sh_size = whole.size();
                  s.sh_offset = std::max<uint64_t>(1, s.sh_offset);
                }),
                "")
          << i;
      EXPECT_NE(with([](Elf64_Shdr& s) { s.sh_size = ~uint64_t(0); }), "") << i;
      EXPECT_NE(with([](Elf64_Shdr& s) { s.sh_link = 0x7fffffff; }), "") << i;
      EXPECT_NE(with([](Elf64_Shdr& s) { s.sh_name = 0x7fffffff; }), "") << i;
    }
    // Wherever it is cut, something is missing.
    for (size_t length = 0; length < whole.size(); length += 1 + whole.size() / 500) {
      std::vector<std::byte> cut(whole.begin(), whole.begin() + int64_t(length));  // of its own size, for a sanitizer
      EXPECT_NE(cuda::outside_of_elf(cut), "") << length;
    }
    // No bit of its tables may lead outside: a sanitizer sees that.
    std::vector<std::byte> file(whole.begin(), whole.end());
    const size_t tables = size_t(places.header.e_shnum) * sizeof(Elf64_Shdr);
    for (size_t bit = 0; bit < (sizeof(Elf64_Ehdr) + tables) * 8; ++bit) {
      const size_t at = bit / 8 < sizeof(Elf64_Ehdr) ? bit / 8 : places.header.e_shoff + bit / 8 - sizeof(Elf64_Ehdr);
      file[at] ^= std::byte(1u << bit % 8);
      cuda::outside_of_elf(file);
      file[at] ^= std::byte(1u << bit % 8);
    }
  }
}

}  // namespace
}  // namespace temper
