"""What peers say when another program has ended, as gloo, NCCL and torch's stores write it."""

import pytest

from holdfast.api.attempt import EndKind
from holdfast.core.attempt.cause import is_of_peer
from holdfast.core.attempt.why_ended import End

PEERS = (
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1234",
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 1800000ms for "
    "recv operation to complete",
    "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms",
    "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2027, remote process exited",
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
    "torch.distributed.DistStoreError: Socket Timeout",
    "ConnectionResetError: [Errno 104] Connection reset by peer",
    "BrokenPipeError: [Errno 32] Broken pipe",
)
OWN = (
    "ValueError: bad batch",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "RuntimeError: The size of tensor a (3) must match the size of tensor b (4)",
    "FileNotFoundError: [Errno 2] No such file or directory: 'data.bin'",
)


@pytest.mark.parametrize("message", PEERS)
def test_errors_of_peers(message):
    assert is_of_peer(End(EndKind.FAILURE, "UserException", message))


@pytest.mark.parametrize("message", OWN)
def test_errors_of_the_program_itself(message):
    assert not is_of_peer(End(EndKind.FAILURE, "UserException", message))


def test_a_loss_is_its_own_cause():
    assert not is_of_peer(End(EndKind.LOSS, "SavedAndLeft", "Connection reset by peer"))


def test_what_the_launcher_says_of_its_ranks_wins_over_words_in_the_log():
    words = "ValueError: this batch is bad\nConnection reset by peer"
    assert not is_of_peer(End(EndKind.FAILURE, "UserException", words, peer=False))
    assert is_of_peer(End(EndKind.FAILURE, "UserException", "cannot tell", peer=True))


def test_a_process_that_the_watchdog_aborts_waited_for_a_peer():
    table = "Root Cause (first observed failure):\n  rank: 0 (local_rank: 0)\n  exitcode  : -6 (pid: 12)\n  Signal 6"
    assert is_of_peer(End(EndKind.FAILURE, "UserException", table))
