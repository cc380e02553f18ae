// SPDX-License-Identifier: Apache-2.0
// Every kernel and a spread of specialisations is compiled, with no GPU: each text for one generation, chosen by the
// text, and every sixth for compute capability 7.5, or for every one where TEMPER_ALL_GENERATIONS is 1 (./dev
// conformance --full does it; minutes). TEMPER_CUBINS=FILE writes a line for each: generation, recipe, digest of the
// text, digest of the machine code. So two revisions can be compared.
#include <elf.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "../../paths.h"
#include "all_configs.h"
#include "backends/cuda/recipe.h"
#include "backends/cuda/support/kernel_text.h"
#include "backends/cuda/support/program_code.h"
#include "base/file.h"
#include "base/hash.h"
#include "bench/cases.h"
#include "cuda_test_helpers.h"
#include "gpu_properties.h"
#include "graph/ops/pointwise.h"
#include "larger_tensors.h"
#include "largest_outputs.h"

namespace temper {
namespace {

constexpr const char* kArchitectures[] = {"sm_80", "sm_87", "sm_90a", "sm_100a", "sm_110", "sm_120"};
// A T4: compute capability 7.5, for which some texts are others.

const char* const kProblems[] = {
    "pointwise(f32[1000]) program=\"(1) 1=relu.f32(0)\"",
    "pointwise(f32[2,16,5,5], f32[16,1,1]*, f32[1,16,1,1]) program=\"(3) 3=mul.f32(0,1) 4=add.f32(3,2)\"",
    "pointwise(bf16[2,16,5,5], f32[16,1,1]) program=\"(2) 2=cast.f32(0) 3=mul.f32(2,1) 4=cast.bf16(3)\"",
    "pointwise(f16[2,20,5,5], f16[20,5,5]) program=\"(2) 2=add.f16(0,1) 3=sigmoid.f16(2)\"",
    "pointwise(f32[3,5]) program=\"(1) 1=cast.i8(0) 2=cast.f32(1) 3=erf.f32(2) 4=tanh.f32(3)\"",
    "pointwise(u8[2,3,8,24], f32[3,1,1]*, f32[3,1,1]*) program=\"(3) 3=cast.f32(0) 4=fma.f32(3,1,2) 5=round.f32(4) "
    "6=cast.i8(5)\"",
    "pointwise(i64[300], i64[1]) program=\"(2) 2=mul.i64(0,1) 3=mod.i64(2,0) 4=pow.i64(3,1)\"",
    "reduce(f32[5,130]) axes=[1]",
    "reduce(bf16[70,130]) kind=mean axes=[0]",
    "reduce(f16[2,32,7,7]) kind=max axes=[2,3]",
    "reduce(f32[3,4,5,6]) axes=[0,2] kind=log_sum_exp",
    "reduce(i32[4,9]) kind=prod axes=[1]",
    "reduce(i64[4,9]) kind=l2 axes=[1]",
    "reduce(bool[4,9]) axes=[1] kind=max",
    "reduce(f32[2,2000]) axes=[1] kind=l2",
    "reduce(f64[3,40]) axes=[1] kind=mean",
    "softmax(f32[3,1000]) axis=1",
    "softmax(f16[3,2000]) axis=1 log=true",
    "softmax(bf16[2,21,9,7]) axis=1",
    "softmax(f64[2,21]) axis=1",
    "normalize(f32[2,7,768]) axes=[2]",
    "normalize(f16[2,7,2000]) axes=[2] center=false",
    "normalize(f32[4,3,5]) axes=[0,2]",
    "fused_normalize(f16[4096,768], f32[768]*, f32[768]*) prologue=\"(1)\" axes=[1] epilogue=\"(3) 3=mul.f32(0,1) "
    "4=add.f32(3,2) 5=cast.f16(4)\"",
    "fused_normalize(f16[2,5,4096], f16[2,5,4096], f32[4096]*) prologue=\"(2) 2=cast.f32(0) 3=cast.f32(1) "
    "4=add.f32(2,3) 5=cast.f16(4)\" axes=[2] epilogue=\"(2) 2=mul.f32(0,1) 3=cast.f16(2)\" gives_input=true",
    "fused_normalize(f32[16384,768], f16[16384,768], f32[768]*, f32[768]*) prologue=\"(2) 2=cast.f32(1) "
    "3=add.f32(0,2)\" "
    "axes=[1] epilogue=\"(3) 3=mul.f32(0,1) 4=add.f32(3,2) 5=cast.f16(4)\"",
    "fused_normalize(f16[16384,1024], f16[16384,1024], f32[1024]*, f32[1024]*) prologue=\"(2) 2=add.f16(0,1)\" "
    "axes=[1] "
    "epilogue=\"(3) 3=mul.f32(0,1) 4=add.f32(3,2) 5=cast.f16(4)\" gives_input=true",
    "fused_softmax(f16[16000,128], f32[16000,1]) prologue=\"(1)\" axis=1 epilogue=\"(2) 2=add.f32(0,1) 3=cast.f16(2)\"",
    "fused_normalize(f32[2,23999]) prologue=\"(1)\" axes=[1] epilogue=\"(1) 1=cast.f16(0)\"",
    "fused_normalize(f16[2,320,64,64], f32[320,1,1]*, f32[320,1,1]*) prologue=\"(1)\" axes=[1,2,3] groups=32 "
    "epilogue=\"(3) 3=mul.f32(0,1) 4=add.f32(3,2) 5=sigmoid.f32(4) 6=mul.f32(4,5) 7=cast.f16(6)\"",
    "fused_normalize(f16[1,16,512,512], f32[16,1,1]*) prologue=\"(1)\" axes=[1,2,3] groups=2 epilogue=\"(2) "
    "2=mul.f32(0,1) 3=cast.f16(2)\"",
    "fused_normalize(f32[1,20,60,61], f32[20,1,1]*) prologue=\"(1)\" axes=[1,2,3] groups=2 epilogue=\"(2) "
    "2=mul.f32(0,1)\"",
    "fused_softmax(f16[8,12,128,128], f32[8,1,1,128]) prologue=\"(2) 2=cast.f32(0) 3=add.f32(2,1)\" axis=3 "
    "epilogue=\"(1) 1=cast.f16(0)\"",
    "fused_softmax(f16[4000,16000]) prologue=\"(1)\" axis=1 epilogue=\"(1) 1=cast.f16(0)\"",
    "fused_softmax(f32[2,12,197,197], f32[197,197]*) prologue=\"(2) 2=add.f32(0,1)\" axis=3 epilogue=\"(1) "
    "1=cast.bf16(0)\"",
    "attention(f16[8,128,768], f16[8,128,768], f16[8,128,768], f32[8,1,1,128]) heads=12 kv_heads=12 scale=0.125",
    "attention(bf16[2,4096,320], bf16[2,4096,320], bf16[2,4096,320]) heads=8 kv_heads=8 scale=0.158",
    "attention(f16[2,1024,640], f16[2,77,640], f16[2,77,640]) heads=8 kv_heads=8 scale=0.112",
    "attention(f16[2,256,1280], f16[2,256,1280], f16[2,256,1280]) heads=8 kv_heads=8 scale=0.079",
    "attention(bf16[1,4096,2048], bf16[1,4096,512], bf16[1,4096,512]) heads=16 kv_heads=4 scale=0.0883 right=0",
    "attention(f16[2,300,512], f16[2,77,512], f16[2,77,512], bool[77], i64[2]) heads=2 kv_heads=2 scale=0.0625 "
    "softcap=30 zero_nan=true",
    "appending_attention(f16[1,1,768], f16[1,1024,768], f16[1,1,768], f16[1,1024,768], f16[1,1,768], i64[1], _, "
    "i64[1]) heads=12 kv_heads=12 scale=0.125 right=0 from_end=true",
    "normalized_matmul(f16[1,1,768], f32[768]*, f32[768]*, f16[768,2304]*, f16[2304]*) axes=[2] between=\"(3) "
    "3=mul.f32(0,1) 4=add.f32(3,2) 5=cast.f16(4)\" epilogue=\"(2) 2=cast.f32(1) 3=add.f32(0,2) 4=cast.f16(3)\"",
    "normalized_matmul(bf16[4,4096], f32[4096]*, bf16[4096,768]*) axes=[1] center=false between=\"(2) 2=mul.f32(0,1) "
    "3=cast.bf16(2)\" epilogue=\"(1) 1=cast.bf16(0)\"",
    "attention(f16[2,1,768], f16[2,1024,768], f16[2,1024,768], _, i64[2]) heads=12 kv_heads=12 scale=0.125",
    "recurrent(f32[9,32,1024], _, f32[1,1024,256]*, _, _, f32[1,32,256], f32[1,32,256]) kind=lstm projected=true",
    "recurrent(f32[9,2,1536], _, f32[2,768,256]*, f32[2,768], i32[2]) kind=gru direction=bidirectional "
    "linear_before_reset=true projected=true",
    "recurrent(f32[9,1,1536], _, f32[1,1536,512]*) kind=gru projected=true",
    "recurrent(f32[9,4,40], _, f32[1,40,40]*) kind=rnn f=softplus projected=true",
    "pool(f32[2,16,9,9]) kernel=[3,3] strides=[2,2] dilations=[1,1] pads=[1,1,1,1]",
    "pool(i8[2,16,9,9]) kernel=[3,3] strides=[2,2] dilations=[1,1] pads=[1,1,1,1]",
    "pool(f16[2,16,9,9]) kind=average kernel=[3,3] strides=[2,2] dilations=[1,1] pads=[1,1,1,1] count_include_pad=true",
    "pool(f32[1,16,8,8]) kind=lp p=3 kernel=[2,3] strides=[2,2] dilations=[1,1] pads=[0,1,0,1]",
    "pool(f32[2,3,8,8]) kernel=[2,2] strides=[1,2] dilations=[1,1] pads=[1,1,0,0] with_indices=true column_major=true",
    "transpose(f32[2,3,40,41]) perm=[0,2,3,1]",
    "transpose(f16[33,70,2]) perm=[1,0,2]",
    "transpose(u8[3,4,5,6,7]) perm=[4,2,0,3,1]",
    "slice(f32[5,7]) starts=[0,6] sizes=[5,7] steps=[1,-1]",
    "broadcast(f32[2,1,5]) shape=[2,3,5]",
    "concat(f32[2,3], f32[2,5]) axis=1",
    "resize(f32[1,16,5,7]) sizes=[1,16,10,14] coordinate=asymmetric nearest=floor",
    "resize(f16[1,3,8,8]) sizes=[1,3,16,16] kind=linear",
    "resize(f16[1,64,5,7]) sizes=[1,64,20,28] kind=linear",
    "resize(f32[1,5,8,9]) sizes=[1,5,11,13] kind=cubic",
    "resize(f16[1,5,64,64]) sizes=[1,5,7,7] kind=cubic antialias=true",
    "resize(u8[1,5,8,9]) sizes=[1,5,11,13] kind=linear",
    "matmul(f16[128,256], f16[256,128]*, f32[128]*) epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2) 4=cast.f16(3)\"",
    "matmul(f16[3000,256], f16[515,256]*, f32[515]*) transpose_b=true epilogue=\"(2) 2=add.f32(0,1) 3=cast.f16(2)\"",
    "matmul(f16[3000,256], f16[515,256]*) transpose_b=true epilogue=\"(1)\"",
    "matmul(f16[20000,64], f16[64,512]*, f32[512]*) epilogue=\"(2) 2=add.f32(0,1) 3=constant.f32[0.5] 4=mul.f32(2,3) "
    "5=constant.f32[0.70710677] 6=mul.f32(2,5) 7=erf.f32(6) 8=constant.f32[1] 9=add.f32(7,8) 10=mul.f32(4,9) "
    "11=cast.f16(10)\"",
    "matmul(f16[20000,64], f16[64,512]*, f32[512]*, f16[20000,512]) epilogue=\"(3) 3=add.f32(0,1) 4=cast.f32(2) "
    "5=add.f32(3,4) 6=cast.f16(5)\"",
    "gated_matmul(f16[8192,320], f16[320,2560]*, f32[2560]*) epilogue=\"(2) 2=add.f32(0,1) 3=cast.f16(2)\" "
    "gate=\"(2) 2=cast.f32(0) 3=cast.f32(1) 4=constant.f32[0.5] 5=mul.f32(3,4) 6=constant.f32[0.70710677] "
    "7=mul.f32(3,6) 8=erf.f32(7) 9=constant.f32[1] 10=add.f32(8,9) 11=mul.f32(5,10) 12=mul.f32(2,11) "
    "13=cast.f16(12)\"",
    "matmul(f16[384,196]*, f16[32,196,768], f32[384,1]*) epilogue=\"(2) 2=add.f32(0,1) 3=constant.f32[0.5] "
    "4=mul.f32(2,3) 5=constant.f32[0.70710677] 6=mul.f32(2,5) 7=erf.f32(6) 8=constant.f32[1] 9=add.f32(7,8) "
    "10=mul.f32(4,9) 11=cast.f16(10)\"",
    "matmul(bf16[8,512,64], bf16[8,512,64], bf16[8,512,512]) transpose_b=true epilogue=\"(2) 2=cast.f32(1) "
    "3=add.f32(0,2) 4=cast.bf16(3)\"",
    "matmul(bf16[128,256], bf16[256,128]) epilogue=\"(1)\"",
    "matmul(f16[1,1,768], f16[768,2304]*, f32[2304]*) epilogue=\"(2) 2=add.f32(0,1) 3=cast.f16(2)\"",
    "matmul(bf16[8,3072], bf16[3072,768]*, f32[768]*, bf16[8,768]) epilogue=\"(3) 3=add.f32(0,1) 4=cast.f32(2) "
    "5=add.f32(3,4) 6=cast.bf16(5)\"",
    "matmul(f16[384,196]*, f16[2,196,768], f16[384,1]) epilogue=\"(2) 2=cast.f32(1) 3=add.f32(0,2) 4=cast.f16(3)\"",
    "matmul(f32[33,65], f32[65,17]) epilogue=\"(1)\"",
    "matmul(f32[128,64], f32[64,128]*) epilogue=\"(1)\"",
    "matmul(f32[128,256], f32[256,128]*, f32[128]*) tf32=true epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2)\"",
    "matmul(f32[33,65], f32[65,17]) tf32=true epilogue=\"(1)\"",
    "matmul(f64[3,5], f64[5,7]) epilogue=\"(1)\"",
    "blocked_matmul(f16[1,768], i8[768,96]*{-127..128}, f32[24,96]*, _) block_rows=32 epilogue=\"(1) 1=cast.f16(0)\"",
    "blocked_matmul(f16[8,3072], i8[3072,96]*{-8..8}, f32[96,96]*, f32[96,96]*) block_rows=32 epilogue=\"(1) "
    "1=cast.f16(0)\"",
    "normalized_matmul(bf16[2,768], u8[96,768]*{0..16}, f32[96,24]*, _) axes=[1] between=\"(1) 1=cast.bf16(0)\" "
    "transpose_b=true epilogue=\"(1) 1=cast.bf16(0)\" block_rows=1 block_columns=32",
    "matmul(i32[3,5], i32[5,7]) epilogue=\"(1)\"",
    "matmul(u8[9,64], i8[64,24]*, f32[24]*) epilogue=\"(2) 2=cast.f32(0) 3=mul.f32(2,1) 4=round.f32(3) 5=cast.i8(4)\"",
    "conv(f16[8,64,16,16], f16[128,64,3,3]*, f32[128,1,1]*, f16[8,128,16,16]) strides=[1,1] pads=[1,1,1,1] "
    "dilations=[1,1] "
    "epilogue=\"(3) 3=add.f32(0,1) 4=cast.f32(2) 5=add.f32(3,4) 6=relu.f32(5) 7=cast.f16(6)\"",
    "conv(f16[2,64,32,32], f16[320,64,3,3]*, f32[320,1,1]*, f16[2,320,1,1]) strides=[1,1] pads=[1,1,1,1] "
    "dilations=[1,1] "
    "epilogue=\"(3) 3=add.f32(0,1) 4=cast.f32(2) 5=add.f32(3,4) 6=cast.f16(5)\"",
    "conv(f32[2,3,17,17], f32[8,3,3,3]*) strides=[2,2] pads=[1,1,1,1] dilations=[1,1] epilogue=\"(1)\"",
    "conv(f32[8,64,16,16], f32[64,64,3,3]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] epilogue=\"(1)\"",
    "conv(f32[8,64,16,16], f32[128,64,3,3]*, f32[128,1,1]*, f32[8,128,16,16]) strides=[1,1] pads=[1,1,1,1] "
    "dilations=[1,1] tf32=true epilogue=\"(3) 3=add.f32(0,1) 4=add.f32(3,2) 5=relu.f32(4)\"",
    "conv(i8[8,64,16,16], i8[128,64,3,3]*, f32[128,1,1]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] "
    "epilogue=\"(2) 2=cast.f32(0) 3=mul.f32(2,1) 4=round.f32(3) 5=cast.i8(4)\"",
    "conv(bf16[2,32,10,10], bf16[32,1,3,3]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] group=32 epilogue=\"(1) "
    "1=cast.bf16(0)\"",
    "conv(f16[8,3,64,64], f16[64,3,7,7]*, f32[64,1,1]*) strides=[2,2] pads=[3,3,3,3] dilations=[1,1] "
    "epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2) 4=cast.f16(3)\"",
    "conv(bf16[2,3,33,33], bf16[24,3,3,3]*) strides=[2,2] pads=[1,1,1,1] dilations=[1,1] epilogue=\"(1) "
    "1=cast.bf16(0)\"",
    "conv(u8[8,3,64,64], i8[64,3,7,7]*, f32[64,1,1]*, f32[64,1,1]*) strides=[2,2] pads=[3,3,3,3] dilations=[1,1] "
    "epilogue=\"(3) 3=cast.f32(0) 4=add.f32(3,1) 5=mul.f32(4,2) 6=relu.f32(5) 7=round.f32(6) 8=cast.i8(7)\"",
    "fused_conv(f32[8,3,64,64], i8[64,3,7,7]*, f32[64,1,1]*) prologue=\"(1) 1=round.f32(0) 2=cast.i8(1)\" "
    "strides=[2,2] "
    "pads=[3,3,3,3] dilations=[1,1] epilogue=\"(2) 2=cast.f32(0) 3=mul.f32(2,1) 4=round.f32(3) 5=cast.i8(4)\"",
    "fused_conv(f32[8,3,64,64], i8[64,3,7,7]*, f32[64,1,1]*) prologue=\"(1) 1=round.f32(0) 2=cast.i8(1)\" "
    "strides=[2,2] pads=[3,3,3,3] dilations=[1,1] epilogue=\"(2) 2=cast.f32(0) 3=add.f32(2,1) 4=round.f32(3) "
    "5=cast.i8(4)\" pool_kernel=[3,3] pool_strides=[2,2] pool_pads=[1,1,1,1]",
    "fused_conv(f32[8,3,64,64], f16[64,3,7,7]*, f32[64,1,1]*) prologue=\"(1) 1=cast.f16(0)\" strides=[2,2] "
    "pads=[3,3,3,3] dilations=[1,1] epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2) 4=cast.f16(3)\" "
    "pool_kernel=[3,3] pool_strides=[2,2] pool_pads=[1,1,1,1]",
    "fused_conv(f16[8,3,64,64], f16[64,3,7,7]*, f32[64,1,1]*) prologue=\"(1)\" strides=[2,2] pads=[3,3,3,3] "
    "dilations=[1,1] epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2) 4=cast.f16(3)\" pool_kernel=[3,3] pool_strides=[2,2] "
    "pool_pads=[1,1,1,1]",
    "fused_conv(u8[8,3,64,64], i8[64,3,7,7]*, f32[64,1,1]*, f32[3,1,1]*, f32[3,1,1]*) prologue=\"(3) 3=cast.f32(0) "
    "4=fma.f32(3,1,2) 5=constant.f32[0.7] 6=div.f32(4,5) 7=round.f32(6) 8=cast.i8(7)\" strides=[2,2] pads=[3,3,3,3] "
    "dilations=[1,1] epilogue=\"(2) 2=cast.f32(0) 3=mul.f32(2,1) 4=relu.f32(3) 5=round.f32(4) 6=cast.i8(5)\" "
    "pool_kernel=[3,3] pool_strides=[2,2] pool_pads=[1,1,1,1]",
    "fused_conv(u8[8,3,64,64], i8[32,3,3,3]*, f32[32,1,1]*, f32[3,1,1]*, f32[3,1,1]*) prologue=\"(3) 3=cast.f32(0) "
    "4=fma.f32(3,1,2) 5=round.f32(4) 6=cast.i8(5)\" strides=[2,2] pads=[1,1,1,1] dilations=[1,1] epilogue=\"(2) "
    "2=cast.f32(0) 3=mul.f32(2,1) 4=round.f32(3) 5=cast.i8(4)\"",
    "fused_conv(u8[8,3,64,62], i8[32,3,3,3]*) prologue=\"(1) 1=cast.f32(0) 2=cast.i8(1)\" strides=[2,2] "
    "pads=[1,1,1,1] dilations=[1,1] epilogue=\"(1)\"",
    "fused_conv(f16[8,144,56,56], f16[24,144,1,1]*, f32[24,1,1]*, f16[8,144,1,1]) prologue=\"(2) 2=mul.f16(0,1)\" "
    "strides=[1,1] pads=[0,0,0,0] dilations=[1,1] epilogue=\"(2) 2=add.f32(0,1) 3=cast.f16(2)\"",
    "fused_conv(bf16[8,640,14,14], bf16[128,640,1,1]*, f32[640,1,1]*, f32[640,1,1]*) prologue=\"(3) 3=cast.f32(0) "
    "4=fma.f32(3,1,2) 5=relu.f32(4) 6=cast.bf16(5)\" strides=[1,1] pads=[0,0,0,0] dilations=[1,1] epilogue=\"(1) "
    "1=relu.f32(0) 2=cast.bf16(1)\"",
    "conv_chain(i8[8,64,56,56], i8[64,64,3,3]*, f32[64,1,1]*, i8[256,64,1,1]*, f32[256,1,1]*, i8[8,256,56,56]) "
    "strides=[1,1] pads=[1,1,1,1] dilations=[1,1] epilogue=\"(2) 2=cast.f32(0) 3=add.f32(2,1) 4=relu.f32(3) "
    "5=round.f32(4) 6=cast.i8(5)\" first_inputs=3 then=\"(3) 3=cast.f32(0) 4=add.f32(3,1) 5=cast.f32(2) "
    "6=add.f32(4,5) 7=relu.f32(6) 8=round.f32(7) 9=cast.i8(8)\"",
    "conv_chain(f16[8,64,56,56], f16[64,64,3,3]*, f32[64,1,1]*, f16[256,64,1,1]*, f32[256,1,1]*, f16[8,256,56,56]) "
    "strides=[1,1] pads=[1,1,1,1] dilations=[1,1] epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2) 4=cast.f16(3)\" "
    "first_inputs=3 then=\"(3) 3=add.f32(0,1) 4=cast.f32(2) 5=add.f32(3,4) 6=relu.f32(5) 7=cast.f16(6)\"",
    "shortcut_conv(f16[8,128,28,28], f16[512,128,1,1]*, f32[512,1,1]*, f16[8,256,56,56], f16[512,256,1,1]*, "
    "f32[512,1,1]*) strides=[1,1] pads=[0,0,0,0] dilations=[1,1] epilogue=\"(3) 3=add.f32(0,1) 4=cast.f32(2) "
    "5=add.f32(3,4) 6=relu.f32(5) 7=cast.f16(6)\" conv_inputs=3 shortcut_at=3 shortcut_strides=[2,2] "
    "shortcut_pads=[0,0,0,0] shortcut_dilations=[1,1] shortcut_epilogue=\"(2) 2=add.f32(0,1) 3=cast.f16(2)\"",
    "shortcut_conv(i8[8,128,28,28], i8[512,128,1,1]*, f32[512,1,1]*, i8[8,256,56,56], i8[512,256,1,1]*, "
    "f32[512,1,1]*) strides=[1,1] pads=[0,0,0,0] dilations=[1,1] epilogue=\"(3) 3=cast.f32(0) 4=add.f32(3,1) "
    "5=cast.f32(2) 6=add.f32(4,5) 7=relu.f32(6) 8=round.f32(7) 9=cast.i8(8)\" conv_inputs=3 shortcut_at=3 "
    "shortcut_strides=[2,2] shortcut_pads=[0,0,0,0] shortcut_dilations=[1,1] shortcut_epilogue=\"(2) 2=cast.f32(0) "
    "3=add.f32(2,1) 4=round.f32(3) 5=cast.i8(4)\"",
    "conv_chain(f16[8,128,28,28], f16[128,128,3,3]*, f32[128,1,1]*, f16[512,128,1,1]*, f32[512,1,1]*, "
    "f16[8,512,28,28]) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2) "
    "4=cast.f16(3)\" first_inputs=3 then=\"(3) 3=add.f32(0,1) 4=cast.f32(2) 5=add.f32(3,4) 6=relu.f32(5) "
    "7=cast.f16(6)\"",
    "conv_chain(f16[8,64,56,56], f16[64,64,3,3]*, f32[64,1,1]*, f16[256,64,1,1]*, f32[256,1,1]*, f16[8,256,56,56], "
    "f16[128,256,1,1]*, f32[128,1,1]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] epilogue=\"(2) 2=add.f32(0,1) "
    "3=relu.f32(2) 4=cast.f16(3)\" first_inputs=3 then=\"(3) 3=add.f32(0,1) 4=cast.f32(2) 5=add.f32(3,4) "
    "6=relu.f32(5) 7=cast.f16(6)\" then_inputs=3 third=\"(2) 2=add.f32(0,1) 3=relu.f32(2) 4=cast.f16(3)\"",
    "conv_chain(i8[8,64,56,56], i8[64,64,3,3]*, f32[64,1,1]*, i8[256,64,1,1]*, f32[256,1,1]*, i8[8,256,56,56], "
    "i8[64,256,1,1]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] epilogue=\"(2) 2=cast.f32(0) 3=add.f32(2,1) "
    "4=relu.f32(3) 5=round.f32(4) 6=cast.i8(5)\" first_inputs=3 then=\"(3) 3=cast.f32(0) 4=add.f32(3,1) "
    "5=cast.f32(2) 6=add.f32(4,5) 7=relu.f32(6) 8=round.f32(7) 9=cast.i8(8)\" then_inputs=3 third=\"(1) "
    "1=cast.f32(0) 2=relu.f32(1) 3=round.f32(2) 4=cast.i8(3)\"",
    "fused_reduce(i8[8,2048,7,7]) prologue=\"(1) 1=cast.f32(0)\" kind=mean axes=[2,3] epilogue=\"(1) 1=round.f32(0) "
    "2=cast.i8(1)\"",
    "conv(i8[8,3,64,64], i8[32,3,3,3]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] epilogue=\"(1) 1=cast.f32(0)\"",
    "conv(f16[2,32,16,16], f16[32,1,5,5]*, f32[32,1,1]*) strides=[2,2] pads=[2,2,2,2] dilations=[1,1] group=32 "
    "epilogue=\"(2) 2=add.f32(0,1) 3=relu.f32(2) 4=cast.f16(3)\"",
    "conv(f16[2,32,16,16], f16[32,1,3,3]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] group=32 "
    "epilogue=\"(1) 1=cast.f16(0)\"",
    "conv(f16[2,32,16,16], f16[32,1,7,7]*, f32[32,1,1]*) strides=[1,1] pads=[3,3,3,3] dilations=[1,1] group=32 "
    "epilogue=\"(2) 2=add.f32(0,1) 3=cast.f16(2)\"",
    "conv(i8[2,32,16,16], i8[32,1,3,3]*, f32[32,1,1]*) strides=[2,2] pads=[1,1,1,1] dilations=[1,1] group=32 "
    "epilogue=\"(2) 2=cast.f32(0) 3=mul.f32(2,1) 4=round.f32(3) 5=cast.i8(4)\"",
    "gather(f32[1000,64], i64[2,20]{0..1000}) axis=0",
    "gather(u8[4,5], i32[2,3]{-5..5}) kind=elements axis=1",
    "gather(f16[2,4,5], i64[2,3,1]{0..4}) kind=nd batch_dims=1",
    "grid_sample(f16[2,16,9,9], f32[2,5,6,2]) kind=cubic padding=reflection",
    "grid_sample(f32[2,3,4,5,6], f16[2,3,3,3,3]) padding=border align_corners=true",
    "grid_sample(u8[2,3,9,9], f64[2,5,6,2]) kind=nearest",
    "roi_align(f16[2,16,9,9], f16[5,4], i64[5]{0..2}) height=7 width=7 sampling_ratio=2",
    "roi_align(f64[2,3,9,9], f64[5,4], i32[5]{0..2}) kind=max height=2 width=3",
    "lrn(bf16[2,16,9,9]) size=5",
    "lrn(f64[2,16]) size=3",
    "scatter(f32[9,5], i32[3,5]{-9..9}, f32[3,5]) axis=0",
    "scatter(bf16[40,8], i64[30,1]{-40..40}, bf16[30,8]) kind=nd reduction=add",
    "scatter(i64[40], i64[100,1]{0..40}, i64[100]) kind=nd reduction=mul",
    "sample(f32[1,50257], i64[1,1024,1], i64[1], f64[1,4], f64[1,1024])",
    "sample(f32[4,1000], i64[4,64,1], i64[4], f64[4,4], f64[4,64])",
    "topk(f16[3,9000]) k=100 axis=1",
    "topk(f64[50,3]) k=7 axis=0 largest=false",
    "cumulative(f16[50,30]) axis=1",
    "cumulative(f32[50,3000]) axis=1 kind=prod exclusive=true",
    "cumulative(i64[50,30]) axis=0 reverse=true",
    "append(f32[2,5,8], f32[2,1,8], i64[2])",
    "append(bf16[2,300,64], bf16[2,7,64], i64[2])",
    "append(u8[2,6,3], u8[2,2,3], i64[2])",
    "bit_cast(f32[9,4]) dtype=i32",
    "range(f16[]*=[1.5], f16[]*=[40], f16[]*=[0.5])",
    "arg_reduce(f32[5,1000]) axis=1",
    "arg_reduce(f16[4,9]) axis=1",
    "arg_reduce(i64[4,9]) axis=1 kind=min",
    "arg_reduce(u8[2,3000]) axis=1 last=true",
    "pad(f32[2,17,5,5], f32[]) before=[0,0,1,1] after=[0,0,1,1]",
    "pad(u8[2,20,5,6]) before=[0,0,2,1] after=[0,0,1,3] kind=reflect",
    "pointwise(f64[33]) program=\"(1) 1=tanh.f64(0) 2=cast.u8(1) 3=cast.bool(2)\"",
    "nonzero(f32[3,40,50])",
    "nonzero(bool[100000])",
    "nms(f32[1,900,4], f32[1,8,900], i64[1], f32[1], f32[1])",
    "nms(f32[1,9000,4], f32[1,1,9000], i64[1], f32[1]) center=true",
    "unique(f32[9000])",
    "unique(i64[90,3]) axis=0 sorted=false",
    "unique(f16[90,3]) axis=0",
};

// "sm_90" and later.
bool has_tma(std::string_view architecture) { return architecture.size() > 5 || architecture >= "sm_90"; }

TEST(CudaKernels, CompileForEveryGenerationWithoutSpills) {
  TEMPER_NEEDS_NVRTC(compiler);
  std::string lines;
  for (const char* problem : kProblems) lines += concat(problem, '\n');
  std::map<std::string, int> most;  // registers by kernel and architecture
  std::set<std::string> covered;
  const char* all = std::getenv("TEMPER_ALL_GENERATIONS");
  const bool everywhere = all && std::string_view(all) == "1";
  std::ofstream digests;
  if (const char* path = std::getenv("TEMPER_CUBINS")) digests.open(path);
  for (const KernelCase& kernel_case : parse_cases(lines)) {
    SCOPED_TRACE(kernel_case.text);
    const std::vector<Tensor> inputs = make_case_inputs(kernel_case, 1);
    const Problem problem = testing::with_largest_outputs(make_case_problem(kernel_case, inputs, 1));
    for (const cuda::Recipe* recipe : cuda::recipes()) {
      if (!recipe->supports(problem).yes()) continue;
      covered.insert(std::string(recipe->name));
      std::set<std::string> seen;
      struct Work {
        Config config;
        Problem problem;
        bool turing;
      };
      std::vector<Work> works;
      for (const bool turing : {false, true}) {
        if (turing && !recipe_supports(*recipe, problem, "sm_75").yes()) continue;
        for (const Config& config :
             testing::all_configs(*recipe, problem, turing ? testing::kTuring : testing::kH100)) {
          works.push_back({config, problem, turing});
          if (const auto parts = testing::in_larger_tensors(*recipe, problem, config))
            works.push_back({config, *parts, turing});
        }
      }
      for (const auto& [config, variant, turing] : works)
        for (const cuda::Job& job : recipe->work(variant, config, turing ? testing::kTuring : testing::kH100).jobs) {
          if (!seen.insert(job.source.text + (turing ? "75" : "")).second) continue;
          const uint64_t digest = xxh3(job.source.text);
          std::vector<const char*> architectures;
          if (!turing) {
            for (const char* architecture : kArchitectures)
              if (recipe_supports(*recipe, problem, architecture).yes() && (job.maps.empty() || has_tma(architecture)))
                architectures.push_back(architecture);
            if (!everywhere && !architectures.empty()) architectures = {architectures[digest % architectures.size()]};
          } else if (everywhere || digest % 6 == 0) {
            architectures = {"sm_75"};
          }
          for (const char* architecture : architectures) {
            const cuda::Cubin cubin = compiler->compile(job.source, architecture);
            ASSERT_EQ(cubin.kernels.size(), 1u);
            if (digests)
              digests << architecture << ' ' << recipe->name << ' ' << hex(digest) << ' '
                      << hex(xxh3(cubin.bytes.data(), cubin.bytes.size())) << '\n';
            const cuda::KernelResources& kernel = cubin.kernels[0];
            EXPECT_EQ(kernel.name, job.entry);
            EXPECT_EQ(kernel.spill_stores, 0) << recipe->name << " for " << architecture << "\n" << job.source.text;
            EXPECT_EQ(kernel.spill_loads, 0) << recipe->name << " for " << architecture << "\n" << job.source.text;
            EXPECT_EQ(kernel.stack, 0) << recipe->name << " for " << architecture << "\n" << job.source.text;
            EXPECT_GT(kernel.registers, 0);
            EXPECT_EQ(cubin.losses, std::vector<std::string>()) << recipe->name << "\n" << job.source.text;
            int& registers = most[concat(recipe->name, ' ', architecture)];
            registers = std::max(registers, kernel.registers);
          }
        }
    }
  }
  for (const auto& [kernel, registers] : most)
    std::printf("%-36s at most %d registers, no spills\n", kernel.c_str(), registers);
  for (const cuda::Recipe* recipe : cuda::recipes())
    EXPECT_TRUE(covered.contains(std::string(recipe->name))) << recipe->name << " is not compiled by this test";
}

// How often each operation stands in the machine code of a cubin for sm_90: the low 12 bits of its 16-byte words.
std::map<int, int> operations_of(std::span<const std::byte> cubin) {
  std::map<int, int> count;
  Elf64_Ehdr header;
  std::memcpy(&header, cubin.data(), sizeof header);
  for (int i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, cubin.data() + header.e_shoff + size_t(i) * sizeof section, sizeof section);
    if (section.sh_type != SHT_PROGBITS || !(section.sh_flags & SHF_EXECINSTR)) continue;
    for (uint64_t at = 0; at + 16 <= section.sh_size; at += 16) {
      uint64_t word;
      std::memcpy(&word, cubin.data() + section.sh_offset + at, sizeof word);
      ++count[int(word & 0xfff)];
    }
  }
  return count;
}

// F2I runs on the XU pipe, at 16 results a clock; F2IP rounds, saturates and packs two on the ALU pipe. The numbers of
// the operations are those that nvdisasm names for sm_90.
TEST(CudaKernels, ResultsOfBytesAreRoundedTwoAtATimeOnTheAluPipe) {
  TEMPER_NEEDS_NVRTC(compiler);
  constexpr int kF2I = 0x305, kF2IP = 0x243;
  std::string lines;
  for (const char* problem : kProblems)
    if (std::string_view(problem).starts_with("conv(i8[8,64") ||
        std::string_view(problem).starts_with("conv_chain(i8") ||
        std::string_view(problem).starts_with("shortcut_conv(i8") ||
        std::string_view(problem).starts_with("fused_conv(f32[8,3,64,64], i8"))
      lines += concat(problem, '\n');
  std::set<std::string> covered;
  for (const KernelCase& kernel_case : parse_cases(lines)) {
    SCOPED_TRACE(kernel_case.text);
    const std::vector<Tensor> inputs = make_case_inputs(kernel_case, 1);
    const Problem problem = make_case_problem(kernel_case, inputs, 1);
    for (const char* name : {"cuda.conv.pipeline", "cuda.conv.chain", "cuda.conv.shortcut", "cuda.conv.first"}) {
      const cuda::Recipe& recipe = testing::recipe_named(name);
      if (!recipe.supports(problem).yes()) continue;
      covered.insert(name);
      const cuda::Job job =
          recipe.work(problem, recipe.configs(problem, testing::kH100).at(0), testing::kH100).jobs.at(0);
      const auto count = operations_of(compiler->compile(job.source, "sm_90a").bytes);
      EXPECT_FALSE(count.contains(kF2I)) << name << ": " << count.at(kF2I);
      EXPECT_TRUE(count.contains(kF2IP)) << name;
    }
  }
  EXPECT_EQ(covered.size(), 4u);
}

// A fence of all memory in each stage of the ring took as long as the stage. Those that stay are at the cluster's begin
// and end.
TEST(CudaKernels, BlocksThatLoadTogetherFenceNoMemoryInTheirRing) {
  TEMPER_NEEDS_NVRTC(compiler);
  constexpr int kMembar = 0x992;
  const KernelCase line = parse_cases(
                              "matmul(f16[16384,768], f16[768,3072]*, f16[3072]*) epilogue=\"(2) "
                              "2=cast.f32(1) 3=add.f32(0,2) 4=cast.f16(3)\"")
                              .at(0);
  const std::vector<Tensor> inputs = make_case_inputs(line, 1);
  const Problem problem = make_case_problem(line, inputs, 1);
  const cuda::Recipe& recipe = testing::recipe_named("cuda.matmul.pipeline");
  const auto fences = [&](std::string_view tile) {
    for (const Config& config : recipe.configs(problem, testing::kH100)) {
      if (config.text != tile) continue;
      const cuda::Job job = recipe.work(problem, config, testing::kH100).jobs.at(0);
      return operations_of(compiler->compile(job.source, "sm_90a").bytes)[kMembar];
    }
    ADD_FAILURE() << tile << " is not offered";
    return 0;
  };
  constexpr int kMeetings = 2, kFencesOfOne = 2;  // of the cluster
  EXPECT_LE(fences("tile=128x128 shared"), fences("tile=128x128") + kMeetings * kFencesOfOne);
}

// ptxas makes an F2IP of a maximum with 0, a rounding and a packing of unsigned bytes, which an H200 calls illegal.
TEST(CudaKernels, NoReluStandsBeforeTheRoundingToUnsignedBytes) {
  for (const DType dtype : {DType::i8, DType::u8}) {
    Program program;
    program.inputs = 1;
    const int relu = program.push({Scalar::relu, DType::f32, {0, -1, -1}}),
              round = program.push({Scalar::round, DType::f32, {relu, -1, -1}});
    program.push({Scalar::cast, dtype, {round, -1, -1}});
    const DType input[] = {DType::f32};
    const std::string text = cuda::finished_code(program, input, "epilogue");
    EXPECT_EQ(text.find("finish_rounded_relu(") != std::string::npos, dtype == DType::i8) << text;
    EXPECT_NE(text.find("finish_rounded"), std::string::npos) << text;
  }
}

// What a result costs in the machine code of sm_90: that of a kernel which computes it, without what a kernel takes
// that only rounds.
TEST(CudaKernels, FunctionsOfSixteenBitResultsTakeFewInstructions) {
  TEMPER_NEEDS_NVRTC(compiler);
  constexpr int kNop = 0x918;
  const auto instructions = [&](std::string_view value, std::string_view half) {
    const std::string text = concat(
        "#include \"backends/cuda/support/scalar.cuh\"\nextern \"C\" __global__ void __launch_bounds__(256) "
        "one(const float* in, ",
        half, "* out) { const float x = in[threadIdx.x]; out[threadIdx.x] = store_as<", half, ">(", value, "); }\n");
    int out = 0;
    for (const auto& [operation, times] : operations_of(compiler->compile({text, {}}, "sm_90a").bytes))
      if (operation != kNop) out += times;
    return out;
  };
  struct Of {
    const char *before, *now;
    int most;
  };
  const Of functions[] = {
      {"op::exp(x)", "op::exp_for", 6},
      {"op::sigmoid(x)", "op::sigmoid_for", 6},
      {"x * op::sigmoid(x)", "x * op::sigmoid_for", 7},
      {"op::tanh(x)", "op::tanh_for", 11},
      {"op::erf(x)", "op::erf_for", 12},
      {"0.5f * x * (1 + op::erf(x * 0.70710677f))", "op::gelu_for", 13},
      {"0.5f * x * (1 + op::tanh(0.7978846f * (x + 0.044715f * (x * x * x))))", "op::gelu_tanh_for", 12}};
  for (const char* half : {"f16", "bf16"})
    for (const Of& f : functions) {
      const int none = instructions("x", half), before = instructions(f.before, half) - none,
                now = instructions(concat(f.now, '<', half, ">(x)"), half) - none;
      std::printf("%-24s %-5s %3d instructions, %3d in f32\n", f.now, half, now, before);
      EXPECT_LE(now, f.most) << f.now;
      EXPECT_LT(now, before) << f.now;
    }
}

// Every step with every dtype that it is defined on, in one program a dtype.
TEST(CudaKernels, EveryStepOfAProgramCompilesOnEveryDtype) {
  TEMPER_NEEDS_NVRTC(compiler);
  for (int d = 0; d < kDTypeCount; ++d) {
    const DType dtype = DType(d);
    Program program;
    program.inputs = 2;
    std::vector<int> bools;
    const DType inputs[] = {dtype, dtype};
    for (size_t op = 0; op < enum_names(Scalar{}).size(); ++op) {
      for (const DType result : {dtype, DType::boolean}) {
        Program one = program;
        Step step{Scalar(op), result, {0, 1, -1}};
        if (step.op == Scalar::constant || step.op == Scalar::cast || step.op == Scalar::where) continue;
        if (arity_of(step.op) == 1) step.args = {0, -1, -1};
        if (arity_of(step.op) == 3) step.args = {0, 1, 0};
        one.push(step);
        try {
          one.infer(inputs);
        } catch (const Error&) { continue; }
        program = one;
        break;
      }
    }
    for (int to = 0; to < kDTypeCount; ++to) program.push({Scalar::cast, DType(to), {0, -1, -1}});
    const int condition = program.push({Scalar::cast, DType::boolean, {0, -1, -1}});
    program.push({Scalar::constant, dtype, {-1, -1, -1}, -1.5, -3});
    program.push({Scalar::where, dtype, {condition, 0, program.result()}});
    Problem problem{ops::Pointwise{program},
                    {{type_of(dtype, {64})}, {type_of(dtype, {64})}},
                    {{type_of(program.infer(inputs), {64})}}};
    const cuda::Recipe* recipe = &testing::recipe_named("cuda.pointwise");
    const auto configs = recipe->configs(problem, testing::kH100);
    for (const cuda::Job& job : recipe->work(problem, configs.at(0), testing::kH100).jobs)
      EXPECT_EQ(compiler->compile(job.source, "sm_80").kernels.size(), 1u);
  }
}

TEST(CudaCompiler, SaysWhichArchitectureItDoesNotKnowAndWhatIsWrongWithAText) {
  TEMPER_NEEDS_NVRTC(compiler);
  try {
    compiler->compile({"extern \"C\" __global__ void nothing() {}", {}}, "sm_20");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_NE(std::string(error.what()).find("sm_20"), std::string::npos);
  }
  try {
    compiler->compile({"extern \"C\" __global__ void broken() { missing(); }", {}}, "sm_80");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("missing"), std::string::npos) << error.what();
  }
}

