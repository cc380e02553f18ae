# SPDX-License-Identifier: Apache-2.0
"""Enumerations, with the numbers that programs put into masks; a release has the members that the table of names gives it."""
from __future__ import annotations

from typing import Any

from .. import _temper


class _Kind(type):
    """Says why a member of the release is not there."""

    def __getattr__(cls, name: str) -> Any:
        why = REFUSED.get((cls.__name__, name))
        raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}" + (f": it is not in Temper: {why}" if why else ""))


REFUSED: dict[tuple[str, str], str] = {}
"""Why a name of the release that is in use is not there, by class ("" is the module) and name; what fills it is _api.use."""


class Enumeration(metaclass=_Kind):
    """A member of an enumeration. Prints as ``DataType.FLOAT``, and is a number where one is asked for: ``1 << int(flag)``, ``a | b``."""

    __slots__ = ("name", "value")
    __members__: dict[str, Any] = {}
    name: str
    value: int

    def __new__(cls, value: int) -> Any:
        """The member of that number; ValueError where there is none."""
        for member in cls.__members__.values():
            if member.value == value:
                return member
        raise ValueError(f"{value} is not a valid {cls.__name__}")

    def __int__(self) -> int:
        return self.value

    __index__ = __int__

    def __or__(self, other: Any) -> int:
        return int(self) | int(other)

    __ror__ = __or__

    def __and__(self, other: Any) -> int:
        return int(self) & int(other)

    __rand__ = __and__

    def __reduce__(self) -> Any:
        return type(self), (self.value,)

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __str__(self) -> str:
        return f"{type(self).__qualname__}.{self.name}"

    def __repr__(self) -> str:
        return f"<{self}: {self.value}>"


def _made(name: str, **members: int) -> Any:
    cls: Any = _Kind(name, (Enumeration,), {"__slots__": (), "__module__": "temper.tensorrt", "__members__": {}})
    for word, number in members.items():
        known = next((member for member in cls.__members__.values() if member.value == number), None)  # two words for one: the first names it
        if known is None:
            known = object.__new__(cls)
            known.name, known.value = word, number
        cls.__members__[word] = known
        setattr(cls, word, known)
    return cls


# Names whose numbers differ between releases, by the index of the release. A name that is shown in a release before its first has a number behind
# those that there are.
_8, _10, _11 = range(3)
NUMBERS: dict[str, dict[int, dict[str, int]]] = {
    "NetworkDefinitionCreationFlag": {_8: {"EXPLICIT_BATCH": 0, "EXPLICIT_PRECISION": 1, "STRONGLY_TYPED": 2},
                                      _10: {"EXPLICIT_BATCH": 0, "STRONGLY_TYPED": 1}, _11: {"STRONGLY_TYPED": 0}},
    "PreviewFeature": {_8: {"FASTER_DYNAMIC_SHAPES_0805": 0, "DISABLE_EXTERNAL_TACTIC_SOURCES_FOR_CORE_0805": 1, "PROFILE_SHARING_0806": 2},
                       _10: {"PROFILE_SHARING_0806": 0, "ALIASED_PLUGIN_IO_10_03": 1, "RUNTIME_ACTIVATION_RESIZE_10_10": 2},
                       _11: {"ALIASED_PLUGIN_IO_10_03": 0, "RUNTIME_ACTIVATION_RESIZE_10_10": 1}},
    "TacticSource": {**dict.fromkeys((_8, _10), {"CUBLAS": 0, "CUBLAS_LT": 1, "CUDNN": 2, "EDGE_MASK_CONVOLUTIONS": 3, "JIT_CONVOLUTIONS": 4}),
                     _11: {"EDGE_MASK_CONVOLUTIONS": 0, "JIT_CONVOLUTIONS": 1}},
    "BuilderFlag": {release: _temper.nv_builder_flags(release) for release in (_8, _10, _11)}}  # fmt: skip


def _numbered(name: str) -> Any:
    """Every name of them, without numbers until a release is in use. Two words for one in a release are one in all."""
    cls: Any = _made(name)
    for numbers in NUMBERS[name].values():
        for word, number in numbers.items():
            known = next((cls.__members__[other] for other, its in numbers.items() if its == number and other in cls.__members__), None)
            if known is None:
                known = object.__new__(cls)
                known.name, known.value = word, -1
            if word not in cls.__members__:
                cls.__members__[word] = known
                setattr(cls, word, known)
    return cls


def use(release: int) -> None:
    """Gives members their numbers of that release."""
    for name, numbers in NUMBERS.items():
        for word, number in numbers[release].items():
            EVERY[name][word].value = number


