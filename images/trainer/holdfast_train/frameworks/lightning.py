"""Lightning's Trainer through `Run`: a callback."""

import signal
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import torch
from lightning.pytorch import Callback
from lightning.pytorch.utilities import CombinedLoader
from torchmetrics import MetricTracker

from holdfast_train.data import rng
from holdfast_train.data_wait import DATA_WAIT
from holdfast_train.environment import is_in_pod
from holdfast_train.errors import StateError
from holdfast_train.frameworks.batch_order import seed_evaluation
from holdfast_train.frameworks.lightning_loop import LightningLoop
from holdfast_train.frameworks.lightning_strategy import refuse_strategy
from holdfast_train.frameworks.position import Position, Shape
from holdfast_train.run.run import Run

# Callbacks from which no resume is exact, because of the epochs, the time or the trial steps that they count, of
# parameters that they add to the optimizer, or of parameters that are not those of the module as the program makes it;
# and what a program does in place of them.
CALLBACKS: Final = {
    "BaseFinetuning": "give the optimizer all parameters at its start, and set requires_grad in the module",
    "BatchSizeFinder": "choose the batch size before the training",
    "GradientAccumulationScheduler": "use accumulate_grad_batches",
    "LearningRateFinder": "choose the learning rate before the training, as by Tuner(trainer).lr_find",
    "ModelPruning": "prune with torch.nn.utils.prune where the module is made, or after the training",
    "StochasticWeightAveraging": "leave it out",
    "Timer": "set a number of steps or epochs in place of max_time",
    "WeightAveraging": "make torch's AveragedModel a part of the module, keep its parameters out of the optimizer, and "
                       "update it in on_train_batch_end",
}  # fmt: skip


