"""`Ranks`: the ranks of one training agree, over the process group that the program has made."""

import os
import sys
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, TypeVar

from holdfast_protocol import variables
from holdfast_train.errors import EnvironmentVariableError, HoldfastTrainError, StateError

T = TypeVar("T")
FLAGS: Final = 8
# For an agreement. One rank may evaluate for hours while the others wait; whether a rank hangs is not decided here.
PATIENCE: Final = timedelta(days=30)


class Ranks:
    """This process among its ranks. With one rank (world size 1) the methods return at once.

    The process group must exist before `Ranks(connect=True)`, which every rank has to call: StateError if the
    environment says that there are several ranks, and there is no process group. Agreements go over gloo on the CPU:
    over NCCL the CPU would wait for the GPU at every step.
    """

    def __init__(self, *, connect: bool) -> None:
        self.rank = _variable("RANK", 0)
        self.size = 1
        self._group: Any = None
        self._distributed: Any = None
        self._flags: Any = None
        if not connect:
            return
        torch: Any = sys.modules.get("torch")
        if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
            self._check_alone()
            self._check_nodes()
            return
        self._distributed = torch.distributed
        self.rank, self.size = self._distributed.get_rank(), self._distributed.get_world_size()
        if self.size > 1:
            # Not the program's own group, even if that uses gloo: its timeout is made for the steps of the training.
            self._group = self._distributed.new_group(backend="gloo", timeout=PATIENCE)
            self._flags = torch.zeros(FLAGS, dtype=torch.int32)
        self._check_nodes()

    def _check_alone(self) -> None:
        """StateError if there are other ranks. Without a process group, each rank would start by itself, at step 0."""
        ranks = _variable("WORLD_SIZE", 1)
        if ranks > 1 or self.rank > 0:
            raise StateError(
                f"this process is rank {self.rank} of {max(ranks, self.rank + 1)} (RANK and WORLD_SIZE), but there is "
                f"no process group when it enters Run; call torch.distributed.init_process_group() before "
                f"`with Run(...)`"
            )

    def _check_nodes(self) -> None:
        """StateError on every rank if a node has no rank: several groups would train the same steps, each by itself."""
        nodes = _variable(variables.NODES, 1)
        if nodes == 1:
            return
        without = sorted(set(range(nodes)).difference(self.share(self.gather(_variable(variables.RANK, 0)))))
        if without:
            raise StateError(
                f"the training has {nodes} nodes ({variables.NODES}), but node {without[0]} has no rank in the process "
                f"group of this process; call torch.distributed.init_process_group() with the MASTER_ADDR, RANK and "
                f"WORLD_SIZE that torchrun sets, or the launcher for one process on each node, before `with Run(...)`"
            )

    @property
    def first(self) -> bool:
        """True on rank 0: only this rank talks to the operator and owns the log."""
        return self.rank == 0

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """For each of up to FLAGS flags, True if it is set on any rank. The same answer on every rank."""
        if self._flags is None:
            return flags
        for number, flag in enumerate(flags):
            self._flags[number] = flag
        self._distributed.all_reduce(self._flags, op=self._distributed.ReduceOp.MAX, group=self._group)
        return tuple(bool(self._flags[number]) for number in range(len(flags)))

    def new_store(self) -> Callable[[], Any]:
        """A function that connects to a part of the process group's store that no other caller of this method uses.

        Every rank has to call this method. The function raises StateError if the store allows no second connection.
        """
        prefix = f"holdfast/{self.share(uuid.uuid4().hex)}"
        whole = self._distributed.distributed_c10d._get_default_store()
        return lambda: self._distributed.PrefixStore(prefix, _connect_again(self._distributed, whole))

    def gather(self, value: Any) -> list[Any]:
        """The `value` of every rank, in order, on rank 0. An empty list on the others."""
        if self._flags is None:
            return [value]
        found: list[Any] | None = [None] * self.size if self.first else None
        self._distributed.gather_object(value, found, dst=0, group=self._group)
        return found or []

    def share(self, value: Any) -> Any:
        """Rank 0's `value`, on every rank."""
        if self._flags is None:
            return value
        box = [value]
        self._distributed.broadcast_object_list(box, src=0, group=self._group)
        return box[0]

    def from_first(self, function: Callable[[], T]) -> T:
        """The result of `function` on rank 0, on every rank. An error is raised on every rank, so that none waits."""
        value: Any = None
        error: HoldfastTrainError | None = None
        if self.first:
            try:
                value = function()
            except HoldfastTrainError as failure:
                error = failure
        value, error = self.share((value, error))
        if error is not None:
            raise error
        result: T = value
        return result


def _connect_again(distributed: Any, store: Any) -> Any:
    """Another connection to `store`; without the prefixes of `store` if torch is older than 2.8, which has no `clone`.

    StateError if there is no way to connect.
    """
    if hasattr(store, "clone"):
        return store.clone()
    while isinstance(store, distributed.PrefixStore):
        store = store.underlying_store
    if not isinstance(store, distributed.TCPStore):
        raise StateError(
            f"the process group uses a {type(store).__name__}, to which torch before 2.8 cannot connect a second time; "
            f"use torch 2.8 or newer, or init_method='env://' as torchrun sets it up"
        )
    return distributed.TCPStore(store.host, store.port, is_master=False, wait_for_workers=False, timeout=store.timeout)


def _variable(name: str, default: int) -> int:
    text = os.environ.get(name, "") or str(default)
    if not text.isdecimal():
        raise EnvironmentVariableError(f"{name} is {text!r}; allowed: a whole number of at least 0")
    return int(text)
