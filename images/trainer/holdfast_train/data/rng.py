"""The state of random number generators: Python's, and NumPy's and torch's if the program has loaded them."""

import hashlib
import random
import sys
from collections.abc import Mapping
from typing import Any

from holdfast_train.errors import StateError


def capture() -> dict[str, Any]:
    """The state of every generator of this process.

    CUDA: of all visible devices, beginning with this rank's current device, which may have another number on the next
    node.
    """
    state = capture_host()
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = [torch.cuda.get_rng_state(device) for device in _devices(torch)]
    return state


def restore(state: Mapping[str, Any]) -> None:
    """Take over a state from `capture`. A generator or device that this process does not have is skipped."""
    restore_host(state)
    torch: Any = sys.modules.get("torch")
    if torch is not None and "cuda" in state and torch.cuda.is_available():
        for device, of_device in zip(_devices(torch), state["cuda"], strict=False):
            torch.cuda.set_rng_state(of_device, device)


def _devices(torch: Any) -> list[int]:
    count, current = torch.cuda.device_count(), torch.cuda.current_device()
    return [(current + number) % count for number in range(count)]


def capture_host() -> dict[str, Any]:
    """The state of the generators that run on the CPU."""
    state: dict[str, Any] = {"python": random.getstate()}
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        state["numpy"] = numpy.random.get_state(legacy=True)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        state["torch"] = torch.get_rng_state()
    return state


def restore_host(state: Mapping[str, Any]) -> None:
    """Take over a state from `capture_host`."""
    random.setstate(state["python"])
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and "numpy" in state:
        numpy.random.set_state(state["numpy"])
    torch: Any = sys.modules.get("torch")
    if torch is not None and "torch" in state:
        torch.set_rng_state(state["torch"])


def seed_host(key: str) -> None:
    """Seed the CPU generators from `key`, each differently: from one seed Python and NumPy make the same numbers."""
    seeds = hashlib.blake2b(key.encode(), person=b"holdfast rng", digest_size=32).digest()
    random.seed(seeds[:8])
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        numpy.random.seed(numpy.frombuffer(seeds[8:24], dtype="<u4"))
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        # Not torch.manual_seed, which also seeds the GPUs. The generator uses 32 of the 64 bits.
        torch.default_generator.manual_seed(int.from_bytes(seeds[24:], "little"))


class Generators:
    """The program's own generators (of `random`, NumPy or torch), as one object for a checkpoint.

        from holdfast_train import Generators, Run

        noise = torch.Generator(device)
        with Run(model=model, per_rank={"generators": Generators(noise=noise)}) as run:
            ...

    StateError if one is of another type.
    """

    def __init__(self, **generators: Any) -> None:
        self._generators = generators
        self.state_dict()

    def state_dict(self) -> dict[str, Any]:
        """The states of the generators by name."""
        return {name: own_state(name, generator) for name, generator in self._generators.items()}

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Take over the states. StateError if the checkpoint lacks one."""
        for name, generator in self._generators.items():
            if name not in state:
                raise StateError(f"the checkpoint has no generator {name!r}, only {', '.join(map(repr, state))}")
            set_own_state(generator, state[name])


def is_generator_type(kind: type) -> bool:
    """True for a type of generator that belongs to a program: of Python, of NumPy (also a RandomState), or of torch."""
    if issubclass(kind, random.Random):
        return True
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and issubclass(kind, (numpy.random.Generator, numpy.random.RandomState)):
        return True
    torch: Any = sys.modules.get("torch")
    return torch is not None and issubclass(kind, torch.Generator)


def own_state(name: str, generator: Any) -> Any:
    """The state of a generator that the program calls `name`. StateError if it has none."""
    if isinstance(generator, random.SystemRandom):
        raise StateError(
            f"{name!r} is a random.SystemRandom, whose numbers come from the operating system, so they cannot be drawn "
            f"again after a resume: use a random.Random"
        )
    if not is_generator_type(type(generator)):
        raise StateError(
            f"{name!r} is a {type(generator).__name__}; allowed: random.Random, numpy.random.Generator, "
            f"numpy.random.RandomState, torch.Generator"
        )
    if isinstance(generator, random.Random):
        return generator.getstate()
    if hasattr(generator, "bit_generator"):
        return generator.bit_generator.state
    return generator.get_state() if hasattr(generator, "manual_seed") else generator.get_state(legacy=False)


def set_own_state(generator: Any, state: Any) -> None:
    """Let `generator` go on from a state that `own_state` has returned."""
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif hasattr(generator, "bit_generator"):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def seed_own(generator: Any, key: str) -> None:
    """Seed a generator of the program from `key`."""
    seed = int.from_bytes(hashlib.blake2b(key.encode(), person=b"holdfast own", digest_size=8).digest(), "little")
    if isinstance(generator, random.Random):
        generator.seed(seed)
    elif hasattr(generator, "bit_generator"):
        generator.bit_generator.state = type(generator.bit_generator)(seed).state
    elif hasattr(generator, "manual_seed"):
        generator.manual_seed(seed)
    else:
        generator.seed([seed & 0xFFFFFFFF, seed >> 32])
