"""Mount paths in strings."""

import pytest

from holdfast_local.agent.container.rewrite import PathMap
from holdfast_protocol import settings
from holdfast_protocol.document import to_text

PATHS = PathMap({"/data": "/real/d", "/data/deep": "/real/deep", "/holdfast/checkpoints/": "/real/c", "/": "/never"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data", "/real/d"),
        ("/data/", "/real/d/"),
        ("/data/x", "/real/d/x"),
        ("/data/deep/x", "/real/deep/x"),
        ("/data/deeper", "/real/d/deeper"),
        ("--out=/data/x", "--out=/real/d/x"),
        ("file:///holdfast/checkpoints/a", "file:///real/c/a"),
        ("/data:/data/deep", "/real/d:/real/deep"),
        ("cat '/data/x' > \"/data\"", "cat '/real/d/x' > \"/real/d\""),
        ("see /data.", "see /real/d."),
        ("a,/data;b", "a,/real/d;b"),
        # Not a mention of the mount path:
        ("/database", "/database"),
        ("/data.txt", "/data.txt"),
        ("/data-2/x", "/data-2/x"),
        ("/other/data", "/other/data"),
        ("s3://bucket/data", "s3://bucket/data"),
        ("http://data/x", "http://data/x"),
        ("../data", "../data"),
        ("$(ROOT)/data ${ROOT}/data ~/data", "$(ROOT)/data ${ROOT}/data ~/data"),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_only_mentions_of_a_mount_path_are_replaced(text: str, expected: str) -> None:
    """Would break: a program writes beside its volume, or a URL is damaged."""
    assert PATHS.rewrite(text) == expected


def test_what_was_put_in_is_not_looked_at_again() -> None:
    """Would break: a real folder that itself contains a mount path is rewritten twice."""
    paths = PathMap({"/a": "/tmp/x/b", "/tmp/x/b": "/wrong"})
    assert paths.rewrite("/a/f") == "/tmp/x/b/f"


def test_without_mounts_nothing_changes() -> None:
    """Would break: an empty alternative matches everywhere."""
    assert PathMap({}).rewrite("/data") == "/data"


# Breaks if a pod of the local cluster looks for its token, its checkpoints or its data in folders of a container.
def test_the_settings_of_a_pod_name_the_folders_behind_its_mounts() -> None:
    def told(root: str, data: str) -> settings.Settings:
        return settings.Settings(
            token_file=f"{root}/token/token",
            ca_file=f"{root}/ca/ca.crt",
            checkpoint_uri=f"file://{root}/checkpoints/runs/vit",
            keys_folder=f"{root}/keys",
            checkpoint_ca=f"{root}/storage-ca/ca.crt",
            folder=f"{data}/out",
            folder_pattern="data/*",
            data=(
                settings.Data(
                    "s3://bucket/data", f"{data}/faces", data, keys=f"{root}/data-keys/0", ca=f"{root}/data-ca/0/ca.crt"
                ),
            ),
        )

    names = ("token", "ca", "checkpoints", "keys", "storage-ca", "data-keys/0", "data-ca/0")
    paths = PathMap({"/data": "/tmp/ein käse/d", **{f"/holdfast/{name}": f"/tmp/ein käse/{name}" for name in names}})
    written = to_text(told("/holdfast", "/data"))
    assert settings.read({"HOLDFAST_SETTINGS": paths.rewrite(written)}) == told("/tmp/ein käse", "/tmp/ein käse/d")
