// SPDX-License-Identifier: Apache-2.0
#include "data/npz.h"

#include <filesystem>

#include "helpers.h"

namespace temper {
namespace {

TEST(Npz, StoredAndDeflatedArchivesGiveTheSameArrays) {
  const std::string folder = test_folder();
  run_python(folder, R"(
arrays = dict(x=np.arange(12, dtype='f4').reshape(3, 4), labels=np.array([1, 0, 2]), scalar=np.float64(3))
np.savez('stored.npz', **arrays)
np.savez_compressed('deflated.npz', **arrays)
np.savez('nothing.npz')
)");
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const auto arrays = read_npz(folder + name);
    ASSERT_EQ(arrays.size(), 3u) << name;
    EXPECT_EQ(arrays.at("x").dims(), (Dims{3, 4}));
    EXPECT_EQ(arrays.at("x").data<float>()[11], 11);
    EXPECT_EQ(arrays.at("labels").to_ints(), (std::vector<int64_t>{1, 0, 2}));
    EXPECT_EQ(arrays.at("scalar").rank(), 0);
  }
  EXPECT_TRUE(read_npz(folder + "nothing.npz").empty());
}

TEST(Npz, AnArchiveThatUnpacksBeyondTheLimitIsRefusedBeforeUnpacking) {
  const std::string folder = test_folder();
  run_python(folder, "np.savez_compressed('bomb.npz', x=np.zeros(1 << 22, 'u1'))\n");
  EXPECT_LT(std::filesystem::file_size(folder + "bomb.npz"), 10000u);
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { read_npz(folder + "bomb.npz", 1 << 20); }),
                  "the limit is 1048576. --memory-limit");
  EXPECT_EQ(read_npz(folder + "bomb.npz").at("x").count(), 1 << 22);
}

TEST(Npz, WhatIsNotAnArchiveOfArraysIsRefusedByName) {
  const std::string folder = test_folder();
  run_python(folder, R"(
import zipfile
with zipfile.ZipFile('text.npz', 'w') as z: z.writestr('readme.txt', 'hello')
with zipfile.ZipFile('bad.npz', 'w') as z: z.writestr('x.npy', 'hello')
with zipfile.ZipFile('bzip.npz', 'w', zipfile.ZIP_BZIP2) as z: z.writestr('x.npy', 'hello')
import warnings; warnings.simplefilter('ignore')
with zipfile.ZipFile('twice.npz', 'w') as z:
    np.save('a.npy', np.zeros(1))
    for _ in range(2): z.write('a.npy', 'x.npy')
)");
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { read_npz(folder + "text.npz"); }), "readme.txt");
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { read_npz(folder + "bad.npz"); }), "x.npy");
  EXPECT_CONTAINS(error_of(ErrorKind::unsupported, [&] { read_npz(folder + "bzip.npz"); }), "deflate");
  error_of(ErrorKind::bad_file, [&] { read_npz(folder + "twice.npz"); });
  error_of(ErrorKind::bad_file, [&] { read_npz(folder + "a.npy"); });
}

TEST(Npz, DamageIsFoundByTheChecksumsOfTheArchive) {
  const std::string folder = test_folder(), path = folder + "x.npz";
  run_python(folder, "np.savez_compressed('x.npz', x=np.random.RandomState(0).rand(20).astype('f4'))\n");
  const std::string good = read_file(path);
  const auto expected = read_npz(path);
  damage(path, good, 1, [&](const std::string& file) {
    for (const auto& [name, tensor] :
         read_npz(file))  // what is accepted is right: only names and dates are not covered
      EXPECT_TRUE(name != "x" || tensor.same_bits(expected.at("x")));
  });
}

// As archives beyond 4 GB or 65535 entries have it, and with a comment behind.
TEST(Npz, AZip64DirectoryIsRead) {
  const std::string folder = test_folder();
  run_python(folder, R"(
import struct
np.savez('x.npz', x=np.arange(6, dtype='i4'), y=np.arange(3, dtype='f8'))
b = open('x.npz', 'rb').read()
e = b.rfind(b'PK\5\6')
n, size, offset = struct.unpack('<HII', b[e + 10:e + 20])
def wide(name, n):
    wide = struct.pack('<IQHHIIQQQQ', 0x06064b50, 44, 45, 45, 0, 0, n, n, size, offset) + struct.pack('<IIQI', 0x07064b50, 0, e, 1)
    end = struct.pack('<IHHHHIIH', 0x06054b50, 0, 0, 0xffff, 0xffff, 0xffffffff, 0xffffffff, 2) + b'ok'
    open(name, 'wb').write(b[:e] + wide + end)
wide('wide.npz', n)
wide('more.npz', n + 1)
wide('fewer.npz', n - 1)
wide('many.npz', 1 << 40)
)");
  const auto arrays = read_npz(folder + "wide.npz");
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays.at("x").to_ints(), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(arrays.at("y").data<double>()[2], 2);
  for (const char* name : {"more.npz", "fewer.npz", "many.npz"})
    error_of(ErrorKind::bad_file, [&] { read_npz(folder + name); });
}

TEST(Npz, EncryptedArchivesAreRefusedAsSuch) {
  const std::string folder = test_folder();
  run_python(folder, R"(
np.savez('x.npz', x=np.zeros(2))
b = bytearray(open('x.npz', 'rb').read())
b[b.rfind(b'PK\1\2') + 8] |= 1
open('x.npz', 'wb').write(b)
)");
  EXPECT_CONTAINS(error_of(ErrorKind::unsupported, [&] { read_npz(folder + "x.npz"); }), "encrypted");
}

}  // namespace
}  // namespace temper
