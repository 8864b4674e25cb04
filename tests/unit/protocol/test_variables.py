"""The table of variables is whole: each name of the module is a row of it."""

from holdfast_protocol import variables
from holdfast_train.pod import spare_hook


def test_each_name_has_one_row() -> None:
    named = [value for name, value in vars(variables).items() if name.isupper() and str(value).startswith("HOLDFAST_")]
    named = [name for name in named if name != variables.PREFIX] + [variables.of_key(key) for key in variables.KEYS]
    assert sorted(row.name for row in variables.TABLE) == sorted(named)


# It is imported before any package of the program, so it names the variables itself.
def test_what_may_differ_between_two_attempts() -> None:
    ours = {name.decode() for name in spare_hook.OF_ATTEMPT if name.startswith(b"HOLDFAST_")}
    assert ours == {variables.ATTEMPT, variables.PREDECESSOR, variables.VERDICT_DIR}


def test_several_nodes_and_the_first_of_them() -> None:
    assert [variables.has_several_nodes({"HOLDFAST_NODES": n}) for n in ("", "1", "2")] == [False, False, True]
    assert [variables.is_first({"HOLDFAST_RANK": n}) for n in ("", "0", "1")] == [True, True, False]
