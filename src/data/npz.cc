// SPDX-License-Identifier: Apache-2.0
#include "data/npz.h"

#include <zip.h>

#include <memory>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/file.h"
#include "data/npy.h"

namespace temper {
namespace {

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using Archive = std::unique_ptr<zip_t, Discard>;
using Entry = std::unique_ptr<zip_file_t, Discard>;

struct ErrorText {
  zip_error_t error;
  ErrorText() { zip_error_init(&error); }
  ~ErrorText() { zip_error_fini(&error); }
  std::string_view text() { return zip_error_strerror(&error); }
};

Archive open_archive(std::span<const std::byte> bytes) {
  ErrorText error;
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error.error);
  if (!source) fail(ErrorKind::machine, "libzip: ", error.text());
  zip_t* archive = zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error.error);
  if (!archive) {
    zip_source_free(source);
    fail(ErrorKind::bad_file, "not an .npz archive, or a damaged one: ", error.text());
  }
  return Archive(archive);
}

// Reads one entry to its end, where libzip compares the checksum.
std::shared_ptr<std::vector<std::byte>> unpack(zip_t* archive, const zip_stat_t& stat) {
  Entry entry(zip_fopen_index(archive, stat.index, 0));
  if (!entry) fail(ErrorKind::bad_file, "cannot be unpacked: ", std::string_view(zip_strerror(archive)));
  auto bytes = std::make_shared<std::vector<std::byte>>();
  constexpr size_t kStep = size_t(1) << 20;
  // Grown as the data really comes: what the directory claims is an upper bound, never a reason to allocate.
  for (size_t done = 0;;) {
    bytes->resize(done + kStep);
    const zip_int64_t got = zip_fread(entry.get(), bytes->data() + done, kStep);
    if (got < 0)
      fail(ErrorKind::bad_file, "is damaged: ", std::string_view(zip_error_strerror(zip_file_get_error(entry.get()))));
    done += size_t(got);
    if (done > stat.size || got == 0) {
      if (done != stat.size)
        fail(ErrorKind::bad_file, "is damaged: it unpacks to another size than the archive says (", uint64_t(stat.size),
             " bytes)");
      bytes->resize(done);
      return bytes;
    }
  }
}

}  // namespace

std::map<std::string, Tensor> read_npz(const std::string& path, int64_t limit) {
  MappedFile file(path);
  return with_context(
      [&] { return concat("'", path, "'"); },
      [&] {
        const Archive archive = open_archive(file.bytes());
        const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
        if (count > kMaxNpzArrays) fail(ErrorKind::bad_file, int64_t(count), " arrays; the limit is ", kMaxNpzArrays);
        std::vector<zip_stat_t> stats;
        int64_t total = 0;
        for (zip_int64_t i = 0; i < count; ++i) {
          zip_stat_t stat;
          zip_stat_init(&stat);
          constexpr zip_uint64_t kNeeded =
              ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
          if (zip_stat_index(archive.get(), zip_uint64_t(i), 0, &stat) != 0 || (stat.valid & kNeeded) != kNeeded ||
              stat.size > uint64_t(INT64_MAX))
            fail(ErrorKind::bad_file, "entry ", int64_t(i), " of the archive is damaged");
          total = checked_add(total, int64_t(stat.size));
          stats.push_back(stat);
        }
        if (total > limit)
          fail(ErrorKind::bad_file, "unpacks to ", total, " bytes; the limit for .npz is ", limit,
               ". Save large arrays as .npy, which is read in place");
        std::map<std::string, Tensor> arrays;
        for (const zip_stat_t& stat : stats) {
          std::string_view name = stat.name;
          with_context(
              [&] { return concat("array '", name.substr(0, 200), "'"); },
              [&] {
                if (!name.ends_with(".npy"))
                  fail(ErrorKind::bad_file, "is not an .npy file; an .npz archive holds nothing else");
                if (stat.encryption_method != ZIP_EM_NONE) fail(ErrorKind::unsupported, "is encrypted");
                if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE)
                  fail(ErrorKind::unsupported,
                       "is compressed by a method other than deflate; write it with numpy.savez or savez_compressed");
                const auto bytes = unpack(archive.get(), stat);
                if (!arrays.emplace(std::string(name.substr(0, name.size() - 4)), parse_npy(*bytes, bytes)).second)
                  fail(ErrorKind::bad_file, "is there twice");
              });
        }
        return arrays;
      });
}

}  // namespace temper
