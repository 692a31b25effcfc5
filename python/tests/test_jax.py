"""Batches in the real JAX: scripts/check-python-frameworks.sh."""

import numpy
import pytest

jax = pytest.importorskip("jax")

import millrace as mr  # noqa: E402

GRAPH = "synthetic n=128 ! shuffle seed=1 ! normalize dtype={} ! batch 16"


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_arrays_come_without_a_copy(dtype):
    with mr.stream(GRAPH.format(dtype)) as s:
        for batch in s:
            arrays = mr.to_jax(batch)
            assert arrays["image"].dtype.name == batch["image"].dtype
            assert arrays["image"].unsafe_buffer_pointer() == batch["image"]._data
            assert (numpy.asarray(arrays["label"]) == numpy.asarray(batch["label"])).all()


def test_arrays_are_put_where_a_sharding_says():
    mesh = jax.make_mesh((1,), ("batch",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
    with mr.stream(GRAPH.format("f32")) as s:
        arrays = mr.to_jax(next(s), sharding)
        assert all(a.sharding == sharding for a in arrays.values())


def test_values_stay_while_jax_holds_them():
    with mr.stream(GRAPH.format("f32"), keep=2) as s:
        held, want = [], []
        for batch in s:
            want.append(numpy.asarray(batch["image"]).copy())
            held.append(mr.to_jax(batch)["image"])
    assert len(held) == 8 and all((numpy.asarray(h) == w).all() for h, w in zip(held, want))


def test_a_jitted_step_takes_them():
    @jax.jit
    def step(w, image, label):
        def loss(w):
            logits = image.reshape(image.shape[0], -1) @ w
            return -jax.numpy.take_along_axis(jax.nn.log_softmax(logits), label[:, None], 1).mean()
        value, grad = jax.value_and_grad(loss)(w)
        return w - 0.01 * grad, value

    w, losses = jax.numpy.zeros((3 * 32 * 32, 10)), []
    with mr.stream("synthetic n=512 ! shuffle seed=1 epochs=8 ! normalize ! batch 64") as s:
        for batch in s:
            arrays = mr.to_jax(batch)
            w, value = step(w, arrays["image"], arrays["label"])
            losses.append(float(value))
    assert losses[-1] < losses[0]
