"""`FirstForm`: the form of objects at the beginning of a run. A resume loads a checkpoint into that form."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast_train.format.stateful import Stateful, unwrapped
from holdfast_train.format.tree import Leaf
from holdfast_train.say import say


class FirstForm:
    """Notes the parameter groups of optimizers, and the names and shapes of what modules save.

    A program that adds a group or a layer in its training has checkpoints that no resume can load, unless it adds them
    before it enters Run again. `tell_changes` says so once for each object, at the first save after the change.
    """

    def __init__(self, objects: Mapping[str, Stateful]) -> None:
        torch: Any = sys.modules.get("torch")
        known = {} if torch is None else {name: unwrapped(thing) for name, thing in objects.items()}
        self._optimizers = {name: one for name, one in known.items() if isinstance(one, torch.optim.Optimizer)}
        self._modules = [name for name, one in known.items() if isinstance(one, torch.nn.Module)]
        self._forms: dict[str, dict[str, Any]] = {name: _groups(one) for name, one in self._optimizers.items()}
        self._told: set[str] = set()

    def tell_changes(self, leaves: Iterable[Leaf] | None) -> None:
        """Say which objects have changed their form. `leaves`: of the state; None if these are as before."""
        now: dict[str, dict[str, Any]] = {name: _groups(one) for name, one in self._optimizers.items()}
        if leaves is not None:
            now |= {name: {} for name in self._modules}
            for leaf in leaves:  # not `state_dict()`, which may wait for other ranks
                name, _, key = leaf.name.partition("/")
                if name in self._modules:
                    now[name][key] = leaf.shape
        for name, form in now.items():
            before = self._forms.setdefault(name, form)
            changed = [key for key in {**before, **form} if before.get(key) != form.get(key)]
            if changed and name not in self._told:
                self._told.add(name)
                say(
                    f"{name!r} has another form than at the beginning of this run ({changed[0]}): a resume can load "
                    f"its checkpoints only if the program makes it so before `with Run(...)`. Make all layers and "
                    f"parameter groups at the beginning; requires_grad=False leaves parameters as they are"
                )


def _groups(optimizer: Any) -> dict[str, Any]:
    return {f"parameter group {at}": len(group["params"]) for at, group in enumerate(optimizer.param_groups)}
