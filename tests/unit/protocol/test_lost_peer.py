"""The errors of programs on several nodes: which of them say that another program ended first."""

import pytest

from holdfast_protocol.lost_peer import says_peer_is_gone

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
def test_errors_of_peers(message: str) -> None:
    assert says_peer_is_gone(message)


@pytest.mark.parametrize("message", OWN)
def test_errors_of_the_program_itself(message: str) -> None:
    assert not says_peer_is_gone(message)


# Breaks if a rank that torch's watchdog aborted counts as a program that failed by itself.
@pytest.mark.parametrize(("code", "waited"), [(-6, True), (-60, False), (-11, False), (6, False)])
def test_a_process_that_the_watchdog_aborts_waited_for_a_peer(code: int, waited: bool) -> None:
    table = f"Root Cause (first observed failure):\n  rank: 0 (local_rank: 0)\n  exitcode  : {code} (pid: 12)\n"
    assert says_peer_is_gone(table) is waited
