"""Numbers of a training loop that a checkpoint has to hold, and that no other object holds."""

from collections.abc import Mapping
from typing import Any

from holdfast_train.errors import StateError

__all__ = ["Values"]


class Values:
    """Named values, to be read and set as attributes. The mean of gradient norms that clipping goes by, for example:

        clip = Values(mean=0.0, count=0)
        with Run(model=model, optimizer=optimizer, clip=clip) as run:
            for step in run.steps():
                ...
                clip.mean += (norm.item() - clip.mean) / (clip.count + 1)
                clip.count += 1

    A name that it was not made with is refused: the checkpoint would lack it. StateError.
    """

    def __init__(self, **values: Any) -> None:
        for name in set(values) & {"state_dict", "load_state_dict"}:
            raise StateError(f"{name!r} cannot be the name of a value: Values have a method of that name")
        vars(self).update(values)

    def __getattr__(self, name: str) -> Any:
        """Called for names that do not exist."""
        raise AttributeError(f"no value {name!r}; there are {', '.join(map(repr, vars(self)))}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in vars(self):
            raise StateError(f"no value {name!r}: name it where the Values are made, with what it is at the beginning")
        vars(self)[name] = value

    def state_dict(self) -> dict[str, Any]:
        """All values, by name."""
        return dict(vars(self))

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Take over the values. One that the checkpoint lacks stays as it is: it was added since."""
        vars(self).update({name: value for name, value in state.items() if name in vars(self)})
