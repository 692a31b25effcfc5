"""Stages as objects, and their text."""

import pytest
from conftest import content

import millrace as mr

NAMES = sorted(mr.stages())


@pytest.mark.parametrize("name", NAMES)
def test_every_stage_is_a_function_with_a_docstring(name):
    stage = getattr(mr, name.replace("-", "_"))
    assert stage.__name__ == name.replace("-", "_")
    assert stage.__doc__.startswith(mr.stages()[name]["help"])
    for s in mr.stages()[name]["settings"]:
        assert s["name"].replace("-", "_") + ":" in stage.__doc__
    assert str(stage()) == name
    assert name.replace("-", "_") in dir(mr)


@pytest.mark.parametrize("graph,text", [
    (lambda: mr.range(100) | mr.shuffle(seed=1) | mr.batch(10), "range 100 ! shuffle seed=1 ! batch 10"),
    (lambda: mr.folder("my photos/a"), 'folder path="my photos/a"'),
    (lambda: mr.folder('a"b$c\\d'), 'folder path="a\\"b$$c\\\\d"'),
    (lambda: mr.batch(8, drop_remainder=True, workers=2), "batch 8 drop-remainder=true workers=2"),
    (lambda: mr.flip(p=0.25), "flip p=0.25"),
    (lambda: mr.shuffle(seed=None), "shuffle"),
    (lambda: mr.resized_crop(32, scale=(0.5, 1.0)), "resized-crop 32 scale=0.5:1.0"),
])
def test_the_text_of_stages(graph, text):
    assert str(graph()) == text
    assert graph() == graph() and hash(graph()) == hash(graph())


def test_what_is_shown_of_a_graph_has_no_secret():
    text = ("let word = zebra\nlet inner = a${word}b\n"
            "npy fields=x:http://heron:otter@127.0.0.1:1/x.npy?badger,y:s3://wombat@b/y?z peer-token=$inner ! batch 2 "
            "! alert command='true ferret' webhook=http://127.0.0.1:1/stoat")
    shown = repr(mr.Graph(text))
    for secret in ("zebra", "heron", "otter", "badger", "wombat", "ferret", "stoat"):
        assert secret in text and secret not in shown
    assert "fields=x:http://127.0.0.1:1/x.npy,y:s3://b/y?z peer-token=(hidden) ! batch 2" in shown
    for text in ("npy fields=x:x.npy peer-token=true' zebra' ! batch 2", 'npy fields=x:x.npy peer-token="a"zebra',
                 "npy fields=x:HTTP://127.0.0.1:1/x.npy?zebra", "tar http://u:p,zebra@h/x.tar ! batch 2",
                 "tar Https://u:zebra/p@h/x.tar"):
        assert "zebra" not in repr(mr.Graph(text)), text
    shown = repr(mr.npy(fields="x:x.npy", peer_token="zebra ferret"))
    assert "zebra" not in shown and "ferret" not in shown and "x.npy" in shown
    for row in mr.stages().values():
        for s in row["settings"]:
            if s.get("secret"):
                assert "zebra" not in repr(mr.Graph(f"{row['name']} {s['name']}=zebra"))


def test_stages_and_text_make_the_same_stream():
    graph = mr.synthetic(n=128) | mr.shuffle(seed=3, epochs=2) | mr.flip() | mr.normalize() | mr.batch(16)
    with mr.stream(graph) as a, mr.stream("synthetic n=128 ! shuffle seed=3 epochs=2 ! flip ! normalize ! batch 16") as b:
        assert [content(x) for x in a] == [content(x) for x in b]
        assert a.ledger == b.ledger


def test_stages_join_streams():
    a, b = mr.range(30) | mr.shuffle(seed=1), mr.range(90) | mr.shuffle(seed=2)
    with mr.stream(mr.mix(a, b, weights="1,3") | mr.batch(10)) as s:
        assert sum(x.n for x in s) > 30
    c = mr.zip(mr.range(12), mr.range(12), prefix="a.,b.") | mr.batch(4)
    with mr.stream(c) as s:
        batch = next(s)
        assert {"a.value", "b.value"} <= set(batch)
        assert batch["a.value"].tolist() == batch["b.value"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("call,says", [
    (lambda: mr.shuffle(sede=1), 'did you mean "seed"'),
    (lambda: mr.shuffle(1, 2), "values? without a name"),
    (lambda: mr.batch(1, 2), "1 value without a name, not 2"),
    (lambda: mr.range(3, mr.range(1)), "0 inputs, not 1"),
])
def test_wrong_settings_name_the_right_ones(call, says):
    with pytest.raises(mr.Error, match=says):
        call()


def test_a_stage_that_trains_has_the_settings_of_every_model():
    assert str(mr.train_step(model="mlp", hidden=64, loss="auto")) == "train-step model=mlp hidden=64 loss=auto"
    rows = {s["name"]: s for s in mr.stages()["train-step"]["settings"]}
    assert len(rows) == len(mr.stages()["train-step"]["settings"])
    assert sorted(rows["loss"]["choices"].split("|")) == ["auto", "cross-entropy", "focal", "mse"]
    assert rows["loss"]["default"] == "cross-entropy"  # of the usual model
    assert not {"hidden"} & {s["name"] for s in mr.stages()["vit-step"]["settings"]}
    with pytest.raises(mr.Error, match='did you mean "hidden"'):
        mr.train_step(model="mlp", hiden=64)


@pytest.mark.parametrize("name,says", [("shufle", 'did you mean "shuffle"'), ("resized_corp", "resized_crop"),
                                       ("xyz", "no stage is called so")])
def test_an_unknown_stage_names_the_nearest(name, says):
    with pytest.raises(AttributeError, match=says):
        getattr(mr, name)


def test_a_stage_joins_stages_alone():
    with pytest.raises(TypeError):
        mr.range(3) | "batch 2"