Severity = _made("Severity", INTERNAL_ERROR=0, ERROR=1, WARNING=2, INFO=3, VERBOSE=4)
DataType = _made("DataType", FLOAT=0, HALF=1, INT8=2, INT32=3, BOOL=4, UINT8=5, BF16=7, INT64=8)
TensorIOMode = _made("TensorIOMode", NONE=0, INPUT=1, OUTPUT=2)
TensorLocation = _made("TensorLocation", DEVICE=0, HOST=1)
TensorFormat = _made("TensorFormat", LINEAR=0, CHW2=1, HWC8=2, CHW4=3, CHW16=4, CHW32=5, DHWC8=6, CDHW32=7, HWC=8, DLA_LINEAR=9, DLA_HWC4=10,
                     HWC16=11, DHWC=12)  # fmt: skip
NetworkDefinitionCreationFlag = _numbered("NetworkDefinitionCreationFlag")
OnnxParserFlag = _made("OnnxParserFlag", NATIVE_INSTANCENORM=0)
CalibrationAlgoType = _made("CalibrationAlgoType", LEGACY_CALIBRATION=0, ENTROPY_CALIBRATION=1, ENTROPY_CALIBRATION_2=2, MINMAX_CALIBRATION=3)
MemoryPoolType = _made("MemoryPoolType", WORKSPACE=0, DLA_MANAGED_SRAM=1, DLA_LOCAL_DRAM=2, DLA_GLOBAL_DRAM=3, TACTIC_DRAM=4, TACTIC_SHARED_MEMORY=5)
ProfilingVerbosity = _made("ProfilingVerbosity", LAYER_NAMES_ONLY=0, NONE=1, DETAILED=2, DEFAULT=0, VERBOSE=2)
LayerInformationFormat = _made("LayerInformationFormat", ONELINE=0, JSON=1)
DeviceType = _made("DeviceType", GPU=0, DLA=1)
EngineCapability = _made("EngineCapability", STANDARD=0, SAFETY=1, DLA_STANDALONE=2, DEFAULT=0, SAFE_GPU=1, SAFE_DLA=2)
HardwareCompatibilityLevel = _made("HardwareCompatibilityLevel", NONE=0, AMPERE_PLUS=1, SAME_COMPUTE_CAPABILITY=2)
RuntimePlatform = _made("RuntimePlatform", SAME_AS_BUILD=0, WINDOWS_AMD64=1)
TilingOptimizationLevel = _made("TilingOptimizationLevel", NONE=0, FAST=1, MODERATE=2, FULL=3)
PreviewFeature = _numbered("PreviewFeature")
AllocatorFlag = _made("AllocatorFlag", RESIZABLE=0)
TacticSource = _numbered("TacticSource")
TempfileControlFlag = _made("TempfileControlFlag", ALLOW_IN_MEMORY_FILES=0, ALLOW_TEMPORARY_FILES=1)
QuantizationFlag = _made("QuantizationFlag", CALIBRATE_BEFORE_FUSION=0)
ExecutionContextAllocationStrategy = _made("ExecutionContextAllocationStrategy", STATIC=0, ON_PROFILE_CHANGE=1, USER_MANAGED=2)
SeekPosition = _made("SeekPosition", SET=0, CUR=1, END=2)
LayerType = _made("LayerType", CONVOLUTION=0, FULLY_CONNECTED=1, GRID_SAMPLE=2, NMS=3, ACTIVATION=4, POOLING=5, LRN=6, SCALE=7, SOFTMAX=8, DECONVOLUTION=9,
                        CONCATENATION=10, ELEMENTWISE=11, PLUGIN=12, UNARY=13, PADDING=14, SHUFFLE=15, REDUCE=16, TOPK=17, GATHER=18,
                        MATRIX_MULTIPLY=19, RAGGED_SOFTMAX=20, CONSTANT=21, RNN_V2=22, IDENTITY=23, CAST=24, PLUGIN_V2=25, SLICE=26, SHAPE=27,
                        PARAMETRIC_RELU=28, RESIZE=29, TRIP_LIMIT=30, RECURRENCE=31, ITERATOR=32, LOOP_OUTPUT=33, SELECT=34, ASSERTION=35, FILL=36,
                        QUANTIZE=37, DEQUANTIZE=38, CONDITION=39, CONDITIONAL_INPUT=40, CONDITIONAL_OUTPUT=41, SCATTER=42, EINSUM=43, ONE_HOT=44,
                        NON_ZERO=45, REVERSE_SEQUENCE=46, NORMALIZATION=47, PLUGIN_V3=48, SQUEEZE=49, UNSQUEEZE=50, CUMULATIVE=51,
                        DYNAMIC_QUANTIZE=52, ATTENTION_INPUT=53, ATTENTION_OUTPUT=54, ROTARY_EMBEDDING=55, KV_CACHE_UPDATE=56, MOE=57,
                        DIST_COLLECTIVE=58)  # fmt: skip
