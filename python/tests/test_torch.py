"""The adapter in the real torch."""

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402

import millrace as mr  # noqa: E402
from millrace.torch import IterableDataset  # noqa: E402

GRAPH = "synthetic n=128 ! shuffle seed=1 ! normalize ! batch 16"


def test_a_data_loader_gives_tensors():
    dataset = IterableDataset(GRAPH)
    loader = DataLoader(dataset, batch_size=None, num_workers=0, pin_memory=torch.cuda.is_available())
    for _ in range(2):  # each loop is an epoch
        batches = list(loader)
        assert len(batches) == len(dataset) == 8
        assert batches[0]["image"].shape[0] == 16 and batches[0]["label"].dtype == torch.int32
    with mr.stream(GRAPH) as s:
        assert (torch.from_dlpack(next(s)["image"]) == batches[0]["image"]).all()


@pytest.mark.parametrize("stop", range(1, 8))
def test_a_state_dict_in_a_checkpoint_resumes(tmp_path, stop):
    dataset, labels = IterableDataset(GRAPH), []
    for i, batch in enumerate(DataLoader(dataset, batch_size=None)):
        labels.append(batch["label"].clone())
        if i + 1 == stop:
            torch.save({"data": dataset.state_dict()}, tmp_path / "c.pt")
    fresh = IterableDataset(GRAPH, settings={"batch.workers": 2})
    fresh.load_state_dict(torch.load(tmp_path / "c.pt")["data"])
    rest = [b["label"].clone() for b in DataLoader(fresh, batch_size=None)]
    assert len(rest) == 8 - stop and all((a == b).all() for a, b in zip(rest, labels[stop:]))


def test_workers_of_the_data_loader_are_refused_with_what_to_do():
    with pytest.raises(Exception, match="give its batch stage workers="):
        list(DataLoader(IterableDataset(GRAPH), batch_size=None, num_workers=1))


def test_a_gradient_step_takes_them():
    layer = torch.nn.Linear(3 * 32 * 32, 10)
    for batch in DataLoader(IterableDataset(GRAPH), batch_size=None):
        loss = torch.nn.functional.cross_entropy(layer(batch["image"].flatten(1)), batch["label"].long() % 10)
        loss.backward()
    assert layer.weight.grad.abs().sum() > 0