TEST(CudaCompiler, ReadsWhatACubinUses) {
  const auto kernels = cuda::parse_resources(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'one' for 'sm_90a'\n"
      "ptxas info    : Function properties for one\n"
      "    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 40 registers, used 1 barriers, 4096 bytes smem, 368 bytes cmem[0]\n");
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].name, "one");
  EXPECT_EQ(kernels[0].stack, 16);
  EXPECT_EQ(kernels[0].spill_stores, 8);
  EXPECT_EQ(kernels[0].spill_loads, 12);
  EXPECT_EQ(kernels[0].registers, 40);
  EXPECT_EQ(kernels[0].shared, 4096);
  EXPECT_EQ(cuda::parse_losses("ptxas info    : (C7518) Potential Performance Loss: wgmma.mma_async instructions are "
                               "serialized\nptxas info    : 94 bytes gmem\n")
                .size(),
            1u);
}

struct TemporaryFolder {
  std::string path = (std::filesystem::path(::testing::TempDir()) / concat("temper_cubins_", getpid())).string();
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path, error);
  }
};

TEST(CudaCompiler, KeepsCubinsOnDiskAndCompilesAgainWhatWasDamaged) {
  TEMPER_NEEDS_NVRTC(unused);
  (void)unused;
  TemporaryFolder folder;
  const cuda::Compiler compiler(testing::cuda_search(), folder.path);
  const cuda::KernelSource source{"extern \"C\" __global__ void kept(int* p) { *p = 1; }", {}};
  const cuda::Cubin first = compiler.compile(source, "sm_80");
  EXPECT_FALSE(first.from_cache);
  const cuda::Cubin second = compiler.compile(source, "sm_80");
  EXPECT_TRUE(second.from_cache);
  EXPECT_EQ(second.bytes, first.bytes);
  ASSERT_EQ(second.kernels.size(), 1u);
  EXPECT_EQ(second.kernels[0].registers, first.kernels.at(0).registers);
  EXPECT_FALSE(compiler.compile(source, "sm_90a").from_cache);
  EXPECT_FALSE(compiler.compile({source.text, {"-DOTHER"}}, "sm_80").from_cache);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
    ++files;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(200);
    file.put('\x7f');
    file.put('\x01');
  }
  EXPECT_EQ(files, 3);
  EXPECT_TRUE(compiler.compile(source, "sm_80").from_cache);  // it still has it in memory
  const cuda::Compiler other(testing::cuda_search(), folder.path);
  const cuda::Cubin again = other.compile(source, "sm_80");
  EXPECT_FALSE(again.from_cache);
  EXPECT_EQ(again.bytes, first.bytes);
  const cuda::Compiler third(testing::cuda_search(), folder.path);
  EXPECT_TRUE(third.compile(source, "sm_80").from_cache);
}

