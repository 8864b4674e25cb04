"""Load from a checkpoint without a Run: its state, a part of it, or weights directly into a model."""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Unpack

from holdfast_train.commitlog.checkpoints import Found
from holdfast_train.errors import StateError
from holdfast_train.format.selection import SHOWN, Only, at, select
from holdfast_train.format.sharding import is_sharded
from holdfast_train.format.stateful import unwrapped
from holdfast_train.restore.lazy_tensors import Filling, Lazy, batched, materialise, outline
from holdfast_train.restore.source import open_address, read_newest_intact
from holdfast_train.storage.base import Storage
from holdfast_train.storage.retrying import PATIENCE_SECONDS
from holdfast_train.storage.s3_server import S3Options


def load(
    uri: str | os.PathLike[str],
    *,
    only: Only = None,
    **server: Unpack[S3Options],
) -> dict[str, Any]:
    """The state of the objects in a checkpoint, by the names given to `Run`; tensors are on the CPU.

        weights = holdfast_train.load("s3://runs/vision/vit-faces", only="model")["model"]

    `uri`: the address of a manifest, or of a prefix (its newest intact checkpoint); s3://, file:// or a path. `only`: a
    dotted name or several, such as "model" or "model.layers.0."; other state is not read. Sharded tensors are returned
    whole. `server`: how the S3 server is reached, by the names of S3Options; see `source.open_address` for defaults.

    NoCheckpointError if no checkpoint is intact, StateError if a name of `only` has no state, StorageErrors.
    """
    storage, name = open_address(os.fspath(uri), **server)

    def read(found: Found) -> dict[str, Any]:
        wanted = select(outline(found.manifest.state, found.manifest)["objects"], only)
        result: dict[str, Any] = materialise(storage, found.manifest, wanted)
        return result

    with storage.within(PATIENCE_SECONDS):
        return read_newest_intact(storage, name, read)[1]


def load_weights(
    model: Any,
    uri: str | os.PathLike[str],
    *,
    name: str = "model",
    strict: bool = True,
    device: Any = "cpu",
    **server: Unpack[S3Options],
) -> list[str]:
    """Fill a model's parameters and buffers from the state `name` of the checkpoint at `uri`.

        with torch.device("meta"):
            model = Transformer(config)
        holdfast_train.load_weights(model, "s3://runs/vision/vit-faces", device="cuda")

    Tensors on the meta device first get memory on `device`; tied parameters stay tied. Bytes are read directly into
    that memory where possible; values of another type are converted. Of a DTensor each rank reads only its own part.
    Returns the names of tensors that are still on meta, for you to fill: buffers that no checkpoint contains
    (`persistent=False`) and, without `strict`, tensors that this checkpoint lacks.

    StateError if a name is only in the model or only in the checkpoint (without `strict`: if they have no name in
    common), and if shapes differ: the model is unchanged then. After another error the model's values are undefined.
    For the other arguments and errors see `load`.
    """
    storage, checkpoint = open_address(os.fspath(uri), **server)
    inner = unwrapped(model)
    with storage.within(PATIENCE_SECONDS):
        read_newest_intact(
            storage, checkpoint, lambda found: fill_model(inner, storage, found, name, strict=strict, device=device)
        )
    return [name for name, tensor in _tensors(inner) if tensor.is_meta]


def fill_model(
    model: Any, storage: Storage, found: Found, name: str = "model", *, strict: bool = True, device: Any = "cpu"
) -> None:
    """Fill a model, without wrappers such as DistributedDataParallel, from one checkpoint. See `load_weights`."""
    saved = at(outline(found.manifest.state, found.manifest)["objects"], name)
    if not isinstance(saved, Mapping):
        raise StateError(f"{name!r} in {found.uri} is a {type(saved).__name__}; expected the state of a model")
    _check(saved, model.state_dict(keep_vars=True), name, found.uri, strict=strict)
    _give_memory(model, saved, device)
    own, rest = _split(model, saved)
    _fill(own, lambda filling: filling.run(storage, found.manifest))
    if rest:
        model.load_state_dict(materialise(storage, found.manifest, rest), strict=False)


