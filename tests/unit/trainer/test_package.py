"""`holdfast_train.package`, the other name of `holdfast_model.package`."""

import holdfast_model.package
import holdfast_train.package


# Breaks if a name is added to packages that programs do not find under the other name.
def test_both_names_give_the_same() -> None:
    assert holdfast_train.package.__all__ == holdfast_model.package.__all__
    for name in holdfast_model.package.__all__:
        assert getattr(holdfast_train.package, name) is getattr(holdfast_model.package, name)
