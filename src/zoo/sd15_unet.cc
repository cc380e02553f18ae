// SPDX-License-Identifier: Apache-2.0
// The noise predictor of Stable Diffusion 1.5.
#include <cmath>

#include "base/concat.h"
#include "zoo/networks.h"

namespace temper::zoo {
namespace {

using Ints = std::vector<int64_t>;

class Unet {
 public:
  Unet(Builder& b, const UnetSizes& sizes) : b_(b), sizes_(sizes), time_(4 * sizes.channels.at(0)) {}

  std::string write() {
    constexpr auto kFloat = onnx::TensorProto::FLOAT;
    b_.input("sample", kFloat, {"batch", 4, "height", "width"});
    b_.input("timestep", kFloat, {"batch"});
    b_.input("encoder_hidden_states", kFloat, {"batch", "sequence", sizes_.context});
    embed_time();
    Flow x = conv("conv_in", {"sample", 4}, sizes_.channels[0], 3);
    std::vector<Flow> skips{x};
    const size_t levels = sizes_.channels.size();
    for (size_t level = 0; level < levels; ++level) {
      const std::string name = concat("down_blocks.", level), kept = name + ".attentions.";
      for (int64_t i = 0; i < sizes_.layers; ++i) {
        x = residual(concat(name, ".resnets.", i), x, sizes_.channels[level]);
        if (level + 1 < levels) x = attend_to_all(concat(kept, i), x);
        skips.push_back(x);
      }
      if (level + 1 < levels) {
        x = conv(name + ".downsamplers.0.conv", x, x.channels, 3, 2);
        skips.push_back(x);
      }
    }
    x = residual("mid_block.resnets.0", x, x.channels);
    x = residual("mid_block.resnets.1", attend_to_all("mid_block.attentions.0", x), x.channels);
    for (size_t level = 0; level < levels; ++level) {
      const std::string name = concat("up_blocks.", level);
      for (int64_t i = 0; i <= sizes_.layers; ++i) {
        const Flow skip = skips.back();
        skips.pop_back();
        const std::string both = concat(name, ".skip.", i), resnet = concat(name, ".resnets.", i);
        x = {b_.op("Concat", both, {x.name, skip.name}, {{"axis", int64_t(1)}}), x.channels + skip.channels};
        x = residual(resnet, x, sizes_.channels[levels - 1 - level]);
        if (level > 0) x = attend_to_all(concat(name, ".attentions.", i), x);
      }
      if (level + 1 == levels) break;
      const std::string larger =
          b_.op("Resize", name + ".upsamplers.0", {x.name, "", b_.numbers({1, 1, 2, 2})},
                {{"mode", "nearest"}, {"coordinate_transformation_mode", "asymmetric"}, {"nearest_mode", "floor"}});
      x = conv(name + ".upsamplers.0.conv", {larger, x.channels}, x.channels, 3);
    }
    conv("noise", {silu("conv_act", group_norm("conv_norm_out", x, 1e-5f)), x.channels}, 4, 3, 1, "conv_out");
    b_.output("noise", {"batch", 4, "height", "width"});
    return b_.finish();
  }

 private:
  Builder& b_;
  const UnetSizes& sizes_;
  const int64_t time_;      // channels of what the timestep becomes
  std::string embedded_{};  // of it, behind silu [B,time_]

  std::string silu(const std::string& name, const std::string& x) {
    return b_.op("Mul", name, {x, b_.op("Sigmoid", name + ".sigmoid", {x})});
  }

  Flow conv(const std::string& name, const Flow& in, int64_t out, int64_t kernel, int64_t stride = 1,
            std::string parameters = {}) {
    if (parameters.empty()) parameters = name;
    const std::string weight = b_.weights(parameters + ".weight", {out, in.channels, kernel, kernel}, 0,
                                          std::sqrt(1.0 / double(in.channels * kernel * kernel)));
    const int64_t pad = kernel / 2;
    b_.op("Conv", name, {in.name, weight, b_.weights(parameters + ".bias", {out}, 0, 0.02)},
          {{"kernel_shape", Ints{kernel, kernel}},
           {"pads", Ints{pad, pad, pad, pad}},
           {"strides", Ints{stride, stride}}});
    return {name, out};
  }

  // As PyTorch's exporter writes it, for every opset: groups as channels of an instance normalization.
  std::string group_norm(const std::string& name, const Flow& in, float epsilon) {
    const int64_t groups = sizes_.groups;
    const std::string rows = b_.op("Reshape", name + ".groups", {in.name, b_.integers({0, groups, -1})});
    const std::string ones = b_.numbers(std::vector<float>(size_t(groups), 1)),
                      zeros = b_.numbers(std::vector<float>(size_t(groups), 0));
    const std::string normal =
        b_.op("InstanceNormalization", name + ".normal", {rows, ones, zeros}, {{"epsilon", epsilon}});
    const std::string back = b_.op("Reshape", name + ".back", {normal, b_.op("Shape", name + ".shape", {in.name})});
    auto column = [&](const char* what, double mean) {
      const std::string parameter = concat(name, '.', what);
      return b_.op("Reshape", parameter + ".column",
                   {b_.weights(parameter, {in.channels}, mean, 0.1), b_.integers({in.channels, 1, 1})});
    };
    const std::string scaled = b_.op("Mul", name + ".scaled", {back, column("weight", 1)});
    return b_.op("Add", name, {scaled, column("bias", 0)});
  }

