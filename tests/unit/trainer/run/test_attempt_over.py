"""The end of an attempt reaches every Run of this process."""

import gc

from holdfast_train.run.attempt_over import AttemptOverError, agreements, end_attempt, watch


class Agreement:
    """Keeps the error that it gets."""

    error: BaseException | None = None

    def abandon(self, error: BaseException) -> None:
        self.error = error

    def close(self) -> None:
        return


def test_each_agreement_gets_the_error() -> None:
    first, second = Agreement(), Agreement()
    watch(first)
    watch(second)
    end_attempt()
    assert isinstance(first.error, AttemptOverError)
    assert isinstance(second.error, AttemptOverError)


# Breaks if a program that catches the errors of its steps goes on with an attempt that is over.
def test_the_error_is_not_caught_with_those_of_a_step() -> None:
    assert not issubclass(AttemptOverError, Exception)


# Breaks if this keeps a Run in memory, with its model: no program could go on in its process.
def test_an_agreement_that_nobody_uses_is_forgotten() -> None:
    gc.collect()
    before = len(list(agreements()))
    kept = Agreement()
    watch(kept)
    assert len(list(agreements())) == before + 1
    del kept
    gc.collect()
    assert len(list(agreements())) == before
