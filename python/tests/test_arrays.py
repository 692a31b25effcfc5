"""Arrays are views of the stream's buffers, for as long as anything holds them."""

import copy
import ctypes
import gc
import threading

import numpy
import pytest

import millrace as mr

PICTURES = "synthetic n=256 ! shuffle seed=1 ! normalize ! batch 16"


def test_numpy_sees_the_buffer_itself():
    with mr.stream(PICTURES) as s:
        batch = next(s)
        a, b = numpy.asarray(batch["image"]), numpy.asarray(batch["image"])
        assert a.ctypes.data == b.ctypes.data and a.shape == batch["image"].shape
        assert a.flags.writeable and not batch.copied
        a[0] = 7
        assert (b[0] == 7).all()


@pytest.mark.parametrize("dtype,name", [("f32", "float32"), ("bf16", "bfloat16"), ("u8", "uint8")])
def test_dtypes_and_shapes(dtype, name):
    text = "synthetic n=64 ! batch 16" if dtype == "u8" else f"synthetic n=64 ! normalize dtype={dtype} ! batch 16"
    with mr.stream(text) as s:
        image, label = next(s)["image"], s[0]["label"]
        assert image.dtype == name and image.shape[0] == 16 and image.ndim == 4
        assert image.size * (1 if dtype == "u8" else 4 if dtype == "f32" else 2) == image.nbytes
        assert label.dtype == "int32" and label.shape == (16,) and len(label) == 16
        assert name in repr(image)
        if name != "bfloat16":
            assert str(numpy.asarray(image).dtype) == name


def test_numpy_without_bfloat16_says_what_to_do():
    pytest.importorskip("numpy")
    with mr.stream("synthetic n=64 ! normalize dtype=bf16 ! batch 16") as s:
        image = next(s)["image"]
        try:
            import ml_dtypes
        except ImportError:
            with pytest.raises(mr.ShapeError, match="install ml_dtypes"):
                image.__array__()
        else:
            assert numpy.asarray(image.__array__()).dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("kept", [1, 3, 5, 9, 40])
def test_as_many_batches_are_kept_as_one_likes(kept):
    with mr.stream("range 1000 ! shuffle seed=1 ! batch 10", keep=4) as s:
        batches = [next(s) for _ in range(kept)]
        values = [numpy.asarray(b["value"]).copy() for b in batches]
        assert [b.copied for b in batches] == [i >= 4 for i in range(kept)]
        rest = sum(1 for _ in s)
        assert rest == 100 - kept
        for b, v in zip(batches, values):
            assert (numpy.asarray(b["value"]) == v).all()


def test_arrays_outlive_their_stream_and_its_batches():
    views = []
    for _ in range(5):
        with mr.stream(PICTURES) as s:
            views.append(numpy.asarray(next(s)["image"]))
    gc.collect()
    assert all((v == views[0]).all() for v in views)


def test_a_buffer_goes_back_when_its_last_array_goes():
    with mr.stream("range 1000 ! shuffle seed=1 ! batch 10", keep=1) as s:
        for _ in range(50):
            batch = next(s)
            assert not batch.copied
            view = numpy.asarray(batch["value"])
            del batch, view
        batch = next(s)
        assert not batch.copied and next(s).copied


