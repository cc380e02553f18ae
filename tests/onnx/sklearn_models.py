# SPDX-License-Identifier: Apache-2.0
"""usage: sklearn_models.py TEMPER

Models of scikit-learn that skl2onnx converts answer in Temper as in scikit-learn: labels are equal, probabilities and
regressions within 1e-5. Features are fp32 numbers, so that both compare the same ones with a tree's thresholds.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx

try:
    import onnxruntime
    import skl2onnx
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType
    from sklearn.feature_extraction import text
    from sklearn import decomposition, discriminant_analysis, ensemble, impute, linear_model, naive_bayes, neural_network, pipeline, preprocessing, svm, tree
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

warnings.filterwarnings("ignore")
make_attribute = onnx.helper.make_attribute


def make_attribute_of_ints(key, value, *rest, **options):
    """skl2onnx gives truth values where this release of onnx wants integers."""
    if isinstance(value, (list, np.ndarray)) and any(isinstance(one, (bool, np.bool_)) for one in value):
        value = [int(one) for one in value]
    return make_attribute(key, value, *rest, **options)


onnx.helper.make_attribute = make_attribute_of_ints
random = np.random.default_rng(3)
N, F = 240, 7
X = random.standard_normal((N, F)).astype(np.float32)
X[:40] = np.round(X[:40] * 2) / 2  # features that are equal to thresholds
HOLES = np.where(random.random((N, F)) < 0.1, np.float32(np.nan), X)
COUNTS = random.integers(0, 5, (N, F))
SIGNAL = X @ random.standard_normal(F) + np.sin(2 * X[:, 0])
BINARY = (SIGNAL > 0).astype(np.int64)
CLASSES = np.array([3, 7, 11])[np.digitize(SIGNAL, [-1, 1])]
NAMES = np.array(["low", "middle ground", "höchste"])[np.digitize(SIGNAL, [-1, 1])]
WORDS = np.array(["", "red", "green", "blau", "azur é"])[COUNTS]
TARGETS = np.stack([SIGNAL, SIGNAL**2], axis=1)
# Words of two letters and more, as scikit-learn counts them.
VOCABULARY = np.array("the cat dog runs sits on under mat house when rain is heavy sun warm and nobody looks at it again".split())
TEXTS = np.array([" ".join(VOCABULARY[random.integers(0, len(VOCABULARY) - COUNTS[i, 0], random.integers(0, 12))]).capitalize() + ("." if i % 3 else ", 42") for i in range(N)])
TEXTS[5] = ""

regressors = [linear_model.LinearRegression(), linear_model.Ridge(), linear_model.Lasso(0.01), linear_model.ElasticNet(0.01),
              linear_model.SGDRegressor(random_state=0), linear_model.BayesianRidge(), linear_model.HuberRegressor(),
              tree.DecisionTreeRegressor(random_state=0), ensemble.RandomForestRegressor(20, random_state=0),
              ensemble.ExtraTreesRegressor(20, random_state=0), ensemble.GradientBoostingRegressor(random_state=0),
              ensemble.HistGradientBoostingRegressor(max_iter=20), ensemble.BaggingRegressor(n_estimators=5, random_state=0),
              neural_network.MLPRegressor(hidden_layer_sizes=(16, 8), max_iter=200, random_state=0), svm.LinearSVR(random_state=0)]
several = [linear_model.LinearRegression(), tree.DecisionTreeRegressor(random_state=0), ensemble.RandomForestRegressor(10, random_state=0)]
classifiers = [linear_model.LogisticRegression(), linear_model.SGDClassifier(loss="log_loss", random_state=0), linear_model.Perceptron(random_state=0),
               tree.DecisionTreeClassifier(random_state=0), tree.DecisionTreeClassifier(max_depth=3, random_state=0),
               ensemble.RandomForestClassifier(20, random_state=0), ensemble.ExtraTreesClassifier(20, random_state=0),
               ensemble.GradientBoostingClassifier(n_estimators=20, random_state=0), ensemble.HistGradientBoostingClassifier(max_iter=20),
               neural_network.MLPClassifier((16,), max_iter=200, random_state=0), naive_bayes.GaussianNB()]
steps = [preprocessing.StandardScaler(), preprocessing.MinMaxScaler(), preprocessing.MaxAbsScaler(), preprocessing.RobustScaler(),
         preprocessing.Normalizer("l1"), preprocessing.Normalizer("l2"), preprocessing.Binarizer(threshold=0.5), preprocessing.PolynomialFeatures(2),
         decomposition.PCA(3)]
machines = [dict(kernel="linear"), dict(kernel="rbf", gamma=0.3), dict(kernel="poly", degree=3, coef0=1), dict(kernel="sigmoid", gamma=0.05)]
refused = [("norm MAX", preprocessing.Normalizer("max"), X, None)]
compared = 0
failures = []


def temper(path, x, folder):
    shutil.rmtree(folder / "out", ignore_errors=True)
    np.save(folder / "x.npy", x)
    done = subprocess.run([sys.argv[1], "run", path, "--input", f"x={folder / 'x.npy'}", "--output-dir", folder / "out", "--quiet", "--no-measure"],
                          capture_output=True, text=True)
    return done, {file.stem: np.load(file) for file in (folder / "out").glob("*.npy")}


def convert(model, x, folder):
    kind = StringTensorType if x.dtype.kind == "U" else Int64TensorType if x.dtype == np.int64 else DoubleTensorType if x.dtype == np.float64 else FloatTensorType
    # Pipelines are written as skl2onnx does by default, with a ZipMap at the end.
    classifies = hasattr(model, "predict_proba") or hasattr(model, "classes_")
    options = {id(model): {"zipmap": False}} if classifies and not isinstance(model, pipeline.Pipeline) else None
    proto = skl2onnx.convert_sklearn(model, initial_types=[("x", kind([None, *x.shape[1:]]))], options=options,
                                     target_opset={"": 18 if isinstance(model, impute.KNNImputer) else 17, "ai.onnx.ml": 3})
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def check(model, x, y, folder, probabilities=True):
    try:
        compare(model, x, y, folder, probabilities)
    except Exception as failure:  # all of them are shown
        failures.append(f"{model}: {failure}"[:900])


def compare(model, x, y, folder, probabilities):
    global compared
    model.fit(x, y)
    path = convert(model, x, folder)
    done, got = temper(path, x, folder)
    name = f"{model} on {x.dtype}"
    assert done.returncode == 0, f"{name}: {done.stderr}"
    if hasattr(model, "classes_"):
        want = model.predict(x)
        label = got.get("label", got.get("output_label"))
        other = want
        if (label != want).any():
            # ONNX Runtime's answer counts, too, where sums in fp32 are a tie.
            session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
            other = session.run(None, {"x": x.astype(object) if x.dtype.kind == "U" else x})[0]
        assert ((label == want) | (label == other)).all() and (label != want).mean() < 0.01, f"{name}: {np.flatnonzero(label != want)}"
        if hasattr(model, "predict_proba") and probabilities:
            scores = next(v for k, v in got.items() if "prob" in k)
            np.testing.assert_allclose(scores, model.predict_proba(x), rtol=1e-5, atol=2e-6, err_msg=name)
    else:
        want = model.predict(x) if hasattr(model, "predict") else model.transform(x)
        want = np.asarray(want.todense() if hasattr(want, "todense") else want, np.float64)
        result = next(iter(got.values()))
        scale = np.abs(want).max()
        np.testing.assert_allclose(result.reshape(want.shape), want, rtol=1e-5, atol=3e-6 * scale, err_msg=name)
    compared += 1


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    for model in regressors:
        check(model, X, SIGNAL, folder)
    for model in several:
        check(model, X, TARGETS, folder)
    for model in classifiers:
        check(model, X, BINARY, folder)
        check(model, X, CLASSES, folder)
    # With two classes skl2onnx itself gives other probabilities than scikit-learn.
    check(discriminant_analysis.LinearDiscriminantAnalysis(), X, CLASSES, folder)
    for machine in machines:
        check(svm.SVR(**machine), X, SIGNAL, folder)
        for y in (BINARY, CLASSES):
            check(svm.SVC(**machine), X, y, folder)
            check(svm.SVC(probability=True, random_state=0, **machine), X, y, folder)
    check(svm.NuSVR(), X, SIGNAL, folder)
    check(svm.NuSVC(probability=True, random_state=0), X, CLASSES, folder)
    check(pipeline.make_pipeline(preprocessing.StandardScaler(), svm.SVC(probability=True, random_state=0)), X, CLASSES, folder)
    for step in steps:
        check(step, X, None, folder)
        check(pipeline.make_pipeline(step, linear_model.LogisticRegression()), X, CLASSES, folder)
        check(pipeline.make_pipeline(step, ensemble.RandomForestRegressor(10, random_state=0)), X, SIGNAL, folder, False)
    check(impute.SimpleImputer(), HOLES, None, folder)
    check(impute.KNNImputer(n_neighbors=3), HOLES, None, folder)
    check(pipeline.make_pipeline(impute.SimpleImputer(strategy="median"), linear_model.Ridge()), HOLES, SIGNAL, folder)
    check(ensemble.HistGradientBoostingRegressor(max_iter=20), HOLES, SIGNAL, folder)
    check(ensemble.HistGradientBoostingClassifier(max_iter=20), HOLES, CLASSES, folder)
    check(preprocessing.OneHotEncoder(), COUNTS, None, folder)
    check(pipeline.make_pipeline(preprocessing.OneHotEncoder(handle_unknown="ignore"), linear_model.LogisticRegression()), COUNTS, CLASSES, folder)
    for model in (linear_model.LogisticRegression(), tree.DecisionTreeClassifier(random_state=0), ensemble.RandomForestClassifier(10, random_state=0),
                  svm.SVC(kernel="rbf", probability=True, random_state=0), naive_bayes.GaussianNB(), ensemble.GradientBoostingClassifier(n_estimators=5)):
        check(model, X, NAMES, folder)
    check(preprocessing.OneHotEncoder(), WORDS, None, folder)
    check(preprocessing.OrdinalEncoder(), WORDS, None, folder)
    check(pipeline.make_pipeline(preprocessing.OneHotEncoder(handle_unknown="ignore"), linear_model.LogisticRegression()), WORDS, NAMES, folder)
    check(pipeline.make_pipeline(preprocessing.OrdinalEncoder(), ensemble.RandomForestClassifier(10, random_state=0)), WORDS, NAMES, folder)
    check(naive_bayes.MultinomialNB(), COUNTS.astype(np.float32), CLASSES, folder)
    check(naive_bayes.BernoulliNB(), (COUNTS > 1).astype(np.float32), CLASSES, folder)
    for vectorizer in (text.CountVectorizer(), text.CountVectorizer(ngram_range=(1, 2), binary=True), text.CountVectorizer(analyzer="char", ngram_range=(1, 3)),
                       text.CountVectorizer(stop_words="english", lowercase=False), text.TfidfVectorizer(), text.TfidfVectorizer(ngram_range=(1, 3), sublinear_tf=False, norm="l1"),
                       text.TfidfVectorizer(ngram_range=(2, 2), norm=None), text.TfidfVectorizer(use_idf=False)):
        check(vectorizer, TEXTS, None, folder)
    check(pipeline.make_pipeline(text.TfidfVectorizer(), linear_model.LogisticRegression()), TEXTS, NAMES, folder)
    check(pipeline.make_pipeline(text.CountVectorizer(ngram_range=(1, 2)), naive_bayes.MultinomialNB()), TEXTS, CLASSES, folder)
    check(pipeline.make_pipeline(text.TfidfVectorizer(), linear_model.Ridge()), TEXTS, SIGNAL, folder)
    for reason, model, x, y in refused:
        model.fit(x, y)
        done, _ = temper(convert(model, x, folder), x, folder)
        assert done.returncode == 4 and reason.split()[0] in done.stderr, (reason, done.returncode, done.stderr)
assert not failures, "\n".join(failures)
print(f"{compared} models of scikit-learn answer as it does")