TEST(CudaCompiler, RefusesADriverThatIsTooOldForIt) {
  TEMPER_NEEDS_NVRTC(compiler);
  try {
    const cuda::Compiler too_new(testing::cuda_search(), "", (compiler->major() - 1) * 1000 + 40);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_NE(std::string(error.what()).find("update the driver"), std::string::npos) << error.what();
  }
}

TEST(CudaLibraries, SayWhatIsMissingForWhatAndWhereItWasLookedFor) {
  const std::string folder = ::testing::TempDir();
  try {
    cuda::Library::open({"libnothing.so.13", "libnothing.so.12"}, {{folder}, false}, "a test", "install nothing");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    const std::string text = error.what();
    for (const char* part : {"libnothing.so.13 or libnothing.so.12", "a test", "install nothing"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_NE(text.find(folder.substr(0, folder.find_last_not_of('/') + 1)), std::string::npos) << text;
  }
}

TEST(CudaLibraries, SayWhyALibraryThatIsThereCannotBeLoaded) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder.path);
  std::ofstream(folder.path + "/libbroken.so.1") << "no library";
  try {
    cuda::Library::open({"libbroken.so.1"}, {{folder.path}, false}, "a test", "install it again");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cannot be loaded"), std::string::npos) << error.what();
  }
}

