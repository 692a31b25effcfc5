"""The adapter in the real TensorFlow: scripts/check-python-frameworks.sh."""

import numpy
import pytest

tf = pytest.importorskip("tensorflow")

import millrace as mr  # noqa: E402
from millrace.tensorflow import dataset  # noqa: E402


def test_its_batches_are_the_streams(graph):
    with mr.stream(graph) as s:
        want = [{n: numpy.asarray(a).tobytes() for n, a in b.items()} for b in s]
    for _ in range(2):  # each loop begins at the start
        assert [{n: t.numpy().tobytes() for n, t in b.items()} for b in dataset(graph)] == want


def test_dtypes_and_shapes_are_declared():
    ds = dataset("synthetic n=64 ! normalize dtype=bf16 ! batch 16")
    assert ds.element_spec["image"].dtype == tf.bfloat16
    assert ds.element_spec["image"].shape.as_list() == [None, 32, 32, 3]
    assert ds.element_spec["label"].dtype == tf.int32


def test_ragged_fields_are_ragged_tensors(tmp_path):
    rows = [3, 0, 5, 1, 9, 2]
    tokens = numpy.arange(sum(rows), dtype=numpy.int32)
    numpy.save(tmp_path / "t.npy", tokens)
    numpy.save(tmp_path / "at.npy", numpy.cumsum([0, *rows]))
    graph = mr.npy(ragged=f"tokens:{tmp_path}/t.npy:{tmp_path}/at.npy") | mr.batch(4)
    batches = [b["tokens"] for b in dataset(graph)]
    assert [r for b in batches for r in b.row_lengths().numpy()] == rows
    assert numpy.concatenate([b.values.numpy() for b in batches]).tolist() == tokens.tolist()


def test_tf_data_transforms_follow_it_and_keras_trains():
    graph = "synthetic n=256 ! shuffle seed=1 epochs=2 ! normalize ! batch 32"
    ds = dataset(graph).map(lambda b: (b["image"], b["label"])).prefetch(2)
    model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)])
    model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(ds, epochs=1, verbose=0)
    assert numpy.isfinite(history.history["loss"]).all()