  // Cosines and sines of the timestep by frequencies from 1 down to 1 / 10000, and two layers.
  void embed_time() {
    const int64_t width = sizes_.channels[0], half = width / 2;
    const std::string steps = b_.op("Range", "time.range", {b_.number(0), b_.number(float(half)), b_.number(1)});
    const std::string powers =
        b_.op("Mul", "time.powers", {steps, b_.number(float(-std::log(10000.0) / double(half)))});
    const std::string column = b_.op("Unsqueeze", "time.column", {"timestep", b_.integers({1})});
    const std::string angles = b_.op("Mul", "time.angles", {column, b_.op("Exp", "time.frequencies", {powers})});
    const std::string waves =
        b_.op("Concat", "time.waves", {b_.op("Cos", "time.cos", {angles}), b_.op("Sin", "time.sin", {angles})},
              {{"axis", int64_t(1)}});
    const std::string first = silu("time_embedding.act", b_.dense("time_embedding.linear_1", waves, width, time_));
    embedded_ = silu("time.act", b_.dense("time_embedding.linear_2", first, time_, time_));
  }

  Flow residual(const std::string& name, const Flow& in, int64_t out) {
    Flow x = conv(name + ".conv1", {silu(name + ".act1", group_norm(name + ".norm1", in, 1e-5f)), in.channels}, out, 3);
    const std::string time = b_.op("Unsqueeze", name + ".time",
                                   {b_.dense(name + ".time_emb_proj", embedded_, time_, out), b_.integers({2, 3})});
    x = {b_.op("Add", name + ".timed", {x.name, time}), out};
    x = conv(name + ".conv2", {silu(name + ".act2", group_norm(name + ".norm2", x, 1e-5f)), out}, out, 3);
    const Flow past = in.channels == out ? in : conv(name + ".conv_shortcut", in, out, 1);
    return {b_.op("Add", name + ".sum", {past.name, x.name}), out};
  }

  // x [B,Sq,width] to rows of `context` [B,Sk,size].
  std::string attention(const std::string& name, const std::string& x, int64_t width, const std::string& context,
                        int64_t size) {
    const int64_t heads = sizes_.heads, head = width / heads;
    auto part = [&](const char* what, const std::string& rows, int64_t in) {
      const std::string whole = concat(name, ".to_", what);
      const std::string parts = b_.op("Reshape", whole + ".parts",
                                      {b_.dense(whole, rows, in, width, false), b_.integers({0, 0, heads, head})});
      return b_.op("Transpose", whole + ".heads", {parts}, {{"perm", Ints{0, 2, 1, 3}}});
    };
    const std::string q = part("q", x, width), k = part("k", context, size), v = part("v", context, size);
    const std::string turned = b_.op("Transpose", name + ".keys", {k}, {{"perm", Ints{0, 1, 3, 2}}});
    const std::string scores =
        b_.op("Mul", name + ".scores",
              {b_.op("MatMul", name + ".products", {q, turned}), b_.number(float(1 / std::sqrt(double(head))))});
    const std::string shares = b_.op("Softmax", name + ".shares", {scores}, {{"axis", int64_t(-1)}});
    const std::string rows = b_.op("Transpose", name + ".rows", {b_.op("MatMul", name + ".sums", {shares, v})},
                                   {{"perm", Ints{0, 2, 1, 3}}});
    return b_.dense(name + ".to_out.0", b_.op("Reshape", name + ".joined", {rows, b_.integers({0, 0, width})}), width,
                    width);
  }

  // Every pixel to every other one, then to the prompt, then a gated layer, each with a residual.
  Flow attend_to_all(const std::string& name, const Flow& in) {
    const int64_t width = in.channels;
    const std::string block = name + ".transformer_blocks.0";
    const Flow entered = conv(name + ".proj_in", {group_norm(name + ".norm", in, 1e-6f), width}, width, 1);
    const std::string last = b_.op("Transpose", name + ".pixels", {entered.name}, {{"perm", Ints{0, 2, 3, 1}}});
    std::string x = b_.op("Reshape", name + ".tokens", {last, b_.integers({0, -1, width})});
    std::string y = b_.layer_norm(block + ".norm1", x, width, 1e-5f);
    x = b_.op("Add", block + ".sum1", {attention(block + ".attn1", y, width, y, width), x});
    y = b_.layer_norm(block + ".norm2", x, width, 1e-5f);
    x = b_.op("Add", block + ".sum2",
              {attention(block + ".attn2", y, width, "encoder_hidden_states", sizes_.context), x});
    y = b_.dense(block + ".ff.net.0.proj", b_.layer_norm(block + ".norm3", x, width, 1e-5f), width, 8 * width);
    const std::string gate = block + ".ff.gate";
    b_.op("Split", block + ".ff.value", {y, b_.integers({4 * width, 4 * width})}, {{"axis", int64_t(2)}}, {gate});
    const std::string erf =
        b_.op("Erf", gate + ".erf", {b_.op("Mul", gate + ".scaled", {gate, b_.number(0.7071067811865476f)})});
    const std::string share = b_.op("Add", gate + ".share", {erf, b_.number(1)});
    const std::string opened =
        b_.op("Mul", gate + ".gelu", {b_.op("Mul", gate + ".half", {gate, b_.number(0.5f)}), share});
    y = b_.op("Mul", block + ".ff.gated", {block + ".ff.value", opened});
    x = b_.op("Add", block + ".sum3", {b_.dense(block + ".ff.net.2", y, 4 * width, width), x});
    const std::string pixels = b_.op("Reshape", name + ".back", {x, b_.op("Shape", name + ".shape", {last})});
    const std::string image = b_.op("Transpose", name + ".image", {pixels}, {{"perm", Ints{0, 3, 1, 2}}});
    const Flow left = conv(name + ".proj_out", {image, width}, width, 1);
    return {b_.op("Add", name + ".sum", {left.name, in.name}), width};
  }
};

}  // namespace

std::string sd15_unet(Builder& b, const UnetSizes& sizes) { return Unet(b, sizes).write(); }

}  // namespace temper::zoo