TEST(CudaKernels, ATextIsKnownByWhatItIncludes) {
  const auto paths_of = [](std::string_view text) {
    std::set<std::string_view> paths;
    for (const cuda::KernelText& included : cuda::included_texts(text)) paths.insert(included.path);
    return paths;
  };
  EXPECT_TRUE(paths_of("#include <cuda_fp16.h>\nint x;").empty());
  const auto rows = paths_of("#include \"backends/cuda/rows/rows.cuh\"\n");
  EXPECT_TRUE(rows.contains("backends/cuda/rows/rows.cuh"));
  EXPECT_TRUE(rows.contains("backends/cuda/support/scalar.cuh"));  // through others
  EXPECT_FALSE(rows.contains("backends/cuda/support/wgmma.cuh"));
}

// The code of a file, line by line: what embed_texts.cmake leaves of it.
std::string code_of(const std::string& file) {
  std::string code;
  for (std::string_view rest = file; !rest.empty();) {
    const size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.starts_with("//")) line = {};
    line = line.substr(0, line.find(" //"));
    line.remove_prefix(std::min(line.size(), line.find_first_not_of(' ')));
    line = line.substr(0, line.find_last_not_of(' ') + 1);
    code += concat(line, '\n');
  }
  return code;
}

TEST(CudaKernels, EmbeddedTextsAreTheCodeOfTheirFilesAndEndWithAZero) {
  EXPECT_GE(cuda::kernel_texts().size(), 3u);
  for (const cuda::KernelText& text : cuda::kernel_texts()) {
    EXPECT_EQ(text.text.data()[text.text.size()], '\0');
    EXPECT_EQ(text.path.data()[text.path.size()], '\0');
    EXPECT_EQ(code_of(read_file(concat(paths::source_folder(), "/src/", text.path))), text.text);
  }
}

}  // namespace
}  // namespace temper
