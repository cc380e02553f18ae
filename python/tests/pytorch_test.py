# SPDX-License-Identifier: Apache-2.0
"""torch.compile(backend="temper"): graphs run as engines, and what cannot stays with PyTorch by name. Needs a Python that has PyTorch."""
import importlib.util
import unittest

from common import DIGITS, Case

TORCH = all(importlib.util.find_spec(name) for name in ("torch", "onnx", "onnxscript"))
if TORCH:
    import torch

    import temper.pytorch


@unittest.skipUnless(TORCH, "this Python has no PyTorch with an ONNX exporter")
class PytorchTest(Case):
    OPTIONS = {"measure": False}

    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        temper.pytorch.left.clear()
        self.parts = []
        self.made = temper.pytorch._Part

        def recorded(*arguments):
            part = self.made(*arguments)
            self.parts.append(part)
            return part

        temper.pytorch._Part = recorded
        self.addCleanup(setattr, temper.pytorch, "_Part", self.made)

    def compiled(self, function, **options):
        return torch.compile(function, backend="temper", options={**self.OPTIONS, **options})

    def same(self, got, want):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)

    @staticmethod
    def model():
        return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Dropout(0.5)).eval()

    def test_a_graph_is_an_engine_and_gives_what_the_engine_gives(self):
        model = self.model()
        compiled = self.compiled(model)
        x = torch.randn(2, 3, 8, 8)
        with torch.no_grad():
            y = compiled(x)
            self.same(y, model(x))
            self.assertEqual((len(self.parts), temper.pytorch.left), (1, []))
            again = self.parts[0].engine.run([x])
            self.assertTrue((torch.from_numpy(again["output_0"]) == y).all())
            strided = torch.randn(2, 8, 8, 3).permute(0, 3, 1, 2)
            self.same(compiled(strided), model(strided))

    def test_weights_that_change_make_a_new_engine(self):
        model = self.model()
        compiled = self.compiled(model)
        x = torch.randn(1, 3, 8, 8)
        with torch.no_grad():
            compiled(x)
            compiled(x)
            self.assertEqual(len(self.parts), 1)
            model[0].weight.mul_(2)
            self.same(compiled(x), model(x))
            model[0].bias = torch.nn.Parameter(torch.ones(4))
            self.same(compiled(x), model(x))
            self.assertEqual(len(self.parts), 3)
            frozen = self.compiled(lambda x: model(x), frozen=True)
            before = frozen(x)
            model[0].weight.mul_(2)
            self.same(frozen(x), before)

    def test_calls_of_a_frozen_graph_are_given_no_weights(self):
        counts, given = [], temper.pytorch._Taken.given
        temper.pytorch._Taken.given = lambda taken, arguments: (counts.append(len(arguments)), given(taken, arguments))[1]
        self.addCleanup(setattr, temper.pytorch._Taken, "given", given)
        model = self.model()

        def function(x):
            return model(x), x, model[0].weight, torch.special.bessel_j0(x) if whole else 3

        x = torch.randn(1, 3, 8, 8)
        with torch.no_grad():
            for whole, guards in ((False, {"guard_filter_fn": temper.pytorch.guards_of_inputs}), (True, {})):  # one operator of the second stays with PyTorch
                compiled = self.compiled(function, frozen=True, **guards)
                for value in (x, x, x.repeat(2, 1, 1, 1)):
                    got, same, weight, last = compiled(value)
                    self.same(got, model(value))
                    self.assertIs(same, value)
                    self.assertIs(weight, model[0].weight)
                    self.same(last, torch.special.bessel_j0(value) if whole else 3)
        self.assertLess(max(counts), 6)  # an input, and sizes where they vary; weights are six more
        self.assertEqual({left.what for left in temper.pytorch.left}, {"special_bessel_j0"})

    def test_frozen_models_of_one_class_have_an_engine_each(self):
        x = torch.randn(2, 4)
        for guards in ({}, {"guard_filter_fn": temper.pytorch.guards_of_inputs}, {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}):
            torch._dynamo.reset()
            first, second, third = (torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4)).eval() for _ in range(3))
            third[0] = first[0]  # has its first weight
            models = first, second, third
            compiled = [self.compiled(model, frozen=True, **guards) for model in models]
            with torch.no_grad():
                self.same(compiled[0](x), first(x))
                if guards and guards["guard_filter_fn"] is torch.compiler.skip_all_guards_unsafe:
                    self.assertRefused("usage", "another model", compiled[1], x)
                    continue
                for function, model in zip(compiled, models):
                    self.same(function(x), model(x))
        torch._dynamo.reset()
        product = self.compiled(lambda x, weight: x @ weight, frozen=True)
        with torch.no_grad():
            for weight in (torch.nn.Parameter(torch.randn(4, 4)), torch.nn.Parameter(torch.randn(4, 4))):
                self.same(product(x, weight), x @ weight)  # of no model: it is looked at

    def test_guards_of_inputs_notice_other_inputs(self):
        model = self.model()
        compiled = self.compiled(model, frozen=True, guard_filter_fn=temper.pytorch.guards_of_inputs)
        with torch.no_grad():
            x = torch.randn(1, 3, 8, 8)
            self.same(compiled(x), model(x))
            model.to(torch.float64)
            for other in (x.double(), torch.randn(1, 3, 9, 8, dtype=torch.float64)):
                self.same(compiled(other), model(other))
        wanted = x.double().requires_grad_()
        self.same(torch.autograd.grad(compiled(wanted).sum(), wanted), torch.autograd.grad(model(wanted).sum(), wanted))

    def test_shapes_that_vary_have_an_engine_each(self):
        model = self.model()
        compiled = self.compiled(model)
        with torch.no_grad():
            for count in (1, 2, 3, 2, 3):
                x = torch.randn(count, 3, 8, 8)
                self.same(compiled(x), model(x))
        self.assertEqual(len(self.parts), 3)  # the first graph is of one shape; the one that PyTorch makes then has two

    def test_what_is_not_there_stays_with_pytorch_by_name(self):
        def function(x):
            y = torch.relu(x @ x.T) + 1
            return torch.softmax(torch.special.bessel_j0(y) * 2 + 1, -1), x

        x = torch.randn(6, 6)
        with torch.no_grad():
            got, same = self.compiled(function)(x)
        self.same(got, function(x)[0])
        self.assertIs(same, x)
        self.assertEqual([left.what for left in temper.pytorch.left], ["special_bessel_j0"])
        self.assertEqual(len(self.parts), 2)

    def test_gradients_random_numbers_and_written_inputs_stay_with_pytorch(self):
        model = self.model()
        x = torch.randn(1, 3, 8, 8)
        self.compiled(model)(x).sum().backward()
        self.assertIsNotNone(model[0].weight.grad)
        self.assertIn("gradients are wanted", temper.pytorch.left[-1].why)

        def written(x):
            x.add_(1)
            return x * 2

        with torch.no_grad():
            y = torch.ones(3)
            self.same(self.compiled(written)(y), torch.full((3,), 4.0))
            self.same(y, torch.full((3,), 2.0))
            training = torch.nn.BatchNorm1d(4).train()
            z, other = torch.randn(8, 4), torch.nn.BatchNorm1d(4).train()
            self.same(self.compiled(training)(z), other(z))
            self.same(training.running_mean, other.running_mean)
            torch.manual_seed(1)
            drawn = self.compiled(lambda x: torch.nn.functional.dropout(x, 0.5) + 1)(torch.ones(100))
            self.assertEqual(sorted(set(drawn.tolist())), [1.0, 3.0])
            # What stands before a write must not move behind it.
            def ordered(x):
                before = torch.relu(x) + 1
                y = torch.special.bessel_j0(before)
                x.mul_(2)
                return torch.relu(x) + 1 + before, y

            for got, want in zip(self.compiled(ordered)(torch.ones(3)), ordered(torch.ones(3))):
                self.same(got, want)
        self.assertEqual(self.parts, [])
        self.assertTrue(any("mul_ write in place" in left.why for left in temper.pytorch.left), temper.pytorch.left)
        self.assertTrue(any("writes into its inputs" in left.why for left in temper.pytorch.left), temper.pytorch.left)
        self.assertTrue(any("draws random numbers" in left.why for left in temper.pytorch.left), temper.pytorch.left)

    def test_engines_read_tensors_where_they_lie_and_refuse_others(self):
        engine = temper.build(DIGITS, measure=False)
        x, y = torch.rand(3, 1, 8, 8)[1:2], torch.empty(1, 10)
        want = torch.from_numpy(engine.run(x.numpy())["logits"])

        class Own(torch.Tensor):
            pass

        for same in (x, torch.nn.Parameter(x, requires_grad=False), x.as_subclass(Own), x.transpose(1, 0)):
            self.assertIs(engine.run(same, [y.zero_()])["logits"], y)
            self.assertTrue(torch.equal(y, want))
        for other, why in ((x.clone().requires_grad_(), "detach()"), (torch.rand(8, 8).T[None, None], "not contiguous"), (x.double(), "float64"),
                           (x.to_sparse(), "does not give its memory by DLPack"), (x.to(torch.complex64), "type"), (torch.rand(1, 1, 8, 9), "9")):  # fmt: skip
            self.assertRefused("usage", why, engine.run, other)
        self.assertRefused("usage", "shape", engine.run, x, [torch.empty(1, 9)])
        self.assertRefused("usage", "detach()", engine.run, x, [torch.empty(1, 10, requires_grad=True)])
        self.assertRefused("usage", "shares memory", engine.run, x, [x.view(-1)[:10].view(1, 10)])
        # A binding keeps the memory, whatever a program puts into its tensors.
        binding = engine.bind(x, [y.zero_()])
        x.set_(torch.zeros(1, 1, 8, 8))
        others = [torch.full((3, 1, 8, 8), 7.0) for _ in range(100)]
        binding.run()
        self.assertTrue(torch.equal(y, want))
        del others

    def test_options_are_those_of_a_build_but_for_the_graphs_own(self):
        with self.assertRaisesRegex(Exception, "device is the graph's"):
            self.compiled(self.model(), device="cuda:0")(torch.randn(1, 3, 8, 8).requires_grad_(False))


if __name__ == "__main__":
    unittest.main()