class HoldfastCallback(Callback):
    """Saves, resumes and reports the training of a Trainer.

        from holdfast_train.frameworks.lightning import HoldfastCallback

        Trainer(max_epochs=3, callbacks=[HoldfastCallback()], enable_checkpointing=False).fit(model, loader)

    A step is a step of the optimizer: it ends before the next batch is read, after the validation that follows it. On
    a notice the process ends there, with exit code 0. Outside a Holdfast pod the callback does nothing, and of several
    in one Trainer, only the first one does something. StateError names what makes an exact resume impossible.
    """

    def __init__(self) -> None:
        self._fit: _Fit | None = None

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Restore. Model and optimizers are made; the loop has not begun."""
        first = next(one for one in trainer.callbacks if isinstance(one, HoldfastCallback))
        if is_in_pod() and first is self:
            _refuse(trainer, pl_module)
            self._fit = _Fit(trainer, self)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Lightning handles SIGTERM from now on, and ends in the middle of a step: the Run has to handle it."""
        if self._fit is not None:
            self._fit.handle_sigterm()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Keep the loss for the report of the step."""
        if self._fit is not None:
            self._fit.loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Count the last step, save it, and record that training is complete."""
        if self._fit is not None:
            fit, self._fit = self._fit, None
            fit.end(None)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End the Run as the program ends."""
        if self._fit is not None:
            fit, self._fit = self._fit, None
            fit.end(exception)


class _Fit:
    """One call of `fit`. It is asked in place of two methods of Lightning's loop over the batches of an epoch.

    A step of the Run ends where the loop begins with the next batch: Lightning's own state is whole there.
    """

    def __init__(self, trainer: Any, own: Callback) -> None:
        self._trainer = trainer
        self._epoch_loop = trainer.fit_loop.epoch_loop
        self.loss: Any = None
        self._has_begun = False
        self._resumed: dict[str, Any] | None = None  # the generators, until the first batch after a resume is read
        self._loop = LightningLoop(trainer, own)
        before = rng.capture_host()
        trainer.fit_loop.setup_data()
        rng.restore_host(before)  # the batches of the first epoch are asked for once more, with the position known
        loader = _loader(trainer)
        self._seed = torch.initial_seed() % 2**32
        self._data = Position(loader, seed=self._seed, rank=trainer.global_rank)
        self._run = self._make_run(loader)
        self._run.__enter__()
        self._sigterm = signal.getsignal(signal.SIGTERM)
        self._originals = {name: getattr(self._epoch_loop, name) for name in ("advance", "on_run_start")}
        try:
            self._begin(loader)
        except BaseException as error:
            self._run.__exit__(type(error), error, error.__traceback__)
            raise

    def _make_run(self, loader: Any) -> Run:
        trainer = self._trainer
        plugin = trainer.precision_plugin
        objects: dict[str, Any] = {"scaler": plugin} if plugin.state_dict() else {}
        objects |= {f"schedule{n or ''}": config.scheduler for n, config in enumerate(trainer.lr_scheduler_configs)}
        return Run(
            model=trainer.lightning_module,
            optimizer=trainer.optimizers[0],
            shape=Shape(
                processes=trainer.world_size,
                samples=len(loader.dataset),
                batches_of_a_step=trainer.accumulate_grad_batches,
                batches_of_an_epoch=len(loader),
            ),
            per_rank={"data": self._data, "loop": self._loop},
            **objects,
        )

    def _begin(self, loader: Any) -> None:
        """Go to the position of the checkpoint."""
        trainer, run = self._trainer, self._run
        fit_loop = trainer.fit_loop
        if run.left:
            raise SystemExit(0)
        goal = trainer.estimated_stepping_batches
        self._steps: Iterator[int] = run.steps(int(goal) if goal != float("inf") else None)
        if run.should_stop:  # an earlier attempt has completed the training, or a notice has come
            self._next_step()
            fit_loop.max_epochs = fit_loop.epoch_progress.current.processed
            return
        for part in (loader.sampler, loader.batch_sampler.sampler):
            if hasattr(part, "set_epoch"):
                part.set_epoch(self._data.epoch)
        if run.resumed_from is None:
            self._data.begin(0)
        else:
            self._resumed = rng.capture()
            self._data.begin_again(skip=True)
            warnings.filterwarnings("ignore", "You're resuming from a checkpoint that ended before the epoch ended")
        iter(fit_loop._data_fetcher)
        self._epoch_loop.advance = self._advance
        self._epoch_loop.on_run_start = self._on_run_start
        self._reset_validation = self._epoch_loop.val_loop.reset
        self._epoch_loop.val_loop.reset = self._before_validation

    def handle_sigterm(self) -> None:
        """Give the signal back to the Run."""
        if callable(self._sigterm):
            signal.signal(signal.SIGTERM, self._sigterm)
        self._trainer._signal_connector.received_sigterm = False

    def end(self, error: BaseException | None) -> None:
        """Leave the Run. Without an error the last step is counted."""
        for name in self._originals:
            vars(self._epoch_loop).pop(name, None)
        vars(self._epoch_loop.val_loop).pop("reset", None)
        try:
            if error is None and not self._run.should_stop:
                self._run.finish()  # fit is over: a notice that comes now is too late
                self._count()
        except BaseException as found:
            self._run.__exit__(type(found), found, found.__traceback__)
            raise
        self._run.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)

    # In place of the methods of Lightning's loop.

    def _on_run_start(self, fetcher: Any) -> None:
        """An epoch begins, or the rest of one."""
        if self._has_begun:
            self._loop.begin_epoch()
            self._data.begin(self._trainer.current_epoch)
        self._originals["on_run_start"](fetcher)

    def _advance(self, fetcher: Any) -> None:
        """Count the step that is done, and train the next batch."""
        self._loop.restore_callbacks()
        if not self._count():  # at the goal of the job, which counts for a Trainer without one
            self._trainer.should_stop = True
            fit_loop = self._trainer.fit_loop
            fit_loop.max_epochs = fit_loop.epoch_progress.current.processed + 1
            raise StopIteration
        if self._resumed is not None:
            self._trainer.fit_loop.restarting = False  # the validation after the last batch was done before the save
            rng.restore(self._resumed)  # from which the order is drawn, if it was not drawn before
        self._originals["advance"](_Fetched(fetcher, self.note_read))
        self._loop.add_sums()

    def note_read(self) -> None:
        """A batch was read."""
        if self._resumed is not None:
            self._data.check()
            if self._data.batches:  # batches were passed over
                rng.restore(self._resumed)
            self._resumed = None
        self._data.batches += 1

    def _before_validation(self) -> None:
        """A validation begins."""
        for loader in CombinedLoader(self._trainer.val_dataloaders).flattened:
            seed_evaluation(loader, seed=self._seed, rank=self._trainer.global_rank)
        self._reset_validation()

    def _count(self) -> bool:
        """Count the step that is done, if there is one. False if no other step is to be done."""
        if self._has_begun and self._trainer.global_step == self._run.step:
            return True
        if self._has_begun:
            self._run.note_step()  # Lightning accumulates by itself
            logged = self._trainer.callback_metrics.items()
            self._run.report(loss=self.loss, metrics={name: value for name, value in logged if name != "loss"})
        self._has_begun = True
        return self._next_step()

    def _next_step(self) -> bool:
        """Let the Run count the step. False if no other step is to be done. After a notice, end the process."""
        goes_on = next(self._steps, None) is not None
        if self._run.left:
            raise SystemExit(0)
        return goes_on


class _Fetched:
    """The fetcher of Lightning's loop. `on_read` is called after each batch, before anything is done with it."""

    def __init__(self, fetcher: Any, on_read: Callable[[], None]) -> None:
        self._fetcher, self._on_read = fetcher, on_read

    def __next__(self) -> Any:
        with DATA_WAIT.counted():
            found = next(self._fetcher)
        self._on_read()
        return found

    def __getattr__(self, name: str) -> Any:
        """Called for what this class does not have."""
        return getattr(self._fetcher, name)