BuilderFlag = _numbered("BuilderFlag")
ActivationType = _made("ActivationType", RELU=0, SIGMOID=1, TANH=2, LEAKY_RELU=3, ELU=4, SELU=5, SOFTSIGN=6, SOFTPLUS=7, CLIP=8, HARD_SIGMOID=9,
                       SCALED_TANH=10, THRESHOLDED_RELU=11, GELU_ERF=12, GELU_TANH=13)  # fmt: skip
PoolingType = _made("PoolingType", MAX=0, AVERAGE=1, MAX_AVERAGE_BLEND=2)
PaddingMode = _made("PaddingMode", EXPLICIT_ROUND_DOWN=0, EXPLICIT_ROUND_UP=1, SAME_UPPER=2, SAME_LOWER=3, CAFFE_ROUND_DOWN=4, CAFFE_ROUND_UP=5)
ElementWiseOperation = _made("ElementWiseOperation", SUM=0, PROD=1, MAX=2, MIN=3, SUB=4, DIV=5, POW=6, FLOOR_DIV=7, AND=8, OR=9, XOR=10, EQUAL=11,
                             GREATER=12, LESS=13)  # fmt: skip
UnaryOperation = _made("UnaryOperation", EXP=0, LOG=1, SQRT=2, RECIP=3, ABS=4, NEG=5, SIN=6, COS=7, TAN=8, SINH=9, COSH=10, ASIN=11, ACOS=12, ATAN=13,
                       ASINH=14, ACOSH=15, ATANH=16, CEIL=17, FLOOR=18, ERF=19, NOT=20, SIGN=21, ROUND=22, ISINF=23, ISNAN=24)  # fmt: skip
ReduceOperation = _made("ReduceOperation", SUM=0, PROD=1, MAX=2, MIN=3, AVG=4)
MatrixOperation = _made("MatrixOperation", NONE=0, TRANSPOSE=1, VECTOR=2)
TopKOperation = _made("TopKOperation", MAX=0, MIN=1)
ScaleMode = _made("ScaleMode", UNIFORM=0, CHANNEL=1, ELEMENTWISE=2)
GatherMode = _made("GatherMode", DEFAULT=0, ELEMENT=1, ND=2)
ScatterMode = _made("ScatterMode", ELEMENT=0, ND=1)
InterpolationMode = _made("InterpolationMode", NEAREST=0, LINEAR=1, CUBIC=2)
ResizeMode = InterpolationMode
ResizeCoordinateTransformation = _made("ResizeCoordinateTransformation", ALIGN_CORNERS=0, ASYMMETRIC=1, HALF_PIXEL=2)
ResizeSelector = _made("ResizeSelector", FORMULA=0, UPPER=1)
ResizeRoundMode = _made("ResizeRoundMode", HALF_UP=0, HALF_DOWN=1, FLOOR=2, CEIL=3)
SampleMode = _made("SampleMode", STRICT_BOUNDS=0, WRAP=1, CLAMP=2, FILL=3, REFLECT=4, DEFAULT=0)
SliceMode = SampleMode
FillOperation = _made("FillOperation", LINSPACE=0, RANDOM_UNIFORM=1, RANDOM_NORMAL=2)
BoundingBoxFormat = _made("BoundingBoxFormat", CORNER_PAIRS=0, CENTER_SIZES=1)
WeightsRole = _made("WeightsRole", KERNEL=0, BIAS=1, SHIFT=2, SCALE=3, CONSTANT=4, ANY=5)
ErrorCodeTRT = _made("ErrorCodeTRT", SUCCESS=0, UNSPECIFIED_ERROR=1, INTERNAL_ERROR=2, INVALID_ARGUMENT=3, INVALID_CONFIG=4, FAILED_ALLOCATION=5,
                     FAILED_INITIALIZATION=6, FAILED_EXECUTION=7, FAILED_COMPUTATION=8, INVALID_STATE=9, UNSUPPORTED_STATE=10)  # fmt: skip
ErrorCode = _made("ErrorCode", SUCCESS=0, INTERNAL_ERROR=1, MEM_ALLOC_FAILED=2, MODEL_DESERIALIZE_FAILED=3, INVALID_VALUE=4, INVALID_GRAPH=5,
                  INVALID_NODE=6, UNSUPPORTED_GRAPH=7, UNSUPPORTED_NODE=8, UNSUPPORTED_NODE_ATTR=9, UNSUPPORTED_NODE_INPUT=10,
                   UNSUPPORTED_NODE_DATATYPE=11, UNSUPPORTED_NODE_DYNAMIC=12, UNSUPPORTED_NODE_SHAPE=13, REFIT_FAILED=14)  # fmt: skip
CumulativeOperation = _made("CumulativeOperation", SUM=0)
ALL = {name: value for name, value in list(globals().items()) if isinstance(value, type) and issubclass(value, Enumeration) and value is not Enumeration}
EVERY = {name: dict(ALL[name].__members__) for name in NUMBERS}
"""Of every release."""
