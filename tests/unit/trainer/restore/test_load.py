"""Parts of a checkpoint, and weights straight into a model, without a Run."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.trainer import stores
from tests.support.trainer.folders import SavedFolder, hugging_face
from tests.support.trainer.stores import MemoryStorage, identity
from torch import nn

import holdfast_train
from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.errors import MisconfiguredStorageError, NoCheckpointError, StateError
from holdfast_train.format.manifest import Manifest, Part
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.tree import Shard, TensorEntry
from holdfast_train.restore.lazy_tensors import Lazy, materialise
from holdfast_train.storage.checksums import CHUNK_BYTES, chunk_sums
from holdfast_train.storage.folder import FolderStorage


class Model(nn.Module):
    """Two layers, a tied head, a buffer that is saved and one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(40, 40) for _ in range(12))
        self.embed = nn.Embedding(7, 40)
        self.head = nn.Linear(40, 7, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("table", torch.arange(4.0), persistent=False)


@pytest.fixture
def folder(tmp_path: Path) -> FolderStorage:
    return FolderStorage(tmp_path / "prefix")


def trained(seed: int) -> tuple[Model, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = Model()
    model.seen += seed
    optimizer = torch.optim.AdamW(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    return model, optimizer


def save(folder: FolderStorage, *steps: int) -> Model:
    checkpoints = Checkpoints(folder, identity(1), Keep(9))
    checkpoints.start("Auto")
    for step in steps:
        model, optimizer = trained(step)
        objects = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "data": {"order": np.arange(9)}}
        stores.save(checkpoints, step, {"objects": objects}, [{"rng": 1}])
    return model


def same(first: Any, second: Any) -> bool:
    return list(first) == list(second) and all(torch.equal(first[key], second[key]) for key in first)


def test_all_of_it(folder: FolderStorage, tmp_path: Path) -> None:
    model = save(folder, 1)
    (manifest,) = (tmp_path / "prefix/manifests").iterdir()
    for uri in (folder.uri, str(tmp_path / "prefix"), f"file://{manifest}", str(manifest), manifest):
        found = holdfast_train.load(uri)
        assert list(found) == ["model", "optimizer", "data"]
        assert same(found["model"], model.state_dict())
        assert found["data"]["order"].tolist() == list(range(9))
        torch.optim.AdamW(model.parameters()).load_state_dict(found["optimizer"])


def test_a_part_of_it_and_names_are_whole(folder: FolderStorage) -> None:
    save(folder, 1)
    found = holdfast_train.load(folder.uri, only="model.layers.1")
    assert {name: list(of) for name, of in found.items()} == {"model": ["layers.1.weight", "layers.1.bias"]}
    assert holdfast_train.load(folder.uri, only="model.layers.1.").keys() == found.keys()
    both = holdfast_train.load(folder.uri, only=["optimizer.state.3", "data"])
    assert list(both) == ["optimizer", "data"]
    assert list(both["optimizer"]["state"]) == [3]


@pytest.mark.parametrize(
    ("only", "there"),
    [
        ("modle", "there is model, optimizer, data"),
        ("model.layers.12", r"below 'model.layers' there is model.layers.0, model.layers.1, .*"),
        (["model", "model.layers.1.w"], "below 'model.layers.1' there is model.layers.1.weight, model.layers.1.bias"),
    ],
)
def test_a_name_at_which_there_is_nothing(folder: FolderStorage, only: Any, there: str) -> None:
    save(folder, 1)
    with pytest.raises(StateError, match=f"there is nothing at .*; {there}"):
        holdfast_train.load(folder.uri, only=only)


def break_byte(folder: FolderStorage, step: int, at: int) -> None:
    (key,) = folder.keys(f"data/{step:012d}")
    path = Path(folder.uri.removeprefix("file://")) / key
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_what_does_not_hold_is_passed_over_if_it_is_needed(
    folder: FolderStorage, capsys: pytest.CaptureFixture[str]
) -> None:
    older = save(folder, 1).state_dict()
    save_again = Checkpoints(folder, identity(2), Keep(9))
    save_again.start("Auto")
    model, _ = trained(2)
    stores.save(save_again, 2, {"objects": {"model": model.state_dict(), "x": np.zeros(2 * CHUNK_BYTES, "u1")}}, [{}])
    break_byte(folder, 2, -1)
    assert same(holdfast_train.load(folder.uri, only="model")["model"], model.state_dict())
    assert capsys.readouterr().err == ""
    break_byte(folder, 2, 0)
    assert same(holdfast_train.load(folder.uri, only="model")["model"], older)
    assert "checkpoint of step 2 is broken" in capsys.readouterr().err
    (manifest,) = folder.keys("manifests/000000000002")
    with pytest.raises(NoCheckpointError, match=r"is broken: .*CRC of chunk 0"):
        holdfast_train.load(f"{folder.uri}/{manifest}", only="model")


def test_an_empty_prefix(folder: FolderStorage) -> None:
    with pytest.raises(NoCheckpointError, match="contains no checkpoint"):
        holdfast_train.load(folder.uri)


def meta() -> Model:
    with torch.device("meta"):
        return Model()


def test_weights_into_a_model_on_meta(folder: FolderStorage, tmp_path: Path) -> None:
    saved = save(folder, 3)
    model = meta()
    model.layers[0].weight.requires_grad_(False)
    model.layers[1].to_empty(device="cpu")
    kept = model.layers[1].weight
    assert holdfast_train.load_weights(model, tmp_path / "prefix") == ["table"]
    assert same(model.state_dict(), saved.state_dict())
    assert model.head.weight is model.embed.weight
    assert model.layers[1].weight is kept
    assert [model.layers[n].weight.requires_grad for n in (0, 1)] == [False, True]


def test_what_the_checkpoint_lacks_stays_on_meta(folder: FolderStorage) -> None:
    saved = save(folder, 3)
    model = meta()
    model.layers.append(nn.Linear(40, 40, device="meta"))
    left = holdfast_train.load_weights(model, folder.uri, strict=False)
    assert left == ["layers.12.weight", "layers.12.bias", "table"]
    assert [model.layers[n].weight.is_meta for n in (11, 12)] == [False, True]
    assert torch.equal(model.head.weight, saved.head.weight)


def test_a_model_that_has_nothing_of_the_checkpoint(folder: FolderStorage) -> None:
    save(folder, 1)
    with pytest.raises(
        StateError, match=r"lacks weight_ih_l0.*; the model lacks seen, layers.0.weight, .*none in common"
    ):
        holdfast_train.load_weights(nn.LSTM(3, 3), folder.uri, strict=False)


def test_weights_are_read_into_the_memory_that_stays(folder: FolderStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    save(folder, 3)
    model = Model()
    filled = set()
    inner = FolderStorage.read_into

    def read_into(self: FolderStorage, key: str, start: int, *views: memoryview, **more: str) -> None:
        import ctypes

        filled.update(ctypes.addressof(ctypes.c_char.from_buffer(view)) for view in views)
        inner(self, key, start, *views, **more)

    monkeypatch.setattr(FolderStorage, "read_into", read_into)
    before = model.embed.weight._version
    holdfast_train.load_weights(model, folder.uri)
    assert {parameter.data_ptr() for parameter in model.parameters()} <= filled
    assert model.embed.weight._version > before


def test_a_buffer_that_is_a_conjugated_view_has_its_values(folder: FolderStorage) -> None:
    model = nn.Module()
    model.register_buffer("phase", torch.tensor([1 + 2j, 3 - 4j]).conj())
    wanted = model.phase.clone()
    checkpoints = Checkpoints(folder, identity(1), Keep())
    checkpoints.start("Auto")
    stores.save(checkpoints, 1, {"objects": {"model": model.state_dict()}}, [{}])
    model.phase.zero_()
    holdfast_train.load_weights(model, folder.uri)
    assert model.phase.is_conj()
    assert torch.equal(model.phase, wanted)


def test_values_of_another_type_and_layout_are_converted(folder: FolderStorage) -> None:
    saved = save(folder, 3)
    model = Model().to(torch.bfloat16)
    model.embed.weight = nn.Parameter(torch.empty(40, 7, dtype=torch.bfloat16).t())
    holdfast_train.load_weights(torch.compile(model), folder.uri)
    assert torch.equal(model.layers[3].weight, saved.layers[3].weight.to(torch.bfloat16))
    assert torch.equal(model.embed.weight, saved.embed.weight.to(torch.bfloat16))


def test_extra_state_and_hooks_are_the_models_own(folder: FolderStorage) -> None:
    class Extra(nn.Linear):
        told: Any = None

        def get_extra_state(self) -> Any:
            return {"a": torch.ones(2), "told": self.told}

        def set_extra_state(self, state: Any) -> None:
            self.told = state["told"]

    checkpoints = Checkpoints(folder, identity(1), Keep())
    checkpoints.start("Auto")
    model = Extra(3, 3)
    model.told = "x"
    stores.save(checkpoints, 1, {"objects": {"model": model.state_dict()}}, [{}])
    again = Extra(3, 3)
    holdfast_train.load_weights(again, folder.uri)
    assert again.told == "x"
    assert torch.equal(again.weight, model.weight)


def test_what_does_not_fit_is_named_and_changes_nothing(folder: FolderStorage) -> None:
    saved = save(folder, 1)
    model = Model()
    model.layers.append(nn.Linear(40, 40))
    del model.embed
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(StateError, match=r"lacks layers.12.weight, layers.12.bias; the model lacks embed.weight"):
        holdfast_train.load_weights(model, folder.uri)
    assert same(model.state_dict(), before)
    holdfast_train.load_weights(model, folder.uri, strict=False)
    assert torch.equal(model.layers[5].bias, saved.layers[5].bias)
    assert torch.equal(model.layers[12].bias, before["layers.12.bias"])
    model.layers[2] = nn.Linear(40, 41)
    with pytest.raises(StateError, match=r"layers.2.weight has the shape \[40, 40\] in .*, but \[41, 40\] in"):
        holdfast_train.load_weights(model, folder.uri, strict=False)
    with pytest.raises(StateError, match="there is nothing at 'ema'; there is model, optimizer, data"):
        holdfast_train.load_weights(model, folder.uri, name="ema")


@pytest.mark.parametrize("shape", [(7, 5, 3), (8, 4), (9,)])
def test_shards_are_joined_and_cut_in_any_way(shape: tuple[int, ...]) -> None:
    """Saved in boxes along any dimension, wanted as another box: each byte comes to its place."""
    whole = torch.arange(torch.Size(shape).numel()).reshape(shape)
    for saved in range(len(shape)):
        boxes, data, at = [], b"", 0
        for piece in whole.chunk(3, saved):
            start = [0] * len(shape)
            start[saved], at = at, at + piece.shape[saved]
            raw = piece.contiguous().numpy().tobytes()
            boxes.append(Shard(len(data), len(raw), tuple(start), tuple(piece.shape)))
            data += raw
        entry = TensorEntry("t", "torch", "int64", shape, tuple(boxes))
        storage = MemoryStorage()
        storage.content["data"] = data
        part = Part("data", len(data), 64, chunk_sums(data, 64))
        manifest = Manifest(CheckpointName(1, 1, "0"), 1, 1, "u", "t", {}, {}, {}, (part,), (entry,), None, ())
        assert torch.equal(materialise(storage, manifest, Lazy(entry)), whole)
        for wanted in range(len(shape)):
            box = tuple(slice(1, 3) if n == wanted else slice(None) for n in range(len(shape)))
            part_of = whole[box]
            start = tuple(1 if n == wanted else 0 for n in range(len(shape)))
            assert torch.equal(cut(storage, manifest, entry, start, tuple(part_of.shape)), part_of)


def cut(storage: Any, manifest: Manifest, entry: TensorEntry, start: Any, shape: Any) -> torch.Tensor:
    """A box of a tensor, as a rank reads the one that it has of a DTensor."""
    from holdfast_train.restore.lazy_tensors import Filling

    made = torch.empty(shape, dtype=torch.int64)
    filling = Filling()
    filling.add_box(entry, (start, shape), made)
    filling.run(storage, manifest)
    return made


# Breaks if a program with a Run takes a prefix with checkpoints of checkpoint.folder for a broken one.
def test_checkpoint_of_a_folder(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    hugging_face(place.root, 5)
    place.commit()
    with pytest.raises(MisconfiguredStorageError, match="has the files of a program"):
        holdfast_train.load(place.storage.uri)
