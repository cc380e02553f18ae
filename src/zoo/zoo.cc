// SPDX-License-Identifier: Apache-2.0
#include "zoo/zoo.h"

#include "base/error.h"
#include "zoo/builder.h"
#include "zoo/networks.h"

namespace temper {

std::string_view digits_cnn_bytes();  // generated from models/digits_cnn.onnx at build time

namespace zoo {
namespace {

// He et al. 2016, as torchvision lays it out; the stride of a bottleneck sits in its 3x3 convolution ("v1.5").
Flow basic_block(Builder& b, const std::string& name, const Flow& in, int64_t width, int64_t stride) {
  Flow x = b.conv(name + ".conv1", in, {.out = width, .kernel = 3, .stride = stride});
  x = b.relu(name + ".relu1", b.batch_norm(name + ".bn1", x));
  x = b.batch_norm(name + ".bn2", b.conv(name + ".conv2", x, {.out = width, .kernel = 3}), 0.3);
  Flow shortcut = in;
  if (stride != 1 || in.channels != width)
    shortcut =
        b.batch_norm(name + ".downsample.1", b.conv(name + ".downsample.0", in, {.out = width, .stride = stride}), 0.7);
  return b.relu(name + ".relu2", b.add(name + ".add", x, shortcut));
}

Flow bottleneck(Builder& b, const std::string& name, const Flow& in, int64_t width, int64_t stride) {
  Flow x = b.relu(name + ".relu1", b.batch_norm(name + ".bn1", b.conv(name + ".conv1", in, {.out = width})));
  x = b.conv(name + ".conv2", x, {.out = width, .kernel = 3, .stride = stride});
  x = b.relu(name + ".relu2", b.batch_norm(name + ".bn2", x));
  x = b.batch_norm(name + ".bn3", b.conv(name + ".conv3", x, {.out = 4 * width}), 0.3);
  Flow shortcut = in;
  if (stride != 1 || in.channels != 4 * width)
    shortcut = b.batch_norm(name + ".downsample.1",
                            b.conv(name + ".downsample.0", in, {.out = 4 * width, .stride = stride}), 0.7);
  return b.relu(name + ".relu3", b.add(name + ".add", x, shortcut));
}

using Block = Flow (*)(Builder&, const std::string&, const Flow&, int64_t, int64_t);

std::string resnet(Builder& b, Block block, std::initializer_list<int> blocks_per_layer) {
  Flow x = b.conv("conv1", b.image(3, 224, 224), {.out = 64, .kernel = 7, .stride = 2});
  x = b.max_pool("maxpool", b.relu("relu", b.batch_norm("bn1", x)), 3, 2, 1);
  int layer = 0;
  for (const int blocks : blocks_per_layer) {
    ++layer;
    for (int i = 0; i < blocks; ++i)
      x = block(b, concat("layer", layer, '.', i), x, int64_t(32) << layer, i == 0 && layer > 1 ? 2 : 1);
  }
  x = b.global_average_pool("avgpool", x);
  return b.finish(b.linear("fc", b.flatten("flatten", x, x.channels), 1000));
}

std::string resnet18(Builder& b) { return resnet(b, basic_block, {2, 2, 2, 2}); }
std::string resnet50(Builder& b) { return resnet(b, bottleneck, {3, 4, 6, 3}); }

// Sandler et al. 2018, table 2, as torchvision lays it out.
std::string mobilenet_v2(Builder& b) {
  auto conv_bn_relu6 = [&](const std::string& name, const Flow& in, const ConvOptions& options) {
    return b.relu6(name + ".2", b.batch_norm(name + ".1", b.conv(name + ".0", in, options)));
  };
  Flow x = conv_bn_relu6("features.0", b.image(3, 224, 224), {.out = 32, .kernel = 3, .stride = 2});
  struct Row {
    int64_t expansion, channels, repeats, stride;
  };
  int index = 0;
  for (const Row& row : {Row{1, 16, 1, 1}, Row{6, 24, 2, 2}, Row{6, 32, 3, 2}, Row{6, 64, 4, 2}, Row{6, 96, 3, 1},
                         Row{6, 160, 3, 2}, Row{6, 320, 1, 1}}) {
    for (int64_t i = 0; i < row.repeats; ++i) {
      const std::string name = concat("features.", ++index, ".conv.");
      const int64_t stride = i == 0 ? row.stride : 1, wide = x.channels * row.expansion;
      const bool residual = stride == 1 && x.channels == row.channels;
      int part = 0;
      Flow y = x;
      if (row.expansion != 1) y = conv_bn_relu6(concat(name, part++), y, {.out = wide});
      y = conv_bn_relu6(concat(name, part++), y, {.out = wide, .kernel = 3, .stride = stride, .groups = wide});
      y = b.conv(concat(name, part++), y, {.out = row.channels});
      // No activation follows: a linear bottleneck needs half the He variance, hence 0.7.
      y = b.batch_norm(concat(name, part), y, residual ? 0.4 : 0.7);
      x = residual ? b.add(concat("features.", index, ".add"), x, y) : y;
    }
  }
  x = b.global_average_pool("pool", conv_bn_relu6("features.18", x, {.out = 1280}));
  return b.finish(b.linear("classifier.1", b.flatten("flatten", x, x.channels), 1000));
}

std::string cifar_cnn(Builder& b) {
  Flow x = b.image(3, 32, 32);
  int index = 0;
  for (const int64_t width : {32, 64, 128}) {
    for (int i = 0; i < 2; ++i) {
      const std::string number = concat(++index);
      x = b.conv("conv" + number, x, {.out = width, .kernel = 3});
      x = b.relu("relu" + number, b.batch_norm("bn" + number, x));
    }
    x = b.max_pool(concat("pool", index / 2), x, 2, 2, 0);
  }
  x = b.relu("relu7", b.linear("fc1", b.flatten("flatten", x, x.channels * 4 * 4), 128));
  return b.finish(b.linear("fc2", x, 10));
}

struct Generator {
  ZooEntry entry;
  std::string (*write)(Builder&);  // null: the trained model
};

constexpr Generator generators[] = {
    {{"resnet18", "ResNet-18, 3x224x224, 1000 classes, seeded weights"}, resnet18},
    {{"resnet50", "ResNet-50 v1.5, 3x224x224, 1000 classes, seeded weights"}, resnet50},
    {{"mobilenet_v2", "MobileNet v2, 3x224x224, 1000 classes, seeded weights"}, mobilenet_v2},
    {{"cifar_cnn", "a VGG-like network, 3x32x32, 10 classes, seeded weights"}, cifar_cnn},
    {{"gpt2", "GPT-2 small with past keys and values, 50,257 tokens, seeded weights"},
     [](Builder& b) { return gpt2(b); }},
    {{"bert", "BERT-base, 30,522 tokens, seeded weights"}, [](Builder& b) { return bert(b); }},
    {{"sd15-unet", "the noise predictor of Stable Diffusion 1.5, seeded weights in f16, computed in f32 (1.7 GB)"},
     [](Builder& b) {
       b.store_in_half();
       return sd15_unet(b);
     }},
    {{"digits_cnn", "handwritten digits, 1x8x8, 10 classes, trained"}, nullptr},
};

}  // namespace
}  // namespace zoo

std::span<const ZooEntry> zoo_entries() {
  static const auto entries = [] {
    std::vector<ZooEntry> out;
    for (const auto& generator : zoo::generators) out.push_back(generator.entry);
    return out;
  }();
  return entries;
}

std::string zoo_model(std::string_view name, const ZooOptions& options) {
  constexpr int kMinOpset = 13, kMaxOpset = 22;  // between these, the ops that the generators use keep their meaning
  std::string known;
  for (const auto& [entry, write] : zoo::generators) {
    known += concat(known.empty() ? "" : ", ", entry.name);
    if (entry.name != name) continue;
    if (!write) {
      if (options.seed || options.opset)
        fail(ErrorKind::usage, name, " is trained: it has no seed and its opset is fixed (17)");
      return std::string(digits_cnn_bytes());
    }
    const int opset = options.opset.value_or(17);
    if (opset < kMinOpset || opset > kMaxOpset)
      fail(ErrorKind::usage, "opset ", opset, " is out of range: ", kMinOpset, " to ", kMaxOpset, " can be written");
    zoo::Builder builder(name, options.seed.value_or(1), opset);
    return write(builder);
  }
  fail(ErrorKind::usage, "there is no model '", name, "' in the zoo; there are: ", known);
}

}  // namespace temper
