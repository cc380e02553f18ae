# SPDX-License-Identifier: Apache-2.0
"""Arrays in a GPU's memory: with PyTorch where there is a GPU; everywhere with a driver whose GPUs are the host's memory."""
import ctypes
import gc
import os
import pathlib
import tempfile
import unittest
import unittest.mock

import numpy
import onnx
from common import DIGITS, Case, images
from onnx import TensorProto, helper

import temper

SCRIPTED = pathlib.Path(temper.__file__).parents[2] / "tests/scripted/libcuda.so.1"


def running_sum(opset=21):
    """Its one step runs on the CPU inside of a plan for a GPU, so a driver without kernels gets it right."""
    shape = ("n", 5)
    graph = helper.make_graph([helper.make_node("CumSum", ["x", "axis"], ["y"])], "sum", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], [helper.make_tensor("axis", TensorProto.INT64, (), [1])])  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]  # fmt: skip


def tensor_of(capsule):
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return DLTensor.from_address(pointer(capsule, b"dltensor"))


@unittest.skipUnless(SCRIPTED.exists(), "no scripted driver: the package stands alone")
class ScriptedGpuTest(Case):
    @classmethod
    def setUpClass(cls):
        # The driver, and a compiler that makes kernels for the host's processor, which the driver runs.
        cls.libraries = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.libraries.cleanup)
        for library in (SCRIPTED, SCRIPTED.parents[1] / "emulator/libnvrtc.so.13"):
            os.symlink(library, os.path.join(cls.libraries.name, library.name))
        cache = unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=cls.libraries.name)  # such kernels are for nobody else
        cache.start()
        cls.addClassCleanup(cache.stop)
        cls.cuda = ctypes.CDLL(str(SCRIPTED))
        cls.cuda.scripted_misuses.restype = ctypes.c_char_p
        try:
            cls.engine = temper.build(running_sum(), shapes=[(1, 5), (2, 5), (8, 5)], device="cuda:0", cuda_path=cls.libraries.name, timing_cache=None, measure=False)
        except temper.Error as error:
            if error.kind != "unsupported" or "NVRTC" not in str(error):
                raise
            raise unittest.SkipTest(f"no NVRTC: {error}")

    @classmethod
    def tearDownClass(cls):
        cls.engine.close()

    def setUp(self):
        self.addCleanup(lambda: self.assertEqual(self.cuda.scripted_misuses(), b""))

    def on_gpu(self, array, index=0):
        """A tensor of another framework in the memory of a scripted GPU."""
        cuda, context, address = self.cuda, ctypes.c_void_p(), ctypes.c_uint64()
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), index)
        cuda.cuCtxSetCurrent(context)
        self.assertEqual(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(max(array.nbytes, 1) + 4)), 0)
        place = numpy.ndarray(array.shape, array.dtype, (ctypes.c_char * (array.nbytes + 4)).from_address(address.value), 4,
                              array.strides if array.size else None)  # fmt: skip
        place[...] = array

        class GpuTensor:
            memory, streams = place, []

            def __dlpack_device__(self):
                return (2, index)

            def __dlpack__(self, *, stream=None):
                self.streams.append(stream)
                return self.memory.__dlpack__()

        return GpuTensor()

    def read(self, result):
        capsule = result.__dlpack__(stream=1)
        shared = tensor_of(capsule)
        self.assertEqual((shared.device_type, shared.device_id, shared.code, shared.bits, shared.lanes), (2, 0, 2, 32, 1))
        shape = tuple(shared.shape[: shared.ndim])
        self.assertEqual([shared.strides[i] for i in range(shared.ndim)], [5, 1])
        return numpy.ctypeslib.as_array(ctypes.cast(shared.data, ctypes.POINTER(ctypes.c_float)), shape).copy()

    def test_a_plan_of_one_gpu_is_loaded_for_another_that_is_equal(self):
        x = numpy.arange(10, dtype="float32").reshape(2, 5)
        path = os.path.join(self.libraries.name, "sum.plan")
        self.engine.save(path)
        for plan in (path, self.engine.to_bytes()):
            with temper.load(plan, device="cuda:1", cuda_path=self.libraries.name) as second:
                self.assertEqual(second.device, "cuda:1")
                numpy.testing.assert_array_equal(second.run(x)["y"], x.cumsum(1))
        self.assertRefused("usage", "the plan is for the device 'cuda:0'", lambda: temper.load(path, device="cpu", cuda_path=self.libraries.name))

    def test_a_context_of_tensorrts_names_works_in_the_programs_memory_of_the_gpu(self):
        import temper.tensorrt as trt

        cuda = self.cuda

        class Logger(trt.ILogger):
            def __init__(self):
                trt.ILogger.__init__(self)
                self.errors = []

            def log(self, severity, msg):
                if severity == trt.Logger.ERROR:
                    self.errors.append(msg)

        class Memory(trt.IGpuAllocator):
            def __init__(self):
                trt.IGpuAllocator.__init__(self)
                self.live, self.asked = set(), 0

            def allocate(self, size, alignment, flags):
                address = ctypes.c_uint64()
                if cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)):
                    return None
                self.asked += 1
                self.live.add(address.value)
                return address.value

            def deallocate(self, memory):
                self.live.remove(memory)
                return cuda.cuMemFree_v2(ctypes.c_uint64(memory)) == 0

        logger, memory = Logger(), Memory()
        runtime = trt.Runtime(logger)
        runtime.gpu_allocator = memory
        engine = runtime.deserialize_cuda_engine(self.engine.to_bytes())
        self.assertIsNotNone(engine, logger.errors)
        context = engine.create_execution_context()
        for count in (2, 8):
            x = self.on_gpu(numpy.random.default_rng(count).uniform(-1, 1, (count, 5)).astype("float32"))
            y = self.on_gpu(numpy.zeros((count, 5), "float32"))
            self.assertTrue(context.set_input_shape("x", (count, 5)))
            at = [array.memory.ctypes.data for array in (x, y)]
            self.assertTrue(context.execute_v2(at), logger.errors)
            numpy.testing.assert_allclose(y.memory, x.memory.cumsum(1), rtol=1e-5, atol=1e-6)
            self.assertEqual(len(memory.live), 1)
        del context
        self.assertEqual((memory.live, memory.asked > 0), (set(), True))

    def test_arrays_of_the_gpu_go_in_and_come_out(self):
        for count in (2, 8, 2):
            x = numpy.random.default_rng(count).uniform(-1, 1, (count, 5)).astype("float32")
            there = self.on_gpu(x)
            y = self.engine.run(there)["y"]
            self.assertIsInstance(y, temper.DeviceArray)
            self.assertEqual((y.shape, y.dtype, y.device, y.__dlpack_device__()), ((count, 5), "float32", "cuda:0", (2, 0)))
            numpy.testing.assert_array_equal(self.read(y), self.engine.run(x)["y"])
            numpy.testing.assert_allclose(self.read(y), x.cumsum(1), rtol=1e-5, atol=1e-6)
            self.assertEqual(len(there.streams), 1)
            self.assertGreater(there.streams[0], 2, "the stream of the session, which the producer makes wait")
            again = self.engine.run(y)["y"]  # an output is an input of the next one
            numpy.testing.assert_allclose(self.read(again), x.cumsum(1).cumsum(1), rtol=1e-5, atol=1e-6)

    def test_outputs_are_written_where_the_caller_wants_them(self):
        x = images(1)[0, 0, :2, :5].copy()
        target = self.on_gpu(numpy.full((2, 5), -1, "float32"))
        self.assertIs(self.engine.run(self.on_gpu(x), {"y": target})["y"], target)
        numpy.testing.assert_array_equal(target.memory, self.engine.run(x)["y"])
        self.assertRefused("usage", "output 'y' is in the host's memory|one place", self.engine.run, self.on_gpu(x), x.copy())
        self.assertRefused("usage", "output 'y' is on cuda:0|one place", self.engine.run, x, target)

    def test_a_binding_reads_and_writes_on_the_gpu_and_has_streams_wait_each_time(self):
        x, target = self.on_gpu(numpy.ones((2, 5), "float32")), self.on_gpu(numpy.full((2, 5), -1, "float32"))
        binding = self.engine.bind(x, {"y": target})
        for value in (1, 2, 3):
            x.memory[...] = value
            self.assertIs(binding.run()["y"], target)
            numpy.testing.assert_array_equal(target.memory, numpy.full((2, 5), value, "float32").cumsum(1))
        self.assertEqual((len(x.streams), len(target.streams)), (4, 4))
        self.assertRefused("usage", "give outputs", self.engine.bind, x)
        self.assertRefused("usage", "output 'y' is in the host's memory|one place", self.engine.bind, x, numpy.empty((2, 5), "float32"))
        on_the_host = numpy.ones((2, 5), "float32")  # passes through staging memory, as in run()
        numpy.testing.assert_array_equal(self.engine.bind(on_the_host).run()["y"], on_the_host.cumsum(1))

    def test_memory_outlives_engine_and_session_and_is_given_back(self):
        free = lambda: (self.cuda.cuMemGetInfo_v2(ctypes.byref(left), ctypes.byref(total)), left.value)[1]  # noqa: E731
        left, total = ctypes.c_size_t(), ctypes.c_size_t()
        x = self.on_gpu(numpy.ones((2, 5), "float32"))
        self.engine.run(x)
        before = free()
        session = self.engine.session()
        y = session.run(x)["y"]
        capsule = y.__dlpack__()
        session.close()
        del y, session
        gc.collect()
        self.assertEqual(tensor_of(capsule).device_type, 2)
        self.assertEqual(before - free(), 2 * 5 * 4)
        del capsule
        self.assertEqual(before, free())

    def test_the_current_gpu_of_the_thread_stays(self):
        cuda, context, now = self.cuda, ctypes.c_void_p(), ctypes.c_void_p()
        x = self.on_gpu(numpy.ones((2, 5), "float32"))
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1)
        for before in (context.value, None):
            for work in (lambda: self.engine.run(x), lambda: self.engine.run(numpy.ones((2, 5), "float32")), lambda: self.engine.session().prepare([(4, 5)]),
                         lambda: temper.build(running_sum(), shapes=(2, 5), device="cuda:0", cuda_path=self.libraries.name, timing_cache=None, measure=False)):  # fmt: skip
                self.assertEqual(cuda.cuCtxSetCurrent(ctypes.c_void_p(before)), 0)
                work()
                cuda.cuCtxGetCurrent(ctypes.byref(now))
                self.assertEqual(now.value, before)
        cuda.cuDevicePrimaryCtxRelease_v2(1)

    def test_what_does_not_fit_is_refused_with_the_fix(self):
        run, x = self.engine.run, numpy.ones((2, 5), "float32")
        self.assertRefused("usage", "'x' (GpuTensor) is on cuda:1, and the engine on cuda:0|x.to(\"cuda:0\")", run, self.on_gpu(x, 1))
        self.assertRefused("usage", "float64; expected is float32", run, self.on_gpu(x.astype("float64")))
        self.assertRefused("usage", "not contiguous in C order|x.contiguous()", run, self.on_gpu(numpy.asfortranarray(x)))
        self.assertRefused("usage", "shape [9,5]", run, self.on_gpu(numpy.ones((9, 5), "float32")))
        self.assertRefused("usage", "shape [2,4]", run, self.on_gpu(numpy.ones((2, 4), "float32")))
        on_the_host = temper.build(running_sum(), shapes=(2, 5), measure=False)
        self.assertRefused("usage", "is in the memory of cuda:0, and this runs on cpu|x.cpu()", on_the_host.run, self.on_gpu(x))
        y = run(self.on_gpu(x))["y"]
        with self.assertRaises(BufferError):
            y.__dlpack__(copy=True)
        with self.assertRaises(BufferError):
            y.__dlpack__(dl_device=(1, 0))
        y.__dlpack__(stream=None, max_version=(1, 1), dl_device=(2, 0), copy=False)
        self.assertRefused("usage", "x.cpu()", temper.bench, self.engine, self.on_gpu(x))


