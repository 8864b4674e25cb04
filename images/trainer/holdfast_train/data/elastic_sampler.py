"""`ElasticSampler`: an order of the samples that is the same for any number of ranks, and a position in it."""

import hashlib
import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sized
from typing import Any, ClassVar, Final

import numpy as np

from holdfast_train.data.permutation import in_epochs
from holdfast_train.data.seeded import Index, SeededDataset
from holdfast_train.errors import StateError

ORDER: Final = 1  # version of the order, to be raised if the same seed ever gives another one
SHOWN: Final = 8  # allowed numbers of ranks that an error message names
SLACK: Final = 64  # steps by which a loader may draw further ahead than at its first step, as some prefetchers do


class ElasticSampler:
    """A `batch_sampler` for torch's DataLoader. It never ends: `steps` returns how many steps a number of epochs takes.

        from holdfast_train import ElasticSampler, Run

        sampler = ElasticSampler(dataset, batch=512, seed=0)  # samples in a step, over all ranks
        loader = sampler.loader(dataset, num_workers=8)  # a DataLoader whose random numbers depend on the samples alone
        with Run(model=model, optimizer=optimizer, sampler=sampler) as run:
            for step, batch in zip(run.steps(sampler.steps(epochs=3)), loader):
                ...

    **Order.** The samples form one endless row, epoch after epoch. Each epoch has its own order, which depends on
    `seed` and the epoch alone. Step n takes places n * batch … (n + 1) * batch - 1 of the row; the number of ranks and
    the micro-batch only decide which rank takes which of them. So each sample is seen once in an epoch, even if the
    number of ranks changes. A batch may span two epochs: dropping the tail of an epoch would skip samples, and a
    smaller last batch would differ from the others.

    **Position.** It is the number of trained steps, which `Run` reports (`trained`). Batches that the workers of the
    loader have drawn ahead do not count. One step of the run is one global batch: with `micro_batch`, take
    `accumulate` batches from the loader in each step. `skipped`: how many steps' data rollbacks have passed over, so
    step n takes the places of step n + `skipped`.

    `samples`: their number, or the data set, whose `fingerprint()` becomes part of the sampler's if it has one.
    `micro_batch`: samples that a rank takes at a time, by default its whole share. `rank` and `ranks`: by default those
    of torch.distributed, or of torchrun's variables; set both if several ranks share the same samples (tensor or
    pipeline parallelism).

    **Several samplers.** A training may have one for each of its stages, such as small batches first and large ones
    then. Each has the number of trained steps as its position. Begin a loop over the loader of a stage where that stage
    begins; an older one is refused.

    **Other libraries.** The sampler gives each rank its own share. A library that shares the batches among the ranks
    once more (the `prepare` of accelerate, for a loader) would let each rank train on a part of its share: it is
    refused with StateError, when it asks for `batch_size` or when the loader has drawn more steps than are trained.

    StateError if the ranks cannot share the batch evenly; it names the numbers of ranks that can.
    """

    _draws: ClassVar[int] = 0  # batches that all samplers of this process have given

    def __init__(
        self,
        samples: int | Sized,
        *,
        batch: int,
        micro_batch: int | None = None,
        seed: int = 0,
        rank: int | None = None,
        ranks: int | None = None,
    ) -> None:
        self.samples = samples if isinstance(samples, int) else len(samples)
        self.batch, self.micro_batch, self.seed = batch, micro_batch, seed
        self.step = self.skipped = 0
        self._data = _fingerprint(samples)
        self._given = (rank, ranks)
        self._drawn: int | None = None  # steps whose batches the loader has drawn completely
        self._ahead: int | None = None  # how many of them were not trained yet after the first step of the loader
        self._own_draws = 0
        self._before = 0, 0  # these two numbers of draws after the last step
        self._loads = 0
        self._rested = 0  # after so many steps this sampler had given no batch, and another one had
        self._generator: Any = None
        if batch < 1 or self.samples < batch:
            raise StateError(f"batch is {batch}; allowed: 1 to {self.samples}, the number of samples")
        if (rank is None) != (ranks is None) or (rank is not None and not 0 <= rank < (ranks or 0)):
            raise StateError(f"rank is {rank} of ranks {ranks}; set both or none, and count ranks from 0")
        self._world()

    # For the training loop.

    @property
    def epoch(self) -> int:
        """The epoch of the next sample, from 0."""
        return (self.step + self.skipped) * self.batch // self.samples

    @property
    def accumulate(self) -> int:
        """How many batches of the loader make one step of this rank."""
        _, ranks = self._world()
        return 1 if self.micro_batch is None else self.batch // (ranks * self.micro_batch)

    @property
    def batch_size(self) -> int:
        """The samples that a rank takes at a time. StateError with several ranks: see "Other libraries" above."""
        _, ranks = self._world()
        if ranks > 1:
            raise StateError(
                f"{_SHARED_AGAIN}: a library that asks for batch_size, such as accelerate, would share them once more; "
                f"do not pass the loader to prepare()"
            )
        return self.micro_batch or self.batch

    def steps(self, epochs: int) -> int:
        """The steps after which every sample was seen `epochs` times: the goal for `Run.steps`."""
        return -(-epochs * self.samples // self.batch)

    def loader(self, dataset: Any, **options: Any) -> Any:
        """A torch DataLoader over `dataset` in this order. `options` are passed to DataLoader.

        The same as DataLoader(sampler.seeded(dataset), batch_sampler=sampler, generator=sampler.generator()); also, the
        random numbers of a `collate_fn` depend on the batch alone, and a `Run` reports for which share of a step it
        waits for this loader.
        """
        timed = importlib.import_module("holdfast_train.data.timed_loader")
        data = self.seeded(dataset)
        if options.get("collate_fn") is not None:
            options["collate_fn"] = data.collate(options["collate_fn"])
        return timed.TimedLoader(data, batch_sampler=self, generator=self.generator(), **options)

    def seeded(self, dataset: Any) -> SeededDataset:
        """`dataset` with random numbers that depend on seed, epoch and sample alone: see `SeededDataset`."""
        return SeededDataset(dataset, self.seed)

    def generator(self) -> Any:
        """A torch.Generator for DataLoader's `generator`: the seeds of workers depend on seed, step, rank and worker.

        Without it a loader draws a number from torch's global generator each time it starts. A resumed run starts the
        loader once more, so its random numbers would differ from then on.
        """
        if self._generator is None:
            self._generator = importlib.import_module("torch").Generator()
        return self._generator

    def indices(self, step: int) -> list[int]:
        """This rank's samples of `step`, for a loop without a DataLoader. Those of skipped steps are passed over."""
        rank, ranks = self._world()
        share = self.batch // ranks
        first = (step + self.skipped) * self.batch + rank * share
        places = np.arange(first, first + share, dtype=np.int64)
        found = in_epochs(places, self.samples, self.seed)
        return [Index(*pair) for pair in zip(found.tolist(), places.tolist(), strict=True)]

    # For DataLoader.

    def __iter__(self) -> Iterator[list[int]]:
        """The micro-batches of this rank from the current step on, without end."""
        rank, _ = self._world()
        if self._generator is not None:  # a loader draws its workers' seeds right after this call
            at = self.step + self.skipped
            seed = hashlib.blake2b(f"{self.seed}/{at}/{rank}".encode(), person=b"holdfast loader").digest()
            self._generator.manual_seed(int.from_bytes(seed[:8], "little"))
        self._drawn, self._ahead = max(self._drawn or 0, self.step), None
        return self._stream(self.step, self._loads)

    def _stream(self, step: int, loads: int) -> Iterator[list[int]]:
        begun = step
        while True:
            indices = self.indices(step)
            size = self.micro_batch or len(indices)
            for start in range(0, len(indices), size):
                if loads != self._loads:
                    raise StateError(self._why_old(begun))
                self._own_draws += 1
                ElasticSampler._draws += 1
                if start + size == len(indices):
                    self._drawn = max(self._drawn or 0, step + 1)
                yield indices[start : start + size]
            step += 1

    def _why_old(self, begun: int) -> str:
        again = "begin the loop over it, or call iter(loader),"
        if self._rested:
            return (
                f"the data loader was started at step {begun}, and the step before step {self._rested} took its batch "
                f"from another sampler, so it is behind: {again} where the steps begin that take their batches from it"
            )
        return (
            f"the data loader was started at step {begun}, before the checkpoint put the sampler to step {self.step}: "
            f"{again} inside the `with Run(...)` block"
        )

    # For Run.

    def trained(self, step: int) -> None:
        """`step` steps are done. StateError if the loader has drawn fewer, or draws more and more of them ahead.

        A step that took its batches from another sampler alone is of another stage: this one rests from then on.
        """
        own, others = self._own_draws, ElasticSampler._draws - self._own_draws
        before, self._before = self._before, (own, others)
        if self._drawn is not None and step > self._drawn and own == before[0] and others > before[1]:
            self._loads, self._rested, self._drawn = self._loads + 1, step, None
        if self._drawn is not None and step > self._drawn:
            raise StateError(
                f"{step} steps are done, but the loader was asked for the batches of only {self._drawn}: one step is a "
                f"global batch of {self.batch} samples, on this rank {self.accumulate} batches of the loader"
            )
        if self._drawn is not None:
            ahead = self._drawn - step
            self._ahead = ahead if self._ahead is None else self._ahead
            if ahead > self._ahead + SLACK:
                raise StateError(
                    f"{_SHARED_AGAIN}, but it was asked for the batches of {self._drawn} steps while {step} steps were "
                    f"trained: a library has shared the batches among the ranks once more (do not pass the loader to "
                    f"accelerate's prepare()), or the loop takes more than {self.accumulate} batches in a step"
                )
        self.step = step

    def go_to(self, step: int) -> None:
        """Go on at `step`. A loader that was started at another step raises StateError from now on."""
        if step != self.step:
            self._loads += 1
            self._drawn = None
        self.step = step

    def skip_data(self, steps: int) -> None:
        """Pass over the data of `steps` steps in all, from the current step on. Fewer than before change nothing."""
        if steps > self.skipped:
            self._loads += 1
            self._drawn = None
            self.skipped = steps

    def state_dict(self) -> dict[str, Any]:
        """The position, and the order and the data that it belongs to. The same on every rank."""
        order = {"seed": self.seed, "batch": self.batch, "samples": self.samples, "order": ORDER}
        passed_over = {"skipped": self.skipped} if self.skipped else {}
        return {"step": self.step, **order, "data": self._data, **passed_over}

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Take over the position. StateError if the order differs. Other data is allowed; `Run` warns of it."""
        if state["order"] != ORDER:
            raise StateError(
                f"the checkpoint's order of samples has version {state['order']}; this holdfast-train supports {ORDER} "
                f"alone: use the release of holdfast-train that made the checkpoint"
            )
        if (state["seed"], state["batch"]) != (self.seed, self.batch):
            raise StateError(
                f"the checkpoint was made with seed {state['seed']} and batch {state['batch']}, the sampler with "
                f"{self.seed} and {self.batch}: steps would take other samples; give the sampler the first two"
            )
        self.go_to(int(state["step"]))
        self.skip_data(int(state.get("skipped", 0)))

    def fingerprint(self) -> dict[str, str]:
        """What a resume compares with the checkpoint (see `format.program`)."""
        words = {"seed": str(self.seed), "batch": str(self.batch), "samples": str(self.samples)}
        return words if self._data is None else {**words, "data": self._data}

    def _world(self) -> tuple[int, int]:
        """This rank and the number of ranks. Read at each call: the process group may be created after the sampler."""
        rank, ranks = self._given if self._given[1] is not None else _ranks()
        assert rank is not None
        assert ranks is not None
        check_share(self.batch, self.micro_batch, ranks)
        return rank, ranks


_SHARED_AGAIN: Final = "ElasticSampler gives each rank its own share of the batches already"


def check_share(batch: int, micro_batch: int | None, ranks: int) -> None:
    """StateError if `ranks` cannot take equal shares of `batch` in whole micro-batches. It names numbers that can."""
    pieces, rest = divmod(batch, micro_batch or 1)
    if rest:
        raise StateError(f"a batch of {batch} samples cannot be cut into whole micro-batches of {micro_batch}")
    if pieces % ranks == 0:
        return
    divisors = {d for small in range(1, int(pieces**0.5) + 1) if pieces % small == 0 for d in (small, pieces // small)}
    near = sorted(sorted(divisors, key=lambda d: abs(d - ranks))[:SHOWN])
    what = f"a global batch of {batch} samples" + ("" if micro_batch is None else f" in micro-batches of {micro_batch}")
    more = "" if len(divisors) <= SHOWN else f" (the nearest of {len(divisors)})"
    raise StateError(
        f"{ranks} ranks cannot share {what} evenly; {', '.join(map(str, near))}{more} ranks can: use one of these "
        f"numbers, because the batch has to stay the same for the whole training"
    )


def _ranks() -> tuple[int, int]:
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
        return int(torch.distributed.get_rank()), int(torch.distributed.get_world_size())
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def _fingerprint(data: object) -> str | None:
    fingerprint = getattr(data, "fingerprint", None)
    return str(fingerprint()) if callable(fingerprint) else None
