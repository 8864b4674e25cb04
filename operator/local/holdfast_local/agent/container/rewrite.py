"""Mount paths replaced by the real folders behind them.

A container has its own file system; a local process has not. So every mention of a mount path that the pod wrote in its
own environment, command and arguments is replaced by the folder that stands for the volume. What the image brings is a
path of this machine already, and stays (see env.Environment). Files that a program reads are not touched: a path
hard-coded in a script is not found, nor one whose beginning is in another variable.
"""

import re
from collections.abc import Mapping

# A mount path counts only where a path can begin: at the start, after a separator such as '=', ':' or a quote, or in file://.
# After a word, '/', ')' or '}' it is the tail of another path: s3://bucket/data, $(ROOT)/data, ${ROOT}/data, ../data.
_BEFORE = r"(?:(?<=file://)|(?<![\w.\-~/%+@)}\]*?]))"
_AFTER = r"(?![\w\-~+@%]|\.\w)"


class PathMap:
    """Mount path -> real path, applied to strings. The longest mount path wins, and a string is passed over once."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = {clean(mount): real for mount, real in paths.items() if clean(mount)}
        longest_first = sorted(self._paths, key=len, reverse=True)
        alternatives = "|".join(re.escape(mount) for mount in longest_first)
        self._pattern = re.compile(f"{_BEFORE}({alternatives}){_AFTER}") if alternatives else None

    def rewrite(self, text: str) -> str:
        """The text with every mount path in it replaced."""
        if self._pattern is None or "/" not in text:
            return text
        return self._pattern.sub(lambda found: self._paths[found.group(1)], text)


def clean(mount: str) -> str:
    """A mount path without the slash at its end; empty for the root, which cannot be rewritten."""
    return mount.rstrip("/")
