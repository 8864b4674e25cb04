"""`OneRun`: a program has one Run, because its log, its goal and its end belong to one training."""

from typing import Final, Literal

from holdfast_train.environment import Environment, Identity
from holdfast_train.errors import StateError
from holdfast_train.say import say

_Key = tuple[Identity, str]
_State = Literal["runs", "has left", "has completed its training"]

# The Runs of this process. One that has failed is not among them: a program may catch its error and try again.
_states: Final[dict[_Key, _State]] = {}


class OneRun:
    """The one Run of this process, attempt and storage. Without storage nothing is refused."""

    def __init__(self, environment: Environment | None) -> None:
        uri = None if environment is None else environment.settings.checkpoint_uri
        self._key: _Key | None = None if environment is None or uri is None else (environment.identity, uri)

    def begin(self) -> None:
        """The Run begins. StateError if another one runs or has completed; SystemExit (0) if another one has left."""
        if self._key is None:
            return
        state = _states.get(self._key)
        if state == "has left":
            say("this pod must leave, and its Run has left: no other Run begins")
            raise SystemExit(0)
        if state is not None:
            self._key = None  # the other Run keeps its state
            raise StateError(
                f"the program enters a second Run, and its first one {state}: a job has one training, with one log of "
                f"checkpoints and one goal. Use one Run with the objects of all phases, or a job for each phase"
            )
        _states[self._key] = "runs"

    def end(self, state: _State | None) -> None:
        """The Run ends: it has left or completed, or with None it has failed."""
        if self._key is None:
            return
        if state is None:
            _states.pop(self._key, None)
        else:
            _states[self._key] = state