def _loader(trainer: Any) -> Any:
    """The DataLoader of the training. StateError if there is not exactly one."""
    loaders = CombinedLoader(trainer.train_dataloader).flattened
    if len(loaders) != 1:
        raise StateError(
            f"fit was given {len(loaders)} loaders for training, and HoldfastCallback can restore the position of one: "
            f"give it one DataLoader"
        )
    if hasattr(loaders[0], "state_dict"):
        raise StateError(
            f"the data loader is a {type(loaders[0]).__name__}, whose state Lightning restores: use a torch DataLoader"
        )
    return loaders[0]


def _refuse(trainer: Any, module: Any) -> None:
    """StateError if the training cannot resume exactly."""
    refuse_strategy(trainer.strategy, trainer.world_size)
    others = [type(c).__name__ for c in trainer.callbacks if _has_own(c, "on_save_checkpoint")]
    kinds = {kind.__name__ for callback in trainer.callbacks for kind in type(callback).__mro__}
    callbacks = sorted(kinds.intersection(CALLBACKS))
    monitored = next((c.monitor for c in trainer.checkpoint_callbacks if getattr(c, "monitor", None)), None)
    with_run = "use a loop with Run"
    refused = {
        "manual optimization": (not module.automatic_optimization, with_run),
        "more or fewer than one optimizer": (len(trainer.optimizers) != 1, with_run),
        "training_step with dataloader_iter": ("dataloader_iter" in module.training_step.__code__.co_varnames[:3],
                                               "take a batch"),
        "reload_dataloaders_every_n_epochs": (trainer.reload_dataloaders_every_n_epochs, "leave it off"),
        "overfit_batches": (trainer.overfit_batches, "use a smaller data set"),
        f"the callback {', '.join(callbacks)}": (callbacks, "; ".join(CALLBACKS[name] for name in callbacks)),
        f"on_save_checkpoint of {', '.join(others)}": (others, "give the callback state_dict and load_state_dict"),
        f"ModelCheckpoint(monitor={monitored!r})": (monitored, "its best file is on the disk of one node. Use "
                                                    "checkpoint.keep.best of the job in place of it"),
        "MetricTracker": (any(isinstance(part, MetricTracker) for part in module.modules()),
                          "each of its epochs adds a metric. Keep the best value in a buffer"),
        "on_save_checkpoint of the module": (_has_own(module, "on_save_checkpoint"), "register a buffer"),
        "fit(ckpt_path=...)": (trainer.ckpt_path, "Holdfast resumes from the checkpoints of the job"),
    }  # fmt: skip
    for name, (found, instead) in refused.items():
        if found:
            raise StateError(f"the training uses {name}, from which HoldfastCallback cannot resume exactly: {instead}")


def _has_own(thing: Any, name: str) -> bool:
    """True if `thing` overrides the method `name` of Lightning's base class."""
    first = next(kind for kind in type(thing).__mro__ if name in vars(kind))
    return not first.__module__.endswith((".callbacks.callback", ".core.hooks"))
