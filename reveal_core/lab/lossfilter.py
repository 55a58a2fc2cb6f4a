"""Random loss on one's own sockets: a classic BPF program that the kernel runs on what a socket receives.

The kernel drops what the program rejects before TCP sees it, so the sender truly retransmits. It needs no
tool (socket(7), ``SO_ATTACH_FILTER``; Linux ``include/uapi/linux/filter.h``), and on older kernels no rights.
Newer ones want CAP_NET_ADMIN over the socket's network namespace, which a user has in a private one.
"""

from __future__ import annotations

import ctypes
import socket
import struct

SO_ATTACH_FILTER = 26
SO_DETACH_FILTER = 27
_LOAD_WORD_ABSOLUTE = 0x20
_JUMP_GREATER_EQUAL = 0x35
_RETURN = 0x06
_RANDOM = 0xFFFFF000 + 56  # SKF_AD_OFF + SKF_AD_RANDOM: a fresh 32-bit random number
_KEEP_ALL = 0xFFFFFFFF


def loss_program(probability: float) -> bytes:
    """Return the program that rejects a packet with a probability.

    Raises
    ------
    ValueError
        If the probability is not within 0 and 1.
    """
    if not 0 <= probability <= 1:
        raise ValueError(f"{probability} is no probability")
    threshold = min(round(probability * 2**32), 2**32 - 1)
    code = (
        (_LOAD_WORD_ABSOLUTE, 0, 0, _RANDOM),
        (_JUMP_GREATER_EQUAL, 0, 1, threshold),
        (_RETURN, 0, 0, _KEEP_ALL),
        (_RETURN, 0, 0, 0),
    )
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def attach_loss(sock: socket.socket, probability: float) -> None:
    """Make a socket lose what it receives with a probability; zero ends it.

    Raises
    ------
    OSError
        If the kernel refuses the program.
    """
    if probability == 0:
        sock.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)
        return
    program = ctypes.create_string_buffer(loss_program(probability))
    # struct sock_fprog: the number of instructions, and a pointer to them
    header = struct.pack("@HP", len(program.raw) // 8, ctypes.addressof(program))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, header)


def why_no_filter() -> str:
    """Return why this process cannot filter its TCP sockets, or ``""``."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        try:
            attach_loss(sock, 0.5)
        except OSError as error:
            return f"the kernel refuses filters on TCP sockets: {error.strerror}"
    return ""