def torch_with_gpu():
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


@unittest.skipUnless(torch_with_gpu(), "no GPU, or no PyTorch for it")
class TorchTest(Case):
    @classmethod
    def setUpClass(cls):
        cls.torch = torch_with_gpu()
        cls.engine = temper.build(DIGITS, shapes=[(1, 1, 8, 8), (8, 1, 8, 8), (64, 1, 8, 8)], device="cuda:0", timing_cache=None, measure=False)

    def test_tensors_of_torch_go_in_and_come_out(self):
        for count in (1, 8, 64):
            x = images(count)
            want = self.engine.run(x)["logits"]
            there = self.torch.from_numpy(x).cuda()
            got = self.torch.from_dlpack(self.engine.run(there)["logits"])
            self.assertEqual((got.device.type, tuple(got.shape)), ("cuda", (count, 10)))
            numpy.testing.assert_array_equal(got.cpu().numpy(), want)
            target = self.torch.empty(count, 10, device="cuda")
            self.assertIs(self.engine.run({"image": there}, {"logits": target})["logits"], target)
            numpy.testing.assert_array_equal(target.cpu().numpy(), want)

    def test_work_that_still_writes_the_input_is_waited_for(self):
        torch = self.torch
        big, stream = torch.randn(4096, 4096, device="cuda"), torch.cuda.Stream()
        zeros = torch.zeros(64, 1, 8, 8, device="cuda")
        want = self.engine.run(numpy.ones((64, 1, 8, 8), "float32"))["logits"]
        for _ in range(5):
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                late = big
                for _ in range(20):
                    late = late @ big * 1e-3
                x = zeros + 1 + 0 * torch.nan_to_num(late[0, 0], 0, 0, 0)
                got = torch.from_dlpack(self.engine.run(x)["logits"])
            numpy.testing.assert_array_equal(got.cpu().numpy(), want)

    def test_wrong_tensors_are_refused(self):
        torch, run = self.torch, self.engine.run
        x = torch.zeros(4, 1, 8, 8, device="cuda")
        self.assertRefused("usage", "float16; expected is float32", run, x.half())
        self.assertRefused("usage", "not contiguous in C order", run, torch.zeros(8, 1, 8, 8, device="cuda")[::2])
        self.assertRefused("usage", "detach", run, x.clone().requires_grad_())
        on_the_host = temper.build(DIGITS, shapes=(4, 1, 8, 8), measure=False)
        self.assertRefused("usage", "x.cpu()", on_the_host.run, x)


if __name__ == "__main__":
    unittest.main()
