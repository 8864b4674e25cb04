"""A training whose state is a function of a seed and the step, all of it: a reader can compute it again and compare."""

import hashlib
from typing import Any, Final

import numpy as np
import torch

from holdfast_train.data import rng

WORDS: Final = (3 << 17, (1 << 16, 5), 1)  # 8-byte words of the parameters; the optimizer has as many once more
ERA: Final = 5  # steps after which the frozen parameters change, past the version counters of torch
ARRAY: Final = 10_007
ROWS: Final = 1000  # small arrays: so many are saved as columns


def _factor(seed: str, step: int, what: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed} {step} {what}".encode(), digest_size=7).digest(), "little") | 1


class _Filler:
    """Fills memory. Odd numbers times an odd factor: with another factor every single word is another one."""

    def __init__(self) -> None:
        self._base = torch.arange(1, 2 * max(_count(shape) for shape in WORDS), 2, dtype=torch.int64)

    def fill(self, tensor: torch.Tensor, factor: int) -> None:
        torch.mul(self._base[: tensor.numel()].view(tensor.shape), factor, out=tensor)


def _count(shape: Any) -> int:
    return int(np.prod(shape))


class _Optimizer(torch.optim.Optimizer):
    """Sets parameters and their state to what they are at a step, where another optimizer would compute them."""

    def __init__(self, parameters: Any, seed: str, filler: _Filler) -> None:
        super().__init__(parameters, {})
        self._seed, self._filler = seed, filler
        self.number = 0

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """To the step of `number`."""
        for group in self.param_groups:
            for index, parameter in enumerate(group["params"]):
                state = self.state[parameter]
                if not state:
                    state["moment"] = torch.empty_like(parameter)
                self._filler.fill(parameter, _factor(self._seed, self.number, f"parameter {index}"))
                self._filler.fill(state["moment"], _factor(self._seed, self.number, f"moment {index}"))
                state["step"] = self.number


class _Data:
    """What no optimizer of ours changes: numbers, bytes, an array; `total` tells steps that were lost or done twice."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self.values = np.zeros(ARRAY, np.uint64)
        self.step = self.total = 0

    is_position_in_data = True

    def at(self, step: int) -> None:
        """One step further."""
        self.step, self.total = step, self.total + step
        self.values[:] = np.arange(1, 2 * ARRAY, 2, dtype=np.uint64) * np.uint64(_factor(self._seed, step, "data"))

    def state_dict(self) -> dict[str, Any]:
        """Its state."""
        word = hashlib.sha256(f"{self._seed} {self.step}".encode()).digest()
        rows = [(self.values[row : row + row % 5], self.step, row * 0.5) for row in range(ROWS)]
        return {
            "values": self.values,
            "rows": rows,
            "step": self.step,
            "total": self.total,
            "word": word,
            3: (1.5, None, [True]),
        }

    def load_state_dict(self, state: Any) -> None:
        """From its state."""
        self.values = np.array(state["values"])
        self.step, self.total = state["step"], state["total"]


class Training:
    """The objects of a run, at step 0."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self.model = torch.nn.ParameterList(
            torch.nn.Parameter(torch.zeros(shape, dtype=torch.int64), requires_grad=False) for shape in WORDS
        )
        self.optimizer = _Optimizer(self.model.parameters(), seed, _Filler())
        self.data = _Data(seed)
        self.base = torch.nn.ParameterList([torch.nn.Parameter(self.model[0].detach().clone(), requires_grad=False)])
        self._filler, self._era = _Filler(), -1

    @property
    def objects(self) -> dict[str, Any]:
        """As `Run` takes them."""
        return {"model": self.model, "optimizer": self.optimizer, "data": self.data, "base": self.base}

    def train(self, step: int) -> None:
        """Do step number `step`, the first of which is 1."""
        self.data.at(step)
        self.optimizer.number = step
        self.optimizer.step()
        if self._era != step // ERA:
            self._era = step // ERA
            self._filler.fill(self.base[0].data, _factor(self._seed, self._era, "base"))
        rng.seed_host(f"{self._seed} {step}")

    def state(self) -> dict[str, Any]:
        """All of it, as a checkpoint of one rank has it: what is alike on all ranks, and what is the rank's own."""
        alike = {name: thing.state_dict() for name, thing in self.objects.items()}
        return {"objects": alike, "own": {"rng": rng.capture(), "objects": {}}}


def expected(seed: str, step: int) -> dict[str, Any]:
    """`Training.state` of a training with `seed` that has done `step` steps."""
    training = Training(seed)
    training.data.total = step * (step - 1) // 2
    training.train(step)
    return training.state()


def differences(found: Any, wanted: Any, where: str = "state") -> list[str]:
    """Where two states differ by a single bit, or by the type of anything."""
    if isinstance(wanted, torch.Tensor | np.ndarray):
        same = type(found) is type(wanted) or {type(found), type(wanted)} <= {torch.Tensor, torch.nn.Parameter}
        same = same and found.dtype == wanted.dtype and found.shape == wanted.shape and _bytes(found) == _bytes(wanted)
        return [] if same else [f"{where} has other bits"]
    if type(found) is not type(wanted) and not (isinstance(found, dict) and isinstance(wanted, dict)):
        return [f"{where} is a {type(found).__name__}, not a {type(wanted).__name__}"]
    if isinstance(wanted, dict):
        if list(found) != list(wanted):
            return [f"{where} has {list(found)}, not {list(wanted)}"]
        return [text for key in wanted for text in differences(found[key], wanted[key], f"{where}/{key}")]
    if isinstance(wanted, list | tuple):
        if len(found) != len(wanted):
            return [f"{where} has {len(found)} things, not {len(wanted)}"]
        pairs = enumerate(zip(found, wanted, strict=True))
        return [text for number, (one, two) in pairs for text in differences(one, two, f"{where}/{number}")]
    return [] if found == wanted else [f"{where} is {found!r}, not {wanted!r}"]


def _bytes(array: Any) -> memoryview:
    if isinstance(array, torch.Tensor):
        array = array.detach().contiguous().numpy()
    return memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