def _check(saved: Mapping[str, Any], now: Mapping[str, Any], name: str, uri: str, *, strict: bool) -> None:
    """StateError names the missing and the additional names, or a shape that differs."""
    missing = [key for key in now if key not in saved]
    extra = [key for key in saved if key not in now]
    nothing = len(missing) == len(now)
    if (missing or extra) and (strict or nothing):
        both = (
            "they have none in common: set `name` to the object" if nothing else "strict=False loads the common names"
        )
        raise StateError(
            f"{name!r} in {uri} does not fit the model: "
            + "; ".join(
                f"{what} {_listed(keys)}"
                for what, keys in (("the checkpoint lacks", missing), ("the model lacks", extra))
                if keys
            )
            + f". The checkpoint has {len(saved)} names, the model {len(now)}; {both}"
        )
    for key, value in saved.items():
        shape = tuple(getattr(now.get(key), "shape", ()))
        if key in now and isinstance(value, Lazy) and value.entry.shape != shape:
            raise StateError(f"{key} has the shape {list(value.entry.shape)} in {uri}, but {list(shape)} in the model")


def _listed(keys: list[str]) -> str:
    more = len(keys) - SHOWN
    return ", ".join(keys[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _tensors(model: Any) -> Iterator[tuple[str, Any]]:
    """Parameters and buffers, each under all its names."""
    yield from model.named_parameters(remove_duplicate=False)
    yield from model.named_buffers(remove_duplicate=False)


def _give_memory(model: Any, saved: Mapping[str, Any], device: Any) -> None:
    """Give memory to the tensors that are on the meta device and in `saved`. Tied parameters stay tied."""
    import torch  # noqa: PLC0415 - the library works without it

    state = model.state_dict(keep_vars=True)
    meta = {id(tensor) for key, tensor in state.items() if key in saved and getattr(tensor, "is_meta", False)}
    if not meta:
        return
    places: dict[int, list[tuple[Any, str]]] = {}
    for module in model.modules():
        for key, parameter in module._parameters.items():
            if id(parameter) in meta and not is_sharded(parameter):
                places.setdefault(id(parameter), []).append((module, key))
    # As Module.to_empty, except for tensors that have values. _apply also informs modules of FSDP.
    model._apply(lambda tensor: torch.empty_like(tensor, device=device) if id(tensor) in meta else tensor)
    for (first, first_key), *others in places.values():
        for module, key in others:
            setattr(module, key, getattr(first, first_key))


def _split(model: Any, saved: Mapping[str, Any]) -> tuple[list[tuple[Lazy, Any]], dict[str, Any]]:
    """Tensors that are read directly into parameters and buffers, and values that load_state_dict has to load."""
    there = {id(tensor) for _, tensor in _tensors(model)}
    own: dict[int, tuple[Lazy, Any]] = {}
    rest: dict[str, Any] = {}
    for key, tensor in model.state_dict(keep_vars=True).items():
        value = saved.get(key)
        if isinstance(value, Lazy) and value.entry.kind == "torch" and id(tensor) in there:
            own[id(tensor)] = (value, tensor.detach())
        elif key in saved:
            rest[key] = value
    return list(own.values()), rest


def _fill(pairs: list[tuple[Lazy, Any]], run: Callable[[Filling], None]) -> None:
    """Read each Lazy into its tensor: directly where the memory allows it, otherwise through a buffer of bounded size.

    Not directly into a view such as x.conj(): its values differ from its memory.
    """
    import torch  # noqa: PLC0415

    direct, filled = Filling(), []
    others: list[tuple[Lazy, Any]] = []
    for lazy, tensor in pairs:
        wanted = Lazy(lazy.entry, like=tensor) if is_sharded(tensor) else lazy
        local = tensor.to_local() if is_sharded(tensor) else tensor
        same = local.dtype == getattr(torch, lazy.entry.dtype) and local.is_contiguous()
        same = same and not local.is_conj() and not local.is_neg()
        if same and local.device.type == "cpu":
            direct.add(wanted, local)
            filled.append(local)
        else:
            others.append((wanted, local))
    run(direct)
    torch.autograd.graph.increment_version(
        filled
    )  # torch did not see these writes; autograd must count them as a change
    for batch in batched(others, lambda pair: pair[0].entry.size):
        filling = Filling()
        made = [torch.empty(wanted.box[1], dtype=getattr(torch, wanted.entry.dtype)) for wanted, _ in batch]
        for (wanted, _), tensor in zip(batch, made, strict=True):
            filling.add(wanted, tensor)
        run(filling)
        with torch.no_grad():
            for (_, local), tensor in zip(batch, made, strict=True):
                local.copy_(tensor)
