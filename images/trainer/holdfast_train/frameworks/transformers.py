"""Hugging Face's Trainer through `Run`: `train(trainer)` in place of `trainer.train()`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from holdfast_train.data import rng
from holdfast_train.data_wait import DATA_WAIT
from holdfast_train.environment import is_in_pod
from holdfast_train.errors import StateError
from holdfast_train.format.stateful import Stateful
from holdfast_train.frameworks.batch_order import seed_evaluation
from holdfast_train.frameworks.own_objects import with_own
from holdfast_train.frameworks.position import Position, Shape
from holdfast_train.frameworks.prepared import base_of, refuse_distribution
from holdfast_train.frameworks.trainer_loop import TrainerLoop
from holdfast_train.run.run import Run

HOOKED: Final = (
    "get_train_dataloader",
    "get_eval_dataloader",
    "get_batch_samples",
    "training_step",
    "log",
    "_init_training_state",
    "_prepare_for_training",
    "_run_epoch",
    "_finalize_training",
)
# Where the Trainer expects the path of its own checkpoint. It finds no generators there: `get_batch_samples` does.
RESUMED: Final = "a checkpoint of Holdfast"


def train(trainer: Any, *, per_rank: Mapping[str, Stateful] | None = None, **more: Any) -> Any:
    """Train as `trainer.train(**options)`, with the checkpoints of the job. Returns what that returns.

        from holdfast_train.frameworks.transformers import train

        train(Trainer(model=model, args=args, train_dataset=data))

    Training resumes where the newest checkpoint is, saves beside training, and leaves on a notice: then the process
    ends here, with exit code 0. After the return training is complete. Outside a Holdfast pod this is `trainer.train`.
    StateError names an option that makes an exact resume impossible.

    Those of `more` with state_dict and load_state_dict go into checkpoints, as with Run: state that the Trainer, its
    callbacks or the model keep elsewhere than in parameters and buffers. `per_rank`: those that differ between ranks.
    The others are the options of `trainer.train`.
    """
    objects = {name: value for name, value in more.items() if isinstance(value, Stateful)}
    options = {name: value for name, value in more.items() if name not in objects}
    if not is_in_pod():
        return trainer.train(**options)
    _refuse(trainer, options)
    with ExitStack() as stack:
        training = _Training(trainer, stack, objects, per_rank or {})
        with _hooked(trainer, training):
            return trainer.train(**options)


def _refuse(trainer: Any, options: Mapping[str, Any]) -> None:
    """StateError if the Trainer cannot resume exactly, or saves by itself what Holdfast saves."""
    missing = [name for name in HOOKED if not hasattr(trainer, name)]
    if missing:
        raise StateError(
            f"transformers {version('transformers')} has no Trainer.{missing[0]}: use 5.22, 5.23 or checkpoint.folder"
        )
    args = trainer.args
    instead = "leave it off: Holdfast resumes from the checkpoints of the job"
    refused = {
        "train(resume_from_checkpoint=...)": (options.get("resume_from_checkpoint"), instead),
        "train(trial=...)": (options.get("trial"), "a search is several trainings, and a job has one"),
        "enable_jit_checkpoint": (getattr(args, "enable_jit_checkpoint", False), "Holdfast saves on SIGTERM itself"),
        "load_best_model_at_end": (args.load_best_model_at_end, "the best checkpoint is on the disk of one node; use "
                                   "checkpoint.keep.best of the job"),
        "auto_find_batch_size": (args.auto_find_batch_size, "a batch size that changes changes the order of samples"),
        "ignore_data_skip": (args.ignore_data_skip, "samples would be trained twice after a resume"),
    }  # fmt: skip
    for name, (value, why) in refused.items():
        if value:
            raise StateError(f"{name} is set, which Holdfast does not allow: {why}")
    refuse_distribution(trainer.accelerator)


@contextmanager
def _hooked(trainer: Any, training: "_Training") -> Iterator[None]:
    """Inside, `training` is asked in place of the methods of this one `trainer`, and is given the original ones."""
    own = {name: vars(trainer)[name] for name in HOOKED if name in vars(trainer)}
    for name in HOOKED:
        original = getattr(trainer, name)
        training.originals[name] = original
        setattr(trainer, name, partial(getattr(training, name.lstrip("_")), original))
    try:
        yield
    finally:
        for name in HOOKED:
            delattr(trainer, name)
        vars(trainer).update(own)


class _Training:
    """One training of a Trainer. Each method stands for one of the Trainer's, whose own is `original`.

    A step of the Run ends where the Trainer asks for the batches of the next step: the last step is logged and
    evaluated then, and no random number of the next one is drawn.
    """

    def __init__(self, trainer: Any, stack: ExitStack, objects: Mapping[str, Any], per_rank: Mapping[str, Any]) -> None:
        self.originals: dict[str, Callable[..., Any]] = {}
        self._trainer = trainer
        self._stack = stack
        self._objects, self._per_rank = objects, per_rank
        self._loop = TrainerLoop(trainer)
        self._steps: Iterator[int] | None = None  # until the Trainer's own loop begins
        self._has_begun = False
        self._loss: Any = None
        self._resumed: dict[str, Any] | None = None  # the generators, until the first batch after a resume is read

    def get_train_dataloader(self, original: Callable[[], Any]) -> Any:
        """The loader, whose position is known from now on."""
        loader = original()
        self._loader = loader
        self._data = Position(base_of(loader), seed=self._seed, rank=self._trainer.args.process_index)
        return loader

    def get_eval_dataloader(self, original: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """The loader of an evaluation."""
        loader = original(*arguments, **options)
        base = getattr(loader, "base_dataloader", loader)
        seed_evaluation(base, seed=self._seed, rank=self._trainer.args.process_index)
        return loader

    @property
    def _seed(self) -> int:
        args = self._trainer.args
        return int(args.seed if args.data_seed is None else args.data_seed)

    def init_training_state(
        self, original: Callable[..., Any], max_steps: int, per_epoch: int, epochs: int, _: Any, trial: Any
    ) -> tuple[int, int]:
        """Restore, and return the epoch and the number of its batches that were trained.

        The Trainer prepares model and optimizer after this call. They are prepared here, because the checkpoint is read
        into them, and its step is known only then.
        """
        trainer = self._trainer
        original(max_steps, per_epoch, epochs, None, trial)
        self._prepared = self.originals["_prepare_for_training"](max_steps, self._loader, None)
        scaler = getattr(trainer.accelerator, "scaler", None)
        own = {
            "model": self._prepared[0],
            "optimizer": trainer.optimizer,
            "schedule": trainer.lr_scheduler,
            **({} if scaler is None else {"scaler": scaler}),
            "shape": Shape(
                processes=trainer.args.world_size,
                samples=len(self._loader.dataset),
                samples_of_a_step=trainer.get_total_train_batch_size(trainer.args),
                batches_of_a_step=trainer.args.gradient_accumulation_steps,
                batches_of_an_epoch=len(self._loader),
            ),
        }
        of_rank = with_own({"data": self._data, "loop": self._loop}, self._per_rank)
        self._run = Run(per_rank=of_rank, **with_own(own, self._objects))
        self._stack.enter_context(self._run)
        self._end_if_left()
        self._steps = self._run.steps(max_steps)
        if self._run.resumed_from is None:
            return 0, 0
        args, was_on = trainer.args, trainer.args.eval_on_start
        self._stack.callback(setattr, args, "eval_on_start", was_on)
        args.eval_on_start = False  # the first attempt has done it
        if self._run.should_stop:
            return epochs, 0
        self._resumed = rng.capture()
        trainer.state.init_training_references(trainer, max_steps, epochs, trial)
        return self._data.epoch, self._data.batches

    def prepare_for_training(self, _: Callable[..., Any], *__: Any) -> Any:
        """What was prepared before the restore."""
        return self._prepared

    def run_epoch(self, original: Callable[..., None], **options: Any) -> None:
        """One epoch, or the rest of the one in which the checkpoint was made."""
        epoch = options["epoch"]
        if hasattr(self._loader, "set_epoch"):
            self._loader.set_epoch(epoch)  # the loader that passes over batches does not reach all samplers
        if self._resumed is not None and epoch == self._data.epoch:
            self._data.begin_again()
            options["resume_from_checkpoint"] = RESUMED
        else:
            self._data.begin(epoch)
        original(**options)

    def get_batch_samples(self, original: Callable[..., Any], *arguments: Any) -> tuple[list[Any], Any]:
        """Count the step that is done, and read the batches of the next one. None if training ends here."""
        self._loop.set_numbers()
        if not self._count():
            self._trainer.control.should_training_stop = True
            return [], None
        with DATA_WAIT.counted():
            batches, items = original(*arguments)
        if self._resumed is not None:
            self._data.check()
            if self._data.batches:  # otherwise the order of the epoch is drawn now, as it was before
                rng.restore(self._resumed)
            self._resumed = None
        self._data.batches += len(batches)
        return batches, items

    def training_step(self, original: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """One batch. The losses of the batches of a step add up to the loss of the step."""
        if self._steps is None:
            raise StateError(
                f"{type(self._trainer).__name__} trains in a loop of its own, which replaces the Trainer's: Holdfast "
                f"could not save in it. Override compute_loss or training_step in place of it, or use a loop with Run"
            )
        loss = original(*arguments, **options)
        self._loss = loss if self._loss is None else self._loss + loss
        return loss

    def log(self, original: Callable[..., None], logs: dict[str, Any], *arguments: Any, **options: Any) -> None:
        """Report as metrics what the Trainer logs, except the loss: the Run has that of each step."""
        original(logs, *arguments, **options)
        metrics = {name: value for name, value in logs.items() if isinstance(value, float) and name != "loss"}
        self._run.report(metrics=metrics)

    def finalize_training(self, original: Callable[..., Any], trial: Any, samples: Any, start_time: float) -> Any:
        """The loop is over: count its last step. The figures of the whole training follow.

        A notice that has come since is too late: the program, such as a callback, has decided to end the training.
        """
        self._loop.set_numbers()
        self._run.finish()
        self._count()
        return original(trial, samples, start_time - self._loop.seconds_before)

    def _count(self) -> bool:
        """Count the step that is done, if there is one. False if no other step is to be done."""
        trainer, run = self._trainer, self._run
        if self._has_begun and trainer.state.global_step == run.step:
            return True  # no step was done since
        if self._has_begun:
            run.note_step()  # the Trainer accumulates by itself
            run.report(loss=self._loss, samples=trainer.get_total_train_batch_size(trainer.args))
            self._loss = None
        self._has_begun = True
        goes_on = self._steps is not None and next(self._steps, None) is not None
        self._end_if_left()
        return goes_on

    def _end_if_left(self) -> None:
        """End the process after a notice: what the program does after its training is for a training that is done."""
        if self._run.left:
            raise SystemExit(0)