def test_arrays_go_in_any_thread():
    with mr.stream(PICTURES) as s:
        kept = [numpy.asarray(b["image"]) for b in s]
    threads = [threading.Thread(target=kept.pop) for _ in range(len(kept))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    gc.collect()


def test_a_copy_is_a_copy():
    with mr.stream(PICTURES) as s:
        batch = next(s)
        other, image = batch.copy(), batch["image"].copy()
        assert (numpy.asarray(other["image"]) == numpy.asarray(batch["image"])).all()
        assert (numpy.asarray(image) == numpy.asarray(batch["image"])).all()
        numpy.asarray(batch["image"])[:] = 3
        assert not (numpy.asarray(other["image"]) == 3).all()
        assert other.ids == batch.ids and other.copied


def test_ragged_fields_have_offsets(tmp_path):
    lengths = [3, 0, 5, 1, 9, 2]
    numpy.arange(sum(lengths), dtype=numpy.uint16).tofile(tmp_path / "t.bin")
    with mr.stream("range 6 ! batch 6") as s:
        assert next(s)["value"].offsets is None


def test_items_and_lists():
    with mr.stream("range 10 ! batch 5") as s:
        batch = next(s)
        assert batch["value"].tolist() == [0, 1, 2, 3, 4]
        assert batch["value"][2] == 2 and list(batch["value"][1:3]) == [1, 2]


# ---- DLPack ----

def capsule_name(capsule):
    get = ctypes.pythonapi.PyCapsule_GetName
    get.restype, get.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return get(capsule)


@pytest.mark.parametrize("max_version,name", [(None, b"dltensor"), ((0, 8), b"dltensor"),
                                              ((1, 0), b"dltensor_versioned"), ((1, 1), b"dltensor_versioned"),
                                              ((2, 0), b"dltensor_versioned")])
def test_the_capsule_is_of_the_version_asked_for(max_version, name):
    with mr.stream("range 10 ! batch 5", keep=1) as s:
        batch = next(s)
        assert capsule_name(batch["value"].__dlpack__(max_version=max_version)) == name
        assert batch["value"].__dlpack_device__() == (1, 0)
        del batch
        assert not next(s).copied  # a capsule that nobody took gave its batch back


@pytest.mark.parametrize("how", [{"stream": 1}, {"dl_device": (2, 0)}])
def test_what_the_host_cannot_give_is_a_buffer_error(how):
    with mr.stream("range 10 ! batch 5") as s, pytest.raises(BufferError, match="host"):
        next(s)["value"].__dlpack__(**how)


@pytest.mark.parametrize("text,field", [("range 10 ! batch 5", "value"), (PICTURES, "image"), (PICTURES, "label")])
def test_numpy_takes_dlpack(text, field):
    with mr.stream(text) as s:
        array = next(s)[field]
        taken = numpy.from_dlpack(array)
        assert taken.ctypes.data == numpy.asarray(array).ctypes.data
        assert (taken == numpy.asarray(array)).all()


def test_dlpack_keeps_the_batch():
    with mr.stream(PICTURES, keep=2) as s:
        views, want = [], []
        for _ in range(2):
            a = next(s)["image"]
            views.append(numpy.from_dlpack(a))
            want.append(numpy.asarray(a).copy())
            del a
        for _ in s:
            pass
        assert all((v == w).all() for v, w in zip(views, want))
    assert all((v == w).all() for v, w in zip(views, want))  # also after the stream


def test_dlpack_copies_when_asked():
    with mr.stream("range 10 ! batch 5") as s:
        array = next(s)["value"]
        capsule = array.__dlpack__(copy=True)
        assert capsule_name(capsule) == b"dltensor"


def test_torch_takes_every_dtype_without_a_copy():
    torch = pytest.importorskip("torch")
    for dtype in ("f32", "bf16"):
        with mr.stream(f"synthetic n=64 ! normalize dtype={dtype} ! batch 16") as s:
            array = next(s)["image"]
            t = torch.from_dlpack(array)
            assert t.data_ptr() == array._data and tuple(t.shape) == array.shape
            assert str(t.dtype) == f"torch.{array.dtype}"


def test_jax_takes_them():
    jax = pytest.importorskip("jax")
    with mr.stream(PICTURES) as s:
        batch = next(s)
        arrays = mr.to_jax(batch)
        assert (numpy.asarray(arrays["image"]) == numpy.asarray(batch["image"])).all()
        assert mr.to_jax(batch, jax.devices()[0])["label"].shape == (16,)


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, lambda b: b.copy()], ids=["copy", "deepcopy", "method"])
def test_a_copy_has_what_a_function_of_batches_gave(take):
    graph = mr.range(8) | mr.batch(4)
    with mr.stream(graph | mr.map_batches(lambda b: {"twice": b["value"] * 2})) as s, mr.stream(graph) as plain:
        batch, own = take(next(s)), take(next(plain))
        assert list(batch) == ["twice"] and batch["twice"].tolist() == [0, 2, 4, 6]
        assert own.copied and own.ids == batch.ids == [0, 1, 2, 3] and own["value"].tolist() == [0, 1, 2, 3]
        next(s)["twice"][:] = 0
    assert batch["twice"].tolist() == [0, 2, 4, 6]
