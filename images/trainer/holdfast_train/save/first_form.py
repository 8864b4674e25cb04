"""`FirstForm`: the form of objects when a program enters Run. A resume loads a checkpoint into that form."""

import sys
from collections.abc import Mapping
from typing import Any, Final

from holdfast_train.format.stateful import Stateful, unwrapped
from holdfast_train.say import say

LAZY: Final = "lazy"  # the shape of a parameter that gets its values when it is loaded, or at its first use


class FirstForm:
    """Notes the parameter groups of optimizers, and the names and shapes of what modules save.

    A program that adds a group or a layer in its training has checkpoints that no resume can load, unless it adds them
    before it enters Run again. `tell_changes` says so once for each object, at the first save after the change.
    """

    def __init__(self, objects: Mapping[str, Stateful]) -> None:
        self._objects = dict(objects)
        self._forms = {name: _form(thing) for name, thing in objects.items()}

    def tell_changes(self, *, has_new_plan: bool) -> None:
        """Say which objects have changed their form. Without a new plan no tensor of a module has another name or
        shape."""
        for name, before in list(self._forms.items()):
            if not (has_new_plan or hasattr(self._objects[name], "param_groups")):
                continue
            now = _form(self._objects[name])
            changed = [key for key in {**before, **now} if key not in now or before.get(key) not in (LAZY, now[key])]
            if changed:
                del self._forms[name]
                say(
                    f"{name!r} has another form than when the program entered Run ({changed[0]}): a resume can load "
                    f"its checkpoints only if the program makes it so before `with Run(...)`. Make all layers and "
                    f"parameter groups at the beginning; requires_grad=False leaves parameters as they are"
                )


def _form(thing: Any) -> dict[str, Any]:
    """What has to be the same when a state is loaded, by name. Empty if nothing is known of such objects."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return {}
    if isinstance(thing, torch.optim.Optimizer):
        return {f"parameter group {at}": len(group["params"]) for at, group in enumerate(thing.param_groups)}
    inner = unwrapped(thing)
    if not isinstance(inner, torch.nn.Module):
        return {}
    is_lazy = torch.nn.parameter.is_lazy
    tensors = ((key, value) for key, value in inner.state_dict().items() if isinstance(value, torch.Tensor))
    return {key: LAZY if is_lazy(value) else tuple(value.shape) for key, value in tensors}
