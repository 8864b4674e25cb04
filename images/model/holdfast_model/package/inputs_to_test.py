"""The inputs on which each variant is tested: the examples, and the first one at other sizes."""

from collections.abc import Iterator, Mapping

import numpy as np

from holdfast_model.package.problem import Arrays, Problem, check

MOST_BYTES = 256 << 20
"""A case larger than this is left out, and package.json says so."""


def inputs_to_test(problem: Problem, fixed: Mapping[str, int] | None = None) -> tuple[list[Arrays], list[str]]:
    """Test inputs, and in words those that are too large to be tested. One has the sizes of `fixed`."""
    found: list[Arrays] = [*problem.examples]
    if fixed:
        found.append(at_sizes(problem, found[0], fixed))
    left_out = []
    for symbol, size in _sizes(problem.dims):
        if any(check("case", one, problem.inputs, problem.dims).get(symbol) == size for one in found):
            continue
        if (needed := _bytes(problem, symbol, size)) > MOST_BYTES:
            left_out.append(f"{symbol} = {size} is not tested: it takes {needed >> 20} MiB")
            continue
        found.append(resized(problem, found[0], symbol, size))
    return found, left_out


def _sizes(dims: Mapping[str, tuple[int, int]]) -> Iterator[tuple[str, int]]:
    """The least, two, and the most of each symbol: exporters treat 1 as a constant, and forget limits."""
    for symbol, (least, most) in dims.items():
        for size in sorted({least, min(max(2, least), most), most}):
            yield symbol, size


def at_sizes(problem: Problem, example: Arrays, sizes: Mapping[str, int]) -> Arrays:
    """An example with other sizes of some symbols."""
    for symbol, size in sizes.items():
        example = resized(problem, example, symbol, size)
    return example


def resized(problem: Problem, example: Arrays, symbol: str, size: int) -> Arrays:
    """An example with another size of one symbol: cut, or repeated from its begin."""
    arrays = dict(example)
    for name, tensor in problem.inputs.items():
        for axis, part in enumerate(tensor.shape):
            if part == symbol:
                arrays[name] = np.take(arrays[name], np.arange(size) % arrays[name].shape[axis], axis=axis)
    return arrays


def _bytes(problem: Problem, symbol: str, size: int) -> int:
    first = check("examples[0]", problem.examples[0], problem.inputs, problem.dims) | {symbol: size}
    total = 0
    for tensor in (*problem.inputs.values(), *problem.outputs.values()):
        count = 1
        for part in tensor.shape:
            count *= part if isinstance(part, int) else first.get(part, problem.dims[part][1])
        total += count * np.dtype(tensor.dtype).itemsize
    return total
