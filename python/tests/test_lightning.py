"""The torch adapter in the real Lightning, with checkpoints of its own: scripts/check-python-frameworks.sh."""

import pytest

torch = pytest.importorskip("torch")
lightning = pytest.importorskip("lightning")

from torch.utils.data import DataLoader  # noqa: E402

from millrace.torch import IterableDataset  # noqa: E402

GRAPH = "synthetic n=160 ! shuffle seed=1 epochs=2 ! normalize ! batch 16"  # 20 batches


class Data(lightning.LightningDataModule):
    def __init__(self, **how):
        super().__init__()
        self.dataset = IterableDataset(GRAPH, **how)

    def train_dataloader(self):
        return DataLoader(self.dataset, batch_size=None, num_workers=0, pin_memory=torch.cuda.is_available())

    def state_dict(self):
        return self.dataset.state_dict()

    def load_state_dict(self, state):
        self.dataset.load_state_dict(state)


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(3 * 32 * 32, 10)
        self.seen = []

    def training_step(self, batch, _):
        self.seen.append(batch["label"].tolist())
        return torch.nn.functional.cross_entropy(self.layer(batch["image"].flatten(1)), batch["label"].long())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


def trainer(path, steps):
    return lightning.Trainer(max_steps=steps, max_epochs=-1, accelerator="cpu", logger=False, enable_progress_bar=False,
                             enable_checkpointing=False, enable_model_summary=False, default_root_dir=path)


def test_it_trains_over_the_whole_stream(tmp_path):
    model, data = Model(), Data()
    trainer(tmp_path, 20).fit(model, data)
    assert len(model.seen) == 20 and data.dataset.stream.step in (0, 20)


@pytest.mark.parametrize("stop", [1, 7, 19])
def test_a_checkpoint_of_lightning_resumes_the_stream(tmp_path, stop):
    whole = Model()
    trainer(tmp_path, 20).fit(whole, Data())
    first = Model()
    t = trainer(tmp_path, stop)
    t.fit(first, Data())
    t.save_checkpoint(tmp_path / "c.ckpt")
    then, rest = Model(), Data(settings={"batch.workers": 2})
    trainer(tmp_path, 20).fit(then, rest, ckpt_path=tmp_path / "c.ckpt")
    assert len(first.seen) == stop and first.seen + then.seen == whole.seen
    assert (then.layer.weight == whole.layer.weight).all()
