"""Numbers of a training loop that belong into a checkpoint, and that no other object has."""

from collections.abc import Mapping
from typing import Any

from holdfast_train.errors import StateError


class Values:
    """Named values that are read and set as attributes. Example: a mean of gradient norms, used for clipping.

        from holdfast_train import Run, Values

        clip = Values(mean=0.0, count=0)
        with Run(model=model, optimizer=optimizer, clip=clip) as run:
            for step in run.steps():
                ...
                clip.mean += (norm.item() - clip.mean) / (clip.count + 1)
                clip.count += 1

    StateError if a name is set that was not given at the beginning: the checkpoint would not contain it.
    """

    def __init__(self, **values: Any) -> None:
        for name in set(values) & {"state_dict", "load_state_dict"}:
            raise StateError(f"{name!r} cannot be the name of a value: Values has a method of that name")
        vars(self).update(values)

    def __getattr__(self, name: str) -> Any:
        """Python calls this for names that do not exist."""
        raise AttributeError(f"no value {name!r}; the values are {', '.join(map(repr, vars(self)))}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in vars(self):
            raise StateError(f"no value {name!r}: pass it to Values(...) with its first value")
        vars(self)[name] = value

    def state_dict(self) -> dict[str, Any]:
        """All values by name."""
        return dict(vars(self))

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Take over the values. One that the checkpoint does not have stays as it is: the program added it later."""
        vars(self).update({name: value for name, value in state.items() if name in vars(self)})
